"""A server's process: started by the guardian, ended by a ladder that leaves nothing of it.

The ladder: the owner has closed stdin; `eof_seconds`; SIGTERM to the group; `term_seconds`; then the
guardian kills the group, the subtree and what has escaped to it, also when the leader left by itself, and
reaps. The leader stays unreaped until then: its pid, hence the group's id, cannot have been recycled.
Waits are on a pidfd, because a grandchild may hold the pipes open, and each has a deadline.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal

import trio

from mcpd.config.expand import Launch
from mcpd.errors import ServerUnavailable
from mcpd.guardian import END_SECONDS

from .cgroup import Cgroup
from .guard import Guard

# What a server writes in one go; the default of 64 KiB makes large answers a third slower.
PIPE_BYTES = 1 << 18
# The last step: what survives SIGKILL so long is stuck inside the kernel and cannot be waited for.
KILL_SECONDS = END_SECONDS + 1.0
# What the system may have again in a moment, which is no fault of the server's.
_SHORTAGES = (errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.ENOSPC, errno.ETXTBSY)


class Process:
    """A running server.

    Attributes:
        pid: of the leader.
        pidfd: of the leader; closed by `end`.
        stdin, stdout, stderr: our ends of its pipes, which belong to whoever takes them.
        status: how it ended, for people: `exit status 7`, `signal SIGKILL`; None until then.
    """

    def __init__(self, guard: Guard, pid: int, pidfd: int, pipes: tuple[int, int, int]) -> None:
        self._guard, self._deaths = guard, guard.deaths
        self.pid, self.pidfd = pid, pidfd
        self.stdin, self.stdout, self.stderr = pipes
        self.status: str | None = None
        self._cgroup = Cgroup.adopt(pid, f"server-{pid}")
        self._ended = False

    @classmethod
    async def start(cls, guard: Guard, launch: Launch) -> Process:
        """Start a server.

        Raises:
            ServerUnavailable: The system refuses to run it, with its reason.
        """
        (in_r, in_w), (out_r, out_w), (err_r, err_w) = pipes = _three_pipes(launch)
        for reader, _ in pipes:
            with contextlib.suppress(OSError):
                fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        ours = (in_w, out_r, err_r)
        try:
            pid, pidfd = await guard.spawn(launch.argv, launch.env, launch.cwd, (in_r, out_w, err_w))
            return cls(guard, pid, pidfd, ours)
        except OSError as problem:
            _close(ours)
            raise _cannot_run(launch, problem) from None
        except BaseException:
            _close(ours)
            raise
        finally:
            _close((in_r, out_w, err_w))

    async def exited(self) -> None:
        """Wait until the leader has exited; it stays unreaped."""
        if self._ended:
            await trio.lowlevel.checkpoint()
        else:
            await trio.lowlevel.wait_readable(self.pidfd)

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
        """Go down the ladder until nothing is left, and reap.

        Stdin should be closed and the outputs be drained by their owner meanwhile. Takes at most
        `eof_seconds + term_seconds + KILL_SECONDS`, also when cancelled. Idempotent.
        """
        if self._ended:
            return
        with trio.move_on_after(eof_seconds + term_seconds + KILL_SECONDS, shield=True):
            if not await self.exits_within(eof_seconds):
                self._signal(signal.SIGTERM)
                await self.exits_within(term_seconds)
            self._ended = True
            self._signal(signal.SIGKILL)
            if self._cgroup is not None:
                self._cgroup.kill()
            self.status = _text(await self._guard.end(self.pid) if self._is_guarded else None)
        self._ended = True
        if self._cgroup is not None:
            self._cgroup.remove()
        trio.lowlevel.notify_closing(self.pidfd)
        os.close(self.pidfd)

    @property
    def _is_guarded(self) -> bool:
        """Whether the guardian that has started it still lives."""
        return self._deaths == self._guard.deaths

    def _signal(self, number: signal.Signals) -> None:
        # Without its guardian the leader may have been reaped, and its number be somebody else's.
        if self._is_guarded:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)


def _three_pipes(launch: Launch) -> list[tuple[int, int]]:
    pipes: list[tuple[int, int]] = []
    try:
        while len(pipes) < 3:
            pipes.append(os.pipe2(os.O_CLOEXEC))
    except OSError as problem:
        _close(sum(pipes, ()))
        raise _cannot_run(launch, problem) from None
    return pipes


def _close(fds: tuple[int, ...]) -> None:
    for fd in fds:
        os.close(fd)


def _text(status: int | None) -> str:
    """Say how a process ended, by its wait status."""
    if status is None:
        return "its end was not seen"
    if not os.WIFSIGNALED(status):
        return f"exit status {os.WEXITSTATUS(status)}"
    number = os.WTERMSIG(status)
    with contextlib.suppress(ValueError):
        return f"signal {signal.Signals(number).name}"
    return f"signal {number}"


def _cannot_run(launch: Launch, problem: OSError) -> ServerUnavailable:
    """Return the error, which is final unless the system lacks what it may have again in a moment."""
    reason = os.strerror(problem.errno or errno.EIO).lower()
    where = f" in {launch.cwd}" if problem.filename == launch.cwd else ""
    told = ServerUnavailable(f"cannot run {launch.argv[0]}{where}: {reason}")
    told.final = problem.errno not in _SHORTAGES
    return told
