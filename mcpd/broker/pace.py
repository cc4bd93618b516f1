"""How soon a list is fetched again when its server says that it has changed.

The first time at once, then four times a second at most. A server that keeps saying so while nothing is
different (some do it whenever they are asked) is asked more and more slowly.
"""

from __future__ import annotations

MIN_SECONDS = 0.25
MAX_SECONDS = 2.0


class Pace:
    """The pauses between the refetches of one list. It has no clock: the caller passes the time in."""

    def __init__(self) -> None:
        self._began = float("-inf")
        self._pause = MIN_SECONDS

    def left(self, now: float) -> float:
        """Return how long to wait before the next one; 0 for not at all."""
        return max(0.0, self._began + self._pause - now)

    def began(self, now: float) -> None:
        """Note that one begins; after a time of quiet, all is forgotten."""
        if now - self._began > 2 * self._pause:
            self._pause = MIN_SECONDS
        self._began = now

    def ended(self, *, different: bool) -> None:
        """Note whether it brought anything new."""
        self._pause = MIN_SECONDS if different else min(2 * self._pause, MAX_SECONDS)
