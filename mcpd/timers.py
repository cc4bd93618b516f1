"""One heap of deadlines, served by one task: a deadline of a call costs a push, not a task."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Protocol

import trio

# Below this it is cheaper to let dead entries surface than to rebuild the heap.
MIN_DEAD = 64


class Due(Protocol):
    """Something with a deadline. `over` makes its entry in the heap a dead one."""

    over: bool

    def due(self) -> None:
        """Act: the deadline has come."""


class Timer:
    """A callback that is due at a time; `cancel` forgets it."""

    __slots__ = ("_callback", "_timers", "over")

    def __init__(self, timers: Timers, callback: Callable[[], None]) -> None:
        self._timers, self._callback = timers, callback
        self.over = False

    def due(self) -> None:
        """Call back."""
        self.cancel()
        self._callback()

    def cancel(self) -> None:
        """Forget the callback. Idempotent, also after it has run."""
        if not self.over:
            self.over = True
            self._timers.died()


class Timers:
    """The heap and the task that serves it.

    Args:
        run: runs a batch of due callbacks; the mover's `batch`, so that what they write leaves at once.
    """

    def __init__(self, run: Callable[[Callable[[], None]], None] | None = None) -> None:
        self._heap: list[tuple[float, int, Due]] = []
        self._serial = 0
        self._dead = 0
        self._firing = False
        self._earlier = trio.Event()
        self._run = run or (lambda work: work())

    def watch(self, when: float, thing: Due) -> None:
        """Call `thing.due()` at an absolute trio time, unless it is over by then.

        Whoever makes it over says so with `died`, once for every call of this.
        """
        heap = self._heap
        if not heap or when < heap[0][0]:
            self._earlier.set()
        self._serial += 1
        heapq.heappush(heap, (when, self._serial, thing))

    def at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` at an absolute trio time, outside of any task of the caller's."""
        timer = Timer(self, callback)
        self.watch(when, timer)
        return timer

    def after(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` in so many seconds."""
        return self.at(trio.current_time() + seconds, callback)

    def died(self) -> None:
        """Count an entry that died, and rebuild the heap when most of it is dead."""
        self._dead += 1
        if self._dead > MIN_DEAD and self._dead * 2 > len(self._heap) and not self._firing:
            self._heap = [entry for entry in self._heap if not entry[2].over]
            heapq.heapify(self._heap)
            self._dead = 0

    def __len__(self) -> int:
        return len(self._heap) - self._dead

    async def run(self) -> None:
        """Serve the heap until cancelled."""
        while True:
            self._run(self._fire_due)
            self._earlier = trio.Event()
            if self._heap:
                with trio.move_on_at(self._heap[0][0]):
                    await self._earlier.wait()
            else:
                await self._earlier.wait()

    def _fire_due(self) -> None:
        now, self._firing = trio.current_time(), True
        while self._heap and self._heap[0][0] <= now:
            thing = heapq.heappop(self._heap)[2]
            if not thing.over:
                thing.due()
            if thing.over:
                self._dead -= 1
        self._firing = False
        self._dead = max(0, self._dead)  # what was entered twice is counted once
