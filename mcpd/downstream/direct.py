"""One server as it is: names, schemas, instructions and capabilities are its own."""

from __future__ import annotations

import msgspec
import trio
from msgspec import Raw

from mcpd.broker.broker import Broker
from mcpd.broker.catalog import Listing
from mcpd.broker.parties import Guest
from mcpd.protocol.session import Session

from .lists import Lists
from .shown import Card, Route, Shown

# Hosts wait 5 s and more for a server to present itself; one that takes longer is presented by a guess.
HANDSHAKE_SECONDS = 4.0
# What a server may turn out to have; what it does not have has empty lists.
GUESSED = {name: Raw(b"{}") for name in ("tools", "prompts", "resources", "completions", "logging")}


class Direct:
    """Shows one server."""

    alone = True

    def __init__(self, broker: Broker, lists: Lists, server: str) -> None:
        self._broker, self._lists, self._server = broker, lists, server

    async def card(self, guest: Guest) -> Card:
        """Return what the server says of itself: now, or the last time; while it starts for the first time, a guess.

        Raises:
            McpdError: There is no such server, or it cannot be started.
        """
        place = self._broker.resolve(self._server, guest.seeker)
        place.meet(guest)
        session = place.slot.session or await place.presenting.get()
        if session is None:
            with trio.move_on_after(HANDSHAKE_SECONDS):
                place = await self._broker.ready(self._server, guest)
                session = place.presenting.known
        return _guess(self._server) if session is None else _card(session, self._server)

    async def listing(self, kind: str, guest: Guest) -> Shown:
        """Return a list of the server as it is."""
        listing, stale = await self._lists.listing(kind, self._server, guest)
        return _shown(listing, self._server, stale=stale)

    def find(self, kind: str, name: str, guest: Guest) -> Route:
        """Return that it is the server's: what there is it knows best."""
        return Route(self._server, name)

    async def look(self, kind: str, name: str, guest: Guest) -> Route:
        """Return the same."""
        await trio.lowlevel.checkpoint()
        return Route(self._server, name)

    def result(self, route: Route, result: Raw, guest: Guest) -> Raw:
        """Return it as it is."""
        return result


def _card(session: Session, server: str) -> Card:
    info = session.server_info if len(session.server_info) > 2 else _guess(server).info
    return Card(info, session.capabilities, session.instructions)


def _guess(server: str) -> Card:
    return Card(Raw(msgspec.json.encode({"name": server, "version": "unknown"})), GUESSED, is_final=False)


def _shown(listing: Listing, server: str, *, stale: bool) -> Shown:
    return Shown(
        items=[raw for _, raw in listing.items],
        ttl_ms=0 if stale else listing.ttl_ms_left(trio.current_time()),
        is_public=listing.cache_scope == "public",
    )


