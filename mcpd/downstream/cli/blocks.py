"""One content block of a result, as text.

Text is text. A picture, a sound or a file has one line that says what it is; what is unknown is shown as
the JSON that it came as.

Spec: 2025-11-25, server/tools, "Tool Result".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct

from mcpd.downstream.cli.text import one_line, size_text
from mcpd.protocol import rawjson
from mcpd.protocol.jsonrpc import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable

# Enough of a JPEG to get past its EXIF data, a multiple of four.
HEADER_CHARACTERS = 131072
LABEL_CHARACTERS = 100
URI_CHARACTERS = 2000
MAX_DIGITS = 15


class _Block(Struct, gc=False):
    type: Raw = ABSENT
    text: Raw = ABSENT
    data: Raw = ABSENT
    blob: Raw = ABSENT
    mimeType: Raw = ABSENT
    uri: Raw = ABSENT
    name: Raw = ABSENT
    size: Raw = ABSENT
    resource: Raw = ABSENT


_BLOCK = msgspec.json.Decoder(_Block)


def block_text(block: Raw) -> str:
    """Return the text of a block, without a newline of its own."""
    if rawjson.kind(block) != "an object":
        return single_line(block)
    seen = _BLOCK.decode(block)
    show = _KINDS.get(rawjson.string(seen.type) or "")
    text = show(seen) if show else None
    return single_line(block) if text is None else text


def is_text(block: Raw) -> bool:
    """Tell whether a block is text in its own right."""
    if rawjson.kind(block) != "an object":
        return False
    seen = _BLOCK.decode(block)
    if rawjson.kind(seen.resource) == "an object":
        seen = _BLOCK.decode(seen.resource)
    return rawjson.kind(seen.text) == "a string"


def single_line(value: bytes | Raw) -> str:
    """Return JSON in one line. A line end in it is white space: inside of strings it would be an escape."""
    return bytes(value).decode("utf-8", "replace").replace("\n", " ").replace("\r", " ")


def _text(seen: _Block) -> str | None:
    return rawjson.string(seen.text)


def _media(seen: _Block) -> str | None:
    data = rawjson.string(seen.data)
    if data is None:
        return None
    words = [_label(seen.mimeType) or _label(seen.type)]
    if size := image_size(data):
        words.append(f"{size[0]}x{size[1]}")
    return f"[{' '.join([*words, size_text(_decoded_bytes(data))])}: use --save DIR or -o FILE]"


def _link(seen: _Block) -> str | None:
    uri = _label(seen.uri, URI_CHARACTERS)
    if not uri:
        return None
    known = ", ".join(filter(None, [_label(seen.name), _label(seen.mimeType), _size(seen.size)]))
    return f"{uri} ({known})" if known else uri


def _resource(seen: _Block) -> str | None:
    if rawjson.kind(seen.resource) != "an object":
        return None
    inner = _BLOCK.decode(seen.resource)
    if (text := rawjson.string(inner.text)) is not None:
        return text
    blob = rawjson.string(inner.blob)
    if blob is None:
        return None
    return f"[{_label(inner.mimeType) or 'resource'} {_decoded_bytes(blob)} bytes]"


_KINDS: dict[str, Callable[[_Block], str | None]] = {
    "text": _text,
    "image": _media,
    "audio": _media,
    "resource_link": _link,
    "resource": _resource,
}


def _size(value: Raw) -> str:
    digits = bytes(value)
    return size_text(int(digits)) if digits.isdigit() and len(digits) <= MAX_DIGITS else ""


def _label(value: Raw, limit: int = LABEL_CHARACTERS) -> str:
    """Return a string that a server chose, fit for one line; empty if it is none."""
    return one_line(rawjson.string(value) or "", limit)


def _decoded_bytes(encoded: str) -> int:
    """Return how many bytes base64 stands for."""
    characters = len(encoded) - encoded.count("\n") - encoded.count("\r")
    return characters * 3 // 4 - encoded[-2:].count("=")


def image_size(encoded: str) -> tuple[int, int] | None:
    """Return width and height of a PNG, GIF or JPEG in base64, from its header; None for anything else."""
    from base64 import b64decode

    try:
        head = b64decode(encoded[:HEADER_CHARACTERS])
    except ValueError:
        return None
    if head.startswith(b"\x89PNG\r\n\x1a\n") and len(head) >= 24:
        return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
    if head.startswith((b"GIF87a", b"GIF89a")) and len(head) >= 10:
        return int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
    return _jpeg_size(head) if head.startswith(b"\xff\xd8") else None


def _jpeg_size(head: bytes) -> tuple[int, int] | None:
    position = 2
    while position + 9 <= len(head) and head[position] == 0xFF:
        marker = head[position + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = head[position + 5 : position + 7], head[position + 7 : position + 9]
            return int.from_bytes(width, "big"), int.from_bytes(height, "big")
        # A byte of padding is no segment, and has no length.
        length = int.from_bytes(head[position + 2 : position + 4], "big")
        position += 1 if marker == 0xFF else 2 + length
    return None
