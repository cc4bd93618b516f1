"""How bytes move: one private epoll set, callbacks, and outboxes that are flushed once per batch.

trio waits on the epoll descriptor and is entered once per batch of events instead of twice per
message; after work the mover lingers in its own poll for up to a millisecond, so that an answer that
comes soon meets no pass of trio's. Whoever owns a descriptor (a connection, a server's pipes) hands it
over with two callbacks and gets a `Stream` to write to; nobody else knows how bytes move.

Every callback runs to its end without waiting. A callback that raises ends its own stream only.
"""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Callable
from typing import Any

import trio

IN, OUT, HUP = select.EPOLLIN, select.EPOLLOUT, select.EPOLLHUP | select.EPOLLERR

# Larger reads fall out of the processor's second cache; measured, not guessed.
READ_BYTES = 1 << 17
# Stay with traffic this often before trio's other tasks get their turn.
ROUNDS = 32
LINGER_SECONDS = 0.001
# writev takes at most 1024 parts.
MAX_PARTS = 1000

Part = bytes | bytearray | memoryview


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

    def write(self, *parts: Part) -> None:
        """Queue bytes; they leave when the running batch is done, or at once outside of one."""
        if self.closed or self._wfd is None:
            return
        if not self.out:
            self.wrote_at = self._mover.now
        self.out.extend(parts)
        for part in parts:
            self.out_bytes += len(part)
        self._mover.touch(self)

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
        self.out.clear()
        self.out_bytes = 0
        if self._wfd != self._rfd:
            # A server's closed stdin says nothing about its stdout.
            self.close_write()
            return
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
        if self._wfd is not None and self._wfd != self._rfd:
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


_scratch = bytearray(READ_BYTES)  # every read lands here first
_view = memoryview(_scratch)
_vector = [_view]


class Mover:
    """The epoll set and the loop over it.

    Attributes:
        leave: set by whoever woke a trio task in a callback, so that it runs now and not after the linger.
        now: the time at the start of the batch.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._doomed: list[int] = []
        self.dirty: set[Stream] = set()
        self.leave = False
        self.now = 0.0
        self._inside = False

    def open(
        self,
        rfd: int | None,
        wfd: int | None,
        on_bytes: Callable[[bytes], None],
        on_end: Callable[[bool], None],
        on_crash: Callable[[Exception], None],
    ) -> Stream:
        """Take over descriptors, which become non-blocking and are closed by the stream.

        Args:
            rfd: to read from, or None.
            wfd: to write to, or None; the same as `rfd` for a socket.
            on_bytes: gets every chunk that is read.
            on_end: called once when reading has ended; True if the peer is wholly gone.
            on_crash: called with what `on_bytes` or `on_end` raised.
        """
        for fd in {rfd, wfd} - {None}:
            os.set_blocking(fd, False)  # type: ignore[arg-type]  # None is taken out above
        stream = Stream(self, rfd, wfd, on_bytes, on_end, on_crash)
        stream.resume()
        return stream

    def listen(self, fd: int, on_ready: Callable[[int], None]) -> None:
        """Call `on_ready` whenever `fd` is readable, until it is forgotten; the caller closes it."""
        self._handlers[fd] = on_ready
        self._epoll.register(fd, IN)

    def watch(self, fd: int, handler: Callable[[int], None], events: int) -> None:
        """Set what is watched of a stream's descriptor."""
        if fd in self._handlers:
            self._epoll.modify(fd, events)
        else:
            self._handlers[fd] = handler
            self._epoll.register(fd, events)

    def forget(self, fd: int | None) -> None:
        """Watch a descriptor no more. Idempotent."""
        if fd is not None and self._handlers.pop(fd, None):
            self._epoll.unregister(fd)

    def discard(self, fd: int | None) -> None:
        """Forget a descriptor and close it after the batch: events already read must not meet its successor."""
        self.forget(fd)
        if fd is None:
            return
        if self._inside:
            self._doomed.append(fd)
        else:
            _close(fd)

    def touch(self, stream: Stream) -> None:
        """Note that a stream has bytes to write."""
        if self._inside:
            self.dirty.add(stream)
        else:
            stream.flush()

    def flush(self) -> None:
        """Try one write for every stream that was written to."""
        dirty = self.dirty
        while dirty:
            dirty.pop().flush()

    def batch(self, work: Callable[[], None]) -> None:
        """Run `work` as one batch: what it writes leaves together at the end."""
        if self._inside:
            work()
            return
        self._inside, self.now = True, trio.current_time()
        try:
            work()
            self.flush()
        finally:
            self._inside = False
            self._bury()

    def _bury(self) -> None:
        for fd in self._doomed:
            _close(fd)
        self._doomed.clear()

    async def run(self) -> None:
        """Move bytes until cancelled."""
        fd = self._epoll.fileno()
        try:
            while True:
                await trio.lowlevel.wait_readable(fd)
                self._work()
        finally:
            self._inside = False
            trio.lowlevel.notify_closing(fd)

    def _work(self) -> None:
        handlers, poll = self._handlers, self._epoll.poll
        self._inside, self.leave = True, False
        self.now = trio.current_time()
        events: Any = poll(0)
        try:
            for _ in range(ROUNDS):
                for fd, flags in events:
                    handler = handlers.get(fd)
                    if handler is not None:
                        handler(flags)
                if self.dirty:
                    self.flush()
                if self._doomed:
                    self._bury()
                if self.leave:
                    break
                events = poll(LINGER_SECONDS)
                if not events:
                    break
                self.now = trio.current_time()
        finally:
            self._inside = False

    def close(self) -> None:
        """Close the epoll set; the streams' owners close theirs."""
        self._epoll.close()


def _close(fd: int) -> None:
    with contextlib.suppress(OSError):
        os.close(fd)
