"""Cut a tool's result into the pages that a client gets to see of it.

A result is one sequence: its content blocks in order, then `structuredContent`. Text can be cut
between any two characters and counts the bytes of its UTF-8; everything else is an atom that is
shown whole, bit-exact, or not at all, and counts the bytes of its JSON. An offset into a result is
a number of these bytes.

What is bounded is what a model reads. Other members (`isError`, `_meta`, `annotations`, unknown
ones) pass as they came and count nothing.

Spec: 2025-11-25, server/tools, "Tool Result"; 2026-07-28 lets `structuredContent` be any JSON value.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct

from mcpd.errors import InvalidPage

from . import rawjson
from .jsonrpc import ABSENT
from .splicing import meta_members, with_meta

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Atom", "Page", "Text", "Whole", "needs_cut", "page", "split", "view", "with_meta"]

# A text over this is kept once, as text, and not also as the JSON that it came in.
EXACT_TEXT_BYTES = 1 << 18
# What a segment costs besides its bytes, near enough for a bound on memory.
SEGMENT_BYTES = 256
# Enough for any type and MIME type there is; what a server puts there ends up in a text for people.
LABEL_CHARACTERS = 100


class Text(Struct, frozen=True):
    """A text block. `block` is its JSON, with an empty `text` unless `exact`."""

    block: Raw
    text: bytes
    exact: bool

    @property
    def size(self) -> int:
        """The bytes that it counts."""
        return len(self.text)


class Atom(Struct, frozen=True):
    """A block that is not text, or the structured content: shown whole or not at all."""

    value: Raw
    size: int
    structured: bool = False


class Whole(Struct, frozen=True):
    """A result, decoded once.

    Args:
        segments: what can be shown, in order.
        ends: the offset behind each segment.
        rest: the other members of the result, bit-exact.
        bytes: how much there is to show.
        held_bytes: about how much memory this keeps.
        cut_from: how much there was before `shortened`; 0 if nothing is missing.
    """

    segments: list[Text | Atom]
    ends: list[int]
    rest: dict[str, Raw]
    bytes: int
    held_bytes: int
    cut_from: int = 0


class Page(Struct, frozen=True):
    """What is shown of a result from `offset` on.

    Args:
        offset: where it begins.
        content: content blocks, as JSON.
        structured: the structured content, if it is on this page.
        shown: how many bytes of the result are on this page; what was omitted does not count.
        next_offset: where the next page begins; None behind the last one.
    """

    offset: int
    content: list[Raw]
    structured: Raw | None
    shown: int
    next_offset: int | None


class _Block(Struct):
    type: Raw = ABSENT
    text: Raw = ABSENT
    mimeType: Raw = ABSENT
    resource: Raw = ABSENT


_BLOCK = msgspec.json.Decoder(_Block)


def needs_cut(result: bytes | Raw, max_bytes: int) -> bool:
    """Whether a result may have to be cut; what JSON takes on the wire is never less than it shows."""
    return len(result) > max_bytes


def split(result: bytes | Raw) -> Whole:
    """Decode a result for paging. What is returned keeps nothing of the message alive.

    Raises:
        ServerProtocol: It is no JSON object, or its `content` is no list of objects.
    """
    rawjson.require_utf8(result)
    rest = rawjson.members(result, "the result")
    structured = rest.pop("structuredContent", None)
    blocks = rawjson.elements(rest.pop("content", Raw(b"[]")), "`content` of the result")
    segments = [_segment(block, number) for number, block in enumerate(blocks, 1)]
    if structured is not None:
        segments.append(Atom(structured.copy(), len(structured), structured=True))
    rest = {name: value.copy() for name, value in rest.items()}
    ends = list(accumulate(segment.size for segment in segments))
    held_bytes = sum(map(_held_bytes, segments)) + sum(map(len, rest.values()))
    return Whole(segments, ends, rest, ends[-1] if ends else 0, held_bytes)


def page(whole: Whole, offset: int, max_bytes: int) -> Page:
    """Return the page that begins at `offset`: 0, or the `next_offset` of another page.

    It shows at most `max_bytes`, but always gets on: by one character at least, or past an atom
    that is larger, for which a text block then stands that says how to get it.

    Raises:
        InvalidPage: `offset` is inside an atom or a character, or outside of the result.
    """
    if max_bytes < 1:
        raise InvalidPage(f"max_bytes is {max_bytes}, and must be at least 1")
    index, inside = _locate(whole, offset)
    builder = _PageBuilder(offset, max_bytes)
    while index < len(whole.segments) and builder.take(whole.segments[index], inside):
        index, inside = index + 1, 0
    return builder.finish(whole.bytes)


def shortened(whole: Whole, max_bytes: int) -> Whole:
    """Return a result of which only the beginning is kept: what fits into `max_bytes`."""
    segments: list[Text | Atom] = []
    left = max_bytes
    for segment in whole.segments:
        if segment.size > left:
            if isinstance(segment, Text) and (end := _boundary(segment.text, left)):
                segments.append(Text(_piece(segment, 0, 0), segment.text[:end], exact=False))
            elif isinstance(segment, Atom):
                segments.append(_not_kept(segment))
            break
        segments.append(segment)
        left -= segment.size
    ends = list(accumulate(segment.size for segment in segments))
    held_bytes = sum(map(_held_bytes, segments)) + sum(map(len, whole.rest.values()))
    return Whole(segments, ends, whole.rest, ends[-1] if ends else 0, held_bytes, whole.bytes)


def view(whole: Whole, page: Page, meta: Mapping[str, object]) -> bytes:
    """Return the JSON of a result that shows one page.

    `_meta["mcpd/view"]` says what is shown: `bytes`, `shown`, `truncated` (something behind `offset` is
    missing here), `offset`, `nextOffset` if there is more, and the members of `meta`.

    Raises:
        ServerProtocol: The result has a `_meta` that is no object.
    """
    described: dict[str, object] = {
        "bytes": whole.bytes,
        "shown": page.shown,
        "truncated": page.offset + page.shown < (whole.cut_from or whole.bytes),
        "offset": page.offset,
    }
    if page.next_offset is not None:
        described["nextOffset"] = page.next_offset
    result: dict[str, object] = {"content": page.content}
    if page.structured is not None:
        result["structuredContent"] = page.structured
    result |= whole.rest
    result["_meta"] = meta_members(whole.rest.get("_meta", ABSENT)) | {"mcpd/view": {**described, **meta}}
    return msgspec.json.encode(result)


def _segment(block: Raw, number: int) -> Text | Atom:
    seen = _look(block, f"block {number} of `content`")
    text = rawjson.string(seen.text) if rawjson.string(seen.type) == "text" else None
    if text is None:
        return Atom(block.copy(), len(block))
    if len(block) <= EXACT_TEXT_BYTES:
        return Text(block.copy(), text.encode(), exact=True)
    emptied = rawjson.members(block, "a block") | {"text": Raw(b'""')}
    return Text(Raw(msgspec.json.encode(emptied)), text.encode(), exact=False)


def _held_bytes(segment: Text | Atom) -> int:
    return SEGMENT_BYTES + (len(segment.block) + segment.size if isinstance(segment, Text) else segment.size)


def _locate(whole: Whole, offset: int) -> tuple[int, int]:
    """Return the number of the segment that `offset` is in, and how far inside it is."""
    if not 0 <= offset <= whole.bytes:
        raise InvalidPage(f"offset is {offset}, and the result has {whole.bytes} bytes")
    # Empty texts at an offset belong to the page that ends there, so that none is shown twice.
    index = bisect_right(whole.ends, offset) if offset else 0
    start = whole.ends[index - 1] if index else 0
    inside = offset - start
    if inside:
        segment = whole.segments[index]
        if isinstance(segment, Atom):
            raise InvalidPage(f"offset {offset} is inside a block that cannot be cut; it begins at {start}")
        if (begin := _boundary(segment.text, inside)) < inside:
            raise InvalidPage(f"offset {offset} is inside a character; it begins at {start + begin}")
    return index, inside


class _PageBuilder:
    """Collects what fits on one page."""

    def __init__(self, offset: int, max_bytes: int) -> None:
        self._offset = self._position = offset
        self._left = max_bytes
        self._content: list[Raw] = []
        self._structured: Raw | None = None
        self._shown = 0

    def take(self, segment: Text | Atom, inside: int) -> bool:
        """Take a segment from `inside` on; return whether it is done and another may follow."""
        if isinstance(segment, Text):
            return self._take_text(segment, inside)
        return self._take_atom(segment)

    def finish(self, total: int) -> Page:
        """Return the page of a result of that many bytes."""
        more = self._position < total
        return Page(self._offset, self._content, self._structured, self._shown, self._position if more else None)

    @property
    def _fresh(self) -> bool:
        """Whether the page would end where it begins, and so has to take something now."""
        return self._position == self._offset

    def _take_text(self, segment: Text, start: int) -> bool:
        text = segment.text
        end = _boundary(text, start + self._left)
        if end == start < len(text):
            if not self._fresh:
                return False
            end = _after_character(text, start)
        self._content.append(_piece(segment, start, end))
        self._position += end - start
        self._shown += end - start
        self._left -= min(self._left, end - start)
        return end == len(text)

    def _take_atom(self, atom: Atom) -> bool:
        if atom.size <= self._left:
            if atom.structured:
                self._structured = atom.value
            else:
                self._content.append(atom.value)
            self._shown += atom.size
            self._left -= atom.size
        elif self._fresh:
            note = _omission(atom, self._position)
            self._content.append(note)
            self._left -= min(self._left, len(note))
        else:
            return False
        self._position += atom.size
        return True


def _boundary(text: bytes, position: int) -> int:
    """Return the last position up to the given one where a character begins or the text ends."""
    if position >= len(text):
        return len(text)
    while _continues(text[position]):
        position -= 1
    return position


def _after_character(text: bytes, position: int) -> int:
    position += 1
    while position < len(text) and _continues(text[position]):
        position += 1
    return position


def _continues(byte: int) -> bool:
    """Whether a byte of UTF-8 is not the first of its character."""
    return byte & 0xC0 == 0x80


def _piece(segment: Text, start: int, end: int) -> Raw:
    """Return a text block with a part of the text; the first part keeps the block's other members."""
    if segment.exact and end - start == segment.size:
        return segment.block
    members: dict[str, Raw] = {"type": Raw(b'"text"')} if start else rawjson.members(segment.block, "a block")
    return Raw(msgspec.json.encode({**members, "text": segment.text[start:end].decode()}))


