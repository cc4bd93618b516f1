"""How many servers may be busy starting at once.

A place is for what loads the machine: npx unpacking, an interpreter importing. A start that only waits,
for the network, for a lock, or because its server hangs, lends its place to the next one, so that thirty
broken servers do not delay the seventy good ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import trio

from mcpd.guardian import descendants
from mcpd.timers import Timers

PLACES = 8
# How often those who wait look whether somebody only sleeps.
LOOK_SECONDS = 0.015


class Crowd:
    """The starts that are under way, and those that wait for them.

    Args:
        timers: when to look again.
        busy: whether a process and what is below it has used the processor since it was last asked.
    """

    def __init__(self, timers: Timers, places: int = PLACES, busy: Callable[[int], bool] | None = None) -> None:
        self._timers, self._places = timers, places
        self._busy = busy or Busy()
        self._holders: dict[object, Callable[[], int | None]] = {}
        self._looking = False
        self._queue: deque[tuple[object, Callable[[], int | None], trio.Event]] = deque()

    async def enter(self, who: object, pid: Callable[[], int | None]) -> None:
        """Wait for a place; `pid` tells the process once there is one."""
        if len(self._holders) < self._places and not self._queue:
            await trio.lowlevel.checkpoint_if_cancelled()
            self._holders[who] = pid
            return
        entry = (who, pid, trio.Event())
        self._queue.append(entry)
        if not self._looking:
            self._looking = True
            self._timers.after(LOOK_SECONDS, self._look)
        try:
            await entry[2].wait()
        except trio.Cancelled:
            if entry in self._queue:
                self._queue.remove(entry)
            self.leave(who)
            raise

    def leave(self, who: object) -> None:
        """Give the place back, lent or not. Idempotent."""
        if self._holders.pop(who, None) is not None:
            self._admit()

    def _admit(self) -> None:
        while self._queue and len(self._holders) < self._places:
            who, pid, event = self._queue.popleft()
            self._holders[who] = pid
            event.set()

    def _look(self) -> None:
        """Let those go on without a place who only wait."""
        for who, pid in list(self._holders.items()):
            number = pid()
            if number is not None and not self._busy(number):
                del self._holders[who]
        self._admit()
        self._looking = bool(self._queue)
        if self._looking:
            self._timers.after(LOOK_SECONDS, self._look)


class Busy:
    """Tells by the processor time of a process tree whether it works or waits."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}

    def __call__(self, pid: int) -> bool:
        """Whether it has used the processor since the last time; a new one counts as busy."""
        used = sum(map(_ticks, (pid, *descendants(pid))))
        before = self._seen.get(pid)
        if len(self._seen) > 4 * PLACES:
            self._seen.clear()
        self._seen[pid] = used
        return before is None or used != before


def _ticks(pid: int) -> int:
    """Return the processor time of a process, in nanoseconds where the kernel tells, else in ticks."""
    try:
        with open(f"/proc/{pid}/schedstat", "rb") as file:
            return int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        pass
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rsplit(b")", 1)[1].split()
            return int(fields[11]) + int(fields[12])
    except (OSError, ValueError, IndexError):
        return 0
