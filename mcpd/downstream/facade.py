"""Search mode: three tools that never change, whatever the servers have, for hosts with little room for tools.

`search_tools` finds tools, `describe_tool` shows one, `call_tool` calls it. What a model gets wrong is told to it
as the result, so that it can do better. Prompts and resources are those of all servers.
"""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from mcpd.broker.broker import Broker
from mcpd.broker.explaining import nearest
from mcpd.broker.parties import Guest
from mcpd.errors import BadRequest, McpdError, ShuttingDown, UnknownServer, UnknownTool
from mcpd.protocol import paging, rawjson
from mcpd.protocol.jsonrpc import ABSENT
from mcpd.protocol.names import Pair

from .aggregate import Aggregate
from .searching import DEFAULT_LIMIT, QUERY_CHARACTERS, Search, SearchParams
from .shown import Card, Local, Route, Shown, Through
from .worded import mistake, text_result

T = TypeVar("T")

# With more than these, `auto` searches.
DIRECT_TOOLS = 40
# The three tools stay what they are.
TTL_MS = 3_600_000
OPENING = (
    "The tools of several MCP servers are found with search_tools, shown with describe_tool and called with call_tool. "
    "The servers are:"
)
TOOLS: dict[str, dict[str, Any]] = {
    "search_tools": {
        "title": "Search tools",
        "description": "Find tools of all connected MCP servers by what they do. Returns names and descriptions, best "
        "first. Call a tool that was found with call_tool; describe_tool shows its arguments.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What the tool is to do, in a few words"},
                "server": {"type": "string", "description": "Search only this server"},
                "limit": {"type": "integer", "minimum": 1, "maximum": paging.MAX_LIMIT, "default": DEFAULT_LIMIT},
            },
            "required": ["query"],
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    "describe_tool": {
        "title": "Describe a tool",
        "description": "Show one tool in full: its description and the JSON Schema of its arguments. Give the name that "
        "search_tools returned, or server and tool.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "A name that search_tools returned"},
                "server": {"type": "string"},
                "tool": {"type": "string", "description": "The tool's name on that server"},
            },
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    "call_tool": {
        "title": "Call a tool",
        "description": "Call a tool that search_tools has found, and return its result.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "A name that search_tools returned"},
                "arguments": {"type": "object", "description": "The tool's arguments, as describe_tool shows them"},
            },
            "required": ["name"],
        },
    },
}
_DESCRIPTORS = [Raw(msgspec.json.encode({"name": name, **tool})) for name, tool in TOOLS.items()]


class _Searched(Struct):
    query: str
    server: str | None = None
    limit: int = DEFAULT_LIMIT


class _Named(Struct):
    """A tool by its published name, or by its own and its server's."""

    name: str | None = None
    server: str | None = None
    tool: str | None = None
    arguments: Raw = ABSENT


class _Schema(Struct, frozen=True):
    properties: dict[str, Any] = {}
    required: list[str] = []


class _Described(Struct):
    inputSchema: _Schema = _Schema()


