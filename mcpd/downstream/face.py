"""The MCP server face of one connection: any MCP client can use the socket, in any revision.

The era is decided per message: what carries the metadata of 2026-07-28 is modern, `initialize` opens a
legacy session at any time and any number of times, and what follows it without metadata belongs to that.

Spec: basic/lifecycle, server/* and basic/utilities/* of 2024-11-05 … 2025-11-25; 2026-07-28 basic, server/*.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from msgspec import Raw

from mcpd.broker.broker import Broker
from mcpd.broker.levels import LEVELS
from mcpd.errors import BadRequest, McpdError
from mcpd.mover import Mover
from mcpd.protocol import capabilities, jsonrpc, mcp, rawjson, shaping
from mcpd.protocol.budgets import Budget
from mcpd.protocol.session import Session
from mcpd.timers import Timers

from . import requested
from .hearing import Filter, Hearing
from .parking import Parking
from .requested import Ask, Params, UnknownVersion
from .sending import Sending
from .shown import Card, Source
from .visitor import Hello
from .worded import worded

if TYPE_CHECKING:
    from .connection import Connection

NO_INFO = Raw(b"")
# Method to the kind of list, and the member of its result.
LISTS: dict[str, tuple[shaping.ListKind, str]] = {
    "tools/list": ("tools", "tools"),
    "prompts/list": ("prompts", "prompts"),
    "resources/list": ("resources", "resources"),
    "resources/templates/list": ("templates", "resourceTemplates"),
}


class Face:
    """One client that speaks MCP.

    Attributes:
        connection: whose face it is.
        source: what it shows.
        revision: of the legacy session that is open; None while there is none.
        hearing: what the client hears without asking each time.
        parking: calls whose client has been asked something.
        budget: how much room the client has for descriptors.
    """

    def __init__(
        self, connection: Connection, source: Source, broker: Broker, mover: Mover, timers: Timers, *, resumed: bool
    ) -> None:
        self.connection, self.source, self._broker = connection, source, broker
        self.batch = mover.batch
        self.revision: str | None = None
        self.hearing = Hearing(self, broker, resumed=resumed)
        self.parking = Parking(self, timers)
        self.budget = Budget()
        self._card: Card | None = None
        # A list can be large: a client that does not read has only so many made for it.
        self._listing = trio.Semaphore(len(LISTS))
        sending = Sending(self, broker)
        both: dict[str, Callable[[Ask], None]] = {
            **dict.fromkeys(LISTS, self._list),
            "tools/call": sending.call,
            "prompts/get": sending.prompt,
            "resources/read": sending.read,
            "completion/complete": sending.complete,
        }
        self._legacy: dict[str, Callable[[Ask], None]] = {
            **both,
            "ping": lambda ask: connection.answer(ask.id, {}),
            "logging/setLevel": self._set_level,
            "resources/subscribe": lambda ask: self.start(ask, self.hearing.subscribing(ask.params.text("uri"))),
            "resources/unsubscribe": self._unsubscribe,
        }
        self._modern: dict[str, Callable[[Ask], None]] = {
            **both,
            "server/discover": self._discover,
            "subscriptions/listen": self._listen,
        }

    # -- what comes in ---------------------------------------------------------------------------

    def request(self, request_id: bytes, method: str, params: Params, *, is_modern: bool) -> None:
        """Handle one request; whatever is wrong with it is told to its client at once."""
        ask = Ask(request_id, method, params, is_modern)
        try:
            if method == "initialize" and not is_modern:
                self._initialize(ask)
                return
            if self.revision is None and not is_modern:
                raise needs_session(method)
            handle = (self._modern if is_modern else self._legacy).get(method)
            if handle is None:
                self.connection.refuse(request_id, jsonrpc.METHOD_NOT_FOUND, f"unknown method {method[:100]}")
                return
            if is_modern and self.revision is None:
                self._can_be_asked(params.capabilities)
            handle(ask)
        except McpdError as problem:
            self.refuse(ask, problem)

    def on_notification(self, message: jsonrpc.Request) -> None:
        """Take a notification of the client; those that concern nobody are dropped."""
        if message.method == "notifications/initialized" and self.revision is not None:
            self.hearing.initialized()

    def _can_be_asked(self, found: capabilities.Capabilities) -> None:
        """Note what the client can be asked at present: servers that start for it are offered that."""
        if found != self.connection.capabilities:
            self.connection.capabilities, self.connection.capabilities_json = found, found.to_json()

    @property
    def has_batches(self) -> bool:
        """Whether the client may send arrays of messages. Spec: 2025-03-26 only."""
        return self.revision == "2025-03-26"

    @property
    def can_be_asked(self) -> bool:
        """Whether requests can be sent to the client."""
        return self.revision is not None

    @property
    def legacy_revision(self) -> str:
        """The revision that a request without metadata goes by."""
        return self.revision or mcp.LEGACY[0]

    def half_closed(self) -> None:
        """Give up what a client that sends no more cannot go on with. Idempotent."""
        self.parking.close()
        self.connection.tasks.close()

    def close(self) -> None:
        """Give up everything: the client has left, or begins anew. Idempotent."""
        self.half_closed()
        self.hearing.close()

    # -- handshakes ------------------------------------------------------------------------------

    def _initialize(self, ask: Ask) -> None:
        params = ask.params
        said = rawjson.string(params.protocolVersion) if params.protocolVersion else None
        self.revision = revision = shaping.negotiated(said)
        self._can_be_asked(capabilities.read(params.declared))
        self.hearing.opened()

        async def work() -> Raw:
            card = await self._presented()
            offered = shaping.capabilities(card.capabilities, revision=revision)
            self.batch(lambda: self.hearing.presented(card.capabilities))
            return Raw(shaping.initialize_result(card.info, offered, card.instructions, revision))

        self.start(ask, work)

    def _discover(self, ask: Ask) -> None:
        async def work() -> Raw:
            card = await self._presented()
            offered = shaping.capabilities(card.capabilities, revision=mcp.MODERN[0])
            return Raw(shaping.discover_result(card.info, offered, card.instructions, ttl_ms=0, is_public=False))

        self.start(ask, work)

    async def _presented(self) -> Card:
        """Return how the source presents itself now; that may be another way than the last time."""
        card = self._card = await self.source.card(self.connection)
        return card

    @property
    def own_info(self) -> Raw:
        """The Implementation object of what the face shows, as far as it is known; else empty."""
        return NO_INFO if self._card is None else self._card.info

    def info_of(self, server: str) -> Raw:
        """Return the Implementation object of a server, for results that come from it; empty if it is not known."""
        session = self._session_of(server)
        return NO_INFO if session is None else session.server_info

    def is_modern(self, server: str) -> bool:
        """Whether a server is known to be of the modern era."""
        session = self._session_of(server)
        return session is not None and session.modern

    def _session_of(self, server: str) -> Session | None:
        upstream = self._broker.upstreams.get(server)
        return None if upstream is None else upstream.place_for(self.connection.seeker).presenting.known

    def has_queue(self, server: str) -> bool:
        """Whether calls wait for a place at the client's copy of a server."""
        upstream = self._broker.upstreams.get(server)
        return upstream is not None and bool(upstream.place_for(self.connection.seeker).admission.queued)

    # -- lists -----------------------------------------------------------------------------------

    def _list(self, ask: Ask) -> None:
        if bytes(ask.params.cursor) not in (b"", b"null"):
            raise BadRequest("there is no such cursor: a list comes as one page")
        kind, member = LISTS[ask.method]
        revision = mcp.MODERN[0] if ask.is_modern else self.legacy_revision

        async def work() -> Raw:
            async with self._listing:
                await self.connection.room()
                shown = await self.source.listing(kind, self.connection)
                items = [self.budget.fit(shaping.descriptor(kind, item, revision)) for item in shown.items]
                more = {"mcpd/pending": shown.pending, "mcpd/problems": shown.problems}
                return Raw(
                    shaping.list_result(
                        member, items, modern=ask.is_modern, ttl_ms=shown.ttl_ms, is_public=shown.is_public,
                        server_info=self.own_info, meta={key: value for key, value in more.items() if value},
                    )
                )  # fmt: skip

        self.start(ask, work)

    # -- what the client wants to hear -----------------------------------------------------------

    def _set_level(self, ask: Ask) -> None:
        level = ask.params.text("level")
        if level not in LEVELS:
            raise BadRequest(f"there is no log level '{level[:50]}'; one of {', '.join(LEVELS)}")
        self.connection.log_level = level
        places = self._broker.set_level(self.connection)

        async def work() -> object:
            for place in places:
                await place.interests.level_agreed()
            return {}

        self.start(ask, work)

    def _unsubscribe(self, ask: Ask) -> None:
        """End a subscription at once: a subscribe that follows must not be overtaken."""
        self.hearing.unsubscribe(ask.params.text("uri"))
        self.connection.answer(ask.id, {})

    def _listen(self, ask: Ask) -> None:
        try:
            wanted = msgspec.json.decode(ask.params.object("notifications"), type=Filter)
        except (msgspec.MsgspecError, RecursionError) as problem:
            raise BadRequest(f"notifications: {problem}") from None

        async def work() -> object:
            card = await self._presented()
            await self.hearing.listen(ask.id, wanted, card.capabilities)
            return {}

        self.start(ask, work, lasts=True)

    # -- answers ---------------------------------------------------------------------------------

    def start(self, ask: Ask, work: Callable[[], Awaitable[object]], *, lasts: bool = False) -> None:
        """Run a request that has to wait; its errors are worded for this client."""
        self.connection.start(ask.id, work, refusal=partial(self._worded, ask), lasts=lasts)

    def refuse(self, ask: Ask, problem: McpdError) -> None:
        """Answer a request with an error."""
        self.connection.send(jsonrpc.refusal(ask.id, msgspec.json.encode(self._worded(ask, problem))))
        self.connection.settle()

    def _worded(self, ask: Ask, problem: McpdError) -> dict[str, Any]:
        return worded(ask.method, problem.to_error(), is_modern=ask.is_modern)


