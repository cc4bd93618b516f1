"""One argument's value: from what was typed, by the JSON types that it can have."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from mcpd.downstream.cli.text import listed, one_line
from mcpd.errors import BadRequest
from mcpd.protocol import rawjson

if TYPE_CHECKING:
    from collections.abc import Sequence

    # What is being put together: JSON as it came, text, and what words have built.
    Tree = Raw | str | list["Tree"] | dict[str, "Tree"]

# Of a value, in an error.
SHOWN_CHARACTERS = 40

_VALUE = msgspec.json.Decoder(Raw)

_EXPECTED = {
    "string": "text",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
_JSON_START = frozenset("{[-0123456789tfn")


def json_value(text: str, what: str, hint: str | None = None) -> Raw:
    """Return JSON as it stands, in one line: no number is read and written again.

    Args:
        text: what was typed, or is in a file.
        what: its name in an error.
        hint: what to write instead.

    Raises:
        BadRequest: It is no JSON; the message says why.
    """
    # Some editors put a byte order mark before the JSON of a file.
    encoded = encoded_text(text.removeprefix("\ufeff"), what)
    try:
        value = _VALUE.decode(encoded)
    except RecursionError:
        raise BadRequest(f"{what} is nested too deeply") from None
    except (msgspec.DecodeError, ValueError) as problem:
        raise BadRequest(f"{what} is no JSON: {_problem(str(problem), text)}", hint=hint, **_came(text)) from None
    # A message is one line. Inside of strings a line end is an escape, so that this one is white space.
    return Raw(bytes(value).replace(b"\n", b" ").replace(b"\r", b" "))


def encoded_text(text: str, what: str) -> bytes:
    """Return the UTF-8 of a text.

    Raises:
        BadRequest: It has half of a surrogate pair.
    """
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadRequest(f"{what} is no valid text") from None


def typed(text: str, types: Sequence[str], key: str) -> Raw | str:
    """Return the value of an argument that can have these types; none of them means any.

    Raises:
        BadRequest: It is none of them; the message says which it must be, and what it is.
    """
    if "string" in types:
        return text
    value = _json_or_none(text)
    if not types:
        return text if value is None else value
    if value is None or not fits(value, types):
        raise _wrong_type(text, value, types, key)
    return value


def fits(value: Raw, types: Sequence[str]) -> bool:
    """Tell whether a JSON value has one of the types."""
    match rawjson.kind(value):
        case "an object":
            return "object" in types
        case "an array":
            return "array" in types
        case "a string":
            return "string" in types
        case "true" | "false":
            return "boolean" in types
        case "null":
            return "null" in types
    return "number" in types or ("integer" in types and _is_integer(bytes(value).decode()))


def _is_integer(number: str) -> bool:
    """Whether a JSON number is an integer; to JSON Schema 1.0 and 1e3 are."""
    if number.lstrip("-").isdecimal():
        return True
    value = float(number)
    # What is too large for a float has no fraction either.
    return value.is_integer() or value in (math.inf, -math.inf)


def _json_or_none(text: str) -> Raw | None:
    if text.lstrip()[:1] not in _JSON_START:
        return None
    try:
        return json_value(text, "")
    except BadRequest:
        return None


def _wrong_type(text: str, value: Raw | None, types: Sequence[str], key: str) -> BadRequest:
    name = one_line(key, 60)
    expected = listed([_EXPECTED[one] for one in types], "or")
    came = one_line(text, SHOWN_CHARACTERS)
    if value is None:
        came = msgspec.json.encode(came).decode()
    advice = None
    if "array" in types:
        advice = f"write {name}[]=VALUE for each element, or {name}:='[…]'"
    elif "object" in types:
        advice = f"write {name}.KEY=VALUE for each member, or {name}:='{{…}}'"
    return BadRequest(f"argument '{name}' must be {expected}, not {came}", **why(advice))


def why(reason: str | None) -> dict[str, Any]:
    """Return the `reason` of an error, if there is one, as a keyword argument."""
    return {"reason": reason} if reason else {}


def _came(text: str) -> dict[str, Any]:
    shown = one_line(text, SHOWN_CHARACTERS)
    if not shown:
        return why("it is empty")
    # The commonest way to lose them.
    lost = "; has the shell taken quotes away?" if shown[0] in "{[" and '"' not in text else ""
    return why(f"it came as: {shown}{lost}")


def _problem(problem: str, text: str) -> str:
    """Return what is wrong with a JSON text, in other words where msgspec's mislead."""
    if "truncated" in problem:
        # It also says so of half a surrogate pair.
        return "half of a surrogate pair, or the end is missing" if "\\ud" in text.lower() else "its end is missing"
    reason = problem.removeprefix("JSON is malformed: ")
    return reason[:1].lower() + reason[1:]
