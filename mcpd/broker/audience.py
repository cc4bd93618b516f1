"""Which clients have asked for which lists, of one server or of all: they hear when those have changed.

That is a matter of the client, not of the copy that has answered it: it lasts when another copy becomes the
client's, and for all servers also of those that are added later.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

import msgspec

from .listing import KINDS
from .parties import Guest

# What the protocol tells of; resources and templates are one to it.
CAPABILITIES = ("tools", "prompts", "resources")


class Audience:
    """The clients of one broker that are to hear of lists."""

    def __init__(self) -> None:
        self._guests: dict[tuple[str | None, str], dict[Hashable, Guest]] = {}
        self._told: dict[tuple[str, str], int] = {}

    def listed(self, guest: Guest, server: str | None, kind: str) -> None:
        """Note that a client has asked for a list of a server, or for those of all."""
        self._guests.setdefault((server, KINDS[kind].capability), {})[guest.key] = guest

    def unlisted(self, key: Hashable, kind: str) -> None:
        """Forget that a client has asked for lists of a kind: it is not concerned by their changes any more."""
        for (_, capability), guests in self._guests.items():
            if capability == KINDS[kind].capability:
                guests.pop(key, None)

    def forget(self, key: Hashable) -> None:
        """Forget a client that has left."""
        for which, guests in list(self._guests.items()):
            guests.pop(key, None)
            if not guests:
                del self._guests[which]  # the name of a server may be one that only this client knew

    def turn(self, key: Hashable, server: str) -> None:
        """Forget that a client has asked for lists of a server, whose copy was one of its project before."""
        for capability in CAPABILITIES:
            self._guests.get((server, capability), {}).pop(key, None)

    def of(self, server: str, capability: str) -> list[Guest]:
        """Return who is to hear of the tools, prompts or resources of a server."""
        named, all_ = self._guests.get((server, capability), {}), self._guests.get((None, capability), {})
        return list({**all_, **named}.values())

    def told(self, server: str) -> dict[str, int]:
        """Return the revisions that clients were told of lists that are not there any more."""
        return {capability: self._told.get((server, capability), 0) for capability in CAPABILITIES}

    def replaced(
        self, server: str, revisions: Mapping[str, int], concerns: Callable[[Guest], bool] = lambda guest: True
    ) -> None:
        """Tell once that the lists of a server are others, or none; what it lists next has a later revision.

        Args:
            server: whose.
            revisions: the last ones of its copies, by capability.
            concerns: for which clients they are others.
        """
        for capability in CAPABILITIES:
            hearers = [guest for guest in self.of(server, capability) if concerns(guest)]
            before = max(revisions.get(capability, 0), self._told.get((server, capability), 0))
            self._told[server, capability] = before + 1
            for guest in hearers:
                guest.notified(*notice(server, capability, before + 1))


def notice(server: str, capability: str, revision: int) -> tuple[str, bytes]:
    """Return the notification that a list has changed: method and params."""
    params = {"_meta": {"mcpd/server": server, "mcpd/revision": revision}}
    return f"notifications/{capability}/list_changed", msgspec.json.encode(params)
