"""Keep secrets out of what people and models get to see.

Known values are found as they are and in the forms that text takes on its way: JSON (also JSON in
JSON, as in the text of a tool result), URL quoting, hexadecimal, base64 at any alignment.  What a
server reverses, splits or transforms otherwise is not found; neither is a value below
`MIN_SECRET_CHARS`, which would blot out innocent text.

Redact whole texts before they are cut: half a secret is no longer recognised.
"""

from __future__ import annotations

import binascii
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MARK = "[redacted]"
MIN_SECRET_CHARS = 6


def _starts(literal: str) -> str:
    """Return what holds behind this literal only where a token begins.

    Without it a hostile text of nothing but such beginnings would be scanned to its end from each of
    them.  The letter of an escaped line end is no part of a token.
    """
    return rf"(?:(?<![A-Za-z0-9_-]{literal})|(?<=\\[nrt]{literal}))"


_KEY_HINT = "-----BEGIN "
_KEY = (
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----[^-]*(?:-(?!----)[^-]*)*(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----)?"
)

# Each expression begins with a literal, so that the engine searches it like a plain text; what must
# not stand before it is asked afterwards.  The texts in front say whether to try at all; until then it
# is not even compiled.
_SHAPES = (
    ((_KEY_HINT,), _KEY, MARK),
    # A word of prose has neither a digit nor sixteen letters.
    (("Bearer ", "Bearer\t"), r"Bearer[ \t]+(?:(?=[A-Za-z._~+/=-]*[0-9])[A-Za-z0-9._~+/=-]{8,}|[A-Za-z]{16,})", f"Bearer {MARK}"),
    (("bearer ", "BEARER "), r"(?:bearer|BEARER)[ \t]+(?=[A-Za-z._~+/=-]*[0-9])[A-Za-z0-9._~+/=-]{8,}", f"Bearer {MARK}"),
    (("sk-",), rf"sk-{_starts('sk-')}(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{{16,}}", MARK),
    (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_[A-Za-z0-9]{16,}", MARK),
    (("github_pat_",), r"github_pat_[A-Za-z0-9_]{16,}", MARK),
    (("xox",), r"xox[abeoprs]-[A-Za-z0-9-]{8,}", MARK),
    (("AKIA",), r"AKIA[0-9A-Z]{16}", MARK),
    (("eyJ",), rf"eyJ{_starts('eyJ')}[A-Za-z0-9_-]{{8,}}\.[A-Za-z0-9_-]{{4,}}\.[A-Za-z0-9_-]*", MARK),
    (("://",), r"://[^\s/:@\"'<>]{1,256}:[^\s/@\"'<>]{1,1024}@", f"://{MARK}@"),
)  # fmt: skip


class Redactor:
    """Replaces the given values, and whatever has the shape of a well-known credential."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {form for secret in secrets for value in {secret, secret.strip()} for form in _forms(value)}
        # The longest first: a form may hold a shorter one, whose replacement would leave its rest.
        self._needles = sorted(forms, key=lambda form: (-len(form), form))

    def __repr__(self) -> str:
        return f"Redactor({len(self._needles)} forms)"

    def text(self, text: str) -> str:
        """Return the text with `[redacted]` in place of each secret; the same object when there is none."""
        for needle in self._needles:
            if needle in text:
                text = text.replace(needle, MARK)
        for hints, expression, replacement in _SHAPES:
            if any(hint in text for hint in hints):
                text = re.sub(expression, replacement, text)
        return text

    def lines(self, lines: Iterable[str]) -> list[str]:
        """Return as many lines without the secrets in them; one that goes over several lines leaves empty ones."""
        if not (each := list(lines)):
            return []
        text = "\n".join(each)
        for needle in self._needles:
            if "\n" in needle:
                text = text.replace(needle, MARK + "\n" * needle.count("\n"))
        if _KEY_HINT in text:
            text = re.sub(_KEY, lambda key: MARK + "\n" * key[0].count("\n"), text)
        return [self.text(line) for line in text.split("\n")]


class LiveRedactor(Redactor):
    """A redactor of secrets that change: they are asked for each time.

    Args:
        secrets: returns all that there are now.
    """

    def __init__(self, secrets: Callable[[], frozenset[str]]) -> None:
        self._secrets, self._known = secrets, secrets()
        super().__init__(self._known)

    def text(self, text: str) -> str:
        """Return the text with `[redacted]` in place of each secret; see `Redactor`."""
        self._look()
        return super().text(text)

    def lines(self, lines: Iterable[str]) -> list[str]:
        """Return as many lines without the secrets in them; see `Redactor`."""
        self._look()
        return super().lines(lines)

    def _look(self) -> None:
        if (secrets := self._secrets()) != self._known:
            self._known = secrets
            super().__init__(secrets)


def last(text: str, characters: int) -> str:
    """Return the end of a redacted text; a mark at the cut is not cut."""
    start = max(len(text) - characters, 0)
    mark = text.rfind(MARK, 0, start + len(MARK) - 1)
    return text[mark if mark != -1 and mark < start < mark + len(MARK) else start :]


def _forms(secret: str) -> Iterator[str]:
    """Yield a secret in the forms in which it may be met."""
    if len(secret) < MIN_SECRET_CHARS:
        return
    import json

    yield secret
    for is_ascii in (True, False):
        once = json.dumps(secret, ensure_ascii=is_ascii)[1:-1]
        yield once
        yield json.dumps(once, ensure_ascii=is_ascii)[1:-1]
    data = secret.encode("utf-8", "surrogatepass")
    yield from (_percent(data, safe=b"/"), _percent(data, safe=b""), _percent(data, safe=b"").replace("%20", "+"))
    yield from (data.hex(), data.hex().upper())
    yield from _base64_forms(data)


def _percent(data: bytes, *, safe: bytes) -> str:
    kept = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~" + safe
    return "".join(chr(byte) if byte in kept else f"%{byte:02X}" for byte in data)


def _base64_forms(data: bytes) -> Iterator[str]:
    """Yield the characters of base64 that depend on these bytes alone, wherever they stand in a longer text."""
    yield from _both_alphabets(binascii.b2a_base64(data, newline=False).decode())
    for shift in range(3):
        encoded = binascii.b2a_base64(bytes(shift) + data, newline=False).decode()
        first, last = -(-shift * 8 // 6), (shift + len(data)) * 8 // 6
        yield from _both_alphabets(encoded[first:last])


def _both_alphabets(encoded: str) -> tuple[str, str]:
    return encoded, encoded.translate({ord("+"): "-", ord("/"): "_"})
