"""Many callers over one transport: requests out, answers back to whom they belong.

The channel runs inside the reader that got the bytes; nothing here waits. A server's `ping` is answered
here; what else it asks goes to `on_request`, and is answered with `respond` or `refuse`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec
from msgspec import Raw

from mcpd.errors import McpdError, ServerProtocol, TooLarge
from mcpd.protocol import jsonrpc, mcp, rawjson
from mcpd.protocol.jsonrpc import Message
from mcpd.protocol.peer import Kind, Peer
from mcpd.protocol.session import Session
from mcpd.timers import Timers

from .exchange import Exchange

# A garbled line may be the cut-off twin of a good one that follows; after this it was the answer.
GARBLED_SECONDS = 0.25
# A server that asks and never reads gets no further answers queued.
MAX_BACKLOG_BYTES = 1 << 20
# Messages in one batch; more are no batch.
MAX_BATCH = 1000


class Transport(Protocol):
    """Moves whole messages; the seam between stdio and HTTP."""

    @property
    def backlog_bytes(self) -> int:
        """How much waits to be written."""

    def send(self, body: bytes) -> bytes:
        """Queue a message; return the handle for the other two."""

    def untouched(self, frame: bytes) -> bool:
        """Whether the write of a message has not begun."""

    def withdraw(self, frame: bytes) -> bool:
        """Take an untouched message back."""


class Channel:
    """The requests of all callers on one incarnation.

    Attributes:
        counts: stray lines and messages by kind.
        on_notification: gets what a server notifies, other than progress of a pending request.
        on_request: gets what a server asks, other than `ping`.
        on_late: gets the id of a request that was given up and is answered all the same.
        on_idle: called whenever an answer leaves nothing in flight; set while draining.
        origin: the id of the request over whose stream the message came that is being handled; empty if
            the transport has one stream for all.
    """

    def __init__(self, timers: Timers, on_notification: Callable[[Message], None], message_bytes: int) -> None:
        self._timers = timers
        self._message_bytes = message_bytes
        self._peer: Peer[Exchange] = Peer()
        self._transport: Transport | None = None
        self.on_notification = on_notification
        self.on_late: Callable[[bytes], None] = lambda request_id: None
        self.on_request: Callable[[Message], None] = lambda message: self.refuse_unknown(message)
        self.on_idle: Callable[[], None] | None = None
        self.origin = b""

    def attach(self, transport: Transport) -> None:
        """Use a transport; what was pending on an earlier one is forgotten."""
        self._peer = Peer()
        self._transport = transport

    @property
    def counts(self) -> Counter[str]:
        """What was dropped, by kind."""
        return self._peer.counts

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answer, those that last not counted."""
        return sum(not one.lasting for one in self._peer.pending.values())

    def request(self, exchange: Exchange, session: Session) -> None:
        """Number a request and send it."""
        exchange.id = request_id = self._peer.register(exchange)
        method, params = exchange.compose(session, request_id)
        exchange.frame = self._send(jsonrpc.request(request_id, method, params))

    def notify(self, method: str, params: bytes | None = None) -> None:
        """Send a notification."""
        self._send(jsonrpc.notification(method, params))

    def _send(self, body: bytes) -> bytes:
        if self._transport is None:
            return b""
        return self._transport.send(body)

    @property
    def exchanges(self) -> Iterable[Exchange]:
        """What is pending."""
        return self._peer.pending.values()

    def holds(self, exchange: Exchange) -> bool:
        """Whether a request is pending here."""
        return self._peer.pending.get(exchange.id) is exchange

    def began(self, exchange: Exchange) -> bool:
        """Whether the write of a request has begun, so that it may have run."""
        return self._transport is not None and not self._transport.untouched(exchange.frame)

    def give_up(self, exchange: Exchange, reason: str) -> bool:
        """Forget a pending request and tell the server, unless it was not sent at all.

        Returns:
            Whether it may have run.
        """
        if self._peer.abandon(exchange.id) is None or self._transport is None:
            return False
        if self._transport.withdraw(exchange.frame):
            return False
        self.notify(
            "notifications/cancelled",
            b'{"requestId":%b,"reason":%b}' % (exchange.id, msgspec.json.encode(reason)),
        )
        return True

    def forget(self, exchange: Exchange) -> None:
        """Forget a pending request without telling the server; its answer counts as late."""
        self._peer.abandon(exchange.id)

    def take_unsent(self) -> list[Exchange]:
        """Remove and return the requests whose write has not begun: they may go elsewhere."""
        transport = self._transport
        if transport is None:
            return []
        unsent = [one for one in self._peer.pending.values() if not one.lasting and transport.withdraw(one.frame)]
        for one in unsent:
            del self._peer.pending[one.id]
        return unsent

    @property
    def asker(self) -> Exchange | None:
        """The request over whose stream the message came that is being handled."""
        return self._peer.pending.get(self.origin) if self.origin else None

    def take(self, request_id: bytes) -> Exchange | None:
        """Remove and return one request, if it is pending; it is not answered here any more."""
        return self._peer.abandon(request_id)

    def fail(self, request_id: bytes, problem: McpdError) -> None:
        """Fail one request, if it is pending."""
        if (exchange := self.take(request_id)) is not None:
            exchange.on_failure(problem)
            if self.on_idle is not None and not self.in_flight:
                self.on_idle()

    def take_all(self) -> list[Exchange]:
        """Remove and return what is pending."""
        return self._peer.take_all()

    # -- what the transport hands over -----------------------------------------------------------

    def on_line(self, line: bytes | bytearray) -> None:
        """Take one line of the server's."""
        if line[:1] == b"[":
            self._batch(line)
            return
        kind, exchange, message = self._peer.receive(line)
        if kind is Kind.RESULT:
            exchange.on_result(message.result)  # type: ignore[union-attr]  # there is one, by the kind
        elif line.isascii() or _is_utf8(line):
            self._dispatch(kind, exchange, message)
        elif kind is Kind.ERROR and exchange is not None:
            exchange.on_failure(ServerProtocol("the answer is not UTF-8", may_have_run=True))
        else:
            self.counts["noise"] += 1
        if self.on_idle is not None and not self.in_flight:
            self.on_idle()

    def _dispatch(self, kind: Kind, exchange: Exchange | None, message: Message) -> None:
        if kind is Kind.NOTIFICATION:
            self._notified(message)
        elif kind is Kind.ERROR:
            exchange.on_error(message.error)  # type: ignore[union-attr]  # as above
        elif kind is Kind.REQUEST:
            self._asked(message)
        elif kind is Kind.LATE:
            self.on_late(bytes(message.id))
        elif kind is Kind.BROKEN:
            exchange.on_failure(  # type: ignore[union-attr]  # as above
                ServerProtocol("the answer has neither result nor error", may_have_run=True)
            )
        elif kind is Kind.GARBLED:
            self._garbled(exchange, message)

    def _batch(self, line: bytes | bytearray) -> None:
        """Take a batch apart: only revision 2025-03-26 has them, and only a whole one counts."""
        try:
            parts = rawjson.elements(bytes(line), "a batch")
        except ServerProtocol:
            parts = []
        if not 0 < len(parts) <= MAX_BATCH:
            self.counts["noise"] += 1
            return
        for part in parts:
            if bytes(part)[:1] != b"[":
                self.on_line(bytes(part))

    def _garbled(self, exchange: Exchange | None, message: Message) -> None:
        request_id, why, peer = bytes(message.id), message.method, self._peer

        def fail() -> None:
            if peer.pending.get(request_id) is exchange and exchange is not None:
                peer.abandon(request_id)
                exchange.on_failure(ServerProtocol(f"the answer is not valid JSON: {why}", may_have_run=True))

        self._timers.after(GARBLED_SECONDS, fail)

    def on_overlong(self, head: bytes) -> bool:
        """Fail the call that a line over the limit answers; False if it names none."""
        request_id = jsonrpc.guess_id(head, whole=False)
        exchange = self._peer.abandon(request_id) if request_id else None
        if exchange is None:
            return False
        exchange.on_failure(
            TooLarge(f"the answer is longer than {self._message_bytes} bytes (limits.message_bytes)", may_have_run=True)
        )
        return True

    def _notified(self, message: Message) -> None:
        if message.method == "notifications/progress":
            self._progressed(message.params)
        else:
            self.on_notification(message)

    def _progressed(self, params: Raw) -> None:
        try:
            token = bytes(msgspec.json.decode(params, type=mcp.Progress).progressToken)
        except (msgspec.MsgspecError, RecursionError):
            token = b""
        exchange = self._peer.pending.get(token)
        if exchange is None:
            self.counts["stray_progress"] += 1
        else:
            exchange.on_progress(params)

    def _asked(self, message: Message) -> None:
        if self._transport is not None and self._transport.backlog_bytes > MAX_BACKLOG_BYTES:
            self.counts["unanswered"] += 1
        elif message.method == "ping":
            self._send(jsonrpc.answer(bytes(message.id), b"{}"))
        else:
            self.on_request(message)

    def respond(self, request_id: bytes, result: bytes) -> None:
        """Answer what a server has asked; both are JSON."""
        self._send(jsonrpc.answer(request_id, result))

    def refuse(self, request_id: bytes, error: bytes) -> None:
        """Refuse what a server has asked; both are JSON."""
        self._send(jsonrpc.refusal(request_id, error))

    def refuse_unknown(self, message: Message) -> None:
        """Refuse a request whose method we do not have, or did not offer."""
        body = jsonrpc.error_body(jsonrpc.METHOD_NOT_FOUND, f"method not found: {(message.method or '')[:100]}")
        self.refuse(bytes(message.id), body)


def _is_utf8(line: bytes | bytearray) -> bool:
    """Whether a line can be passed on to those who decode it."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
