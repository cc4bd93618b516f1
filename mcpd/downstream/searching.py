"""`mcpd/search`: the tools of all servers that a few words may mean, best first.

A list is indexed when it is first searched, and then for as long as it is in force. A server that takes
its time is not waited for: what was known of it is searched, or the answer says that it is missing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from msgspec import Raw, Struct

from mcpd.broker.broker import Broker
from mcpd.broker.catalog import Listing
from mcpd.broker.parties import Guest
from mcpd.broker.place import Place
from mcpd.errors import BadRequest, CallTimeout, InvalidPage, McpdError
from mcpd.protocol import paging

from .connection import Connection

if TYPE_CHECKING:
    from mcpd.broker.ranking import Document, Index

DEFAULT_LIMIT = 10
# Longer ones are no questions.
QUERY_CHARACTERS = 1000
# Who searches wants to know what there is now, and not in half a minute.
WAIT_SECONDS = 2.0
# Enough to choose by; the whole descriptor is one `mcpd/tools` away.
TITLE_CHARACTERS, DESCRIPTION_CHARACTERS = 200, 500


class SearchParams(Struct):
    """`params` of mcpd/search."""

    query: str
    server: str | None = None
    limit: int = DEFAULT_LIMIT


@dataclass
class _Found:
    """The lists to search, in the order of the servers; `problems` of those that are missing or old."""

    lists: list[tuple[Place, Listing]] = field(default_factory=list)
    problems: list[McpdError] = field(default_factory=list)
    stale: bool = False


class _Described(Struct):
    """What is read of a descriptor; a server may have put anything there."""

    title: Any = None
    description: Any = None
    annotations: Any = None


class Search:
    """Answers mcpd/search from the catalogs."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def handle(self, connection: Connection, request_id: bytes, p: SearchParams) -> None:
        """Answer one request.

        Raises:
            BadRequest: there is nothing to look for.
            InvalidPage: `limit` is out of range.
            McpdError: there is no such server.
        """
        if not p.query.strip():
            raise BadRequest("mcpd/search: query has no words")
        if len(p.query) > QUERY_CHARACTERS:
            raise BadRequest(f"mcpd/search: query is longer than {QUERY_CHARACTERS} characters")
        if not 1 <= p.limit <= paging.MAX_LIMIT:
            raise InvalidPage(f"limit is {p.limit}, and must be 1 to {paging.MAX_LIMIT}")
        names = list(self._broker.upstreams) if p.server is None else [self._broker.upstream(p.server).server.name]
        connection.start(request_id, lambda: self.find(names, connection, p))

    async def find(self, names: list[str], guest: Guest, p: SearchParams) -> dict[str, object]:
        """Search the lists of these servers.

        Raises:
            McpdError: the one server that was asked for cannot list.
        """
        # Of one server that nothing is known of there is no other answer to give.
        alone = p.server is not None and self._broker.resolve(p.server, guest.seeker).catalog.known("tools") is None
        found = await self._gather(names, guest, math.inf if alone else WAIT_SECONDS)
        if p.server is not None and found.problems and not found.lists:
            raise found.problems[0]
        indexes = []
        for place, listing in found.lists:
            await trio.lowlevel.checkpoint()  # an index takes a while, and others have calls going
            indexes.append(_indexed(place.server.name, listing))
        from mcpd.broker.ranking import rank  # not needed by a daemon that is just starting

        best, total = rank(p.query, indexes, p.limit)
        items: list[Raw] = []
        room = paging.PAGE_BYTES - paging.ENVELOPE_BYTES
        for hit in best:
            place, listing = found.lists[hit.source]
            item = _item(place.server.name, *listing.items[hit.position], hit.score)
            room -= len(item) + 1
            if room < 0 and items:
                break
            items.append(item)
        result: dict[str, object] = {"items": items, "total": total}
        if found.problems:
            result["problems"] = [problem.to_error() for problem in found.problems]
        if found.stale:
            result["stale"] = True
        return result


    async def _gather(self, names: list[str], guest: Guest, seconds: float) -> _Found:
        """Ask all at once, and wait for the slow ones no longer than that; they are not disturbed by it."""
        answers: dict[str, tuple[Place, Listing, bool]] = {}
        problems: dict[str, McpdError] = {}

        async def ask(name: str) -> None:
            try:
                answers[name] = await self._broker.at(name, guest, _listed)
            except McpdError as problem:
                problems[name] = problem

        with trio.move_on_after(seconds):
            async with trio.open_nursery() as nursery:
                for name in names:
                    nursery.start_soon(ask, name)
        found = _Found()
        for name in names:
            if name in answers:
                place, listing, stale = answers[name]
            elif name not in self._broker.upstreams:
                continue  # it has left the configuration meanwhile
            else:
                place = self._broker.resolve(name, guest.seeker)
                known = place.catalog.known("tools")
                if known is None:
                    found.problems.append(problems.get(name) or _late(name))
                    continue
                listing, stale = known, True
            found.lists.append((place, listing))
            found.stale |= stale
        return found


async def _listed(place: Place) -> tuple[Place, Listing, bool]:
    return (place, *await place.catalog.listing("tools"))


def _late(server: str) -> CallTimeout:
    why = f"server '{server}' did not list its tools within {WAIT_SECONDS:g} s; it is searched once it has"
    return CallTimeout(why, server=server, hint="search again in a moment")


def _indexed(server: str, listing: Listing) -> Index:
    """Return the index of a list; built once."""
    if listing.index is None:
        from mcpd.broker.ranking import Index

        listing.index = Index(server, [_document(*item) for item in listing.items])
    return listing.index


def _document(name: str, descriptor: Raw) -> Document:
    from mcpd.broker.ranking import Document

    try:
        seen = msgspec.json.decode(descriptor, type=_Described)
    except (msgspec.MsgspecError, RecursionError):
        return Document(name)
    title = seen.title
    if not isinstance(title, str) and isinstance(seen.annotations, dict):
        title = seen.annotations.get("title")  # where it was before 2025-06-18
    description = seen.description
    return Document(name, title if isinstance(title, str) else "", description if isinstance(description, str) else "")


def _item(server: str, name: str, descriptor: Raw, score: float) -> Raw:
    document = _document(name, descriptor)
    item: dict[str, object] = {"server": server, "name": name}
    if document.title:
        item["title"] = _cut(document.title, TITLE_CHARACTERS)
    if document.description:
        item["description"] = _cut(document.description, DESCRIPTION_CHARACTERS)
    item["score"] = score
    return Raw(msgspec.json.encode(item))


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: characters - 1].rstrip()}…"
