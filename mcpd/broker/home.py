"""What a place asks of the upstream that it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .parties import Client, Guest

if TYPE_CHECKING:
    from .place import Place


class Home:
    """Who decides who shares a copy; this one lets everybody in."""

    def learn(self, place: Place, era: str) -> None:
        """Take note of what a copy speaks."""

    def sort_out(self, place: Place) -> None:
        """Send calls that do not belong to a copy where they do; nothing has been sent to it yet."""

    def level_of(self, client: Client) -> str | None:
        """Return from which level on a client wants to hear the log."""
        return client.log_level

    def hearers(self, place: Place, capability: str) -> Sequence[Guest]:
        """Return who is to hear that the tools, prompts or resources of a copy have changed."""
        return ()
