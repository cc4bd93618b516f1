"""One connection to the daemon without I/O: request ids, correlation, and the first cause of its end.

A driver sends the bytes that `start`, `notify` and `abandon` return, feeds what it receives to
`receive_data`, and asks `take_reply` for the outcome. The protocol is JSON-RPC 2.0, one UTF-8 JSON
value per line. Text that arrives is kept as it came, so that a result can be passed on unchanged.
"""

from __future__ import annotations

import json

from mcpd_client.errors import ClientError, ConnectionLost, RemoteProtocolError, RequestFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

# The daemon never writes a longer line: its own limit for a message, and some room for the envelope.
MAX_LINE_BYTES = 64 * 1024 * 1024 + 65536


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class RawJSON(str):
    """A JSON text that goes out as it is; line breaks between its tokens become spaces."""

    __slots__ = ()


class Reply:
    """The answer to one request: a result or an error, and the line it came in."""

    __slots__ = ("_line", "error", "result")

    def __init__(self, message: dict[str, Any], line: str) -> None:
        self.result: Any = message.get("result")
        self.error: dict[str, Any] | None = message.get("error")
        self._line = line

    def result_text(self) -> str:
        """Return the result as the daemon wrote it, numbers and order of members included."""
        return _result_text(self._line) or encode(self.result)


class ClientConnection:
    """Requests, replies and notifications of one connection."""

    def __init__(self, *, first_id: int = 1) -> None:
        self._next_id = first_id
        self._buffer = bytearray()
        self._searched_bytes = 0
        self._pending: set[int] = set()
        self._replies: dict[int, Reply] = {}
        self._incoming: list[dict[str, Any]] = []
        # The daemon's requests that have no answer yet, by the JSON of their id; why not, if one is withdrawn.
        self._asked: dict[str, str | None] = {}
        self._cause: ClientError | None = None

    @property
    def closed(self) -> bool:
        """Whether the connection has ended, for whatever cause."""
        return self._cause is not None

    @property
    def has_pending(self) -> bool:
        """Whether a request is out that has no reply yet."""
        return bool(self._pending)

    def start(self, method: str, params: object = None) -> tuple[int, bytes]:
        """Return the id of a new request and the bytes to send.

        Args:
            method: its name.
            params: anything that JSON can say, or a `RawJSON`; None sends an empty object.

        Raises:
            ConnectionLost: this connection has ended.
        """
        if self._cause is not None:
            message = f"the connection has ended already: {self._cause.message}"
            raise ConnectionLost(message, may_have_run=False) from self._cause
        request_id = self._next_id
        self._next_id += 1
        self._pending.add(request_id)
        return request_id, _encode_line(f'"id":{request_id},', method, params)

    def adopt(self, request_id: int) -> None:
        """Expect the reply to a request that somebody else has sent over this connection."""
        self._pending.add(request_id)
        self._next_id = max(self._next_id, request_id + 1)

    def notify(self, method: str, params: object = None) -> bytes:
        """Return the bytes of a notification."""
        return _encode_line("", method, params)

    def ping(self) -> bytes:
        """Return the bytes of a request whose reply nobody takes: that something comes back is all."""
        request_id, data = self.start("ping")
        self._pending.discard(request_id)
        return data

    def abandon(self, request_id: int) -> bytes:
        """Forget a request; return the bytes that tell the daemon to stop working on it."""
        self._pending.discard(request_id)
        self._replies.pop(request_id, None)
        return self.notify("notifications/cancelled", {"requestId": request_id})

    def receive_data(self, data: bytes) -> None:
        """Take in what was received; empty `data` is the end of the stream.

        What is not the protocol ends the connection, and so does a line without end.
        """
        if self._cause is not None:
            return
        if not data:
            self.close(ConnectionLost("the connection to the daemon ended", may_have_run=bool(self._pending)))
            return
        self._buffer += data
        try:
            while (end := self._buffer.find(b"\n", self._searched_bytes)) >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                self._searched_bytes = 0
                self._receive_line(line)
            self._searched_bytes = len(self._buffer)
            if self._searched_bytes > MAX_LINE_BYTES:
                raise RemoteProtocolError(f"the daemon sent a line of more than {MAX_LINE_BYTES} bytes")
        except RemoteProtocolError as error:
            self.close(error)

    def take_reply(self, request_id: int) -> Reply | None:
        """Return the reply and forget the request; None while there is none.

        Raises:
            RequestFailed: the daemon answered with an error.
            ClientError: the connection ended first; the cause of that.
        """
        reply = self._replies.pop(request_id, None)
        if reply is None:
            if self._cause is not None:
                self.raise_cause()
            return None
        if reply.error is not None:
            raise RequestFailed(reply.error)
        return reply

    def has_reply(self, request_id: int) -> bool:
        """Tell whether a reply is there to be taken."""
        return request_id in self._replies

    def raise_cause(self) -> NoReturn:
        """Raise the cause for which this connection has ended."""
        raise self._cause or ConnectionLost("the connection has ended", may_have_run=True)

    def take_incoming(self) -> list[dict[str, Any]]:
        """Return the notifications and requests of the daemon that have come since the last time, in order."""
        incoming, self._incoming = self._incoming, []
        return incoming

    def withdrawal(self, request_id: object) -> str | None:
        """Return why a request of the daemon needs no answer any more; None if it needs one."""
        return self._asked.get(encode(request_id), "it is not wanted any more")

    def forget(self, request_id: object) -> None:
        """Forget a request of the daemon that gets no answer."""
        self._asked.pop(encode(request_id), None)

    def respond(self, request_id: object, result: object) -> bytes:
        """Return the bytes that answer a request of the daemon."""
        line = f'{{"jsonrpc":"2.0","id":{encode(request_id)},"result":{encode(result)}}}\n'.encode()
        self.forget(request_id)
        return line

    def refuse(self, request_id: object, message: str, code: int = -32601) -> bytes:
        """Return the bytes that answer a request of the daemon with an error; that of an unknown method by default."""
        self.forget(request_id)
        error = encode({"code": code, "message": message})
        return f'{{"jsonrpc":"2.0","id":{encode(request_id)},"error":{error}}}\n'.encode()

    def close(self, cause: ClientError) -> None:
        """End the connection; of several causes the first one is told to all who wait."""
        if self._cause is None:
            self._cause = cause
            self._pending.clear()

    def _receive_line(self, line: bytes) -> None:
        if not line.strip():
            return
        text, message = _decode_line(line)
        # A request is told by its method: its id may equal one of ours.
        if "method" in message:
            self._note_request(message)
            self._incoming.append(message)
            return
        request_id = message.get("id")
        if request_id is None and isinstance(message.get("error"), dict):
            self.close(RequestFailed(message["error"]))
        elif isinstance(request_id, int) and request_id in self._pending:
            self._pending.discard(request_id)
            self._replies[request_id] = Reply(_checked(message), text)

    def _note_request(self, message: dict[str, Any]) -> None:
        if "id" in message:
            self._asked[encode(message["id"])] = None
        elif message["method"] == "notifications/cancelled" and isinstance(params := message.get("params"), dict):
            key = encode(params.get("requestId"))
            if key in self._asked:
                self._asked[key] = str(params.get("reason") or "the daemon does not say why")


