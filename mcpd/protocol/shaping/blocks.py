"""Content blocks for clients that do not know all of them, and whether blocks say what `structuredContent` does.

Spec: content types by revision: text, image, resource; audio from 2025-03-26; resource_link from 2025-06-18.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct

from mcpd.protocol import rawjson, structured
from mcpd.protocol.jsonrpc import ABSENT

if TYPE_CHECKING:
    from collections.abc import Sequence

AUDIO_FROM, LINKS_FROM = "2025-03-26", "2025-06-18"

# Comparing by value takes some 10 ms for each MiB, in which nobody else is served.
DEEP_BYTES = 1 << 20


class _Block(Struct, gc=False):
    type: Raw = ABSENT
    text: Raw = ABSENT
    name: Raw = ABSENT
    title: Raw = ABSENT
    uri: Raw = ABSENT
    data: Raw = ABSENT
    mime_type: Raw = msgspec.field(name="mimeType", default=ABSENT)
    annotations: Raw = ABSENT
    meta: Raw = msgspec.field(name="_meta", default=ABSENT)


_BLOCK = msgspec.json.Decoder(_Block)


def _look(block: Raw) -> _Block:
    """Return what a block says; nothing for one that is no object."""
    return rawjson.decode(_BLOCK, block, "a block", "an object") if rawjson.kind(block) == "an object" else _Block()


def older_block(block: Raw, revision: str) -> Raw:
    """Return a content block as a revision has it: a text block for one it does not know, else the same object.

    Annotations and `_meta` stay. What this cannot read, and types that no revision knows, stay as they are.
    """
    if revision >= LINKS_FROM:
        return block
    seen = _look(block)
    kind, text = rawjson.string(seen.type), ""
    if kind == "resource_link":
        said = (rawjson.string(seen.name) or rawjson.string(seen.title), rawjson.string(seen.uri))
        text = ": ".join(filter(None, said))
    elif kind == "audio" and revision < AUDIO_FROM:
        text = f"[{_audio(seen)}: this client's revision of MCP has no audio]"
    if not text:
        return block
    kept = {name: value for name, value in (("annotations", seen.annotations), ("_meta", seen.meta)) if value}
    return Raw(msgspec.json.encode({"type": "text", "text": text, **kept}))


def _audio(seen: _Block) -> str:
    """Return `audio`, its type and its size, as far as they are known."""
    data = rawjson.string(seen.data)
    size = f"{len(data) * 3 // 4 - data[-2:].count('=')} bytes" if data is not None else None
    return ", ".join(filter(None, ("audio", rawjson.string(seen.mime_type), size)))


def carried(value: Raw, content: Sequence[Raw]) -> bool:
    """Whether content blocks say all that a `structuredContent` does, so that it can be left out.

    A null says nothing beside other blocks: servers write it for what there is not. Where the value or
    the text is over `DEEP_BYTES`, only a text that is the very same counts.
    """
    if rawjson.kind(value) == "null":
        return bool(content)
    texts = [text for block in content if (text := _text(block)) is not None]
    rawjson.require_utf8(value)
    if bytes(value).decode() in texts:
        return True
    if len(value) > DEEP_BYTES:
        return False
    if rawjson.kind(value) == "a string" and rawjson.string(value) in texts:
        return True
    return structured.says([text for text in texts if len(text) <= DEEP_BYTES], value) or _repeats(content, value)


def _text(block: Raw) -> str | None:
    seen = _look(block)
    return rawjson.string(seen.text) if rawjson.string(seen.type) == "text" else None


def _repeats(content: Sequence[Raw], value: Raw) -> bool:
    blocks = Raw(msgspec.json.encode(content))
    return len(blocks) <= DEEP_BYTES and structured.repeats(blocks, value)
