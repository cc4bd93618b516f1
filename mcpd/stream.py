"""A byte stream in each direction, owned by whoever handed over its descriptors to the mover."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcpd.mover import Mover

IN, OUT, HUP = select.EPOLLIN, select.EPOLLOUT, select.EPOLLHUP | select.EPOLLERR

# Larger reads fall out of the processor's second cache; measured, not guessed.
READ_BYTES = 1 << 17
# writev takes at most 1024 parts.
MAX_PARTS = 1000

Part = bytes | bytearray | memoryview

_scratch = bytearray(READ_BYTES)  # every read lands here first
_view = memoryview(_scratch)
_vector = [_view]


class Stream:
    """A byte stream in each direction: a client's socket, or one or two pipes of a server.

    Attributes:
        out_bytes: what is queued and not yet taken by the kernel.
        on_room: called, if set, when the kernel has taken all that was queued.
        closed: nothing is read or written any more.
        wrote_at: when the kernel last took bytes, or when the outbox last became non-empty.
    """

    __slots__ = (
        "_blocked",
        "_ended",
        "_mover",
        "_on_bytes",
        "_on_crash",
        "_on_end",
        "_reading",
        "_rfd",
        "_wfd",
        "closed",
        "on_room",
        "out",
        "out_bytes",
        "wrote_at",
    )

    def __init__(
        self,
        mover: Mover,
        rfd: int | None,
        wfd: int | None,
        on_bytes: Callable[[bytes], None],
        on_end: Callable[[bool], None],
        on_crash: Callable[[Exception], None],
    ) -> None:
        self._mover, self._rfd, self._wfd = mover, rfd, wfd
        self._on_bytes, self._on_end, self._on_crash = on_bytes, on_end, on_crash
        self.out: list[Part] = []
        self.out_bytes = 0
        self.wrote_at = 0.0
        self.closed = False
        self.on_room: Callable[[], None] | None = None
        self._blocked = False
        self._reading = False
        self._ended = False

    # -- writing ---------------------------------------------------------------------------------

    def write(self, part: Part) -> None:
        """Queue bytes; they leave when the running batch is done, or at once outside of one."""
        if self.closed:
            return
        mover = self._mover
        if not self.out:
            self.wrote_at = mover.now
        self.out.append(part)
        self.out_bytes += len(part)
        if mover.inside:
            mover.dirty.add(self)
        else:
            self.flush()

    def write_all(self, parts: Iterable[Part]) -> None:
        """Queue several parts as one."""
        self._mover.batch(lambda: [*map(self.write, parts)])

    def untouched(self, part: Part) -> bool:
        """Whether the kernel has taken nothing of a part that was queued."""
        return any(queued is part for queued in self.out)

    def withdraw(self, part: Part) -> bool:
        """Take an untouched part out of the outbox; False if its write has begun."""
        for at, queued in enumerate(self.out):
            if queued is part:
                del self.out[at]
                self.out_bytes -= len(part)
                return True
        return False

    def flush(self) -> None:
        """Write as much as the kernel takes now."""
        out = self.out
        if self._blocked or not out or self._wfd is None:
            return
        try:
            taken = os.write(self._wfd, out[0]) if len(out) == 1 else os.writev(self._wfd, out[:MAX_PARTS])
        except BlockingIOError:
            taken = 0
        except OSError:
            self._gone()
            return
        if taken == self.out_bytes:
            out.clear()
            self.out_bytes = 0
            if self.on_room is not None:
                self.on_room()
            return
        self.out_bytes -= taken
        if taken:
            self.wrote_at = self._mover.now
        done = 0
        while done < len(out) and taken >= len(out[done]):
            taken -= len(out[done])
            done += 1
        del out[:done]
        if taken:
            out[0] = memoryview(out[0])[taken:]
        self._blocked = True
        self._watch()

    # -- reading ---------------------------------------------------------------------------------

    def pause(self) -> None:
        """Read nothing until `resume`: the kernel's buffer is the back-pressure."""
        if self._reading:
            self._reading = False
            self._watch()

    def resume(self) -> None:
        """Read again after `pause`."""
        if not self._reading and not self.closed and not self._ended and self._rfd is not None:
            self._reading = True
            self._watch()

    def on_socket(self, events: int) -> None:
        """Handle what epoll says about a descriptor that is read and written."""
        if events & OUT:
            self._unblock()
        if events & IN and self._reading:
            self._read()
        elif events & HUP and not self.closed:
            self._gone()

    def on_readable(self, _: int) -> None:
        """Handle what epoll says about a pipe that is only read; its hang-up is read as an end."""
        if self._reading:
            self._read()

    def on_writable(self, events: int) -> None:
        """Handle what epoll says about a pipe that is only written."""
        if events & HUP:
            self._gone()
        elif events & OUT:
            self._unblock()

    def _unblock(self) -> None:
        if self._blocked:
            self._blocked = False
            self._mover.dirty.add(self)
            self._watch()

    def _read(self) -> None:
        try:
            n = os.readv(self._rfd, _vector)  # type: ignore[arg-type]  # only called while it is watched
        except BlockingIOError:
            return
        except OSError:
            n = 0
        if n:
            self._guard(self._on_bytes, bytes(_view[:n]))
            return
        self._reading, self._ended = False, True
        self._watch()  # what is queued for the peer may still leave
        self._guard(self._on_end, False)

    def _gone(self) -> None:
        """Nobody reads any more what we write; at a socket that means nobody is there."""
        if self._wfd != self._rfd:
            # Last words may still be on their way in the other pipe. What was queued stays, to be taken back.
            self._mover.discard(self._wfd)
            self._wfd = None
            self._guard(self._on_end, True)
            return
        self.out.clear()
        self.out_bytes = 0
        if self.closed:
            return
        self._reading, self._ended = False, True
        self._mover.forget(self._rfd)
        self._guard(self._on_end, True)

    def _guard(self, callback: Callable[[Any], None], argument: object) -> None:
        try:
            callback(argument)
        # One of the three places that catch everything: a bug in serving one peer ends that peer only.
        except Exception as problem:  # noqa: BLE001
            self._on_crash(problem)

    # -- the descriptors ---------------------------------------------------------------------------

    def _watch(self) -> None:
        mover, rfd, wfd = self._mover, self._rfd, self._wfd
        if rfd is not None and rfd == wfd:
            mover.watch(rfd, self.on_socket, (IN if self._reading else 0) | (OUT if self._blocked else 0))
            return
        if rfd is not None:
            mover.watch(rfd, self.on_readable, IN) if self._reading else mover.forget(rfd)
        if wfd is not None:
            mover.watch(wfd, self.on_writable, OUT) if self._blocked else mover.forget(wfd)

    def close_write(self) -> None:
        """Close the writing side (a server's stdin); queued bytes are dropped. Idempotent."""
        if self._wfd is None or self._wfd != self._rfd:
            self._mover.discard(self._wfd)
            self._wfd = None
            self.out.clear()
            self.out_bytes = 0

    def close(self) -> None:
        """Close the descriptors once the running batch is done. Idempotent."""
        if self.closed:
            return
        self.closed, self._reading = True, False
        for fd in {self._rfd, self._wfd} - {None}:
            self._mover.discard(fd)
        self._rfd = self._wfd = None
        self.out.clear()
        self.out_bytes = 0
