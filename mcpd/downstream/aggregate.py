"""Several servers as one: what they have under names that tell it apart, and whose it is.

The lists are those of the catalogs; here is only what they are called. A name leads to its server by the map
of all names that are published, never by what it looks like.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from functools import partial
from typing import Literal

import msgspec
import trio
from msgspec import Raw

from mcpd import __version__
from mcpd.broker.broker import Broker
from mcpd.broker.explaining import nearest
from mcpd.broker.parties import Guest
from mcpd.errors import McpdError, ServerProtocol, UnknownTool
from mcpd.protocol import links, names, rawjson
from mcpd.protocol.names import Pair

from . import instructions
from .bridges import Bridges, offers
from .gathering import Gathering
from .published import Published
from .shown import Card, Local, Route, Shown

OPENING = "These are the tools of several MCP servers, named {}; prompts likewise. The servers are:"
CAPABILITIES = {
    "tools": Raw(b'{"listChanged":true}'),
    "prompts": Raw(b'{"listChanged":true}'),
    "resources": Raw(b'{"subscribe":true,"listChanged":true}'),
    "logging": Raw(b"{}"),
    "completions": Raw(b"{}"),
}
INFO = Raw(msgspec.json.encode({"name": "mcpd", "title": "mcpd", "version": __version__}))
# The member of a descriptor that is published under another name.
_KEYS = {"tools": "name", "prompts": "name", "resources": "uri", "templates": "uriTemplate"}
# A name that is like none is compared with so many; more would take time that others wait for.
MOST_COMPARED = 1000
_STYLED = re.compile("mcp(_resource|_prompt)?__")
# A server that may have what is looked for gets this long to say so.
LOOK_SECONDS = 30.0
# Two names that begin with so many letters of a server are taken for that server's while it starts.
_TELLING_CHARACTERS = 20


class Aggregate:
    """What one connection sees of several servers.

    Args:
        broker: has them.
        servers: their names, in the order to show them; None for all that are enabled.
        separator: stands between the names of server and tool.
        style: `short` for `server-tool`, `mcp` for `mcp__server__tool`.
    """

    alone = False

    def __init__(
        self,
        broker: Broker,
        servers: Sequence[str] | None = None,
        separator: str | None = None,
        style: Literal["short", "mcp"] = "short",
    ) -> None:
        self.gathering = Gathering(broker, servers)
        between = names.separator(separator)
        self._form = "mcp__SERVER__TOOL" if style == "mcp" else f"SERVER{between}TOOL"
        self._broker, mint = broker, names.mcp if style == "mcp" else partial(names.short, between=between)
        self._bridges = Bridges(broker, lambda guest: lambda route, result: self.result(route, result, guest))
        self._has_bridges = style == "mcp"
        self._published = {kind: Published(mint if key == "name" else names.uris) for kind, key in _KEYS.items()}

    # -- how it presents itself ------------------------------------------------------------------

    async def card(self, guest: Guest) -> Card:
        """Return how it presents itself; no server is waited for.

        Raises:
            McpdError: There is none of the servers that were asked for.
        """
        return await self.present(OPENING.format(self._form), guest)

    async def present(self, opening: str, guest: Guest) -> Card:
        """Return how it presents itself with other words to begin with; raises as `card`."""
        if (problem := self.gathering.why_none()) is not None:
            raise problem
        said: dict[str, str] = {}
        for place in self.gathering.places(guest):
            session = place.slot.session or await place.presenting.get()
            if session is not None and session.instructions is not None:
                said[place.name] = session.instructions
        return Card(INFO, CAPABILITIES, instructions.written(opening, self.gathering.servers, said))

    # -- the lists -------------------------------------------------------------------------------

    async def listing(self, kind: str, guest: Guest) -> Shown:
        """Return what all servers have of a kind, as far as it can be had soon."""
        gathered = await self.gathering.gather(kind, guest)
        published = self.refresh(kind, guest)
        called, items = published.names, list[Raw]()
        for server, listed in published.lists:
            await trio.lowlevel.checkpoint()  # others have calls going
            items += [_renamed(kind, raw, server, called[Pair(server, name)]) for name, raw in listed]
        if kind == "tools" and self._has_bridges:
            items += self._bridges.descriptors(self.gathering.places(guest))
        return Shown(items, gathered.ttl_ms, gathered.is_public, gathered.pending, gathered.problems)

    def refresh(self, kind: str, guest: Guest) -> Published:
        """Return the names of what is known of a kind now."""
        known = [(place.name, place.catalog.known(kind)) for place in self.gathering.places(guest)]
        self._published[kind].take([(server, listing.items) for server, listing in known if listing is not None])
        return self._published[kind]

    def described(self, pair: Pair, guest: Guest) -> Raw | None:
        """Return the descriptor of a tool as it is published, if it is known."""
        if (name := self.refresh("tools", guest).names.get(pair)) is None:
            return None
        listing = self._broker.resolve(pair.server, guest.seeker).catalog.known("tools")
        raw = None if listing is None else listing.names.get(pair.name)
        return None if raw is None else _renamed("tools", raw, pair.server, name)

    # -- whose it is -----------------------------------------------------------------------------

    def find(self, kind: str, name: str, guest: Guest) -> Route | Local | None:
        """Return whose something is, from what is known."""
        if _KEYS[kind] == "name":
            found = self._route(self._published[kind].find(name))
            if found is None and self._has_bridges and kind == "tools":
                return self._bridges.find(name, lambda: self.gathering.places(guest), guest)
            return found
        for each in self._uri_kinds(kind):
            self.refresh(each, guest)
        return self._owner(kind, name)

    async def look(self, kind: str, name: str, guest: Guest) -> Route | Local:
        """Find out whose something is.

        Raises:
            UnknownTool: There is no such thing, or too many that may be meant.
        """
        kinds = self._uri_kinds(kind) if _KEYS[kind] != "name" else (kind,)
        late = set[str]()
        for each in kinds:
            late |= {*(await self.gathering.gather(each, guest)).pending}
        found = self._known(kind, name, guest)
        if found is None and (patient := self._may_have(kind, name, late)):
            with trio.move_on_after(LOOK_SECONDS):
                await self._await(kinds, patient, guest)
            found = self._known(kind, name, guest)
        if found is None and _KEYS[kind] != "name":
            found = self._only_owner(name, guest)
        if found is None:
            raise self._unknown(kind, name)
        return found

    def _known(self, kind: str, name: str, guest: Guest) -> Route | Local | None:
        """Return whose something is by all that is known now."""
        published = self.refresh(kind, guest)
        if (found := self.find(kind, name, guest)) is None and _KEYS[kind] == "name":
            return self._route(published.called(name))
        return found

    def _route(self, pair: Pair | None) -> Route | None:
        return None if pair is None or not self.gathering.has(pair.server) else Route(*pair)

    def _may_have(self, kind: str, name: str, late: set[str]) -> list[str]:
        """Return the servers that are still starting and that a name may be of, by what it begins with."""
        if _KEYS[kind] != "name":
            return list(late)
        bare = _STYLED.sub("", name)
        return [server for server in late if bare.startswith(names.clean(server)[:_TELLING_CHARACTERS])]

    async def _await(self, kinds: Sequence[str], servers: list[str], guest: Guest) -> None:
        """Wait for some servers to list; what they cannot list is not there."""

        async def ask(kind: str, server: str) -> None:
            with contextlib.suppress(McpdError):
                await self._broker.at(server, guest, lambda place: place.catalog.listing(kind))

        async with trio.open_nursery() as nursery:
            for server in servers:
                for kind in kinds:
                    nursery.start_soon(ask, kind, server)

    def _unknown(self, kind: str, name: str) -> UnknownTool:
        what = "resource" if _KEYS[kind] != "name" else kind.removesuffix("s")
        near = self._near(kind, name)
        return UnknownTool(
            f"there is no {what} '{name[:200]}'",
            hint=f"did you mean {', '.join(near)}?" if near else f"mcpd {kind}",
            may_have_run=False,
            near=near,
        )

    def _near(self, kind: str, name: str) -> list[str]:
        """Return what may have been meant: of the server that the name begins with, or of any by its own name."""
        called, bare = self._published[kind].names, _STYLED.sub("", name)
        servers = {server for server in self.gathering.servers if bare.startswith(names.clean(server))}
        if servers:
            return nearest(name, [one for pair, one in called.items() if pair.server in servers][:MOST_COMPARED])
        plain = {pair.name: one for pair, one in called.items()}
        return [plain[one] for one in nearest(name, list(plain)[:MOST_COMPARED])]

    # -- resources -------------------------------------------------------------------------------

    @staticmethod
    def _uri_kinds(kind: str) -> tuple[str, str]:
        """Return which lists a uri may be on, the likelier one first."""
        return ("templates", "resources") if kind == "templates" else ("resources", "templates")

    def _owner(self, kind: str, uri: str) -> Route | None:
        """Return whose a uri is: that of the server that it names, of one that lists it, or has a template for it."""
        if (named := names.whose(uri)) is not None and self.gathering.has(named.server):
            return Route(*named)
        if len(servers := self.gathering.servers) == 1:
            return Route(servers[0], uri)
        for each in self._uri_kinds(kind):
            if (route := self._route(self._published[each].find(uri))) is not None:
                return route
        fitting = [
            (own, Route(pair.server, uri))
            for pair in self._published["templates"].names
            if (own := names.fits(pair.name, uri)) is not None
        ]
        return max(fitting, key=lambda one: one[0])[1] if fitting else None

    def _only_owner(self, uri: str, guest: Guest) -> Route | None:
        """Return the only server that has resources, whatever they are."""
        owners = [place.name for place in self.gathering.places(guest) if offers(place, "resources")]
        return Route(owners[0], uri) if len(owners) == 1 else None

    def result(self, route: Route, result: Raw, guest: Guest) -> Raw:
        """Return a result with uris that lead back to its server; all else bit-exact."""
        looked = False

        def rename(uri: str) -> str:
            nonlocal looked
            if not looked:  # once for all of them, and not at all for a result that has none
                looked = True
                return self.uri(route.server, uri, guest)
            return self._as_published(route.server, uri)

        return links.renamed(result, rename)

    def uri(self, server: str, uri: str, guest: Guest) -> str:
        """Return the published uri of a server's resource: its own, if that leads to it."""
        for each in self._uri_kinds("resources"):
            self.refresh(each, guest)
        return self._as_published(server, uri)

    def _as_published(self, server: str, uri: str) -> str:
        return uri if self._owner("resources", uri) == Route(server, uri) else names.of_server(server, uri)


def _renamed(kind: str, descriptor: Raw, server: str, name: str) -> Raw:
    """Return a descriptor with the name that it is published under; a schema is never touched."""
    key = _KEYS[kind]
    members = rawjson.members(descriptor, "a descriptor")
    if key != "name" and rawjson.string(members[key]) == name:
        return descriptor
    members[key] = Raw(msgspec.json.encode(name))
    if key == "name" and "title" in members:
        with contextlib.suppress(ServerProtocol):
            if (title := rawjson.string(members["title"])) is not None:
                members["title"] = Raw(msgspec.json.encode(f"{server}: {title}"))
    return Raw(msgspec.json.encode(members))
