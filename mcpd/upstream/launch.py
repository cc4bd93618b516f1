"""Starts a guardian process. Imports no event loop: this comes first in a daemon's life."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

GUARDIAN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "guardian.py")


def launch(scope: int, instance: int) -> tuple[int, socket.socket]:
    """Start a guardian process; return its pid and our end of the link.

    Raises:
        OSError: The system cannot start it.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with theirs:
        fd = theirs.fileno()
        argv = [sys.executable, "-I", "-S", GUARDIAN, str(fd), str(scope), str(instance)]
        try:
            # Not posix_spawn: it leaves two signals ignored that nobody can reset, and servers inherit that.
            child = subprocess.Popen(  # noqa: S603  # our own program
                argv, env=_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=(fd,), cwd="/"
            )
        except OSError:
            ours.close()
            raise
    child.returncode = 0  # its pid is all that is wanted of it; it is reaped with the orphans
    ours.setblocking(False)
    return child.pid, ours


def _environment() -> dict[str, str]:
    """Return what the guardian needs; servers get their own environment with each request."""
    return {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
