"""What an HTTP answer without a message in its place says of the request, and of the server's era.

Spec: 2026-07-28 basic/transports/streamable-http, "Backward compatibility": a modern server that refuses a
request says so with an error of its revision; 400, 404 and 405 with anything else come from a legacy one.
401 and 403 are about who asks, and 429 and 5xx about now: they say nothing of the era.
"""

from __future__ import annotations

from . import jsonrpc
from .jsonrpc import NotJsonRpc
from .mcp import UNSUPPORTED_VERSION

# HeaderMismatch, MissingRequiredClientCapability, UnsupportedProtocolVersion.
HEADER_MISMATCH = -32020
MODERN_ERRORS = (HEADER_MISMATCH, -32021, UNSUPPORTED_VERSION)

# About who asks, and how often.
_NOT_OF_ERA = (401, 403, 407, 408, 425, 429)
# Where an older transport may be behind the same address.
OTHER_TRANSPORT = (400, 404, 405)
# What servers say of a session that they do not know any more, instead of the 404 that they should.
_SESSION_CODES = (-32000, -32001, -32600)


def error_in(body: bytes, request_id: bytes) -> bytes | None:
    """Return the message that refuses a request, if a body is one: as it came, or with the id that it left out."""
    try:
        message = jsonrpc.decode(body)
    except NotJsonRpc:
        return None
    error = bytes(message.error)
    if message.method or error[:1] != b"{":
        return None
    return jsonrpc.refusal(request_id, error)


def code_in(body: bytes) -> int | None:
    """Return the code of the error that a body carries, if it carries one."""
    try:
        error = jsonrpc.decode(body).error
    except NotJsonRpc:
        return None
    return jsonrpc.read_error(error).code if bytes(error)[:1] == b"{" else None


def of_probe(status: int, body: bytes, request_id: bytes) -> bytes | None:
    """Return what an answer to the probe means, as a message that answers it; None if it says nothing of the era.

    The error of a server is passed on, whatever its era; what else a legacy server says of a method that it does
    not know becomes a refusal. After a refusal it is asked the old question.
    """
    if status in _NOT_OF_ERA or 300 <= status < 400:
        return None
    if (error := error_in(body, request_id)) is not None:
        return error
    if status >= 500:
        return None
    return jsonrpc.refusal(request_id, jsonrpc.error_body(jsonrpc.METHOD_NOT_FOUND, f"HTTP {status}"))


def is_modern(body: bytes) -> bool:
    """Whether a body carries an error that only modern servers know."""
    return code_in(body) in MODERN_ERRORS


def forgot_session(status: int, body: bytes) -> bool:
    """Whether an answer to a request of a session says that there is none.

    404 is what the specification wants; many servers say 400, and name the session in their error.
    """
    if status == 404:
        return True
    return status == 400 and code_in(body) in _SESSION_CODES and b"session" in body.lower()
