"""TOML, edited in place: one table `[SECTION.NAME]` at a time, everything else keeps every byte.

`tomllib` says what a text means and refuses what is not TOML; here is only where things stand. Every edit is
read again and compared before it is handed out.
"""

from __future__ import annotations

import json
import re
import tomllib

from mcpd_client.hosts.jsonc import BOM, EditError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

_BLANK = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
_SPACE = re.compile(r"[ \t]*+")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+'""")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_LINE_END = re.compile(r"[ \t]*+(?:#[^\n]*+)?(?:\n|\r\n|\Z)")
# What a value is made of, as far as its end is concerned.
_PIECE = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+"{3,5}|' + r"'''(?:[^']|'(?!''))*+'{3,5}|"
    r'"(?:[^"\\\n]|\\.)*+"|' + r"'[^'\n]*+'|#[^\n]*+|[\[\]{}]|\n|[^\"'#\[\]{}\n]++",
    re.DOTALL,
)


class Statement:
    """A header or a `key = value`: its whole path, where it stands with its line's end, and where its value does."""

    __slots__ = ("end", "is_header", "path", "start", "value_end", "value_start")

    def __init__(self, path: tuple[str, ...], start: int, *, is_header: bool) -> None:
        self.path = path
        self.start = start
        self.is_header = is_header
        self.end = self.value_start = self.value_end = start


def read(text: str) -> dict[str, Any]:
    """Return what a text means.

    Raises:
        EditError: it is not TOML.
    """
    # TOML takes "\r\n" for a newline; a "\r" alone is an error, which tomllib finds.
    try:
        return tomllib.loads(text.removeprefix(BOM))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise EditError(str(error) or "too many levels") from None


def has_comments(text: str) -> bool:
    """Tell whether a text that can be read has a comment."""
    return any(True for _ in comments(text))


def comments(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the content of each comment stands, in a text that can be read."""
    for found in _PIECE.finditer(text):
        if found[0].startswith("#"):
            yield found.start() + 1, found.end()


def values(text: str) -> Iterator[tuple[int, int, tuple[str, ...], Any]]:
    """Yield each `key = value`: where its value stands, its whole path, and what it is."""
    read(text)
    for each in scan(text):
        if not each.is_header:
            value = read(f"value = {text[each.value_start : each.value_end]}")["value"]
            yield each.value_start, each.value_end, each.path, value


def set_entry(text: str, section: str, name: str, entry: Mapping[str, Any]) -> str:
    """Return the text in which the table SECTION.NAME has these members; others that it has stay.

    Raises:
        EditError: the text cannot be read, or the table is written in a way that cannot be edited.
    """
    whole = read(text)
    tables = _tables(whole, section)
    expected = {**whole, section: {**tables, name: {**tables.get(name, {}), **entry}}}
    if name not in tables:
        return _checked(_appended(text, section, name, entry), expected)
    result = text
    for key, value in entry.items():
        result = _with_member(result, (section, name), key, value)
    return _checked(result, expected)


def remove(text: str, section: str, name: str) -> str:
    """Return the text without the table SECTION.NAME and what is below it; the same text if there is none.

    Raises:
        EditError: as for `set_entry`.
    """
    whole = read(text)
    tables = _tables(whole, section)
    if name not in tables:
        return text
    left = {key: value for key, value in tables.items() if key != name}
    result = text
    for start, end in reversed(_ranges(text, (section, name))):
        result = _without_range(result, start, end)
    try:
        found = read(result)
    except EditError:
        found = {}
    # Without its last entry a section that has no header of its own is gone.
    if {section: {}, **found} != {**whole, section: left}:
        raise EditError(f"{section}.{name} is written in a way that cannot be edited")
    return result


def dump(section: str, name: str, entry: Mapping[str, Any], newline: str = "\n") -> str:
    """Return one table, its last newline included."""
    lines = [f"[{_key(section)}.{_key(name)}]", *(f"{_key(key)} = {_value(value)}" for key, value in entry.items())]
    return "".join(line + newline for line in lines)


def scan(text: str) -> list[Statement]:
    """Return the statements of a text that can be read, in order."""
    found: list[Statement] = []
    table: tuple[str, ...] = ()
    at = _skip(text, 1 if text.startswith(BOM) else 0)
    while at < len(text):
        if text[at] == "[":
            opening = 2 if text.startswith("[[", at) else 1
            table, end = _dotted(text, at + opening)
            statement = Statement(table, at, is_header=True)
            statement.value_start = statement.value_end = end + opening
        else:
            keys, end = _dotted(text, at)
            statement = Statement((*table, *keys), at, is_header=False)
            statement.value_start = _spaces(text, end + 1)
            statement.value_end = _end_of_value(text, statement.value_start)
        line_end = _LINE_END.match(text, statement.value_end)
        statement.end = line_end.end() if line_end else statement.value_end
        found.append(statement)
        at = _skip(text, max(statement.end, at + 1))
    return found


def _dotted(text: str, at: int) -> tuple[tuple[str, ...], int]:
    """Return a dotted key, and where it ends."""
    keys: list[str] = []
    while found := _KEY.match(text, _spaces(text, at)):
        token = found[0]
        keys.append(token if token[0] not in "\"'" else next(iter(tomllib.loads(f"{token} = 0"))))
        at = _spaces(text, found.end())
        if not text.startswith(".", at):
            break
        at += 1
    return tuple(keys), at


def _end_of_value(text: str, at: int) -> int:
    depth, end = 0, at
    while found := _PIECE.match(text, at):
        piece = found[0]
        if depth == 0 and piece[0] in "#\n":
            break
        depth += (piece in "[{") - (piece in "]}")
        at = found.end()
        end = at if piece.strip() else end
    while text[end - 1] in " \t\r":
        end -= 1
    return end


def _ranges(text: str, path: tuple[str, ...]) -> list[tuple[int, int]]:
    """Return where everything at or below a path stands; comments between two of its lines are part of it."""
    ranges: list[tuple[int, int]] = []
    before: Statement | None = None
    for each in scan(text):
        if each.path[: len(path)] == path:
            if before is not None and not each.is_header:
                ranges[-1] = (ranges[-1][0], each.end)
            else:
                ranges.append((each.start, each.end))
            before = each
        else:
            before = None
    return [(_line_start(text, start), end) for start, end in ranges]


def _without_range(text: str, start: int, end: int) -> str:
    """Cut some lines, and the empty line that would be one too many."""
    head, tail = text[:start], text[end:]
    if head.endswith(("\n\n", "\r\n\r\n")) or not head:
        if tail.startswith(("\n", "\r\n")):
            tail = tail[tail.index("\n") + 1 :]
        elif not tail and head:
            head = head[:-2] if head.endswith("\r\n") else head[:-1]
    return head + tail


def _with_member(text: str, path: tuple[str, str], key: str, value: Any) -> str:
    statements = scan(text)
    for each in statements:
        if each.path == (*path, key) and not each.is_header:
            return text[: each.value_start] + _value(value) + text[each.value_end :]
    for each in statements:
        if each.path == path and each.is_header:
            line = f"{_key(key)} = {_value(value)}{_newline(text)}"
            gap = "" if text[: each.end].endswith("\n") else _newline(text)
            return text[: each.end] + gap + line + text[each.end :]
    return _appended(text, *path, {key: value})


def _appended(text: str, section: str, name: str, entry: Mapping[str, Any]) -> str:
    newline = _newline(text)
    head = text if not text or text.endswith("\n") or text == BOM else text + newline
    gap = "" if not head.strip(BOM + " \t\r\n") else newline
    return head + gap + dump(section, name, entry, newline)


def _tables(whole: Mapping[str, Any], section: str) -> dict[str, Any]:
    tables = whole.get(section, {})
    if not isinstance(tables, dict):
        raise EditError(f"{section} is not a table")
    return tables


def _checked(text: str, expected: Mapping[str, Any]) -> str:
    """Return a text that means what it is meant to.

    Raises:
        EditError: it does not; rather no edit than a wrong one.
    """
    try:
        found = read(text)
    except EditError:
        found = {}
    if found != expected:
        raise EditError("its layout is too unusual for an edit")
    return text


def _key(text: str) -> str:
    return text if _BARE.fullmatch(text) else _value(text)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_value(item) for item in value)}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _spaces(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _line_start(text: str, at: int) -> int:
    start = text.rfind("\n", 0, at) + 1
    return start + (text.startswith(BOM) and start == 0)
