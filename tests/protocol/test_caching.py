"""The caching hints of a result: what promises nothing is old at once and private."""

from __future__ import annotations

import pytest
from msgspec import Raw

from mcpd.protocol.caching import MAX_TTL_MS, Hints, read


@pytest.mark.parametrize(
    ("ttl", "scope", "hints"),
    [
        (b"5000", b'"public"', Hints(5000, "public")),
        (b"0", b'"private"', Hints(0, "private")),
        (b"-1", b'"public"', Hints(0, "public")),
        (b"5000.0", b'"PUBLIC"', Hints()),
        (b'"5000"', b"true", Hints()),
        (b"true", b"null", Hints()),
        (b"null", b"[]", Hints()),
        (b"9" * 30, b'"' + b"p" * 10_000 + b'"', Hints(MAX_TTL_MS, "private")),
        (b"9" * 5000, b"{}", Hints()),
        (b"{", b'"\xff"', Hints()),
    ],
)
def test_the_hints_of_a_result(ttl: bytes, scope: bytes, hints: Hints) -> None:
    assert read({"ttlMs": Raw(ttl), "cacheScope": Raw(scope)}) == hints


def test_a_result_without_hints_promises_nothing() -> None:
    assert read({}) == Hints(0, "private")