class Facade:
    """What a connection sees in search mode.

    Args:
        broker: has the servers.
        aggregate: the servers as one.
        auto: show them as one if they have few tools; that is decided when the tools are first listed,
            or once enough of the servers have started to tell.
    """

    alone = False

    def __init__(self, broker: Broker, aggregate: Aggregate, *, auto: bool = False) -> None:
        self._broker, self._aggregate, self._search = broker, aggregate, Search(broker)
        self._is_direct: bool | None = None
        if not auto:
            self._decide(is_direct=False)

    def _decide(self, *, is_direct: bool) -> None:
        self._is_direct = is_direct
        if not is_direct:
            self._aggregate.gathering.unheard.add("tools")

    async def card(self, guest: Guest) -> Card:
        """Return how it presents itself; raises as that of the aggregate."""
        if self._is_direct is False:
            return await self._aggregate.present(OPENING, guest)
        if self._is_direct:
            return await self._aggregate.card(guest)
        return await self._aggregate.present(f"If there is a tool search_tools: {OPENING}", guest)

    async def listing(self, kind: str, guest: Guest) -> Shown:
        """Return the three tools, or what all servers have."""
        if kind != "tools":
            return await self._aggregate.listing(kind, guest)
        if self._is_direct is not False:
            shown = await self._aggregate.listing(kind, guest)
            is_direct = self._is_direct or len(shown.items) <= DIRECT_TOOLS
            if self._is_direct is None and not (is_direct and shown.pending):  # those that still start may have more
                self._decide(is_direct=is_direct)
            if is_direct:
                return shown
            self._broker.audience.unlisted(guest.key, kind)
        return Shown(list(_DESCRIPTORS), TTL_MS)

    def find(self, kind: str, name: str, guest: Guest) -> Route | Local | Through | None:
        """Return whose something is, from what is known; in either mode a tool of the other one is known, too."""
        own = self._own(name, guest) if kind == "tools" else None
        if self._is_direct:
            return self._aggregate.find(kind, name, guest) or own
        return own or self._aggregate.find(kind, name, guest)

    def _own(self, name: str, guest: Guest) -> Local | Through | None:
        match name:
            case "search_tools":
                return Local(partial(self._answer, self._searched, guest))
            case "describe_tool":
                return Local(partial(self._answer, self._described, guest))
            case "call_tool":
                return Through(partial(self._called, guest))
            case _:
                return None

    async def look(self, kind: str, name: str, guest: Guest) -> Route | Local | Through:
        """Find out whose something is; raises as that of the aggregate."""
        return await self._aggregate.look(kind, name, guest)

    def result(self, route: Route, result: Raw, guest: Guest) -> Raw:
        """Return a result with uris that lead back to its server."""
        return self._aggregate.result(route, result, guest)

    # -- the three tools -------------------------------------------------------------------------

    async def _answer(self, work: Any, guest: Guest, arguments: Raw) -> dict[str, Any]:
        """Return what a tool says, or what is wrong."""
        try:
            return text_result(await work(guest, arguments))
        except ShuttingDown:
            raise  # the next daemon can be asked
        except McpdError as problem:
            return mistake(problem)

    async def _searched(self, guest: Guest, arguments: Raw) -> str:
        wanted = _read(arguments, _Searched, "search_tools needs {query}")
        if not wanted.query.strip():
            raise BadRequest("query has no words")
        params = SearchParams(
            wanted.query[:QUERY_CHARACTERS], self._server(wanted.server), min(max(wanted.limit, 1), paging.MAX_LIMIT)
        )
        servers = self._aggregate.gathering.servers if params.server is None else [params.server]
        result: Any = await self._search.find(servers, guest, params)
        found: dict[str, Any] = {"tools": [self._hit(raw, guest) for raw in result["items"]], "total": result["total"]}
        if problems := result.get("problems"):
            found["not_searched"] = [problem["message"] for problem in problems]
        if not found["tools"]:
            found["hint"] = f"try other words; the servers are {', '.join(servers) or 'none'}"
        return msgspec.json.encode(found).decode()

    def _hit(self, raw: Raw, guest: Guest) -> dict[str, Any]:
        """Return a tool that was found, under the name to call it by."""
        item = msgspec.json.decode(raw)
        pair = Pair(item["server"], item["name"])
        name = self._aggregate.refresh("tools", guest).names.get(pair, f"{pair.server}.{pair.name}")
        shown = {"name": name, **{key: item[key] for key in ("title", "description") if key in item}}
        return shown | {"arguments": _arguments(self._aggregate.described(pair, guest))}

    async def _described(self, guest: Guest, arguments: Raw) -> str:
        route = await self._meant(_read(arguments, _Named, "describe_tool needs {name}, or {server, tool}"), guest)
        if isinstance(route, Local):
            raise UnknownTool("this tool is one of mcpd's own, and is not described; call it")
        if (descriptor := self._aggregate.described(Pair(*route), guest)) is None:
            raise UnknownTool(f"server '{route.server}' has no tool '{route.name[:200]}' any more", server=route.server)
        return bytes(descriptor).decode()

    async def _called(self, guest: Guest, arguments: Raw) -> tuple[Route, Raw] | dict[str, Any]:
        try:
            wanted = _read(arguments, _Named, "call_tool needs {name, arguments}")
            there, given = await self._meant(wanted, guest), _object(wanted.arguments)
            return await there.work(given) if isinstance(there, Local) else (there, given)
        except ShuttingDown:
            raise
        except McpdError as problem:
            return mistake(problem)

    async def _meant(self, wanted: _Named, guest: Guest) -> Route | Local:
        """Return which tool is meant.

        Raises:
            McpdError: There is none such.
        """
        if wanted.name is None and wanted.server is not None and wanted.tool is not None:
            server, tool = self._server(wanted.server) or "", wanted.tool
            listing, _ = await self._broker.at(server, guest, lambda place: place.catalog.listing("tools"))
            if tool not in listing.names:
                near = nearest(tool, listing.names)
                hint = f"did you mean {', '.join(near)}?" if near else "search_tools finds others"
                raise UnknownTool(f"server '{server}' has no tool '{tool[:200]}'", server=server, hint=hint, near=near)
            return Route(server, tool)
        if (name := wanted.name or wanted.tool) is None:
            raise BadRequest("the name of the tool is missing", hint="search_tools finds it")
        try:
            return self._aggregate.find("tools", name, guest) or await self._aggregate.look("tools", name, guest)
        except UnknownTool as problem:
            problem.hint = problem.hint if problem.details.get("near") else "search_tools finds others"
            raise

    def _server(self, name: str | None) -> str | None:
        """Return the name of a server that there is; None for none.

        Raises:
            UnknownServer: There is none such.
        """
        servers = self._aggregate.gathering.servers
        if name is not None and name not in servers:
            near = ", ".join(nearest(name, servers) or servers[:20])
            raise UnknownServer(f"there is no server '{name[:200]}'", hint=f"there is {near}" if near else None)
        return name


