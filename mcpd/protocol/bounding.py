"""Cut a result into the pages that a client gets to see of it.

A result is one sequence: its parts in order (`segments` says what they are), then what a tool has for
`structuredContent`. Text can be cut between any two characters and counts the bytes of its UTF-8;
everything else is an atom that is shown whole, bit-exact, or not at all, and counts the bytes of its
JSON. An offset into a result is a number of these bytes.

What is bounded is what a model reads. Other members (`isError`, `_meta`, `description`, `annotations`,
unknown ones) pass as they came and count nothing.

Here a result is taken apart; `pages` has what is shown of it.
"""

from __future__ import annotations

from itertools import accumulate

from msgspec import Raw

from . import rawjson
from .pages import Page, page, view
from .segments import EXACT_TEXT_BYTES, MEMBERS, Atom, Shape, Text, Whole, not_kept, piece, segment

__all__ = [
    "EXACT_TEXT_BYTES", "Atom", "Page", "Shape", "Text", "Whole", "needs_cut", "page", "shortened", "split", "view",
]  # fmt: skip


def needs_cut(result: bytes | Raw, max_bytes: int) -> bool:
    """Whether a result may have to be cut; what JSON takes on the wire is never less than it shows."""
    return len(result) > max_bytes


def split(result: bytes | Raw, shape: Shape = "call") -> Whole:
    """Decode a result for paging. What is returned keeps nothing of the message alive.

    Args:
        result: the JSON of a CallToolResult, ReadResourceResult or GetPromptResult.
        shape: which of these.

    Raises:
        ServerProtocol: It is no JSON object, or its parts are no list of objects.
    """
    rawjson.require_utf8(result)
    member = MEMBERS[shape]
    rest = rawjson.members(result, "the result")
    structured = rest.pop("structuredContent", None) if shape == "call" else None
    parts = rawjson.elements(rest.pop(member, Raw(b"[]")), f"`{member}` of the result")
    segments = [segment(shape, part, number) for number, part in enumerate(parts, 1)]
    if structured is not None:
        segments.append(Atom(structured.copy(), len(structured), structured=True))
    return _whole(segments, {name: value.copy() for name, value in rest.items()}, 0, shape)


def shortened(whole: Whole, max_bytes: int) -> Whole:
    """Return a result of which only the beginning is kept: what fits into `max_bytes`."""
    shape = whole.shape
    segments: list[Text | Atom] = []
    left = max_bytes
    for each in whole.segments:
        if each.size > left:
            if isinstance(each, Atom):
                segments.append(not_kept(shape, each))
            elif end := each.boundary(left):
                segments.append(Text(piece(shape, each, 0, 0), each.text[:end], exact=False))
            break
        segments.append(each)
        left -= each.size
    return _whole(segments, whole.rest, whole.bytes, shape)


def _whole(segments: list[Text | Atom], rest: dict[str, Raw], cut_from: int, shape: Shape) -> Whole:
    ends = list(accumulate(each.size for each in segments))
    held_bytes = sum(each.held_bytes for each in segments) + sum(map(len, rest.values()))
    return Whole(segments, ends, rest, ends[-1] if ends else 0, held_bytes, cut_from, shape)
