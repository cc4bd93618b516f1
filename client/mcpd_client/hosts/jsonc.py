"""JSON with comments and trailing commas, read with the place of everything in it."""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

BOM = "\ufeff"
# Deeper than any file of a host, and far from the interpreter's own limit.
MAX_DEPTH = 200
COMMENT = re.compile(r"//[^\r\n]*+|/\*(?:[^*]|\*(?!/))*+\*/")

_TRIVIA = re.compile(r"(?:[ \t\r\n]++|//[^\r\n]*+|/\*(?:[^*]|\*(?!/))*+\*/)*+")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*+"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?(?![0-9A-Za-z_.])")
_WORD = re.compile(r"(?:true|false|null)(?![0-9A-Za-z_])")
_STRING_OR_COMMENT = re.compile(f"{_STRING.pattern}|{COMMENT.pattern}")


class EditError(Exception):
    """A text that cannot be read, or has no place for the edit; nothing is changed."""


class Node:
    """One value and where it stands; `members` is None for all but objects, `items` for all but arrays."""

    __slots__ = ("end", "items", "members", "start", "value")

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self.value: Any = None
        self.members: list[Member] | None = None
        self.items: list[Node] | None = None


class Member:
    """One member of an object: from its key to its value; `comma` is where the comma after it stands, if any."""

    __slots__ = ("comma", "key", "node", "start")

    def __init__(self, key: str, start: int, node: Node) -> None:
        self.key = key
        self.start = start
        self.node = node
        self.comma: int | None = None

    @property
    def end(self) -> int:
        """Where the next thing may begin: after the value, or after its comma."""
        return self.node.end if self.comma is None else self.comma + 1


def read(text: str) -> Any:
    """Return the value of a text; an empty object if there is nothing but space and comments.

    Raises:
        EditError: it is not JSON with comments.
    """
    try:
        # A hundred times faster; some files have megabytes of history in them.
        return json.loads(text.removeprefix(BOM), parse_constant=_refuse)
    except (ValueError, RecursionError):
        pass
    root = parse(text)
    return {} if root is None else root.value


def has_comments(text: str) -> bool:
    """Tell whether a text that can be read has a comment."""
    return any(True for _ in comments(text))


def comments(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the content of each comment stands, in a text that can be read."""
    for found in _STRING_OR_COMMENT.finditer(text):
        if found[0].startswith("/"):
            yield found.start() + 2, found.end() - 2 * found[0].startswith("/*")


def strings(text: str) -> Iterator[tuple[int, int, tuple[str, ...], str]]:
    """Yield each string that is a value: where it stands, the keys on the way to it, and what it says."""
    root = parse(text)
    if root is not None:
        yield from _strings(root, ())


def parse(text: str) -> Node | None:
    """Return the whole of a text; None if there is nothing but space and comments.

    Raises:
        EditError: it is not JSON with comments.
    """
    start = _skip(text, 1 if text.startswith(BOM) else 0)
    if start == len(text):
        return None
    root = _value(text, start, 0)
    if (end := _skip(text, root.end)) != len(text):
        raise _wrong(text, end, "the end of the file")
    return root


def _value(text: str, start: int, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise _wrong(text, start, f"at most {MAX_DEPTH} levels")
    node = Node(start)
    if text.startswith("{", start):
        _object(text, node, depth)
    elif text.startswith("[", start):
        _array(text, node, depth)
    elif found := _STRING.match(text, start) or _NUMBER.match(text, start) or _WORD.match(text, start):
        node.end = found.end()
        node.value = _decode(text, start, found[0])
    else:
        raise _wrong(text, start, "a value")
    return node


def _object(text: str, node: Node, depth: int) -> None:
    node.members, node.value = [], {}
    at = _skip(text, node.start + 1)
    while not text.startswith("}", at):
        key = _STRING.match(text, at)
        if key is None:
            raise _wrong(text, at, "a key in double quotes, or }")
        name = _decode(text, at, key[0])
        colon = _skip(text, key.end())
        if not text.startswith(":", colon):
            raise _wrong(text, colon, "a colon")
        member = Member(name, at, _value(text, _skip(text, colon + 1), depth + 1))
        node.members.append(member)
        node.value[name] = member.node.value
        at = _skip(text, member.node.end)
        if text.startswith(",", at):
            member.comma = at
            at = _skip(text, at + 1)
        elif not text.startswith("}", at):
            raise _wrong(text, at, "a comma or }")
    node.end = at + 1


def _array(text: str, node: Node, depth: int) -> None:
    node.items, node.value = [], []
    at = _skip(text, node.start + 1)
    while not text.startswith("]", at):
        item = _value(text, at, depth + 1)
        node.items.append(item)
        node.value.append(item.value)
        at = _skip(text, item.end)
        if text.startswith(",", at):
            at = _skip(text, at + 1)
        elif not text.startswith("]", at):
            raise _wrong(text, at, "a comma or ]")
    node.end = at + 1


def _decode(text: str, start: int, token: str) -> Any:
    try:
        return json.loads(token)
    except ValueError:
        raise _wrong(text, start, "a value") from None


def _strings(node: Node, path: tuple[str, ...]) -> Iterator[tuple[int, int, tuple[str, ...], str]]:
    for member in node.members or ():
        yield from _strings(member.node, (*path, member.key))
    for item in node.items or ():
        yield from _strings(item, path)
    if isinstance(node.value, str):
        yield node.start, node.end, path, node.value


def _skip(text: str, at: int) -> int:
    found = _TRIVIA.match(text, at)
    return found.end() if found else at


def _refuse(name: str) -> None:
    """Refuse NaN and Infinity, which Python takes for JSON."""
    raise ValueError(name)


def _wrong(text: str, at: int, expected: str) -> EditError:
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    return EditError(f"line {line}, column {column}: expected {expected}")
