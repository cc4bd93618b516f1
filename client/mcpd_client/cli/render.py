"""Text for people: tables, errors, sizes and times; and the removal of what could harm a terminal.

On a terminal tables have a header and fit its width; in a pipe columns are separated by tabs, whole
and without a header. Everything is written as UTF-8 straight to the descriptor.
"""

from __future__ import annotations

import json
import os
import re
import sys
import unicodedata

from mcpd_client.errors import ClientError, to_object
from mcpd_client.fast import write_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Escape sequences go as a whole, so that no "[31m" is left behind; then single control characters, C0 and C1
# but for tab and newline; then what reorders text (bidirectional overrides and isolates).
_UNSAFE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)
# In less a text is not to be read: it goes below.
LEAST_WRAPPED = 24
MARGIN = "     "
# Of a path in a line or a table.
PATH_CELLS = 24
_SEARCHED = re.compile(r"(not found in PATH [^:;\n]*:[^:;\n]*:)[^;\n]+")
_STYLES = {"dim": "2", "bold": "1", "red": "31", "green": "32", "yellow": "33"}


def clean(text: str) -> str:
    """Remove from a server's text what a terminal would obey; newlines and tabs stay."""
    return _UNSAFE.sub("", text.replace("\r\n", "\n"))


def clean_line(text: str) -> str:
    """Return `clean(text)` in one line."""
    return " ".join(clean(text).split())


def brief(text: str) -> str:
    """Return what a server says of itself with only the first folders of a PATH that was searched; `get` has all."""
    return _SEARCHED.sub(r"\1…", text)


def terminal_columns(fd: int) -> int | None:
    """Return the width of the terminal at `fd`; None if it is not one."""
    if not os.isatty(fd):
        return None
    return os.get_terminal_size(fd).columns or 80


class Style:
    """How to mark text up for one descriptor: colours and the signs that its encoding has."""

    def __init__(self, fd: int, *, no_color: bool = False, environ: Mapping[str, str] = os.environ) -> None:
        wanted = not no_color and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
        self.has_color = wanted and os.isatty(fd)
        self.has_unicode = "utf" in (sys.stdout.encoding if sys.stdout is not None else "utf-8").lower()

    def paint(self, text: str, style: str) -> str:
        """Return `text` in a style, if there are any here."""
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.has_color and text else text

    def sign(self, sign: str, ascii_sign: str) -> str:
        """Return `sign`, or what stands for it where it cannot be shown."""
        return sign if self.has_unicode else ascii_sign


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, columns: int | None, style: Style, wrap: bool = False
) -> str:
    """Lay out rows; the last column is cut to fit, or with `wrap` goes on below.

    Args:
        header: one title per column; shown on a terminal only.
        rows: cells of text from servers.
        columns: the width of the terminal; None for a pipe.
        style: for the header.
        wrap: nothing of the last column may be lost.
    """
    head, *lines = table_lines(header, rows, columns=columns, wrap=wrap)
    return "".join([style.paint(head, "dim") + "\n" if columns is not None else "", *lines])


def table_lines(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, columns: int | None, wrap: bool = False
) -> list[str]:
    """Return the header without its newline, and the text of each row, which may have several lines."""
    cells = [[" ".join(cell.split()) for cell in row] for row in rows]
    if columns is None:
        return ["", *("\t".join(row) + "\n" for row in cells)]
    cells = [[clean(cell) for cell in row] for row in cells]
    widths = [max(display_width(row[i]) for row in [header, *cells]) for i in range(len(header))]
    room = columns - sum(widths[:-1]) - 2 * (len(header) - 1)
    if not wrap:
        return [_line(header, widths, max(room, 8)), *(_line(row, widths, max(room, 8)) + "\n" for row in cells)]
    widest = max((display_width(row[-1]) for row in cells), default=0)
    if widest <= max(room, 0):
        title = header[-1] if display_width(header[-1]) <= room else ""
        return [_line([*header[:-1], title], widths, room), *(_line(row, widths, room) + "\n" for row in cells)]
    head, *lines = [_wrapped(row, widths, room, columns) for row in [header, *cells]]
    return [head.rstrip("\n"), *lines]


def display_width(text: str) -> int:
    """Return how many cells of a terminal `text` takes."""
    if text.isascii():
        return len(text)
    return sum(_character_width(character) for character in text)


def shorten(text: str, width: int) -> str:
    """Cut `text` to `width` cells, with `…` where something is missing."""
    if display_width(text) <= width:
        return text
    kept: list[str] = []
    room = width - 1
    for character in text:
        room -= _character_width(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept).rstrip() + "…"


def short_path(path: str, width: int = PATH_CELLS) -> str:
    """Return a path for people: the home directory as `~`, and of a long one the end."""
    from mcpd_client.address import home

    above = home(os.environ, os.geteuid()).rstrip("/")
    shown = clean_line(path)
    if above and (path == above or path.startswith(f"{above}/")):
        shown = "~" + clean_line(path[len(above) :])
    while display_width(shown) > width:
        shown = "…" + shown.removeprefix("…")[1:]
    return shown


def format_bytes(count: float) -> str:
    """Return a size for people: `17 B`, `1.5 KiB`, `12 MiB`."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def format_age(seconds: float) -> str:
    """Return a duration for people, in its largest unit: `3 s`, `5 min`, `2 h`, `4 d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def render_error(error: ClientError, *, as_json: bool = False) -> str:
    """Return an error for people, at most three lines: what, why, what to type; or one line of JSON."""
    if as_json:
        return json.dumps(to_object(error), ensure_ascii=False, separators=(",", ":")) + "\n"
    lines = [f"error: {brief(clean_line(error.message))}"]
    if error.reason:
        lines.append(f"  {brief(clean_line(error.reason))}")
    if error.hint:
        hint = clean_line(error.hint)
        lines.append(f"  try: {hint}" if hint.startswith("mcpd ") else f"  {hint}")
    return "".join(f"{line}\n" for line in lines)


def print_out(text: str) -> None:
    """Write data to stdout."""
    write_text(1, text)


def print_note(text: str) -> None:
    """Write one line about what is going on to stderr."""
    write_text(2, f"{text}\n")


def dump(value: object) -> str:
    """Return a value as one line of JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


def _line(row: Sequence[str], widths: Sequence[int], room: int) -> str:
    parts = [cell + " " * (width - display_width(cell)) for cell, width in zip(row[:-1], widths[:-1], strict=True)]
    return "  ".join([*parts, shorten(row[-1], max(room, 0))]).rstrip()


def _wrapped(row: Sequence[str], widths: Sequence[int], room: int, columns: int) -> str:
    """Return a row whose last cell goes on in its column, or stands below the row where that is too narrow."""
    if room < LEAST_WRAPPED:
        below = _broken(row[-1], max(columns - len(MARGIN), 8), MARGIN)
        return "".join(f"{line}\n" for line in [_line([*row[:-1], ""], widths, room), *below])
    first, *more = _broken(row[-1], room, " " * (sum(widths[:-1]) + 2 * (len(widths) - 1))) or [""]
    return "".join(f"{line}\n" for line in [_line([*row[:-1], first.strip()], widths, room), *more])


def _broken(text: str, width: int, margin: str) -> list[str]:
    """Break a line into several; a word that is too long for one is broken, too."""
    import textwrap

    # A character may be two cells wide.
    limit = width if display_width(text) == len(text) else width // 2
    return [margin + line for line in textwrap.wrap(text, limit, break_on_hyphens=False)]


def _character_width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
