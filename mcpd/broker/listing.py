"""One list of an upstream, as it was fetched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Raw

from mcpd.protocol.caching import Scope
from mcpd.protocol.paging import Item

if TYPE_CHECKING:
    from .ranking import Index


class Kind(NamedTuple):
    """How MCP calls what belongs to one kind of list."""

    method: str
    member: str
    capability: str


KINDS = {
    "tools": Kind("tools/list", "tools", "tools"),
    "prompts": Kind("prompts/list", "prompts", "prompts"),
    "resources": Kind("resources/list", "resources", "resources"),
    "templates": Kind("resources/templates/list", "resourceTemplates", "resources"),
}


@dataclass
class Listing:
    """One list.

    Attributes:
        items: (name, descriptor) in the server's order, as far as the entry lets them be seen.
        whole: the same, without the entry's filter.
        held: those that are not in `items` because what they are has changed since they were pinned.
        names: name -> descriptor, of `items`.
        revision: counts up whenever `items` are different, over all runs of the daemon.
        incarnation: who was asked; 0 for a list from disk.
        change: how many changes of the list had been noted before it was asked for.
        fetched_at: when, in trio's time.
        fresh_until: until when, in trio's time, the server promised it to be good.
        cache_scope: for whom it may be kept; public only if every page says so.
        incomplete: why the walk stopped early, if it did.
        set_aside: what was wrong with the items that are missing.
        tagged: `items` with their server's name, once somebody has needed them.
        index: for searching, likewise.
    """

    items: list[tuple[str, Raw]] = field(default_factory=list)
    revision: int = 0
    incarnation: int = 0
    fetched_at: float = 0.0
    change: int = 0
    incomplete: str | None = None
    set_aside: list[str] = field(default_factory=list)
    names: dict[str, Raw] = field(default_factory=dict)
    tagged: list[Item] | None = None
    index: Index | None = None
    whole: list[tuple[str, Raw]] = field(default_factory=list)
    held: dict[str, Raw] = field(default_factory=dict)
    fresh_until: float = 0.0
    cache_scope: Scope = "private"

    def ttl_ms_left(self, now: float) -> int:
        """Return the rest of the server's promise, for whoever passes it on; a stale list has none."""
        return max(0, int((self.fresh_until - now) * 1000))


def sift(kind: str, found: Listing, items: list[tuple[str, Raw]], hold_back: Callable[[Listing], None]) -> None:
    """Give a list the items that may be seen, but for tools that are held back."""
    found.items, found.held = items, {}
    if kind == "tools":
        hold_back(found)
    found.names = dict(found.items)


def same(one: list[tuple[str, Raw]], other: list[tuple[str, Raw]]) -> bool:
    """Whether two lists have the same descriptors, to the byte and in the same order."""
    return [bytes(raw) for _, raw in one] == [bytes(raw) for _, raw in other]


class _Annotations(msgspec.Struct):
    readOnlyHint: bool = False
    idempotentHint: bool = False


class _Annotated(msgspec.Struct):
    annotations: _Annotations | None = None


def is_harmless(descriptor: Raw) -> bool:
    """Whether a server says of a tool that running it twice is like running it once."""
    try:
        hints = msgspec.json.decode(descriptor, type=_Annotated).annotations
    except (msgspec.MsgspecError, RecursionError):
        return False
    return hints is not None and (hints.readOnlyHint or hints.idempotentHint)
