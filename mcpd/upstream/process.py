"""A server's process: started in its own session, ended by a ladder that leaves nothing of its group.

The ladder: the owner has closed stdin; `eof_seconds`; SIGTERM to the group; `term_seconds`; SIGKILL to
the group, also when the leader left by itself; reap. The group is swept while the leader is unreaped:
its pid, hence the group's id, cannot have been recycled. Waits are on a pidfd, because a grandchild may
hold the pipes open, and each has a deadline.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

import trio

from mcpd.errors import ServerUnavailable

# What a server writes in one go; the default of 64 KiB makes large answers a third slower.
PIPE_BYTES = 1 << 18
# SIGKILL needs a moment; what survives it is stuck inside the kernel and cannot be waited for.
KILL_SECONDS = 2.0


class Process:
    """A running server: its pid, a pidfd, and the parent's ends of its three pipes.

    The pipes belong to whoever takes them; the pidfd is closed by `end`.
    """

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> None:
        """Start `argv`, which must name the file to execute with its path.

        Raises:
            ServerUnavailable: The system refuses to run it, with its reason.
        """
        try:
            # On the main thread, so that vfork is used and no idle worker thread ends what it forked.
            self._popen = subprocess.Popen(  # noqa: S603  # running configured commands is the purpose
                argv,
                env=env,
                cwd=cwd,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                pipesize=PIPE_BYTES,
            )
        except (OSError, ValueError) as problem:
            raise ServerUnavailable(_why_not(argv[0], cwd, problem)) from None
        self.pid = self._popen.pid
        self.pidfd = os.pidfd_open(self.pid)
        self.stdin, self.stdout, self.stderr = (
            _take(self._popen.stdin),
            _take(self._popen.stdout),
            _take(self._popen.stderr),
        )

    @property
    def status(self) -> str | None:
        """How it ended, for people: `exit status 7`, `signal SIGKILL`; None while it runs or is unreaped."""
        code = self._popen.returncode
        if code is None:
            return None
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"signal {signal.Signals(-code).name}"
            return f"signal {-code}"
        return f"exit status {code}"

    async def exited(self) -> None:
        """Wait until the leader has exited; it stays unreaped."""
        if self._popen.returncode is None:
            await trio.lowlevel.wait_readable(self.pidfd)
        else:
            await trio.lowlevel.checkpoint()

    async def exits_within(self, seconds: float) -> bool:
        """Wait for the leader's exit, but not longer than that; say whether it came."""
        with trio.move_on_after(seconds):
            await self.exited()
            return True
        return False

    def kill(self) -> None:
        """SIGKILL the group at once."""
        self._signal(signal.SIGKILL)

    async def end(self, eof_seconds: float, term_seconds: float) -> None:
        """Go down the ladder until nothing of the group is left, and reap.

        Stdin should be closed and the outputs be drained by their owner meanwhile. Takes at most
        `eof_seconds + term_seconds + KILL_SECONDS`, also when cancelled. Idempotent.
        """
        if self._popen.returncode is not None:
            return
        with trio.CancelScope(shield=True):
            if not await self.exits_within(eof_seconds):
                self._signal(signal.SIGTERM)
                await self.exits_within(term_seconds)
            self._signal(signal.SIGKILL)
            if await self.exits_within(KILL_SECONDS):
                self._popen.wait()
        trio.lowlevel.notify_closing(self.pidfd)
        os.close(self.pidfd)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


def _take(file: object) -> int:
    """Take a pipe's descriptor out of its file object."""
    fd = os.dup(file.fileno())  # type: ignore[attr-defined]  # a pipe, as it was asked for
    file.close()  # type: ignore[attr-defined]  # as above
    fcntl.fcntl(fd, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
    return fd


def _why_not(command: str, cwd: str, problem: OSError | ValueError) -> str:
    if isinstance(problem, OSError) and problem.errno == errno.ENOENT and not os.path.isdir(cwd):
        return f"cannot run {command}: its working directory {cwd} does not exist"
    reason = os.strerror(problem.errno) if isinstance(problem, OSError) and problem.errno else str(problem)
    return f"cannot run {command}: {reason.lower()}"