def _omission(atom: Atom, offset: int) -> Raw:
    """Return the text block that stands for an atom that is larger than a page."""
    kind, mime = ("structuredContent", "") if atom.structured else _labels(atom.value)
    omitted: dict[str, object] = {"offset": offset, "bytes": atom.size, "type": kind}
    if mime:
        omitted["mimeType"] = mime
    name = f"{kind} {mime}".rstrip()
    text = f"[{name}, {atom.size} bytes, is not shown; to get it, fetch offset {offset} with max_bytes {atom.size}]"
    return Raw(msgspec.json.encode({"type": "text", "text": text, "_meta": {"mcpd/omitted": omitted}}))


def _not_kept(atom: Atom) -> Text:
    """Return the text that stands for an atom that is larger than what is kept."""
    kind, mime = ("structuredContent", "") if atom.structured else _labels(atom.value)
    text = f"[{f'{kind} {mime}'.rstrip()}, {atom.size} bytes, is more than is kept (limits.result_bytes)]"
    return Text(Raw(b'{"type":"text","text":""}'), text.encode(), exact=False)


def _labels(block: Raw) -> tuple[str, str]:
    """Return type and MIME type of a content block; an embedded resource has the latter inside."""
    seen = _look(block, "a block")
    kind = _label(seen.type) or "block"
    if rawjson.kind(seen.resource) == "an object":
        seen = _look(seen.resource, "a resource")
    return kind, _label(seen.mimeType)


def _look(block: Raw, what: str) -> _Block:
    return rawjson.decode(_BLOCK, block, what, "an object")


def _label(value: Raw) -> str:
    """Return a string that a server chose, fit for a sentence for people; empty if it is none."""
    text = rawjson.string(value) or ""
    return "".join(filter(str.isprintable, text[:LABEL_CHARACTERS]))