def needs_session(method: str) -> BadRequest:
    """Return the error for a request that belongs to no session and has no metadata of its own."""
    return BadRequest(f"{method[:100]} needs an open session: send initialize first, or the metadata of {mcp.MODERN[0]}")


class Faces:
    """Makes the faces of connections when they are first spoken to in MCP.

    Args:
        sources: makes what a connection's hello says is to be shown.
    """

    def __init__(self, broker: Broker, mover: Mover, timers: Timers, sources: Callable[[Connection], Source]) -> None:
        self._broker, self._mover, self._timers, self._sources = broker, mover, timers, sources

    def request(self, connection: Connection, request_id: bytes, message: jsonrpc.Request) -> None:
        """Handle a request of a method that is not one of the socket's own."""
        method = message.method
        try:
            params = requested.read(message.params)
            is_modern = params.is_modern
            face = connection.face
            if face is None:
                if not is_modern and method == "ping":
                    connection.answer(request_id, {})
                    return
                if not is_modern and method != "initialize":
                    raise needs_session(method)
                face = connection.face = self._face(connection)
        except UnknownVersion as problem:
            body = jsonrpc.error_body(mcp.UNSUPPORTED_VERSION, str(problem), problem.data)
            connection.send(jsonrpc.refusal(request_id, body))
        except McpdError as problem:
            error = worded(method, problem.to_error(), is_modern=False)
            connection.send(jsonrpc.refusal(request_id, msgspec.json.encode(error)))
        else:
            face.request(request_id, method, params, is_modern=is_modern)

    def _face(self, connection: Connection) -> Face:
        hello = connection.visitor.hello or Hello()
        source = self._sources(connection)
        face = Face(connection, source, self._broker, self._mover, self._timers, resumed=hello.resumed)
        face.budget = Budget(hello.description_bytes, hello.schema_bytes)
        return face
