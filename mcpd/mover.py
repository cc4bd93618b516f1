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

from mcpd.stream import IN, Stream

# Stay with traffic this often before trio's other tasks get their turn.
ROUNDS = 32
LINGER_SECONDS = 0.001
# A server's quick answer is nearer than the cost of sleeping and being woken: look for it this often
# first, some 40 microseconds, where there is a core to spare and little else to do.
SPINS = 40 if len(os.sched_getaffinity(0)) > 1 else 0
FEW_EVENTS = 4


class Mover:
    """The epoll set and the loop over it.

    Attributes:
        leave: set by whoever woke a trio task in a callback, so that it runs now and not after the linger.
        now: the time at the start of the batch.
        inside: a batch is running, and ends with a flush.
        dirty: the streams that were written to in it.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._doomed: list[int] = []
        self.dirty: set[Stream] = set()
        self.leave = False
        self.now = 0.0
        self.inside = False
        self._time: Callable[[], float] = trio.current_time

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
        for fd in (rfd, wfd):
            if fd is not None:
                os.set_blocking(fd, False)
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
        if fd is not None and self._handlers.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def discard(self, fd: int | None) -> None:
        """Forget a descriptor and close it after the batch: events already read must not meet its successor."""
        self.forget(fd)
        if fd is None:
            return
        if self.inside:
            self._doomed.append(fd)
        else:
            _close(fd)

    def time(self) -> float:
        """Return the time: that of the running batch, or now outside of one."""
        return self.now if self.inside else trio.current_time()

    def flush(self) -> None:
        """Try one write for every stream that was written to."""
        dirty = self.dirty
        while dirty:
            dirty.pop().flush()

    def batch(self, work: Callable[[], object]) -> None:
        """Run `work` as one batch: what it writes leaves together at the end."""
        if self.inside:
            work()
            return
        self.inside, self.now = True, trio.current_time()
        try:
            work()
            self.flush()
        finally:
            self.inside = False
            self._bury()

    def _bury(self) -> None:
        for fd in self._doomed:
            _close(fd)
        self._doomed.clear()

    async def run(self) -> None:
        """Move bytes until cancelled."""
        fd = self._epoll.fileno()
        self._time = trio.lowlevel.current_clock().current_time
        try:
            while True:
                await trio.lowlevel.wait_readable(fd)
                self._work()
        finally:
            self.inside = False
            trio.lowlevel.notify_closing(fd)

    def _work(self) -> None:
        handlers, poll, time = self._handlers, self._epoll.poll, self._time
        self.inside, self.leave = True, False
        self.now = time()
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
                events = self._await(poll, len(events) <= FEW_EVENTS)
                if not events:
                    break
                self.now = time()
        finally:
            self.inside = False

    @staticmethod
    def _await(poll: Callable[[float], Any], spin: bool) -> Any:
        """Return what comes soon, or nothing."""
        if spin:
            for _ in range(SPINS):
                if events := poll(0):
                    return events
        return poll(LINGER_SECONDS)

    def close(self) -> None:
        """Close the epoll set; the streams' owners close theirs."""
        self._epoll.close()


def _close(fd: int) -> None:
    with contextlib.suppress(OSError):
        os.close(fd)
