"""The pages of a result: which part of it a client gets at once, and the result that shows just that.

A page begins at an offset and shows what fits behind it, in order. It always gets on, so that who
follows `next_offset` comes to the end and has seen every byte of text.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct

from mcpd.errors import InvalidPage

from .jsonrpc import ABSENT
from .segments import MEMBERS, Atom, Shape, Text, Whole, omission, piece
from .splicing import meta_members

if TYPE_CHECKING:
    from collections.abc import Mapping


class Page(Struct, frozen=True):
    """What is shown of a result from `offset` on.

    Args:
        offset: where it begins.
        content: content blocks, or a resource's items, or messages, as JSON.
        structured: the structured content, if it is on this page.
        shown: how many bytes of the result are on this page; what was omitted does not count.
        next_offset: where the next page begins; None behind the last one.
    """

    offset: int
    content: list[Raw]
    structured: Raw | None
    shown: int
    next_offset: int | None


def page(whole: Whole, offset: int, max_bytes: int) -> Page:
    """Return the page that begins at `offset`: 0, or the `next_offset` of another page.

    It shows at most `max_bytes`, but always gets on: by one character at least, or past an atom
    that is larger, for which a text then stands that says how to get it.

    Raises:
        InvalidPage: `offset` is inside an atom or a character, or outside of the result.
    """
    if max_bytes < 1:
        raise InvalidPage(f"max_bytes is {max_bytes}, and must be at least 1")
    index, inside = _locate(whole, offset)
    builder = _PageBuilder(whole.shape, offset, max_bytes)
    while index < len(whole.segments) and builder.take(whole.segments[index], inside):
        index, inside = index + 1, 0
    return builder.finish(whole.bytes)


def view(whole: Whole, page: Page, meta: Mapping[str, object]) -> bytes:
    """Return the JSON of a result, of the kind that came, that shows one page.

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
    result: dict[str, object] = {MEMBERS[whole.shape]: page.content}
    if page.structured is not None:
        result["structuredContent"] = page.structured
    result |= whole.rest
    result["_meta"] = meta_members(whole.rest.get("_meta", ABSENT)) | {"mcpd/view": {**described, **meta}}
    return msgspec.json.encode(result)


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
        if (begin := segment.boundary(inside)) < inside:
            raise InvalidPage(f"offset {offset} is inside a character; it begins at {start + begin}")
    return index, inside


class _PageBuilder:
    """Collects what fits on one page."""

    def __init__(self, shape: Shape, offset: int, max_bytes: int) -> None:
        self._shape: Shape = shape
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
        end = segment.boundary(start + self._left)
        if end == start < segment.size:
            if not self._fresh:
                return False
            end = segment.after_character(start)
        self._content.append(piece(self._shape, segment, start, end))
        self._position += end - start
        self._shown += end - start
        self._left -= min(self._left, end - start)
        return end == segment.size

    def _take_atom(self, atom: Atom) -> bool:
        if atom.size <= self._left:
            if atom.structured:
                self._structured = atom.value
            else:
                self._content.append(atom.value)
            self._shown += atom.size
            self._left -= atom.size
        elif self._fresh:
            note = omission(self._shape, atom, self._position)
            self._content.append(note)
            self._left -= min(self._left, len(note))
        else:
            return False
        self._position += atom.size
        return True
