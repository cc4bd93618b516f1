"""Lets calls go that have waited for a place, as soon as there is one for them."""

from __future__ import annotations

from collections.abc import Callable

from .call import Call
from .limits import Admission


class Passing:
    """The way from the queue of one upstream to its slot.

    Args:
        admission: who may go.
        left: told of each call that has given its place back, when those after it have gone.

    Attributes:
        busy: somebody is being let go right now.
    """

    def __init__(self, admission: Admission[Call], left: Callable[[Call], None]) -> None:
        self._admission, self._left = admission, left
        self._freed: list[Call] = []
        self.busy = False

    def release(self, call: Call) -> None:
        """Give a call's place back, and let those in who can go now.

        Whoever is let in may fail at once and give his place back, too: that is worked off here, one by
        one, and not deeper and deeper.
        """
        self._freed.append(call)
        if self.busy:
            return
        self.busy = True
        try:
            while self._freed:
                done = self._freed.pop()
                self._go(self._admission.release(done.client.key, exclusive=done.exclusive))
                self._left(done)
        finally:
            self.busy = False

    def leave(self, call: Call) -> None:
        """Let a call leave the queue; the others may have waited for it to have the upstream alone."""
        self._admission.leave(call.client.key, call)
        self.look()

    def look(self) -> None:
        """Let those go who can now. Idempotent."""
        if self._admission.queued:
            self._go(self._admission.next())

    def _go(self, following: Call | None) -> None:
        while following is not None:
            following.go()
            following = self._admission.next() if self._admission.queued else None
