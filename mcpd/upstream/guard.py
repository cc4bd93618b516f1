"""The daemon's end of the guardian: starts servers through it, and repairs its death.

Requests and answers are frames over a socket pair; a server's pipes go there with a request, its pidfd
comes back with the answer. Nothing here blocks: a guardian that takes no more requests, or does not
answer, is killed, which ends its servers, and the next start gets a fresh one.
"""

from __future__ import annotations

import array
import contextlib
import marshal
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import trio

from mcpd import guardian
from mcpd.errors import ServerUnavailable
from mcpd.mover import Mover
from mcpd.timers import Timers

from .launch import launch

# Forking and executing takes two milliseconds; this is for a machine on its knees.
SPAWN_SECONDS = 10.0
SWEEP_SECONDS = 0.02
MAX_SWEEPS = 250
HEAD_BYTES = guardian.HEAD_BYTES


class Log(Protocol):
    """Where events go."""

    def warning(self, event: str, **facts: Any) -> None:
        """Note what an administrator may want to look at."""


class Guard:
    """The link.

    Args:
        scope: a number for the place of this daemon (24 bits), the same for every daemon of this place.
        instance: a number for this daemon (22 bits).
        early: a guardian that was started already.

    Attributes:
        pid: the guardian's, while it lives.
        deaths: how many guardians have died; what an earlier one started is gone.
    """

    def __init__(
        self,
        mover: Mover,
        timers: Timers,
        log: Log,
        scope: int,
        instance: int,
        early: tuple[int, socket.socket] | None = None,
    ) -> None:
        self._mover, self._timers, self._log = mover, timers, log
        self._scope, self._instance = scope, instance
        self._link: socket.socket | None = None
        self.pid: int | None = None
        self.deaths = 0
        self._last = 0
        self._servers = 0
        self._adopting = False
        self._waiting: dict[int, Callable[[tuple[Any, ...], int | None], None]] = {}
        self._buffer = bytearray()
        self._fds: list[int] = []
        if early is not None:
            self._use(*early)

    # -- requests --------------------------------------------------------------------------------

    async def spawn(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: str, fds: Sequence[int]
    ) -> tuple[int, int]:
        """Start a server with `fds` as its stdin, stdout and stderr; return its pid and a pidfd.

        The pidfd is the caller's to close; `fds` stay the caller's, too.

        Raises:
            ServerUnavailable: The guardian cannot be had.
            OSError: The system refuses, with errno; `filename` is `cwd` or the program.
        """
        self._servers = self._servers % (guardian.GUARDIAN - 1) + 1
        frame, fd = await self._ask(("spawn", list(argv), dict(env), cwd, self._servers), fds)
        if frame[0] == "spawned" and fd is not None:
            return frame[2], fd
        if frame[0] == "failed":
            _, _, number, what = frame
            raise OSError(number, os.strerror(number), cwd if what == "cwd" else argv[0])
        raise ServerUnavailable("the process that starts servers has died")

    async def end(self, pid: int) -> int | None:
        """Kill what is left of a server, wait until nothing is, and reap it.

        Returns:
            The leader's wait status, or None if nobody knows.
        """
        if self._link is None:
            return None
        with trio.move_on_after(guardian.END_SECONDS + 1):
            frame, _ = await self._ask(("end", pid), ())
            return frame[2] if frame[0] == "ended" else None
        return None

    async def _ask(self, request: tuple[Any, ...], fds: Sequence[int]) -> tuple[tuple[Any, ...], int | None]:
        """Send a request and wait for its answer; `("lost",)` if the guardian dies meanwhile."""
        self._ensure()
        done = trio.Event()
        answer: list[tuple[tuple[Any, ...], int | None]] = []

        def take(frame: tuple[Any, ...], fd: int | None) -> None:
            answer.append((frame, fd))
            self._mover.leave = True
            done.set()

        self._last = number = self._last + 1
        self._waiting[number] = take
        try:
            self._send((request[0], number, *request[1:]), fds)
            if not self._adopting:
                # Should the guardian die, what it looked after comes to us. Now, while the server starts anyway.
                self._adopting = True
                guardian.adopt_orphans()
            with trio.move_on_after(SPAWN_SECONDS) as limit:
                await done.wait()
        finally:
            self._waiting.pop(number, None)
        if limit.cancelled_caught:
            self._log.warning("guardian.silent", pid=self.pid)
            self.kill()
            return ("lost",), None
        return answer[0]

    def _send(self, frame: tuple[Any, ...], fds: Sequence[int]) -> None:
        body = marshal.dumps(frame)
        data = len(body).to_bytes(HEAD_BYTES, "big") + body
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            taken = self._link.sendmsg([data], rights) if self._link is not None else 0
        except OSError as problem:
            self.kill()
            raise ServerUnavailable(f"the process that starts servers does not listen: {problem}") from None
        if taken < len(data):
            self.kill()
            raise ServerUnavailable("arguments and environment are too long to be passed on")

    # -- its life --------------------------------------------------------------------------------

    def _ensure(self) -> None:
        if self._link is None:
            try:
                self._use(*launch(self._scope, self._instance))
            except OSError as problem:
                raise ServerUnavailable(f"cannot start the process that starts servers: {problem}") from None

    def _use(self, pid: int, link: socket.socket) -> None:
        self.pid, self._link = pid, link
        with contextlib.suppress(OSError):
            link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 21)
        self._mover.listen(link.fileno(), self._receive)

    def kill(self) -> None:
        """End the guardian, and with it all its servers, now; the link notices. Idempotent."""
        if self.pid is not None:
            guardian.kill(self.pid)

    async def aclose(self) -> None:
        """Close the link and wait until the guardian has ended what is below it, and itself; bounded. Idempotent."""
        self._hang_up()
        if self.pid is None:
            return
        with trio.move_on_after(guardian.END_SECONDS + 1, shield=True), contextlib.suppress(OSError):
            fd = os.pidfd_open(self.pid)
            try:
                await trio.lowlevel.wait_readable(fd)
                os.waitpid(self.pid, os.WNOHANG)  # noqa: ASYNC222  # it has exited
            finally:
                os.close(fd)
        self.pid = None

    def _hang_up(self) -> None:
        if self._link is not None:
            self._mover.forget(self._link.fileno())
            self._link.close()
            self._link = None

    def _receive(self, _: int) -> None:
        if self._link is None:
            return
        try:
            data, ancillary, _, _ = self._link.recvmsg(1 << 16, 1024, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            data, ancillary = b"", []
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds = array.array("i")
                fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
                self._fds += fds
        if not data:
            self._lost()
            return
        self._buffer += data
        self._frames()

    def _frames(self) -> None:
        while len(self._buffer) >= HEAD_BYTES:
            size = int.from_bytes(self._buffer[:HEAD_BYTES], "big")
            if len(self._buffer) < HEAD_BYTES + size:
                return
            frame = marshal.loads(bytes(self._buffer[HEAD_BYTES : HEAD_BYTES + size]))  # noqa: S302  # our own child
            del self._buffer[: HEAD_BYTES + size]
            fd = self._fds.pop(0) if frame[0] == "spawned" else None
            take = self._waiting.pop(frame[1], None)
            if take is not None:
                take(frame, fd)
            elif fd is not None:  # nobody waits for this server any more
                os.close(fd)
                with contextlib.suppress(ServerUnavailable):
                    self._send(("end", 0, frame[2]), ())

    def _lost(self) -> None:
        """The guardian has died: its servers die by their parent-death signal, their children come to us."""
        self._hang_up()
        self.deaths += 1
        self._log.warning("guardian.lost", pid=self.pid)
        self.pid = None
        self._buffer.clear()
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()
        waiting, self._waiting = self._waiting, {}
        for take in waiting.values():
            take(("lost",), None)
        self._sweep(MAX_SWEEPS)

    def _sweep(self, left: int) -> None:
        """Kill and reap what came to us from a guardian that has died, again and again until that is nothing."""
        adopted = [pid for pid in guardian.children(os.getpid()) if pid != self.pid]
        for pid in adopted:
            for one in (pid, *guardian.descendants(pid)):
                guardian.kill(one)
            with contextlib.suppress(OSError):
                os.waitpid(pid, os.WNOHANG)
        if adopted and left:
            self._timers.after(SWEEP_SECONDS, lambda: self._sweep(left - 1))
