"""Text for people: without what a terminal would obey, in one line, of one width, in a table.

What servers say is untrusted. Here it loses the power to move a cursor, to set a title, to reorder a
line or to carry what nobody sees; it is never interpreted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ELLIPSIS = "…"
# A table needs some room for its last column, even on a terminal that is too narrow for it.
LEAST_COLUMN = 10
# Near names are searched in so many, of such a length: a server chooses how many tools and keys it has.
NEAR_CANDIDATES = 500
NEAR_CHARACTERS = 100

# Compiled when they are first needed: the daemon is to listen before that.
_ASCII_CONTROL = "[\x00-\x08\x0b-\x1f\x7f]"
# No part of an expression can run past a control character, so that hostile text is read once. What has
# no proper end loses its introducer only: then it is text like any other.
_CONTROL = (
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    "|(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])[^\x00-\x1f\x7f-\x9f]*(?:\x07|\x1b\\\\|\x9c)"  # OSC, DCS …: titles, links
    "|\x1b[ -/]*[0-~]"  # other escape sequences
    "|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
_HIDDEN = "[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]"


class Output(Struct, frozen=True):
    """What a command prints, and its exit code; `wants` is the error that a sign-in would cure."""

    exit: int
    stdout: str = ""
    stderr: str = ""
    wants: dict[str, Any] | None = None


def clean(text: str) -> str:
    """Return the text as a terminal may have it.

    Control characters other than newline and tab are gone, with the sequences that they begin;
    bidirectional controls and tag characters are spelled out as `<U+202E>`.
    """
    if text.isascii() and not re.search(_ASCII_CONTROL, text):
        return text
    return re.sub(_HIDDEN, _spelled, re.sub(_CONTROL, "", text))


def escaped(json: str) -> str:
    """Return JSON that means the same, with escapes for what `clean` would remove or spell out."""
    if json.isascii() and "\x7f" not in json:
        return json
    # Outside of strings there is no such character.
    return re.sub(f"[\x7f-\x9f]|{_HIDDEN}", _escape, json)


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[index : index + 4]}" for index in range(0, len(units), 4))


def _spelled(found: re.Match[str]) -> str:
    return f"<U+{ord(found[0]):04X}>"


def one_line(text: str, limit: int | None = None) -> str:
    """Return the text cleaned, in one line with single spaces, and cut to `limit` characters."""
    # White space and control sequences go, but a server's megabyte is not worth looking at for a line.
    cut = text if limit is None else text[: 8 * limit + 1000]
    line = " ".join(clean(cut.replace("\r", "\n")).split())
    return line if limit is None or len(line) <= limit else line[: limit - 1] + ELLIPSIS


def brief(text: str) -> str:
    """Return an error with only the first folders of a PATH that was searched; `mcpd get` has all of them."""
    return re.sub(r"(not found in PATH [^:;\n]*:[^:;\n]*:)[^;\n]+", rf"\1{ELLIPSIS}", text)


def with_newline(text: str) -> str:
    """Return the text with a newline at its end, unless there is one or nothing at all."""
    return text if not text or text.endswith("\n") else text + "\n"


def width(text: str) -> int:
    """Return how many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    import unicodedata

    columns = 0
    for character in text:
        if unicodedata.category(character) not in ("Mn", "Me", "Cf"):
            columns += 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
    return columns


def fit(text: str, columns: int) -> str:
    """Cut a line to a number of columns, with an ellipsis where something is missing."""
    # No character takes less than nothing, and marks without a width must not make a line endless.
    if len(text) <= columns and width(text) <= columns:
        return text
    used, kept = 0, []
    for character in text[: 4 * columns]:
        used += width(character)
        if used >= columns:
            break
        kept.append(character)
    return "".join(kept).rstrip() + ELLIPSIS


def wrap(text: str, columns: int | None, indent: str = "") -> list[str]:
    """Break text into lines of at most `columns`, each indented; None keeps the lines as they are.

    Line ends of the text stay, and the indentation of a line is that of its continuation.
    """
    lines: list[str] = []
    for line in clean(text).strip("\n").split("\n"):
        stripped = line.strip()
        margin = indent + line[: len(line) - len(line.lstrip())].expandtabs(4)[:16]
        if not stripped:
            lines.append("")
        elif columns is None or width(margin) + width(stripped) <= columns:
            lines.append(margin + stripped)
        else:
            lines += _broken(stripped.split(), columns, margin)
    return lines


def _broken(words: Iterable[str], columns: int, margin: str) -> list[str]:
    lines, line, used = [], "", 0
    for word in words:
        size = width(word)
        if line and used + 1 + size > columns:
            lines.append(line)
            line = ""
        line, used = (f"{line} {word}", used + 1 + size) if line else (margin + word, width(margin) + size)
    return [*lines, line]


def table(header: Sequence[str], rows: Sequence[Sequence[str]], columns: int | None) -> str:
    """Lay out rows of cleaned one-line texts.

    On a terminal of `columns` there is a header, and the last column shrinks to what is left. Anywhere
    else (None) cells are whole and separated by tabs, for `cut` and `awk`.
    """
    if columns is None:
        return "".join("\t".join(row) + "\n" for row in rows)
    lines = [header, *rows]
    sizes = [max(width(row[index]) for row in lines) for index in range(len(header) - 1)]
    left = max(LEAST_COLUMN, columns - sum(sizes) - 2 * len(sizes))
    return "".join(_aligned(row, sizes, left) + "\n" for row in lines)


def _aligned(row: Sequence[str], sizes: Sequence[int], left: int) -> str:
    cells = [cell + " " * (size - width(cell)) for cell, size in zip(row, sizes, strict=False)]
    return "  ".join([*cells, fit(row[-1], left)]).rstrip()


def size_text(count: int) -> str:
    """Return a number of bytes for people: `512 bytes`, `3.4 kB`, `34 kB`, `1.2 MB`."""
    if count < 1000:
        return "1 byte" if count == 1 else f"{count} bytes"
    size, unit = count / 1000, "kB"
    for larger in ("MB", "GB"):
        if size < 999.5:
            break
        size, unit = size / 1000, larger
    return f"{size:.0f} {unit}" if size >= 9.95 else f"{size:.1f} {unit}"


def listed(names: Sequence[str], word: str = "and") -> str:
    """Return `a`, `a and b`, `a, b and c`."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {word} {names[-1]}"


def near(name: str, candidates: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the candidate that was probably meant, if any is near enough: 1 is the very name."""
    import difflib
    from itertools import islice

    short = [candidate for candidate in islice(candidates, NEAR_CANDIDATES) if len(candidate) <= NEAR_CHARACTERS]
    folded = {candidate.casefold(): candidate for candidate in reversed(short)}
    found = difflib.get_close_matches(name[:NEAR_CHARACTERS].casefold(), folded, n=1, cutoff=cutoff)
    return folded[found[0]] if found else None