def _read(arguments: Raw, kind: type[T], what: str) -> T:
    """Return the arguments of one of our tools.

    Raises:
        BadRequest: They do not fit.
    """
    try:
        return msgspec.json.decode(bytes(arguments) or b"{}", type=kind, strict=False)
    except (msgspec.MsgspecError, RecursionError) as problem:
        raise BadRequest(f"{what}: {str(problem).replace(' - at `$', ' - at `')[:300]}") from None


def _object(arguments: Raw) -> Raw:
    """Return a tool's arguments; models also write them as a string that has the JSON.

    Raises:
        BadRequest: They are no object.
    """
    if not arguments or rawjson.kind(arguments) == "null":
        return Raw(b"{}")
    if rawjson.kind(arguments) == "a string":
        try:
            arguments = msgspec.json.decode(msgspec.json.decode(arguments, type=str), type=Raw)
        except (msgspec.MsgspecError, RecursionError):
            raise BadRequest("arguments is a string, and must be an object") from None
    if rawjson.kind(arguments) != "an object":
        raise BadRequest(f"arguments is {rawjson.kind(arguments)}, and must be an object")
    return arguments


def _arguments(descriptor: Raw | None) -> str:
    """Return what a tool takes, in a few words: `query: string, limit?: integer`."""
    try:
        schema = msgspec.json.decode(descriptor or b"{}", type=_Described).inputSchema
    except (msgspec.MsgspecError, RecursionError):
        return "see describe_tool"
    words = []
    for name, one in schema.properties.items():
        kind = one.get("type") if isinstance(one, dict) else None
        words.append(f"{name}{'' if name in schema.required else '?'}{f': {kind}' if isinstance(kind, str) else ''}")
    return ", ".join(words)[:500]
