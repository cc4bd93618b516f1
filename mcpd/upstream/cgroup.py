"""A cgroup per server where systemd has delegated ours: the kernel's own list of what a server has forked.

A second net beside the guardian: nothing leaves a cgroup by `setsid` or a double fork, and one write kills
all of it. Where nothing is delegated there is none of this, and nothing is missed.

Only a delegated cgroup is touched (systemd's "Control Group APIs and Delegation"): one that carries the mark
of it, or whose unit says so with `Environment=MCPD_DELEGATED=1` beside its `Delegate=yes`, as not every
systemd can set the mark.
"""

from __future__ import annotations

import contextlib
import os
from functools import cache

ROOT = "/sys/fs/cgroup"


@cache
def delegated() -> str | None:
    """Return the folder of our cgroup if we may make others below it."""
    with contextlib.suppress(OSError), open("/proc/self/cgroup", encoding="utf-8") as file:
        for line in file:
            if line.startswith("0::"):
                folder = ROOT + line[3:].rstrip("\n")
                if _is_marked(folder) and os.access(f"{folder}/cgroup.procs", os.W_OK):
                    return folder
    return None


def _is_marked(folder: str) -> bool:
    if os.environ.get("MCPD_DELEGATED") == "1":
        return True
    with contextlib.suppress(OSError):
        return os.getxattr(folder, "user.delegate") == b"1"
    return False


class Cgroup:
    """The cgroup of one server, from `adopt` to `kill`."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @classmethod
    def adopt(cls, pid: int, name: str) -> Cgroup | None:
        """Put a fresh process into a cgroup of its own; None where that cannot be."""
        base = delegated()
        if base is None:
            return None
        folder = f"{base}/{name}"
        try:
            os.mkdir(folder)
            _write(f"{folder}/cgroup.procs", str(pid))
        except OSError:
            with contextlib.suppress(OSError):
                os.rmdir(folder)
            return None
        return cls(folder)

    def kill(self) -> None:
        """SIGKILL everything in it."""
        with contextlib.suppress(OSError):
            _write(f"{self._folder}/cgroup.kill", "1")

    def remove(self) -> None:
        """Remove it; it has to be empty, or stays."""
        with contextlib.suppress(OSError):
            os.rmdir(self._folder)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
