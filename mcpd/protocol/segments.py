"""What a result consists of: the parts that clients get to see, each a text or an atom.

Three kinds of results are bounded. They differ in where their parts are and how a part is written:

    call    `content`: blocks, and `structuredContent` behind them
    read    `contents`: items with a `uri`, and `text` or `blob`
    prompt  `messages`: each a `role` and one block

A text that is cut is written as several parts. The first has all other members of the part that came;
those that follow have what makes them valid and says where they belong: type, URI and MIME type, role.

Spec: 2025-11-25, server/tools, "Tool Result"; server/resources, "Reading Resources"; server/prompts,
"Getting a Prompt".
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Raw, Struct

from . import rawjson
from .jsonrpc import ABSENT

Shape = Literal["call", "read", "prompt"]

# The member of a result that has its parts, what one is called, and what each piece of a cut one keeps.
MEMBERS: dict[Shape, str] = {"call": "content", "read": "contents", "prompt": "messages"}
NOUNS: dict[Shape, str] = {"call": "block", "read": "item", "prompt": "message"}
KEPT: dict[Shape, tuple[str, ...]] = {"call": ("type",), "read": ("uri", "mimeType"), "prompt": ("role",)}

# A text over this is kept once, as text, and not also as the JSON that it came in.
EXACT_TEXT_BYTES = 1 << 18
# What a segment costs besides its bytes, near enough for a bound on memory.
SEGMENT_BYTES = 256
# Enough for any type and MIME type there is; what a server puts there ends up in a text for people.
LABEL_CHARACTERS = 100


class Text(Struct, frozen=True):
    """A part that is text. `block` is its JSON, with an empty `text` unless `exact`."""

    block: Raw
    text: bytes
    exact: bool

    @property
    def size(self) -> int:
        """The bytes that it counts."""
        return len(self.text)

    @property
    def held_bytes(self) -> int:
        """About how much memory it takes."""
        return SEGMENT_BYTES + len(self.block) + len(self.text)

    def boundary(self, position: int) -> int:
        """Return the last position up to the given one where a character begins or the text ends."""
        if position >= len(self.text):
            return len(self.text)
        while _continues(self.text[position]):
            position -= 1
        return position

    def after_character(self, position: int) -> int:
        """Return where the character at a position ends."""
        position += 1
        while position < len(self.text) and _continues(self.text[position]):
            position += 1
        return position


class Atom(Struct, frozen=True):
    """A part that is not text, or the structured content: shown whole or not at all."""

    value: Raw
    size: int
    structured: bool = False

    @property
    def held_bytes(self) -> int:
        """About how much memory it takes."""
        return SEGMENT_BYTES + self.size


class Whole(Struct, frozen=True):
    """A result, decoded once.

    Args:
        segments: what can be shown, in order.
        ends: the offset behind each segment.
        rest: the other members of the result, bit-exact.
        bytes: how much there is to show.
        held_bytes: about how much memory this keeps.
        cut_from: how much there was before it was shortened; 0 if nothing is missing.
        shape: which kind of result it is.
    """

    segments: list[Text | Atom]
    ends: list[int]
    rest: dict[str, Raw]
    bytes: int
    held_bytes: int
    cut_from: int = 0
    shape: Shape = "call"


class _Part(Struct):
    type: Raw = ABSENT
    text: Raw = ABSENT
    mimeType: Raw = ABSENT
    resource: Raw = ABSENT
    blob: Raw = ABSENT
    content: Raw = ABSENT
    uri: Raw = ABSENT
    role: Raw = ABSENT


_PART = msgspec.json.Decoder(_Part)


def segment(shape: Shape, part: Raw, number: int) -> Text | Atom:
    """Return a part of a result as a segment; it keeps nothing of the message alive.

    Raises:
        ServerProtocol: It is no object.
    """
    text = _text(shape, _look(part, f"{NOUNS[shape]} {number} of `{MEMBERS[shape]}`"))
    if text is None:
        return Atom(part.copy(), len(part))
    if len(part) <= EXACT_TEXT_BYTES:
        return Text(part.copy(), text.encode(), exact=True)
    return Text(_with_text(shape, part, "", whole=True), text.encode(), exact=False)


def piece(shape: Shape, segment: Text, start: int, end: int) -> Raw:
    """Return the JSON of a part with some of its text; what is whole is the very bytes that came."""
    if segment.exact and end - start == segment.size:
        return segment.block
    return _with_text(shape, segment.block, segment.text[start:end].decode(), whole=not start)


def omission(shape: Shape, atom: Atom, offset: int) -> Raw:
    """Return the text that stands for an atom that is larger than a page, and says how to get it."""
    name = " ".join(_labels(shape, atom)).rstrip()
    text = f"[{name}, {atom.size} bytes, is not shown; to get it, fetch offset {offset} with max_bytes {atom.size}]"
    return _instead(shape, atom, text, {"offset": offset})


def not_kept(shape: Shape, atom: Atom) -> Text:
    """Return the text that stands for an atom that is larger than what is kept."""
    name = " ".join(_labels(shape, atom)).rstrip()
    text = f"[{name}, {atom.size} bytes, is more than is kept (limits.result_bytes)]"
    return Text(_instead(shape, atom, "", {"kept": False}), text.encode(), exact=False)


def _continues(byte: int) -> bool:
    """Whether a byte of UTF-8 is not the first of its character."""
    return byte & 0xC0 == 0x80


def _text(shape: Shape, seen: _Part) -> str | None:
    """Return the text of a part, or None if it is no text."""
    if shape == "prompt":
        return _text("call", _look(seen.content, "a block")) if rawjson.kind(seen.content) == "an object" else None
    if shape == "read":
        return rawjson.string(seen.text) if rawjson.kind(seen.blob) in ("nothing", "null") else None
    return rawjson.string(seen.text) if rawjson.string(seen.type) == "text" else None


def _with_text(shape: Shape, part: Raw, text: str, *, whole: bool) -> Raw:
    """Return a part with another text; all its other members, or only those that every piece has."""
    members = rawjson.members(part, "a part")
    kept = members if whole else {name: members[name] for name in KEPT[shape] if name in members}
    if shape == "prompt":
        block = _with_text("call", members["content"], text, whole=whole)
        return Raw(msgspec.json.encode({**kept, "content": block}))
    return Raw(msgspec.json.encode({**kept, "text": text}))


def _instead(shape: Shape, atom: Atom, text: str, omitted: dict[str, object]) -> Raw:
    """Return a part that stands for an atom, and says in its `_meta` what that is."""
    kind, mime = _labels(shape, atom)
    omitted = {**omitted, "bytes": atom.size, "type": kind} | ({"mimeType": mime} if mime else {})
    said = {"text": text, "_meta": {"mcpd/omitted": omitted}}
    if shape == "call":
        return Raw(msgspec.json.encode({"type": "text", **said}))
    seen = _look(atom.value, "a part")
    if shape == "read":
        return Raw(msgspec.json.encode({"uri": seen.uri or Raw(b'""'), "mimeType": "text/plain", **said}))
    block = {"type": "text", **said}
    return Raw(msgspec.json.encode({"role": seen.role or Raw(b'"user"'), "content": block}))


def _labels(shape: Shape, atom: Atom) -> tuple[str, str]:
    """Return type and MIME type of an atom; an embedded resource has the latter inside."""
    if atom.structured:
        return "structuredContent", ""
    seen, unknown = _look(atom.value, "a part"), NOUNS[shape]
    if shape == "read" and seen.blob:
        return "blob", _label(seen.mimeType)
    if shape == "prompt":
        if rawjson.kind(seen.content) != "an object":
            return unknown, ""
        seen = _look(seen.content, "a block")
    kind = _label(seen.type) or unknown
    if rawjson.kind(seen.resource) == "an object":
        seen = _look(seen.resource, "a resource")
    return kind, _label(seen.mimeType)


def _look(part: Raw, what: str) -> _Part:
    return rawjson.decode(_PART, part, what, "an object")


def _label(value: Raw) -> str:
    """Return a string that a server chose, fit for a sentence for people; empty if it is none."""
    text = rawjson.string(value) or ""
    return "".join(filter(str.isprintable, text[:LABEL_CHARACTERS]))
