"""`mcpd/call`, `read`, `prompt`, `complete` and `fetch`: requests to servers, and the rest of their results."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import trio
from msgspec import Raw, Struct

from mcpd.broker.broker import Broker
from mcpd.broker.requests import VIEW_BYTES, CompleteRequest, PromptRequest, ReadRequest, Request, ToolRequest
from mcpd.broker.results import ResultStore
from mcpd.errors import BadRequest
from mcpd.protocol import bounding, jsonrpc, rawjson

from .connection import Connection
from .params import decoder, read_params


class FetchParams(Struct):
    """`params` of mcpd/fetch."""

    handle: str
    offset: int | None = None
    max_bytes: int = VIEW_BYTES


def checked(method: str, request: Request) -> Request:
    """Return a request whose values make sense.

    Raises:
        BadRequest: They do not.
    """
    if isinstance(request, ToolRequest):
        if bytes(memoryview(request.arguments)[:1]) != b"{":
            if bytes(request.arguments) != b"null":
                raise BadRequest(f"{method}: arguments must be an object")
            request.arguments = Raw(b"{}")
    elif isinstance(request, PromptRequest):
        _require_strings(method, request.arguments)
    if request.timeout is not None and not request.timeout > 0:
        raise BadRequest(f"{method}: timeout must be a number of seconds over 0")
    if request.max_bytes < 1:
        raise BadRequest(f"{method}: max_bytes must be at least 1")
    return request


def _require_strings(method: str, arguments: Raw) -> None:
    """Spec: the arguments of a prompt are strings."""
    if rawjson.kind(arguments or Raw(b"null")) == "null":
        return
    if rawjson.kind(arguments) != "an object":
        raise BadRequest(f"{method}: arguments must be an object")
    for name, value in rawjson.members(arguments, "arguments").items():
        if rawjson.string(value) is None:
            raise BadRequest(f"{method}: argument '{name[:100]}' must be a string")


class Calls:
    """Sends what clients ask to the broker."""

    def __init__(self, broker: Broker, store: ResultStore) -> None:
        self._broker, self._store = broker, store
        self._tool = decoder(ToolRequest)

    def call(self, connection: Connection, request_id: bytes, params: Raw) -> None:
        """Call a tool: the hot path."""
        try:
            request = self._tool(params or b"{}")
        except (msgspec.MsgspecError, ValueError, RecursionError):
            request = read_params("mcpd/call", self._tool, params)  # says what is wrong with them
        if request.timeout is not None or request.max_bytes < 1 or bytes(memoryview(request.arguments)[:1]) != b"{":
            checked("mcpd/call", request)
        call = self._broker.call(connection, request_id, request)
        if not call.over:
            connection.calls[request_id] = call

    def sender(self, method: str) -> Callable[[Connection, bytes, Request], None]:
        """Return the handler of one of the other methods."""

        def handle(connection: Connection, request_id: bytes, request: Request) -> None:
            self.send(connection, request_id, method, request)

        return handle

    def send(self, connection: Connection, request_id: bytes, method: str, request: Request) -> None:
        """Send a request on its way and file it with its connection."""
        call = self._broker.call(connection, request_id, checked(method, request))
        if not call.over:
            connection.calls[request_id] = call

    def fetch(self, connection: Connection, request_id: bytes, p: FetchParams) -> None:
        """Answer with the next part of a result that was cut."""
        whole, following = self._store.get(p.handle, None, trio.current_time())
        page = bounding.page(whole, following if p.offset is None else p.offset, max(p.max_bytes, 1))
        self._store.turn(p.handle, whole.bytes if page.next_offset is None else page.next_offset)
        described: dict[str, object] = {"handle": p.handle}
        if whole.cut_from:
            described |= {"kept": whole.bytes, "of": whole.cut_from}
        connection.send(jsonrpc.answer(request_id, bounding.view(whole, page, described)))


METHODS: dict[str, type[Request]] = {
    "mcpd/read": ReadRequest,
    "mcpd/prompt": PromptRequest,
    "mcpd/complete": CompleteRequest,
}
