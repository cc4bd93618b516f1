"""JSON-RPC 2.0 messages whose bodies stay the bytes that came.

Only the envelope is decoded; `params`, `result` and `error` are `msgspec.Raw` and travel bit-exact.
The `jsonrpc` member is kept to tell an answer that lost its body from a log line that happens to
have an `id`; a wrong or missing one is forgiven, as servers get it wrong.

Spec: JSON-RPC 2.0; MCP basic, "Messages".
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Raw, Struct

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

ABSENT = Raw(b"")


class Message(Struct, gc=False):
    """One line: a request, a notification or an answer; absent members are empty."""

    jsonrpc: Raw = ABSENT
    id: Raw = ABSENT
    method: str | None = ""
    params: Raw = ABSENT
    result: Raw = ABSENT
    error: Raw = ABSENT


class NotJsonRpc(Exception):
    """The line is no JSON, or no object that could be a message."""


_decode = msgspec.json.Decoder(Message).decode


def decode(line: bytes | bytearray | memoryview) -> Message:
    """Decode the envelope of one line.

    Raises:
        NotJsonRpc: The line is not a JSON object with members of the right kinds; the text says why.
    """
    try:
        return _decode(line)
    except (msgspec.MsgspecError, ValueError) as problem:
        raise NotJsonRpc(str(problem)) from None
    except RecursionError:
        raise NotJsonRpc("nested too deeply") from None


class Request(Struct, gc=False):
    """One line of a client: a request or a notification; absent members are empty."""

    id: Raw = ABSENT
    method: str = ""
    params: Raw = ABSENT


_decode_request = msgspec.json.Decoder(Request).decode


def decode_request(line: bytes) -> Request:
    """Decode the envelope of a line that should be a request or a notification; raises as `decode`."""
    try:
        return _decode_request(line)
    except (msgspec.MsgspecError, ValueError) as problem:
        raise NotJsonRpc(str(problem)) from None
    except RecursionError:
        raise NotJsonRpc("nested too deeply") from None


def decode_batch(line: bytes) -> list[Raw]:
    """Return the elements of an array of messages. Spec: 2025-03-26 basic, "Batching".

    Raises:
        NotJsonRpc: It is no array.
    """
    try:
        return msgspec.json.decode(line, type=list[Raw])
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        raise NotJsonRpc(str(problem)) from None


# The id of a line that cannot be decoded as a whole: a member of the outermost object, at either end.
_FIRST = re.compile(rb'\s*\{[^{}\[\]]*?"id"\s*:\s*(\d{1,18}|"[^"\\\x00-\x1f\x80-\xff]{1,64}")\s*[,}]')
_LAST = re.compile(rb'"id"\s*:\s*(\d{1,18}|"[^"\\\x00-\x1f\x80-\xff]{1,64}")\s*(?:,[^{}\[\]]*)?\}\s*$')


def guess_id(line: bytes | bytearray, *, whole: bool = True, strings: bool = False) -> bytes | None:
    """Find the id of a line that cannot be decoded: a number, with `strings` also a plain string; or None.

    What looks like an id inside the result must not be taken for it. `whole`: the line's end is there.
    """
    found = _FIRST.match(bytes(line[:256]))
    if found is None and whole:
        found = _LAST.search(bytes(line[-64:]))
    return found[1] if found and (strings or found[1][:1] != b'"') else None


def request(request_id: bytes, method: bytes, params: bytes) -> bytes:
    """Return the line of a request; `request_id`, `method` (quoted) and `params` are JSON."""
    return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % (request_id, method, params)


def notification(method: str, params: bytes | None = None) -> bytes:
    """Return the line of a notification; `params` is JSON."""
    name = msgspec.json.encode(method)
    if params is None:
        return b'{"jsonrpc":"2.0","method":%b}' % name
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (name, params)


def answer(request_id: bytes, result: bytes) -> bytes:
    """Return the line that answers a request with a result (both JSON)."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (request_id, result)


def refusal(request_id: bytes, error: bytes) -> bytes:
    """Return the line that answers a request with an error object (both JSON)."""
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (request_id, error)


def error_body(code: int, message: str, data: Any = None) -> bytes:
    """Return an error object as JSON."""
    body: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        body["data"] = data
    return msgspec.json.encode(body)


class ErrorView(Struct):
    """What we read of an error object that came from elsewhere."""

    code: int = INTERNAL_ERROR
    message: str = ""
    data: Raw = ABSENT


_decode_error = msgspec.json.Decoder(ErrorView).decode


def read_error(error: Raw) -> ErrorView:
    """Read an error member leniently: servers put strings and worse there."""
    try:
        return _decode_error(error)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ErrorView(message=bytes(error)[:1000].decode("utf-8", "replace").strip('"'))