def encode(value: object) -> str:
    """Return `value` as compact JSON, or the text of a `RawJSON` in one line."""
    if isinstance(value, RawJSON):
        # A string cannot hold a raw line break, so that every one of them is white space.
        return value.replace("\r", " ").replace("\n", " ")
    return _encode(value)


def _encode_line(id_member: str, method: str, params: object) -> bytes:
    body = encode({} if params is None else params)
    return f'{{"jsonrpc":"2.0",{id_member}"method":{encode(method)},"params":{body}}}\n'.encode()


def _decode_line(line: bytes) -> tuple[str, dict[str, Any]]:
    try:
        text = line.decode()
        message = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError("the daemon sent a line that is not JSON", reason=str(error)) from None
    if not isinstance(message, dict):
        raise RemoteProtocolError("the daemon sent a line that is not a JSON-RPC message")
    return text, message


def _checked(message: dict[str, Any]) -> dict[str, Any]:
    error = message.get("error")
    if ("result" in message) == (error is not None) or not isinstance(error, dict | None):
        raise RemoteProtocolError("the daemon sent a reply with neither a result nor an error")
    return message


def _result_text(line: str) -> str | None:
    """Cut the result out of a reply in the form in which the daemon writes it; None if it is in another."""
    start = line.find(',"result":')
    text = line.rstrip()
    if not line.startswith('{"jsonrpc":"2.0","id":') or start < 0 or not text.endswith("}"):
        return None
    # The id is a number, so that nothing between can hold the key; a member after the result would stay in.
    if not line[len('{"jsonrpc":"2.0","id":') : start].isdigit():
        return None
    return text[start + len(',"result":') : -1]
