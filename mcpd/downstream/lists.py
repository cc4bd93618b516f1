"""Lists over one upstream or all: `mcpd/tools`, `prompts`, `resources`, `templates`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import trio
from msgspec import Raw, Struct

from mcpd.broker.broker import Broker
from mcpd.broker.catalog import Listing
from mcpd.broker.explaining import nearest
from mcpd.broker.parties import Guest
from mcpd.broker.place import Place
from mcpd.errors import BadRequest, McpdError, UnknownTool
from mcpd.protocol import paging, rawjson
from mcpd.protocol.paging import Item


class ListParams(Struct):
    """`params` of the four list methods."""

    server: str | None = None
    offset: int = 0
    limit: int = paging.DEFAULT_LIMIT
    name: str | None = None
    fresh: bool = False


@dataclass
class Gathered:
    """The lists of all servers that were asked, one after the other.

    `problems` are the errors of servers that could not list; with one server asked for, its error is
    raised instead. `ttl_ms` is what is left of the servers' promises that the lists are good, and `is_public`
    whether all of them may be shown to anybody: the least of what each has promised.
    """

    items: list[Item] = field(default_factory=list)
    revision: int = 0
    stale: bool = False
    stale_servers: list[str] = field(default_factory=list)
    incomplete: list[str] = field(default_factory=list)
    set_aside: list[str] = field(default_factory=list)
    problems: list[dict[str, Any]] = field(default_factory=list)
    ttl_ms: int = 0
    is_public: bool = False


class Lists:
    """Answers the list methods from the catalogs."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def page(self, kind: str, p: ListParams, guest: Guest) -> dict[str, object]:
        """Return one page, or with `name` one whole descriptor.

        Raises:
            InvalidPage: offset or limit are out of range.
            UnknownTool: there is nothing of that name.
            McpdError: the one server that was asked for cannot list.
        """
        paging.page([], p.offset, p.limit)  # what cannot be answered starts no server
        if p.name is not None and p.server is None:
            raise BadRequest(f"mcpd/{kind}: name needs a server, too")
        if p.name is not None and (p.offset, p.limit) != (0, paging.DEFAULT_LIMIT):
            raise BadRequest(f"mcpd/{kind}: name goes without offset and limit")
        found = await self.gather(kind, p.server, guest, fresh=p.fresh)
        if p.name is not None:
            found.items = [self._one(kind, p.server, p.name, found.items)]
        max_bytes = paging.PAGE_BYTES if p.name is None else paging.DESCRIPTOR_BYTES + 2 * paging.ENVELOPE_BYTES
        result = paging.page(found.items, p.offset, p.limit, max_bytes)
        result["revision"] = found.revision
        if found.ttl_ms > 0:
            result |= {"ttlMs": found.ttl_ms, "cacheScope": "public" if found.is_public else "private"}
        for extra in ("stale", "stale_servers", "incomplete", "set_aside", "problems"):
            if value := getattr(found, extra):
                result[extra] = value
        return result

    async def listing(self, kind: str, server: str, guest: Guest, fresh: bool = False) -> tuple[Listing, bool]:
        """Return a list of a server's copy and whether it is stale; the client hears of its changes from now on.

        Raises:
            McpdError: It cannot be had.
        """

        async def listing(place: Place) -> tuple[Listing, bool]:
            found: tuple[Listing, bool] | McpdError
            try:
                found = await place.catalog.listing(kind, fresh=fresh)
            except McpdError as problem:
                found = problem
            await self._note(guest, server, kind)  # with a list or without: it will hear of the next one
            if isinstance(found, McpdError):
                raise found
            return found

        return await self._broker.at(server, guest, listing)

    async def _note(self, guest: Guest, server: str | None, kind: str) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()  # who has left meanwhile must not be noted
        self._broker.audience.listed(guest, server, kind)

    def _one(self, kind: str, server: str | None, name: str, items: list[Item]) -> Item:
        for item in items:
            if item.name == name:
                return item
        near = nearest(name, (item.name for item in items))
        raise UnknownTool(
            f"server '{server}' has no {kind.removesuffix('s')} '{name[:200]}'",
            server=server,
            hint=f"did you mean {', '.join(near)}?" if near else f"mcpd {kind} {server}",
            near=near,
        )

    async def gather(self, kind: str, server: str | None, guest: Guest, *, fresh: bool = False) -> Gathered:
        """Return the list of one server, or of all that have one; all are asked at once.

        Raises:
            McpdError: the one server that was asked for cannot list.
        """
        if server is not None:
            return _joined([(server, await self.listing(kind, server, guest, fresh))], [])
        await self._note(guest, None, kind)
        names = list(self._broker.upstreams)
        answers: dict[str, tuple[Listing, bool]] = {}
        problems: dict[str, McpdError] = {}

        async def ask(name: str) -> None:
            try:
                answers[name] = await self.listing(kind, name, guest, fresh)
            except McpdError as problem:
                problems[name] = problem

        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(ask, name)
        return _joined([(name, answers[name]) for name in names if name in answers], list(problems.values()))


def _joined(answers: list[tuple[str, tuple[Listing, bool]]], problems: list[McpdError]) -> Gathered:
    found = Gathered(problems=[problem.to_error() for problem in problems])
    now = trio.current_time()
    left = [0 if stale else listing.ttl_ms_left(now) for _, (listing, stale) in answers]
    found.ttl_ms = min(left, default=0) if not problems else 0
    found.is_public = all(listing.cache_scope == "public" for _, (listing, _) in answers)
    for name, (listing, stale) in answers:
        found.items += _tagged(name, listing)
        found.revision += listing.revision
        found.stale |= stale
        found.stale_servers += [name] if stale else []
        found.incomplete += [f"{name}: {listing.incomplete}"] if listing.incomplete else []
        found.set_aside += [f"{name}: {what}" for what in listing.set_aside]
    return found


def _tagged(server: str, listing: Listing) -> list[Item]:
    """Return the descriptors with the name of their server in front; done once per list."""
    if listing.tagged is None:
        listing.tagged = [Item(name, _with_server(server, raw), server) for name, raw in listing.items]
    return listing.tagged


def _with_server(server: str, descriptor: Raw) -> Raw:
    body = bytes(descriptor)
    if b'"server"' in body or b"\\" in body:  # it may have such a member, and must not pass for another server's
        members = rawjson.members(descriptor, "a descriptor")
        members.pop("server", None)
        body = msgspec.json.encode(members)
    return Raw(b'{"server":%b,%b' % (msgspec.json.encode(server), body[1:].lstrip()))
