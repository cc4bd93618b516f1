"""Edits of JSON with comments and trailing commas: what is not meant keeps every byte.

An edit finds the spans of one member and changes the text there. It is checked before it is handed out: the
new text read again must be the old value with just that change.
"""

from __future__ import annotations

import json

from mcpd_client.hosts.jsonc import BOM, COMMENT, EditError, Member, Node, parse, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

DEFAULT_UNIT = "  "


def set_value(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text with the member at `path` set, objects on the way made where they are missing.

    Raises:
        EditError: the text cannot be read, or something on the way is not an object.
    """
    root = parse(text)
    if root is None:
        result = _first_object(text, _nested(path, value))
    else:
        node, found, rest = _walk(root, path)
        result = (
            _inserted(text, root, node, rest[0], _nested(rest[1:], value))
            if found is None
            else _replaced(text, found, value)
        )
    expected = {} if root is None else root.value
    return _checked(result, _with(expected, path, value))


def remove(text: str, path: Sequence[str]) -> str:
    """Return the text without the member at `path`; the same text if there is none.

    Raises:
        EditError: the text cannot be read, or something on the way is not an object.
    """
    root = parse(text)
    if root is None:
        return text
    node, found, _ = _walk(root, path)
    if found is None:
        return text
    return _checked(_removed(text, node, found), _without(root.value, path))


def _walk(root: Node, path: Sequence[str]) -> tuple[Node, Member | None, Sequence[str]]:
    """Follow a path as far as it goes: the last object, the member if all of it is there, and what is left."""
    node, found = root, None
    for position, key in enumerate(path):
        if node.members is None:
            where = ".".join(path[:position])
            raise EditError(f"{where or 'the whole'} is not an object")
        same = [member for member in node.members if member.key == key]
        if len(same) > 1:
            raise EditError(f"{'.'.join(path[: position + 1])} is there twice")
        if not same:
            return node, None, path[position:]
        found = same[0]
        if position < len(path) - 1:
            node = found.node
    return node, found, ()


def _first_object(text: str, value: Any) -> str:
    """Return an object after what there is: nothing, or comments."""
    newline = _newline(text)
    if text.strip(BOM + " \t\r\n"):
        head = text if text.endswith("\n") else text + newline
    else:
        head = BOM if text.startswith(BOM) else ""
    return head + _dump(value, "", DEFAULT_UNIT, newline) + newline


def _replaced(text: str, member: Member, value: Any) -> str:
    node = member.node
    was_in_line = bool(node.members or node.items) and "\n" not in text[node.start : node.end]
    if was_in_line or not _is_own_line(text, member.start):
        new = _dump_inline(value, text)
    else:
        new = _dump(value, _margin(text, member.start), _unit(text, None), _newline(text))
    return text[: node.start] + new + text[node.end :]


def _inserted(text: str, root: Node, node: Node, key: str, value: Any) -> str:
    """Return the text with one more member at the end of an object, laid out as its neighbours are."""
    members = node.members
    if members is None:
        raise EditError("the whole is not an object")
    if not members:
        return _inserted_first(text, root, node, key, value)
    last = members[-1]
    comma = "" if last.comma is not None else ","
    own_comma = "," if last.comma is not None else ""
    name = json.dumps(key, ensure_ascii=False)
    if not _is_own_line(text, last.start):
        gap = "" if _is_compact(text) else " "
        new = f"{comma}{gap}{name}:{gap}{_dump_inline(value, text)}{own_comma}"
        return text[: last.end] + new + text[last.end :]
    margin = _margin(text, last.start)
    place = _end_of_remark(text, last.end)
    new = f"{name}: {_dump(value, margin, _unit(text, root), _newline(text))}{own_comma}"
    return f"{text[: last.node.end]}{comma}{text[last.node.end : place]}{_newline(text)}{margin}{new}{text[place:]}"


def _inserted_first(text: str, root: Node, node: Node, key: str, value: Any) -> str:
    name = json.dumps(key, ensure_ascii=False)
    inside = text[node.start + 1 : node.end - 1]
    if _is_one_line(text) and node is root and not inside.strip():
        return (
            text[: node.start]
            + _dump({key: value}, _margin(text, node.start), DEFAULT_UNIT, _newline(text))
            + text[node.end :]
        )
    if _is_one_line(text):
        gap = "" if _is_compact(text) else " "
        kept = f"{inside.rstrip()} " if inside.strip() else ""
        return f"{text[: node.start + 1]}{kept}{name}:{gap}{_dump_inline(value, text)}{text[node.end - 1 :]}"
    newline, base = _newline(text), _margin(text, node.start)
    margin = base + _unit(text, root)
    kept = inside.rstrip(" \t\r\n")
    after = inside[len(kept) :]
    closing = after if "\n" in after else newline + base
    new = f"{kept}{newline}{margin}{name}: {_dump(value, margin, _unit(text, root), newline)}{closing}"
    return text[: node.start + 1] + new + text[node.end - 1 :]


def _removed(text: str, node: Node, member: Member) -> str:
    members = node.members or []
    place = members.index(member)
    start, end = member.start, member.end
    is_last = place == len(members) - 1
    # The comma before it would be one too many, where the last member has none.
    before = members[place - 1].comma if is_last and place and member.comma is None else None
    line_end = _end_of_line(text, _end_of_remark(text, end))
    if _is_own_line(text, start) and line_end is not None:
        start, end = text.rindex("\n", 0, start) + 1, line_end
    elif not is_last:
        end += _spaces(text, end)
    elif before is not None and not text[before + 1 : start].strip():
        start, before = before, None
    if len(members) == 1 and not (text[node.start + 1 : start] + text[end : node.end - 1]).strip():
        return text[: node.start] + "{}" + text[node.end :]
    head = text[:start] if before is None else text[:before] + text[before + 1 : start]
    return head + text[end:]


def _end_of_remark(text: str, start: int) -> int:
    """Return where the comments end that follow on the same line; `start` if there are none."""
    end = start
    while True:
        at = end
        while text[at : at + 1] in (" ", "\t"):
            at += 1
        found = COMMENT.match(text, at)
        if found is None:
            return end
        end = found.end()


def _end_of_line(text: str, start: int) -> int | None:
    """Return where the next line begins if there is nothing more on this one."""
    end = start + _spaces(text, start)
    if end == len(text):
        return end
    return end + 1 if text[end] == "\n" else None


def _dump(value: Any, margin: str, unit: str, newline: str) -> str:
    return json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", newline + margin)


def _dump_inline(value: Any, text: str) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":") if _is_compact(text) else (", ", ": "))


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _is_compact(text: str) -> bool:
    """Tell whether there is no space after colons, as in a text that a program has written in one line."""
    return _is_one_line(text) and '":' in text and '": ' not in text


def _is_one_line(text: str) -> bool:
    return "\n" not in text.strip()


def _is_own_line(text: str, start: int) -> bool:
    line = text.rfind("\n", 0, start)
    return line >= 0 and not text[line + 1 : start].strip(" \t")


def _margin(text: str, start: int) -> str:
    line = text[text.rfind("\n", 0, start) + 1 : start].lstrip(BOM)
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str, root: Node | None) -> str:
    """Return what a level is indented by: as the first member of the whole is."""
    root = root or parse(text)
    base = "" if root is None else _margin(text, root.start)
    for member in (root.members if root is not None else None) or ():
        if _is_own_line(text, member.start) and (unit := _margin(text, member.start).removeprefix(base)):
            return unit
    return DEFAULT_UNIT


def _nested(path: Sequence[str], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _with(value: Any, path: Sequence[str], new: Any) -> Any:
    if not path:
        return new
    inner = value.get(path[0], {}) if isinstance(value, dict) else {}
    return {**value, path[0]: _with(inner, path[1:], new)}


def _without(value: Any, path: Sequence[str]) -> Any:
    if len(path) == 1:
        return {key: each for key, each in value.items() if key != path[0]}
    return {**value, path[0]: _without(value[path[0]], path[1:])}


def _checked(text: str, expected: Any) -> str:
    """Return a text that says what it is meant to.

    Raises:
        EditError: it does not; rather no edit than a wrong one.
    """
    if read(text) != expected:
        raise EditError("its layout is too unusual for an edit")
    return text


def _spaces(text: str, start: int) -> int:
    end = start
    while text[end : end + 1] in (" ", "\t", "\r") and end < len(text):
        end += 1
    return end - start
