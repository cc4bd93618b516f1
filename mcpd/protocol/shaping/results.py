"""Complete results of a server of any era, for a client of any revision.

Spec: 2026-07-28 "Result" (`resultType`, `ttlMs`, `cacheScope`, `_meta` with the server's info); the content
blocks and `structuredContent` of each older revision.

A result is looked at once, one level deep. What does not change stays the same object; what does keeps
every value that is not spoken of here, byte by byte. A result that is no object is a `ServerProtocol`, and so
are content blocks that are no array where they have to be looked into; anything else that is malformed is passed
on as it came, as the client would have got it from the server itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Raw, Struct

from mcpd.protocol import mcp, rawjson
from mcpd.protocol.jsonrpc import ABSENT

from .blocks import carried, older_block

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["call", "read", "prompt", "complete"]

STRUCTURED_FROM = LINKS_FROM = "2025-06-18"

_COMPLETE, _NO_TTL, _PRIVATE = Raw(b'"complete"'), Raw(b"0"), Raw(b'"private"')
_NOTHING = (b"", b"null")
_COMPLETE_BYTES = b'"complete"'


class _Head(Struct, gc=False):
    """The members that may have to change; absent ones are empty."""

    result_type: Raw = msgspec.field(name="resultType", default=ABSENT)
    ttl_ms: Raw = msgspec.field(name="ttlMs", default=ABSENT)
    cache_scope: Raw = msgspec.field(name="cacheScope", default=ABSENT)
    meta: Raw = msgspec.field(name="_meta", default=ABSENT)
    structured: Raw = msgspec.field(name="structuredContent", default=ABSENT)
    content: Raw = ABSENT
    messages: Raw = ABSENT


class _Meta(Struct, gc=False):
    server: Raw = msgspec.field(name=mcp.META_SERVER, default=ABSENT)


class _Message(Struct, gc=False):
    content: Raw = ABSENT


_HEAD = msgspec.json.Decoder(_Head)
_META = msgspec.json.Decoder(_Meta)
_MESSAGE = msgspec.json.Decoder(_Message)


def to_legacy(result: Raw, kind: Kind, revision: str) -> Raw:
    """Return a complete result as a client that has negotiated `revision` may get it.

    `resultType`, `ttlMs`, `cacheScope` and the server's info in `_meta` go. So does `structuredContent`
    where the revision has none, or where it is no object, and a text block says what it said; a null is
    only put into words where there is nothing else. Links to resources and audio become
    text for revisions that do not know them.

    Raises:
        ServerProtocol: It is no object, or its content is no array where that matters.
    """
    head = rawjson.decode(_HEAD, result, "the result", "an object")
    changes: dict[str, Raw] = {}
    if head.result_type or head.ttl_ms or head.cache_scope:
        changes |= dict.fromkeys(("resultType", "ttlMs", "cacheScope"), ABSENT)
    if head.meta and _server(head.meta):
        meta = rawjson.members(head.meta, "`_meta` of the result")
        del meta[mcp.META_SERVER]
        changes["_meta"] = Raw(msgspec.json.encode(meta)) if meta else ABSENT
    if kind == "call":
        changes |= _older_call(head, revision)
    elif kind == "prompt" and revision < LINKS_FROM:
        changes |= _older_prompt(head.messages, revision)
    return _changed(result, changes) if changes else result


def to_modern(result: Raw, kind: Kind, server_info: Raw) -> Raw:
    """Return a result as a client of the modern era must get it.

    What is missing is added: `resultType`, for a resource also hints that let nobody keep it, and the
    server's info, if there is any. That is not added to a `_meta` that is no object.

    Raises:
        ServerProtocol: It is no object.
    """
    head = rawjson.decode(_HEAD, result, "the result", "an object")
    changes: dict[str, Raw] = {}
    if bytes(head.result_type) in _NOTHING:
        changes["resultType"] = _COMPLETE
    if kind == "read" and bytes(head.result_type) in (*_NOTHING, _COMPLETE_BYTES):
        if bytes(head.ttl_ms) in _NOTHING:
            changes["ttlMs"] = _NO_TTL
        if bytes(head.cache_scope) in _NOTHING:
            changes["cacheScope"] = _PRIVATE
    if server_info and not _server(head.meta) and rawjson.kind(head.meta) in ("an object", "null", "nothing"):
        meta = rawjson.members(head.meta, "`_meta`") if rawjson.kind(head.meta) == "an object" else {}
        changes["_meta"] = Raw(msgspec.json.encode(meta | {mcp.META_SERVER: server_info}))
    return _changed(result, changes) if changes else result


def _server(meta: Raw) -> Raw:
    """Return the server's info in a `_meta` that may be absent or anything else; empty if there is none."""
    return rawjson.decode(_META, meta, "`_meta`", "an object").server if rawjson.kind(meta) == "an object" else ABSENT


def _changed(result: Raw, changes: Mapping[str, Raw]) -> Raw:
    """Return an object with other values for some members; an empty one takes the member out."""
    members = rawjson.members(result, "the result")
    members.update(changes)
    return Raw(msgspec.json.encode({name: value for name, value in members.items() if value}))


def _older_call(head: _Head, revision: str) -> dict[str, Raw]:
    loses_structured = bool(head.structured) and (
        revision < STRUCTURED_FROM or rawjson.kind(head.structured) != "an object"
    )
    if not loses_structured and revision >= LINKS_FROM:
        return {}
    changes = {"structuredContent": ABSENT} if loses_structured else {}
    has_content = bytes(memoryview(head.content)[:8]) not in _NOTHING
    content = rawjson.elements(head.content, "`content` of the result") if has_content else []
    older = [older_block(block, revision) for block in content] if revision < LINKS_FROM else content
    if loses_structured and not carried(head.structured, content):
        older = [*older, _said(head.structured)]
    if any(new is not old for new, old in zip(older, content, strict=False)) or len(older) > len(content):
        changes["content"] = Raw(msgspec.json.encode(older))
    return changes


def _said(structured: Raw) -> Raw:
    """Return a text block with the JSON of a value."""
    rawjson.require_utf8(structured)
    return Raw(msgspec.json.encode({"type": "text", "text": bytes(structured).decode()}))


def _older_prompt(messages: Raw, revision: str) -> dict[str, Raw]:
    if rawjson.kind(messages) != "an array":
        return {}
    before = rawjson.elements(messages, "`messages` of the result")
    after = [_older_message(message, revision) for message in before]
    same = all(new is old for new, old in zip(after, before, strict=True))
    return {} if same else {"messages": Raw(msgspec.json.encode(after))}


def _older_message(message: Raw, revision: str) -> Raw:
    if rawjson.kind(message) != "an object":
        return message
    content = rawjson.decode(_MESSAGE, message, "a message", "an object").content
    older = older_block(content, revision)
    if older is content:
        return message
    return Raw(msgspec.json.encode(rawjson.members(message, "a message") | {"content": older}))
