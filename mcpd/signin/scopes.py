"""Which scopes to ask for; they are words in one text, as OAuth writes them (RFC 6749, 3.3)."""

from __future__ import annotations

import re
from collections.abc import Iterable

# RFC 6749, 3.3: printable ASCII but for the space, the quote and the backslash.
_TOKEN = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


def union(*texts: str | None) -> str | None:
    """Return the scopes of all texts, each once and in order; None if there are none.

    Spec: 2026-07-28, basic/authorization, "Step-Up Authorization Flow".
    """
    words = dict.fromkeys(word for text in texts if text for word in text.split())
    return " ".join(words) or None


def joined(words: object) -> str | None:
    """Return the scopes of a list that somebody else has made; what is no scope is left out."""
    if not isinstance(words, Iterable) or isinstance(words, str):
        return None
    return union(*(word for word in words if isinstance(word, str) and _TOKEN.fullmatch(word)))


def is_proper(text: str) -> bool:
    """Whether a text is a list of scopes."""
    return bool(text.split()) and all(_TOKEN.fullmatch(word) for word in text.split())
