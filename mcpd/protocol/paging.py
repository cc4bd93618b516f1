"""Lists in pages, both ways: the walk through an upstream's pages, and the pages that clients get.

Upstream, cursors are the server's and opaque; a walk follows them until the list ends or a bound is
reached. Downstream, an offset is enough, since the whole list is at hand. Descriptors stay the bytes
that came.

Spec: 2025-11-25, server/utilities/pagination; 2026-07-28 says that an empty cursor is valid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Raw

from mcpd.errors import InvalidPage, ServerProtocol

from . import caching, rawjson
from .jsonrpc import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAX_OFFSET = 1000
MAX_LIMIT = 100
DEFAULT_LIMIT = 20
PAGE_BYTES = 1 << 16
# What else is on the line of a page: counts, revision and the envelope of the answer.
ENVELOPE_BYTES = 256
DESCRIPTION_BYTES = 1024

CURSOR_BYTES = 1 << 16
DESCRIPTOR_BYTES = 1 << 20
# All descriptors of a list; a thousand of them may each be a megabyte.
LIST_BYTES = 16 << 20
# A name is repeated in every call and every table; a URI may have to be as long.
NAME_BYTES = 4096

# More rubbish than this is no list with a few bad items.
MAX_SET_ASIDE = 1000

# The member of each kind of list that tells its items apart.
KEYS = {"tools": "name", "prompts": "name", "resources": "uri", "resourceTemplates": "uriTemplate"}


class Item(NamedTuple):
    """One descriptor of a list."""

    name: str
    descriptor: Raw
    server: str | None = None


def page(
    items: Sequence[Item | tuple[str, Raw]],
    offset: int = 0,
    limit: int = DEFAULT_LIMIT,
    max_bytes: int = PAGE_BYTES,
) -> dict[str, object]:
    """Return one page of a list: `{items, total, shown, nextOffset, truncated}`.

    The page with the envelope around it fits in `max_bytes`, except that it always gets on by one item. A
    descriptor that is too long for any page is replaced by a short one with `descriptorOmitted`.
    `nextOffset` is None at the end, and where no request can name it; `truncated` tells these apart.

    Raises:
        InvalidPage: `offset` or `limit` is out of range.
    """
    if not 0 <= offset <= MAX_OFFSET:
        raise InvalidPage(f"offset is {offset}, and must be 0 to {MAX_OFFSET}")
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidPage(f"limit is {limit}, and must be 1 to {MAX_LIMIT}")
    shown: list[Raw] = []
    left = budget = max_bytes - ENVELOPE_BYTES
    for item in items[offset : offset + limit]:
        descriptor = item[1] if len(item[1]) < budget else _short(item)
        left -= len(descriptor) + 1
        if left < 0 and shown:
            break
        shown.append(descriptor)
    end = offset + len(shown)
    more = end < len(items)
    return {
        "items": shown,
        "total": len(items),
        "shown": len(shown),
        "nextOffset": end if more and end <= MAX_OFFSET else None,
        "truncated": more,
    }


def _short(item: Item | tuple[str, Raw]) -> Raw:
    """Return what stands for a descriptor that is too long: enough to ask for the whole one by name."""
    name, descriptor = item[:2]
    short: dict[str, object] = {}
    if isinstance(item, Item) and item.server is not None:
        short["server"] = item.server
    short["name"] = name
    members = rawjson.members(descriptor, "a descriptor")
    for key, max_bytes in (
        ("name", DESCRIPTION_BYTES),
        ("uri", NAME_BYTES),
        ("uriTemplate", NAME_BYTES),
        ("description", DESCRIPTION_BYTES),
    ):
        if (text := rawjson.string(members.get(key, ABSENT))) is not None:
            # What the item is asked for by must be whole, however long.
            short[key] = text if text == name else _cut(text, max_bytes)
    short["descriptorOmitted"] = True
    return Raw(msgspec.json.encode(short))


def _cut(text: str, max_bytes: int) -> str:
    """Return as much of a text as fits, in whole characters."""
    return text.encode()[:max_bytes].decode(errors="ignore")


class Walk:
    """The way through all pages of one upstream's list.

    Ask `request` for the next page's parameters and hand its answer to `accept`, until there is no
    next. An item that cannot be used is set aside and hurts no other.

    Attributes:
        items: the good ones in the server's order: name (of resources the URI) and descriptor.
        set_aside: what was wrong with each of the others.
        incomplete: why the walk ended before the list did, if so. What to do with half a list is the
            caller's to decide.
        hints: how long, and for whom, the page that was accepted last may be kept.

    Args:
        kind: the member of the result that holds the list, one of `KEYS`.
        max_items: how many good items are kept.
        max_pages: how many pages are asked for.
        max_cursor_bytes: the longest cursor that is followed.
        vet: raises ServerProtocol for an item that must not be used, whatever else is right with it.
    """

    def __init__(
        self,
        kind: str,
        max_items: int,
        max_pages: int,
        max_cursor_bytes: int = CURSOR_BYTES,
        vet: Callable[[Raw], None] | None = None,
    ) -> None:
        self.items: list[tuple[str, Raw]] = []
        self.set_aside: list[str] = []
        self.incomplete: str | None = None
        self.hints = caching.Hints()
        self._kind, self._key = kind, KEYS[kind]
        self._max_items, self._max_pages, self._max_cursor_bytes = max_items, max_pages, max_cursor_bytes
        self._vet = vet
        self._names: set[str] = set()
        self._cursors: set[str] = set()
        self._pages = 0
        self._seen = 0
        self._bytes = 0
        self._next: bytes | None = b"{}"

    def request(self) -> bytes | None:
        """Return the parameters of the next request as JSON, or None when the walk is over."""
        return self._next

    def accept(self, result: bytes | Raw) -> None:
        """Take the result of the last request.

        Raises:
            ServerProtocol: It has no such list; the walk is over, and keeps what earlier pages had.
        """
        self._next = None
        self._pages += 1
        members = rawjson.members(result, f"the list of {self._kind}")
        self.hints = caching.read(members)
        if self._kind not in members:
            raise ServerProtocol(f"the answer has no `{self._kind}` member")
        for descriptor in rawjson.elements(members[self._kind], f"`{self._kind}`"):
            self._take(descriptor)
            if self.incomplete:
                return
        self._follow(members.get("nextCursor", ABSENT))

    def _take(self, descriptor: Raw) -> None:
        self._seen += 1
        try:
            name = self._name(descriptor)
        except ServerProtocol as problem:
            if len(self.set_aside) == MAX_SET_ASIDE:
                self.incomplete = f"more than {MAX_SET_ASIDE} items cannot be used"
            else:
                self.set_aside.append(f"item {self._seen}: {problem.message}")
            return
        if len(self.items) == self._max_items:
            self.incomplete = f"it has more than {self._max_items} items"
        elif self._bytes + len(descriptor) > LIST_BYTES:
            self.incomplete = f"its descriptors are over {LIST_BYTES >> 20} MiB in all"
        else:
            self._names.add(name)
            self._bytes += len(descriptor)
            # A slice would keep the whole page alive, whatever else was on it.
            self.items.append((name, descriptor.copy()))

    def _name(self, descriptor: Raw) -> str:
        """Return what an item is known by.

        Raises:
            ServerProtocol: The item cannot be used.
        """
        if len(descriptor) > DESCRIPTOR_BYTES:
            raise ServerProtocol(f"it has {len(descriptor)} bytes, more than {DESCRIPTOR_BYTES >> 20} MiB")
        rawjson.require_utf8(descriptor)
        value = rawjson.members(descriptor, "it").get(self._key)
        if value is None:
            raise ServerProtocol(f"it has no `{self._key}`")
        name = rawjson.string(value)
        if name is None:
            raise ServerProtocol(f"its `{self._key}` is {rawjson.kind(value)}, not a string")
        if len(name.encode()) > NAME_BYTES:
            raise ServerProtocol(f"its `{self._key}` is over {NAME_BYTES} bytes long")
        if name in self._names:
            raise ServerProtocol(f"its `{self._key}` {name[:80]!r} is there already; the first one counts")
        if self._vet is not None:
            self._vet(descriptor)
        return name

    def _follow(self, cursor: Raw) -> None:
        """Note the next request, if there is one to make."""
        kind = rawjson.kind(cursor)
        if kind in ("nothing", "null"):
            return
        text = rawjson.string(cursor)
        if text is None:
            self.incomplete = f"a cursor is {kind}, not a string"
        elif len(text.encode()) > self._max_cursor_bytes:
            self.incomplete = f"a cursor is over {self._max_cursor_bytes} bytes long"
        elif text in self._cursors:
            self.incomplete = f"a cursor came twice: {text[:80]!r}"
        elif self._pages == self._max_pages:
            self.incomplete = f"it has more than {self._max_pages} pages"
        else:
            self._cursors.add(text)
            self._next = b'{"cursor":%b}' % msgspec.json.encode(text)
