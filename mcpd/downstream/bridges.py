"""Resources and prompts as tools, for hosts that know tools only.

For each server that has resources there are `mcp_resource__SERVER__list` and `…__read`, for each that has
prompts `mcp_prompt__SERVER__list` and `…__get`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec
import trio
from msgspec import Raw, Struct

from mcpd.broker.broker import Broker
from mcpd.broker.parties import Guest
from mcpd.broker.place import Place
from mcpd.broker.requests import PromptRequest, ReadRequest, Request
from mcpd.errors import BadRequest, McpdError, ShuttingDown
from mcpd.protocol import names, rawjson
from mcpd.protocol.capabilities import NOTHING
from mcpd.protocol.jsonrpc import ABSENT
from mcpd.protocol.names import Pair

from .commands import Waiter
from .shown import Local, Route
from .worded import mistake, text_result

if TYPE_CHECKING:
    from .connection import Connection

# Returns a result with the uris that are published.
Publish = Callable[[Route, Raw], Raw]


class _Kind(NamedTuple):
    """One of the four: of which capability, what it says of itself, and what it takes."""

    capability: str
    act: str
    description: str
    schema: dict[str, Any]


_URI = {"uri": {"type": "string", "description": "A uri that is listed, or made from a template"}}
_PROMPT = {
    "name": {"type": "string", "description": "The name of a prompt that is listed"},
    "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
}
KINDS = (
    _Kind("resources", "list", "List the resources of the MCP server {}, and the templates of their uris.", {}),
    _Kind("resources", "read", "Read a resource of the MCP server {}.", {"properties": _URI, "required": ["uri"]}),
    _Kind("prompts", "list", "List the prompts of the MCP server {}.", {}),
    _Kind("prompts", "get", "Get a prompt of the MCP server {}.", {"properties": _PROMPT, "required": ["name"]}),
)
LISTS = {"resources": {"resources": "resources", "templates": "resourceTemplates"}, "prompts": {"prompts": "prompts"}}


class _Wanted(Struct):
    """The arguments of all of them."""

    uri: str | None = None
    name: str | None = None
    arguments: Raw = ABSENT


class _Whole(Waiter):
    """Gets results as they came; nobody is asked on the way."""

    whole = True

    def __init__(self, guest: Guest) -> None:
        super().__init__(cast("Connection", guest), NOTHING)  # whoever sees this is one


class Bridges:
    """These tools over the servers of one connection."""

    def __init__(self, broker: Broker, publish: Callable[[Guest], Publish]) -> None:
        self._broker, self._publish = broker, publish

    def descriptors(self, places: list[Place]) -> list[Raw]:
        """Return the tools, of those servers that are known to have such things."""
        return [
            Raw(msgspec.json.encode({
                "name": name,
                "description": kind.description.format(server),
                "inputSchema": {"type": "object", **kind.schema},
                "annotations": {"readOnlyHint": True},
            }))
            for name, (server, kind) in self._named(places).items()
        ]  # fmt: skip

    def _named(self, places: list[Place]) -> dict[str, tuple[str, _Kind]]:
        found: dict[str, tuple[str, _Kind]] = {}
        for kind in KINDS:
            pairs = [Pair(place.name, kind.act) for place in places if offers(place, kind.capability)]
            minted = names.mcp(pairs, f"mcp_{kind.capability.removesuffix('s')}")
            found |= {name: (pair.server, kind) for pair, name in minted.items()}
        return found

    def find(self, name: str, places: Callable[[], list[Place]], guest: Guest) -> Local | None:
        """Return what one of these tools does."""
        if not name.startswith(("mcp_resource__", "mcp_prompt__")):
            return None
        server, kind = self._named(places()).get(name, ("", None))
        return None if kind is None else Local(partial(self._answer, guest, server, kind))

    async def _answer(self, guest: Guest, server: str, kind: _Kind, arguments: Raw) -> dict[str, Any]:
        try:
            wanted = msgspec.json.decode(bytes(arguments) or b"{}", type=_Wanted)
            if kind.act == "list":
                return await self._listed(guest, server, kind.capability)
            if kind.act == "read":
                return await self._read(guest, server, wanted)
            return await self._got(guest, server, wanted)
        except ShuttingDown:
            raise  # the next daemon can be asked
        except (msgspec.MsgspecError, RecursionError) as problem:
            return mistake(BadRequest(f"the arguments do not fit: {problem}"))
        except McpdError as problem:
            return mistake(problem)

    async def _listed(self, guest: Guest, server: str, capability: str) -> dict[str, Any]:
        async def lists(place: Place) -> dict[str, list[Raw]]:
            found = {}
            for kind, member in LISTS[capability].items():
                listing, _ = await place.catalog.listing(kind)
                found[member] = [raw for _, raw in listing.items]
            return found

        return text_result(msgspec.json.encode(await self._broker.at(server, guest, lists)).decode())

    async def _read(self, guest: Guest, server: str, wanted: _Wanted) -> dict[str, Any]:
        if wanted.uri is None:
            raise BadRequest("uri is missing")
        named = names.whose(wanted.uri)
        uri = named.name if named is not None and named.server == server else wanted.uri
        result = await self._result(guest, ReadRequest(server=server, uri=uri))
        contents = rawjson.elements(rawjson.members(result, "the result").get("contents", ABSENT), "`contents`")
        return {"content": [{"type": "resource", "resource": one} for one in contents]}

    async def _got(self, guest: Guest, server: str, wanted: _Wanted) -> dict[str, Any]:
        if wanted.name is None:
            raise BadRequest("name is missing")
        result = await self._result(guest, PromptRequest(server=server, name=wanted.name, arguments=wanted.arguments))
        content: list[object] = []
        for message in rawjson.elements(rawjson.members(result, "the result").get("messages", ABSENT), "`messages`"):
            members = rawjson.members(message, "a message")
            content += [{"type": "text", "text": f"{rawjson.string(members.get('role', ABSENT)) or 'user'}:"}]
            content += [members["content"]] if "content" in members else []
        return {"content": content}

    async def _result(self, guest: Guest, request: Request) -> Raw:
        """Send a request to a server and return its result.

        Raises:
            McpdError: There is none.
        """
        waiter = _Whole(guest)
        await trio.lowlevel.checkpoint_if_cancelled()
        call = self._broker.call(waiter, b"0", request)
        try:
            result, error = await waiter.outcome()
        finally:
            call.cancel("the client has left")
        if result is None:
            data = error.get("data")
            if isinstance(data, dict) and data.get("class") == ShuttingDown.kind:
                raise ShuttingDown(error["message"], server=request.server, may_have_run=False)
            raise McpdError(f"{error['message']}", server=request.server)
        return self._publish(guest)(Route(request.server, request.what), Raw(result))


def offers(place: Place, capability: str) -> bool:
    """Whether a server has resources, or prompts, as far as that is known."""
    session = place.slot.session or place.presenting.known
    if session is not None:
        return session.offers(capability)
    known = [place.catalog.known(kind) for kind in LISTS[capability]]
    return any(listing is not None and listing.items for listing in known)
