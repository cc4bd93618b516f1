"""The daemon's end of the guardian: starts servers through it, and repairs its death.

Requests and answers are frames over a socket pair; a server's pipes, and a file with its arguments, go there
with a request, its pidfd comes back with the answer. Nothing here blocks: a guardian that takes no more
requests, or does not answer, is killed, which ends its servers, and the next start gets a fresh one.
"""

from __future__ import annotations

import array
import contextlib
import errno
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

# Forking and executing takes two milliseconds; this is for a machine on its knees, and for a program on a
# file system that hangs.
SPAWN_SECONDS = 10.0
# After the first of these a guardian is asked whether it is there, and after the second it is given up.
DOUBT_SECONDS = 2.0
SILENT_SECONDS = 3.0
# It ends a server within a time that it keeps by itself.
GRACE_SECONDS = 0.5
SWEEP_SECONDS = 0.02
MAX_SWEEPS = 250
HEAD_BYTES = guardian.HEAD_BYTES
# Instead of an answer.
_LOST, _LATE = ("lost",), ("late",)


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
        self._adopting = self._asked = self._closed = False
        # What was our child before we were a daemon is none of our business.
        self._strangers = {*guardian.children(os.getpid())} - {early[0] if early else None}
        self._waiting: dict[int, Callable[[tuple[Any, ...], int | None], None]] = {}
        self._buffer = bytearray()
        self._fds: list[int | None] = []
        if early is not None:
            self._use(*early)

    # -- requests --------------------------------------------------------------------------------

    async def spawn(self, argv: Sequence[str], env: Mapping[str, str], cwd: str, fds: Sequence[int]) -> tuple[int, int]:
        """Start a server with `fds` as its stdin, stdout and stderr; return its pid and a pidfd.

        The pidfd is the caller's to close; `fds` stay the caller's, too.

        Raises:
            ServerUnavailable: The guardian cannot be had.
            OSError: The system refuses, with errno; `filename` is `cwd` or the program.
        """
        file = _file_of((list(argv), dict(env), cwd))
        try:
            frame, fd = await self._ask(("spawn",), SPAWN_SECONDS, (*fds, file))
            if frame == _LOST:  # what it may have started is dead, too
                os.lseek(file, 0, os.SEEK_SET)
                frame, fd = await self._ask(("spawn",), SPAWN_SECONDS, (*fds, file))
        finally:
            os.close(file)
        if frame == _LATE:
            raise ServerUnavailable(f"cannot run {argv[0]}: it was not loaded within {SPAWN_SECONDS:g} s")
        if frame == _LOST:
            raise ServerUnavailable("the process that starts servers has died")
        if frame[0] == "failed":
            _, _, number, what = frame
            raise OSError(number, os.strerror(number), cwd if what == "cwd" else argv[0])
        if fd is None:
            self._unwanted(frame, None)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), argv[0])
        return frame[2], fd

    async def end(self, pid: int) -> int | None:
        """Kill what is left of a server, wait until nothing is, and reap it.

        Returns:
            The leader's wait status, or None if nobody knows.
        """
        if self._link is None:
            return None
        frame, _ = await self._ask(("end", pid), guardian.END_SECONDS + GRACE_SECONDS)
        if frame == _LATE:
            self._give_up()
        return frame[2] if frame[0] == "ended" else None

    async def _ask(
        self, request: tuple[Any, ...], seconds: float, fds: Sequence[int] = ()
    ) -> tuple[tuple[Any, ...], int | None]:
        """Send a request and wait for its answer; _LOST if the guardian dies meanwhile, _LATE if nothing comes."""
        self._ensure()
        done = trio.Event()
        answer: list[tuple[tuple[Any, ...], int | None]] = []

        def take(frame: tuple[Any, ...], fd: int | None) -> None:
            answer.append((frame, fd))
            self._mover.leave = True
            done.set()

        number = self._send(request, take, fds)
        try:
            with trio.move_on_after(seconds):
                await done.wait()
        except trio.Cancelled:
            for frame, fd in answer:  # it came in the very turn in which this was cancelled
                self._unwanted(frame, fd)
            raise
        finally:
            if not answer:
                self._waiting[number] = self._unwanted
        return answer[0] if answer else (_LATE, None)

    def _send(
        self, request: tuple[Any, ...], take: Callable[[tuple[Any, ...], int | None], None], fds: Sequence[int] = ()
    ) -> int:
        """Send a request; `take` gets its answer, or _LOST."""
        self._last = number = self._last + 1
        body = marshal.dumps((request[0], number, *request[1:]))
        data = len(body).to_bytes(HEAD_BYTES, "big") + body
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            taken = self._link.sendmsg([data], rights) if self._link is not None else 0
        except OSError:
            taken = 0
        self._waiting[number] = take
        if taken < len(data):  # it has died, or listens no more
            self.kill()
            self._lost()
            return number
        self._timers.after(DOUBT_SECONDS, lambda: self._doubt(number))
        if not self._adopting:
            # Should the guardian die, what it looked after comes to us. Now, while the server starts anyway.
            self._adopting = True
            guardian.adopt_orphans()
        return number

    def _doubt(self, number: int) -> None:
        """Ask a guardian that has not answered yet whether it is there."""
        if number not in self._waiting or self._asked or self._link is None:
            return

        def over(*_: object) -> None:
            timer.cancel()
            self._asked = False

        timer = self._timers.after(SILENT_SECONDS, self._give_up)
        self._asked = True
        self._send(("ping",), over)

    def _give_up(self) -> None:
        self._log.warning("guardian.silent", pid=self.pid)
        self.kill()

    def _unwanted(self, frame: tuple[Any, ...], fd: int | None) -> None:
        """Take an answer that nobody waits for any more: a server is ended again."""
        if fd is not None:
            os.close(fd)
        if frame[0] == "spawned":
            self._send(("end", frame[2]), lambda *_: None)

    # -- its life --------------------------------------------------------------------------------

    def _ensure(self) -> None:
        if self._closed:
            raise ServerUnavailable("the daemon is stopping")
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
            guardian.kill_tree(self.pid)

    async def aclose(self) -> None:
        """Close the link and wait until the guardian has ended what is below it, and itself; bounded. Idempotent."""
        self._closed = True
        self._hang_up()
        if self.pid is None:
            return
        with trio.move_on_after(guardian.END_SECONDS + 1, shield=True), contextlib.suppress(OSError):
            fd = os.pidfd_open(self.pid)
            try:
                await trio.lowlevel.wait_readable(fd)
            finally:
                os.close(fd)
        self.kill()  # in case that it hangs
        with contextlib.suppress(OSError):
            os.waitpid(self.pid, os.WNOHANG)  # noqa: ASYNC222  # does not wait
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
            data, ancillary, flags, _ = self._link.recvmsg(1 << 16, 1024, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            data, ancillary, flags = b"", [], 0
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds = array.array("i")
                fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
                self._fds += fds
        if flags & socket.MSG_CTRUNC:
            self._fds.append(None)  # we have no room for another one
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
            self._waiting.pop(frame[1], self._unwanted)(frame, fd)

    def _lost(self) -> None:
        """The guardian has died: its servers die by their parent-death signal, their children come to us."""
        self._hang_up()
        self.deaths += 1
        self._log.warning("guardian.lost", pid=self.pid)
        self.pid = None
        self._buffer.clear()
        for fd in filter(None, self._fds):
            os.close(fd)
        self._fds.clear()
        waiting, self._waiting = self._waiting, {}
        for take in waiting.values():
            take(_LOST, None)
        self._sweep(MAX_SWEEPS)

    def _sweep(self, left: int) -> None:
        """Kill and reap what came to us from a guardian that has died, again and again until that is nothing."""
        adopted = [pid for pid in guardian.children(os.getpid()) if pid != self.pid and pid not in self._strangers]
        for pid in adopted:
            guardian.kill_tree(pid)
            with contextlib.suppress(OSError):
                os.waitpid(pid, os.WNOHANG)
        if adopted and left:
            self._timers.after(SWEEP_SECONDS, lambda: self._sweep(left - 1))


def _file_of(content: tuple[Any, ...]) -> int:
    """Return a descriptor of a file in memory: it may be longer than what a socket takes at once."""
    fd = os.memfd_create("spawn", os.MFD_CLOEXEC)
    try:
        with open(fd, "wb", closefd=False) as file:
            marshal.dump(content, file)
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    return fd
