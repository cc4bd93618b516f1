"""Write a member into the `_meta` of a result, and leave all the rest of it the bytes that came.

Every result that is passed on whole goes through here, so it must cost next to nothing: the result is
looked through once, to find out whether it has a `_meta`, and not taken apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct

from . import rawjson
from .jsonrpc import ABSENT

if TYPE_CHECKING:
    from collections.abc import Mapping

# Above this, moving the body costs more than a longer list for one `writev`.
COPY_BYTES = 1 << 16
# Enough to find the last brace of a result; one that ends in more blanks than this is copied.
TAIL_BYTES = 4096
# A list of parts has a length that the server chooses, and `writev` takes 1024.
MAX_MEMBERS = 64

Part = bytes | memoryview


class Head(Struct, gc=False):
    """The members of a result that a broker looks at; absent ones are empty."""

    meta: Raw = msgspec.field(name="_meta", default=ABSENT)
    result_type: Raw = msgspec.field(name="resultType", default=ABSENT)


_HEAD = msgspec.json.Decoder(Head)


def look(result: bytes | Raw) -> Head:
    """Return the head of a result.

    Raises:
        ServerProtocol: It is no JSON object.
    """
    return rawjson.decode(_HEAD, result, "the result", "an object")


def with_meta(result: bytes | Raw, key: bytes, value: bytes, head: Head | None = None) -> bytes | list[Part]:
    """Return a result with one more member in its `_meta`, all else bit-exact.

    Args:
        result: the JSON of a result.
        key: the name of the member, which needs no escapes.
        value: its JSON.
        head: what `look` has found, if that is known already.

    Returns:
        The JSON, or its parts where it is too long to copy; they share the memory of `result`.

    Raises:
        ServerProtocol: It is no JSON object, or has a `_meta` that is no object.
    """
    meta = (head or look(result)).meta
    if meta:
        return _merged(result, meta_members(meta) | {key.decode(): Raw(value)})
    if len(result) > COPY_BYTES:
        rawjson.require_utf8(result)
        if parts := _spliced(memoryview(result), b'"_meta":{"%b":%b}' % (key, value)):
            return parts
    text = bytes(result)
    if not text.isascii():
        rawjson.require_utf8(text)
    body = text[: text.rindex(b"}")].rstrip()
    # Before the closing brace of an object, an opening one can only be its own.
    comma = b"" if body.endswith(b"{") else b","
    return b'%b%b"_meta":{"%b":%b}}' % (body, comma, key, value)


def _spliced(result: memoryview, member: bytes) -> list[Part]:
    """Return a long object with one more member, in parts; nothing if its end looks unusual."""
    before_tail = len(result) - TAIL_BYTES
    head = bytes(result[before_tail:]).rstrip()[:-1].rstrip()
    if not head or head.endswith(b"{"):
        return []
    return [result[: before_tail + len(head)], b",%b}" % member]


def _merged(result: bytes | Raw, meta: Mapping[str, Raw]) -> bytes | list[Part]:
    rawjson.require_utf8(result)
    members = rawjson.members(result, "the result")
    members["_meta"] = Raw(msgspec.json.encode(meta))
    if len(result) <= COPY_BYTES or len(members) > MAX_MEMBERS:
        return msgspec.json.encode(members)
    parts: list[Part] = []
    for name, member in members.items():
        parts += (b"%b%b:" % (b"," if parts else b"{", msgspec.json.encode(name)), memoryview(member))
    return [*parts, b"}"]


def meta_members(meta: Raw) -> dict[str, Raw]:
    """Return the members of a `_meta` that may be absent (empty) or null.

    Raises:
        ServerProtocol: It is anything else but an object.
    """
    if not meta or rawjson.kind(meta) == "null":
        return {}
    return rawjson.members(meta, "`_meta` of the result")
