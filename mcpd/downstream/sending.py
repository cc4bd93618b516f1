"""The requests of an MCP client that go to a server: whose they are, and on their way."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from msgspec import Raw

from mcpd.broker.broker import Broker
from mcpd.broker.levels import LEVELS
from mcpd.broker.requests import CompleteRequest, PromptRequest, ReadRequest, Request, ToolRequest
from mcpd.errors import BadRequest, McpdError
from mcpd.protocol import rawjson, shaping
from mcpd.protocol.jsonrpc import ABSENT

from .asker import Asker
from .parking import PREFIX
from .requested import Ask
from .shown import Local, Route, Through

if TYPE_CHECKING:
    from .face import Face

EMPTY = Raw(b"{}")
Make = Callable[[Route], Request]


class Sending:
    """Sends requests of one face to the broker."""

    def __init__(self, face: Face, broker: Broker) -> None:
        self._face, self._broker, self._connection = face, broker, face.connection
        self._leveled = set[str]()

    def call(self, ask: Ask) -> None:
        """Call a tool."""
        name, arguments = ask.params.text("name"), ask.params.object("arguments")

        def request(route: Route) -> Request:
            return ToolRequest(server=route.server, tool=route.name, arguments=arguments)

        self._route(ask, "tools", name, "call", request)

    def prompt(self, ask: Ask) -> None:
        """Get a prompt."""
        arguments = ask.params.arguments

        def request(route: Route) -> Request:
            return PromptRequest(server=route.server, name=route.name, arguments=arguments)

        self._route(ask, "prompts", ask.params.text("name"), "prompt", request)

    def read(self, ask: Ask) -> None:
        """Read a resource."""

        def request(route: Route) -> Request:
            return ReadRequest(server=route.server, uri=route.name)

        self._route(ask, "resources", ask.params.text("uri"), "read", request)

    def complete(self, ask: Ask) -> None:
        """Complete an argument of a prompt or of a template."""
        params = ask.params
        members = rawjson_object(params.object("ref"), "ref")
        member, kind = ("uri", "templates") if "uri" in members else ("name", "prompts")
        name = rawjson.string(members.get(member, ABSENT))
        if name is None or not params.argument:
            raise BadRequest("completion/complete needs a ref with a name or a uri, and an argument")

        def request(route: Route) -> Request:
            ref = params.ref
            if route.name != name:
                ref = Raw(msgspec.json.encode(members | {member: Raw(msgspec.json.encode(route.name))}))
            return CompleteRequest(server=route.server, ref=ref, argument=params.argument, context=params.context)

        self._route(ask, kind, name, "complete", request)

    # -- whose it is -----------------------------------------------------------------------------

    def _route(self, ask: Ask, kind: str, name: str, shape: shaping.Kind, make: Make) -> None:
        """Send a request to whoever has what it asks for; find that out first where it is not known."""
        source = self._face.source
        found = source.find(kind, name, self._connection)
        if isinstance(found, Route):
            self._send(ask, Asker(self._face, ask, shape, found), make(found))
            return

        async def work() -> object:
            there = found or await source.look(kind, name, self._connection)
            if isinstance(there, Local):
                given = ask.params.object("arguments") if shape == "call" else Raw(msgspec.json.encode(name))
                return self._own(await there.work(given), shape, ask)
            if isinstance(there, Through):
                resolved = await there.resolve(ask.params.object("arguments"))
                if isinstance(resolved, dict):
                    return self._own(resolved, shape, ask)
                there, arguments = resolved
                request: Request = ToolRequest(server=there.server, tool=there.name, arguments=arguments)
            else:
                request = make(there)
            await trio.lowlevel.checkpoint_if_cancelled()
            asker = Asker(self._face, ask, shape, there)
            self._face.batch(partial(self._hand_over, ask, asker, request))
            return None  # the call answers

        self._face.start(ask, work)

    def _hand_over(self, ask: Ask, asker: Asker, request: Request) -> None:
        """Let a call take the place of the task that has found out whose it is."""
        self._connection.calls.pop(ask.id, None)
        try:
            self._send(ask, asker, request)
        except McpdError as problem:
            self._face.refuse(ask, problem)

    def _send(self, ask: Ask, asker: Asker, request: Request) -> None:
        params = ask.params
        request.meta = params.members or None
        if ask.is_modern:
            self._set_level(asker.route.server, params.log_level)
            state = rawjson.string(params.state) if params.state else None
            # A modern server may give such a state, too: another mcpd does.
            if state is not None and state.startswith(PREFIX) and not self._face.is_modern(asker.route.server):
                answers = rawjson_object(params.responses, "inputResponses")
                self._face.parking.resume(ask.id, state, asker, request.meta, answers)
                return
        call = asker.call = self._broker.call(asker, ask.id, request)
        if not call.over:
            self._connection.calls[ask.id] = call

    def _set_level(self, server: str, level: str | None) -> None:
        """Let the client hear the log of a server from this request on, until one to that server says otherwise."""
        if level is not None and level not in LEVELS:
            raise BadRequest(f"there is no log level '{level[:50]}'; one of {', '.join(LEVELS)}")
        if level is not None:
            self._broker.upstream(server).level(self._connection, level)
            self._leveled.add(server)
        elif server in self._leveled:
            self._leveled.discard(server)
            self._broker.upstream(server).level(self._connection, None)

    def _own(self, result: dict[str, Any], shape: shaping.Kind, ask: Ask) -> Raw:
        """Return a result of mcpd's own in the words of the client's revision."""
        raw = Raw(msgspec.json.encode(result))
        if ask.is_modern:
            return shaping.to_modern(raw, shape, self._face.own_info)
        return shaping.to_legacy(raw, shape, self._face.legacy_revision)


def rawjson_object(raw: Raw, what: str) -> dict[str, Raw]:
    """Return the members of an object of a client; an absent one has none.

    Raises:
        BadRequest: It is none.
    """
    try:
        return msgspec.json.decode(raw or EMPTY, type=dict[str, Raw])
    except (msgspec.MsgspecError, RecursionError):
        raise BadRequest(f"{what} must be an object") from None
