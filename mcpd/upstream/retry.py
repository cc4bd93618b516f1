"""When a lost upstream starts again, and for how long one that was given up is left alone."""

from __future__ import annotations

from collections.abc import Callable

import trio

from mcpd.timers import Timer, Timers

from . import lifecycle

# A call waits for a retry that is this near, and is told about one that is farther away.
WAIT_SECONDS = 2.0


def is_near(seconds: float, *, failed: bool) -> bool:
    """Whether a call waits so long; what was given up is only started again when its time is over."""
    return seconds <= (0 if failed else WAIT_SECONDS)


class Retry:
    """The retries of one upstream: the policy of `lifecycle` with a clock.

    Args:
        timers: when to call back.
        jitter: a random number between 0 and 1.
    """

    def __init__(self, timers: Timers, jitter: Callable[[], float]) -> None:
        self._timers, self._jitter = timers, jitter
        self._restarts = lifecycle.Restarts()
        self._timer: Timer | None = None
        self._delay_seconds = 0.0
        self._at = 0.0

    @property
    def left_seconds(self) -> float:
        """How long it is until a start is worth while again."""
        return max(0.0, self._at - trio.current_time())

    def spawned(self) -> None:
        """Count a spawn."""
        self._restarts.spawned(trio.current_time())

    def forgive(self) -> None:
        """Forget the trouble: somebody started or stopped it explicitly."""
        self._restarts.forgive()

    def may_follow(self, ready_seconds: float | None) -> bool:
        """Count a loss; False if that were too many. `ready_seconds`: how long it was ready, None for never."""
        delay = self._restarts.lost(trio.current_time(), ready_seconds, self._jitter())
        self._delay_seconds = delay or 0.0
        return delay is not None

    def back_off(self, retry: Callable[[], None]) -> None:
        """Call `retry` after the delay that the last loss has earned."""
        self._at = trio.current_time() + self._delay_seconds
        self._timer = self._timers.at(self._at, retry)

    def give_up(self) -> None:
        """Leave it alone for a while."""
        self._at = trio.current_time() + lifecycle.FAILED_SECONDS

    def rest(self) -> None:
        """Forget a retry that was planned. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
