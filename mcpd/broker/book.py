"""What a catalog notes about one list."""

from __future__ import annotations

import trio

from mcpd.errors import McpdError
from mcpd.timers import Timer

from .listing import Listing
from .pace import Pace


class Book:
    """What is known of one list, and how its fetching stands.

    Attributes:
        listing: what is at hand.
        revision: the last one that was counted.
        changes: how many changes have been noted.
        problem: why the last walk did not bring a list.
        asked: somebody has asked for it.
        told: somebody has been answered, with a list, an error, or that it is still to come.
        walk: set when the walk that is under way is over.
        timer: of the next walk, while it is too soon for one.
    """

    def __init__(self) -> None:
        self.listing: Listing | None = None
        self.revision = self.changes = 0
        self.problem: McpdError | None = None
        self.asked = self.told = False
        self.walk: trio.Event | None = None
        self.timer: Timer | None = None
        self.pace = Pace()
