"""Stops what nobody has used for a while."""

from __future__ import annotations

from collections.abc import Callable

import trio

from mcpd.timers import Timer, Timers


class Idle:
    """The idle time of one upstream; costs a call nothing but a note of the time.

    Attributes:
        used_at: when it was last used; set by whoever uses it.
    """

    def __init__(self, timers: Timers, seconds: float, busy: Callable[[], int], stop: Callable[[], None]) -> None:
        """Take what to watch: `stop` is called after `seconds` (0: never) without use and not `busy`."""
        self._timers, self._seconds, self._busy, self._stop = timers, seconds, busy, stop
        self._timer: Timer | None = None
        self.used_at = trio.current_time()

    def watch(self) -> None:
        """Begin to count, from now."""
        self.used_at = trio.current_time()
        self._set()

    def rest(self) -> None:
        """Stop counting. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self) -> None:
        self.rest()
        if self._seconds > 0:
            self._timer = self._timers.at(self.used_at + self._seconds, self._check)

    def _check(self) -> None:
        now = trio.current_time()
        if self._busy():
            self.used_at = now
        if now - self.used_at < self._seconds:
            self._set()
        else:
            self._stop()
