"""How long, and for whom, a server's answer may be kept: the caching hints of a result.

Spec: 2026-07-28, "Caching": `ttlMs` and `cacheScope` of discover, the four lists and resources/read. What
is absent or makes no sense promises nothing: it is old at once, and for its own user only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msgspec import Raw

# No list is worth trusting for longer without a question.
MAX_TTL_MS = 24 * 3600 * 1000

Scope = Literal["public", "private"]


class Hints(NamedTuple):
    """What one result promises."""

    ttl_ms: int = 0
    scope: Scope = "private"


def read(members: Mapping[str, Raw]) -> Hints:
    """Return the hints among the members of a result."""
    ttl_ms = _plain(members.get("ttlMs"))
    scope = _plain(members.get("cacheScope"))
    return Hints(
        # A bool is an int to Python, and a float is none to the specification.
        ttl_ms=min(max(ttl_ms, 0), MAX_TTL_MS) if type(ttl_ms) is int else 0,
        scope="public" if scope == "public" else "private",
    )


def _plain(value: Raw | None) -> object:
    # Whatever is longer than this is neither a number of milliseconds nor a word of ours.
    if value is None or len(value) > 40:
        return None
    try:
        return msgspec.json.decode(value)
    except (msgspec.MsgspecError, ValueError):
        return None
