"""An upstream's error for a client of another era or revision.

Spec: error codes of 2026-07-28 (-32020 … -32022, -32602 for a resource that is not there); 2025-11-25 and older
(-32002 for that); 2025-11-25 (-32042: pages have to be visited first).
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from mcpd.errors import InputRequired, ServerProtocol
from mcpd.protocol import jsonrpc, rawjson
from mcpd.protocol.capabilities import ELICIT
from mcpd.protocol.jsonrpc import ABSENT, INTERNAL_ERROR, INVALID_PARAMS

NOT_FOUND = -32002
URL_REQUIRED, URL_REQUIRED_IN = -32042, "2025-11-25"
MODERN_ONLY = range(-32022, -32019)

# A server that wants more visits at once is malformed.
MAX_PAGES = 16


class _Error(Struct, gc=False):
    """An error object as JSON-RPC wants it."""

    code: int
    message: str
    data: Raw = ABSENT


class _NotFound(Struct, gc=False):
    uri: Raw = ABSENT


class _Page(Struct, gc=False):
    """A page to visit; one without a URL is malformed."""

    url: str
    message: str = ""
    mode: str = "url"


class _Required(Struct, gc=False):
    elicitations: list[Raw]


_ERROR = msgspec.json.Decoder(_Error)
_NOT_FOUND = msgspec.json.Decoder(_NotFound)
_PAGE = msgspec.json.Decoder(_Page)
_REQUIRED = msgspec.json.Decoder(_Required)


def error(body: Raw, *, method: str, modern: bool, revision: str) -> bytes:
    """Return an upstream's error object for a client; the same bytes where nothing has to change.

    * A resource that is not there: -32002 becomes -32602 for modern clients. For legacy ones it is the other way round
      where `data.uri` says that this is what is meant, as -32602 also says that parameters were wrong.
    * -32042 is only known to clients of 2025-11-25. The others are told which pages to open; a modern one that can
      be asked gets `elicitations` as input requests instead.
    * -32020 … -32022 are between a modern client and its server. A legacy client did not take part in that: for it,
      it is an internal error with the same text and data.
    * What is no error object becomes one that quotes it, as most clients drop an answer that they cannot
      read and wait for ever.

    Args:
        body: what the server has put under `error`.
        method: what it was asked.
        modern: whether the client is.
        revision: the client's.
    """
    body, seen = _read(body)
    reads = method == "resources/read"
    if seen.code == URL_REQUIRED and (modern or revision != URL_REQUIRED_IN):
        return _readable(seen)
    if modern and reads and seen.code == NOT_FOUND:
        return _recoded(body, seen, INVALID_PARAMS)
    if not modern and reads and seen.code == INVALID_PARAMS and _names_uri(seen.data):
        return _recoded(body, seen, NOT_FOUND)
    if not modern and seen.code in MODERN_ONLY:
        return _recoded(body, seen, INTERNAL_ERROR)
    return bytes(body)


def elicitations(error: Raw) -> list[tuple[str, bytes]] | None:
    """Return the visits that a -32042 error asks for, as (method, params) of input requests for a modern client.

    None for another error, or one that asks for none, for too many, or for something else. Their ids are left out: a
    modern client learns by trying again that a visit is done.
    """
    seen = jsonrpc.read_error(error)
    pages = _pages(seen.data) if seen.code == URL_REQUIRED else []
    if not pages or len(pages) > MAX_PAGES or any(page.mode != "url" or not page.url for page in pages):
        return None
    asked = ({"mode": "url", "message": page.message or seen.message, "url": page.url} for page in pages)
    return [(ELICIT, msgspec.json.encode(params)) for params in asked]


def _read(body: Raw) -> tuple[Raw, _Error]:
    """Return an error object, the same one if it is one, and what it says."""
    try:
        return body, _ERROR.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        found = jsonrpc.read_error(body)
    seen = _Error(found.code, found.message or "the server gave no reason", found.data)
    return Raw(jsonrpc.error_body(seen.code, seen.message, seen.data or None)), seen


def _pages(data: Raw) -> list[_Page]:
    try:
        return [_page(one) for one in _REQUIRED.decode(data).elicitations]
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return []


def _page(raw: Raw) -> _Page:
    try:
        return _PAGE.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _Page("")


def _readable(seen: _Error) -> bytes:
    """Return a -32042 as an error whose text says which pages have to be opened."""
    pages = [page for page in _pages(seen.data) if page.url][:MAX_PAGES]
    text = seen.message or "pages have to be opened first"
    if pages:
        urls = ", ".join(dict.fromkeys(page.url for page in pages))
        shown = [{"message": page.message, "url": page.url} for page in pages]
        problem = InputRequired(f"{text} (open {urls}, then try again)", elicitations=shown)
        return msgspec.json.encode(problem.to_error())
    return msgspec.json.encode(InputRequired(text).to_error())


def _names_uri(data: Raw) -> bool:
    if rawjson.kind(data) != "an object":
        return False
    return rawjson.kind(_NOT_FOUND.decode(data).uri) == "a string"


def _recoded(body: Raw, seen: _Error, code: int) -> bytes:
    try:
        members = rawjson.members(body, "the error")
    except ServerProtocol:  # something beside code, message and data is broken, and no loss
        return jsonrpc.error_body(code, seen.message, seen.data or None)
    members["code"] = Raw(b"%d" % code)
    return msgspec.json.encode(members)
