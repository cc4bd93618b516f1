"""Stops what nobody has used for a while."""

from __future__ import annotations

from collections.abc import Callable

import trio

from mcpd.timers import Timer

from .around import Surroundings


class Idle:
    """The idle time of one upstream; costs a call nothing but a note of the time."""

    def __init__(self, around: Surroundings, seconds: float, busy: Callable[[], bool], stop: Callable[[], None]) -> None:
        """Take what to watch: `stop` is called after `seconds` (0: never) without use and not `busy`."""
        self._timers, self._time = around.timers, around.mover.time
        self._seconds, self._busy, self._stop = seconds, busy, stop
        self._timer: Timer | None = None
        self._used_at = self._time()

    def use(self) -> None:
        """Note that it is used now."""
        self._used_at = self._time()

    def watch(self) -> None:
        """Begin to count, from now."""
        self._used_at = trio.current_time()
        self._set()

    def rest(self) -> None:
        """Stop counting. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self) -> None:
        self.rest()
        if self._seconds > 0:
            self._timer = self._timers.at(self._used_at + self._seconds, self._check)

    def _check(self) -> None:
        now = trio.current_time()
        if self._busy():
            self._used_at = now
        if now - self._used_at < self._seconds:
            self._set()
        else:
            self._stop()
