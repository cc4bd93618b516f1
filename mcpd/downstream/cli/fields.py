"""`--field`: one value out of a result, by a small dotted path.

`structuredContent.items[0].id`, `content[-1].text`, `structuredContent["odd.key"]`: names, indices
(from the end if negative) and quoted names. There are no wildcards and no filters: jq has them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from mcpd.downstream.cli.text import listed, near, one_line
from mcpd.errors import BadRequest
from mcpd.protocol import rawjson

if TYPE_CHECKING:
    from collections.abc import Sequence

Step = str | int

# Each step reads all that is below it once more.
MAX_STEPS = 64
# What an error lists of the names that there are.
MAX_NAMES = 12

# An index, a quoted name, a name. Compiled when the first path comes.
_STEP = r'\[(?P<index>-?[0-9]{1,9})\]|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]|(?P<dot>\.?)(?P<name>[^.\[\]"]+)'
_NAME = r'[^.\[\]"]+'


class Missing(Exception):
    """The result has no such value.

    Args:
        message: which part of the path has none.
        reason: what there is in its place.
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.message, self.reason = message, reason


def parse_path(path: str) -> tuple[Step, ...]:
    """Return the steps of a path.

    Raises:
        BadRequest: It is no path; the message says where.
    """
    steps: list[Step] = []
    position = 0
    while position < len(path) or not steps:
        step, position = _step(path, position)
        steps.append(step)
        if len(steps) > MAX_STEPS:
            raise BadRequest(f"--field has more than {MAX_STEPS} parts")
    return tuple(steps)


def _step(path: str, position: int) -> tuple[Step, int]:
    found = re.compile(_STEP).match(path, position)
    # A dot stands between a name and what is before it.
    if found is None or (found["name"] and bool(found["dot"]) is not bool(position)):
        raise _no_path(path, position)
    if found["index"]:
        return int(found["index"]), found.end()
    if found["name"]:
        return found["name"], found.end()
    try:
        return msgspec.json.decode(found["quoted"], type=str), found.end()
    except (msgspec.DecodeError, ValueError):
        raise _no_path(path, position) from None


def _no_path(path: str, position: int) -> BadRequest:
    shown = one_line(path, 80)
    where = f"at {one_line(path[position:], 20)}" if position < len(path) else "at its end"
    return BadRequest(
        f"--field {shown} is no path: something is wrong {where}",
        hint="write --field structuredContent.items[0].id or --field content[0].text",
    )


def find(result: bytes | Raw, steps: Sequence[Step]) -> Raw:
    """Return the JSON of the value that the steps lead to.

    Raises:
        Missing: There is none.
        ServerProtocol: The result is no valid JSON.
    """
    value = Raw(result)
    for number, step in enumerate(steps):
        value = _inside(value, step, steps[:number])
    return value


def _inside(value: Raw, step: Step, before: Sequence[Step]) -> Raw:
    kind = rawjson.kind(value)
    there = spelled(before) or "the result"
    missing = f"the result has no {one_line(spelled([*before, step]), 200)}"
    match kind, step:
        case "an object", str():
            members = rawjson.members(value, there)
            if step in members:
                return members[step]
            raise Missing(missing, _names(there, step, list(members)))
        case "an array", int():
            elements = rawjson.elements(value, there)
            if -len(elements) <= step < len(elements):
                return elements[step]
            raise Missing(missing, f"{there} has {_count(len(elements))}")
        case "an array", _:
            count = _count(len(rawjson.elements(value, there)))
            raise Missing(missing, f"{there} is an array of {count}: write {there}[0]")
        case _:
            raise Missing(missing, f"{there} is {kind}")


def spelled(steps: Sequence[Step]) -> str:
    """Return the path of some steps."""
    path = ""
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        elif re.fullmatch(_NAME, step):
            path += f".{step}" if path else step
        else:
            path += f"[{msgspec.json.encode(step).decode()}]"
    return path


def _names(there: str, wanted: str, names: list[str]) -> str:
    if not names:
        return f"{there} is an empty object"
    shown = [one_line(name, 60) for name in names[:MAX_NAMES]]
    if len(names) > MAX_NAMES:
        shown.append(f"{len(names) - MAX_NAMES} more")
    guess = near(wanted, names)
    return f"{there} has {listed(shown)}" + (f"; did you mean {one_line(guess, 60)}?" if guess else "")


def _count(number: int) -> str:
    return "1 element" if number == 1 else f"{number or 'no'} elements"
