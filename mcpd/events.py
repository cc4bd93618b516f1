"""What has happened lately, and who wants to hear of it while it happens: `mcpd/events`.

Whoever moves something tells it here, in one synchronous call. The last events are kept; what happens
with every call is told only while somebody follows. Facts are for all eyes: never arguments, never
results, never secrets.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any, NamedTuple, Protocol

KEPT_EVENTS = 500


class Happened(NamedTuple):
    """One event; `server` is None where it concerns no one server, `time` is of the wall clock."""

    time: float
    event: str
    server: str | None
    facts: dict[str, Any]


class Follower(Protocol):
    """Who is told what happens, in the moment in which it does."""

    def hear(self, happened: Happened) -> None:
        """Take an event; must not wait, and must not raise."""

    def catch_up(self) -> None:
        """Do what could not be done when an event came."""


class Events:
    """The last events, and their followers.

    Attributes:
        recent: the last events, oldest first.
        followed: whether anybody follows; what happens too often to be kept is told only then.
    """

    def __init__(self) -> None:
        self.recent: deque[Happened] = deque(maxlen=KEPT_EVENTS)
        self.followed = False
        self._followers: set[Follower] = set()

    def tell(self, event: str, server: str | None, **facts: Any) -> None:
        """Note what happened; facts that are None are left out."""
        told = {name: value for name, value in facts.items() if value is not None}
        happened = Happened(time.time(), event, server, told)
        self.recent.append(happened)
        for follower in tuple(self._followers) if self.followed else ():
            follower.hear(happened)

    def follow(self, follower: Follower) -> None:
        """Tell a follower all that happens from now on. Idempotent."""
        self._followers.add(follower)
        self.followed = True

    def leave(self, follower: Follower) -> None:
        """Tell a follower no more. Idempotent."""
        self._followers.discard(follower)
        self.followed = bool(self._followers)

    def catch_up(self) -> None:
        """Let followers that did not read hear what they have missed; called now and then."""
        for follower in tuple(self._followers):
            follower.catch_up()
