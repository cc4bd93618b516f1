"""One heap of deadlines, served by one task: a deadline of a call costs a push, not a task."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

import trio

# Below this it is cheaper to let dead entries surface than to rebuild the heap.
MIN_DEAD = 1024


class Timer:
    """A callback that is due at a time; `cancel` forgets it."""

    __slots__ = ("_timers", "callback", "when")

    def __init__(self, timers: Timers, when: float, callback: Callable[[], None]) -> None:
        self._timers = timers
        self.when = when
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Forget the callback. Idempotent, also after it has run."""
        if self.callback is not None:
            self.callback = None
            self._timers.died()


class Timers:
    """The heap and the task that serves it.

    Args:
        run: runs a batch of due callbacks; the mover's `batch`, so that what they write leaves at once.
    """

    def __init__(self, run: Callable[[Callable[[], None]], None] | None = None) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._serial = count()
        self._dead = 0
        self._earlier = trio.Event()
        self._run = run or (lambda work: work())

    def at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` at an absolute trio time, outside of any task of the caller's."""
        timer = Timer(self, when, callback)
        if not self._heap or when < self._heap[0][0]:
            self._earlier.set()
        heapq.heappush(self._heap, (when, next(self._serial), timer))
        return timer

    def after(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` in so many seconds."""
        return self.at(trio.current_time() + seconds, callback)

    def died(self) -> None:
        """Count a cancelled timer, and rebuild the heap when most of it is dead."""
        self._dead += 1
        if self._dead > MIN_DEAD and self._dead * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].callback is not None]
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
        now = trio.current_time()
        while self._heap and self._heap[0][0] <= now:
            timer = heapq.heappop(self._heap)[2]
            callback, timer.callback = timer.callback, None
            if callback is None:
                self._dead -= 1
            else:
                callback()
