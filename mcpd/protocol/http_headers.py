"""What MCP says in HTTP headers: names and arguments that are mirrored, and how long to wait.

Spec: 2026-07-28 basic/transports/streamable-http, "Standard headers", "Custom headers from tool parameters",
"Value encoding"; server/tools, `x-mcp-header`. RFC 9110 10.2.3 for Retry-After.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from mcpd.errors import ServerProtocol

ANNOTATION = "x-mcp-header"
PARAM_PREFIX = "Mcp-Param-"
# Which member of `params` is what a request is about.
NAMED_BY = {
    "tools/call": "name", "prompts/get": "name", "resources/read": "uri",
    "tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId",
}  # fmt: skip
MAX_INTEGER = 2**53 - 1
RETRY_DIGITS = 9

_PLAIN = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?").fullmatch
_SENTINEL = re.compile(r"=\?base64\?.*\?=", re.DOTALL).fullmatch
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+").fullmatch

# Keywords of JSON Schema 2020-12 below which there are schemas that an argument's path does not lead through.
_ONE = frozenset({
    "items", "contains", "unevaluatedItems", "additionalProperties", "additionalItems", "propertyNames",
    "unevaluatedProperties", "not", "if", "then", "else", "contentSchema",
})  # fmt: skip
_LIST = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
_TABLE = frozenset({"patternProperties", "dependentSchemas", "$defs", "definitions"})
_TYPES = frozenset({"string", "integer", "boolean"})


def encode(value: str) -> str:
    """Return a value as it can stand in a header: itself, or in base64 with the marks of that around it."""
    if _PLAIN(value) and not _SENTINEL(value):
        return value
    text = binascii.b2a_base64(value.encode("utf-8", "surrogatepass"), newline=False).decode("ascii")
    return f"=?base64?{text}?="


class Param(NamedTuple):
    """An argument that is mirrored: the keys that lead to it, and the header."""

    path: tuple[str, ...]
    header: str


def _positions(schema: Any) -> Iterator[tuple[tuple[str, ...] | None, dict[str, Any]]]:
    """Yield every schema inside of one, with the keys that lead to it; None where they do not say it all."""
    todo: list[tuple[tuple[str, ...] | None, Any]] = [((), schema)]
    while todo:
        path, node = todo.pop()
        if not isinstance(node, dict):
            continue
        yield path, node
        for keyword, value in node.items():
            if keyword == "properties" and isinstance(value, dict):
                todo.extend((None if path is None else (*path, name), below) for name, below in value.items())
            elif keyword in _TABLE and isinstance(value, dict):
                todo.extend((None, below) for below in value.values())
            elif keyword in _LIST and isinstance(value, list):
                todo.extend((None, below) for below in value)
            elif keyword in _ONE:
                todo.append((None, value))


def params_of(schema: bytes | Raw) -> tuple[Param, ...]:
    """Return the arguments of a tool that are mirrored in headers, by its `inputSchema`.

    Raises:
        ServerProtocol: An annotation is invalid, and clients over HTTP must not use the tool; it says why.
    """
    if ANNOTATION.encode() not in bytes(schema):
        return ()
    try:
        decoded = msgspec.json.decode(schema)
    except (msgspec.MsgspecError, RecursionError):
        return ()  # what is wrong with it concerns others
    found: dict[str, Param] = {}
    for path, node in _positions(decoded):
        if ANNOTATION in node:
            param = _param(path, node)
            other = found.setdefault(param.header.lower(), param)
            if other is not param:
                first, second = sorted((".".join(other.path), ".".join(param.path)))
                raise ServerProtocol(f"{first} and {second} have the same {ANNOTATION} {param.header!r}")
    return tuple(found.values())


def _param(path: tuple[str, ...] | None, node: dict[str, Any]) -> Param:
    if not path:
        raise ServerProtocol(f"an {ANNOTATION} stands where no argument can be told by its name alone")
    where, name = ".".join(path)[:80], node[ANNOTATION]
    if not isinstance(name, str) or not _TOKEN(name):
        shown = repr(name[:40]) if isinstance(name, str) else "no string"
        raise ServerProtocol(f"the {ANNOTATION} of {where} is no name of a header: {shown}")
    kind = node.get("type")
    if not isinstance(kind, str) or kind not in _TYPES:
        shown = repr(kind[:40]) if isinstance(kind, str) else "not one type"
        raise ServerProtocol(f"the {ANNOTATION} of {where} is not on a string, an integer or a boolean, but {shown}")
    return Param(path, PARAM_PREFIX + name)


class Described(Struct):
    """What of a tool's descriptor concerns its headers."""

    name: str = ""
    inputSchema: Raw = Raw(b"")


def vet(descriptor: bytes | Raw) -> None:
    """Check that a tool may be used over HTTP; one whose annotations are invalid must not be.

    Raises:
        ServerProtocol: It must not; the error says why.
    """
    if ANNOTATION.encode() not in bytes(descriptor):
        return
    try:
        tool = msgspec.json.decode(descriptor, type=Described)
    except (msgspec.MsgspecError, RecursionError):
        return  # as above
    try:
        params_of(tool.inputSchema)
    except ServerProtocol as problem:
        raise ServerProtocol(f"tool {tool.name[:80]!r} must not be used over HTTP: {problem.message}") from None


def mirrored(params: tuple[Param, ...], arguments: bytes | Raw) -> dict[str, str]:
    """Return the headers that mirror the arguments of a call; what is absent or null has none."""
    try:
        decoded = msgspec.json.decode(arguments) if arguments else None
    except (msgspec.MsgspecError, RecursionError):
        return {}
    found = {}
    for path, header in params:
        value = decoded
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if (text := _text(value)) is not None:
            found[header] = encode(text)
    return found


def _text(value: object) -> str | None:
    match value:
        case bool():
            return "true" if value else "false"
        case int() if -MAX_INTEGER <= value <= MAX_INTEGER:
            return str(value)
        case float() if value.is_integer() and abs(value) <= MAX_INTEGER:
            return str(int(value))
        case float():
            return repr(value)
        case str():
            return value
    return None


def retry_after(header: str, now: float) -> float | None:
    """Return the seconds of a Retry-After header; None if it has none.

    Args:
        header: a number of seconds, or a date.
        now: in Unix time, for the date.
    """
    header = header.strip()
    if header.isascii() and header.isdigit() and len(header) <= RETRY_DIGITS:
        return float(header)
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - now)
    except (ValueError, OverflowError):
        return None
