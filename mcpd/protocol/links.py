"""The uris in a result: those of links to resources, of embedded resources, and of what was read.

Whatever has to be changed is written anew one level deep; all else is the bytes that came.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
from msgspec import Raw

from mcpd.errors import ServerProtocol

from . import rawjson
from .jsonrpc import ABSENT

_HAS_URI = re.compile(rb'"uri"')

Rename = Callable[[str], str]


def renamed(result: Raw, rename: Rename) -> Raw:
    """Return a result with each uri as `rename` returns it; the same object if all stay what they are.

    A result that cannot be read is left to whoever reads it.
    """
    if _HAS_URI.search(memoryview(result)) is None:
        return result
    try:
        return _members(result, {"content": _blocks, "contents": _resources, "messages": _messages}, rename)
    except (ServerProtocol, msgspec.MsgspecError):
        return result


def _members(value: Raw, inner: dict[str, Callable[[Raw, Rename], Raw]], rename: Rename) -> Raw:
    """Change some members of an object; anything else stays as it is."""
    if rawjson.kind(value) != "an object":
        return value
    members, different = rawjson.members(value, "a part of the result"), False
    for key, change in inner.items():
        if key in members:
            before = members[key]
            members[key] = change(before, rename)
            different |= members[key] is not before
    return Raw(msgspec.json.encode(members)) if different else value


def _each(value: Raw, change: Callable[[Raw, Rename], Raw], rename: Rename) -> Raw:
    """Change the elements of an array."""
    if rawjson.kind(value) != "an array":
        return value
    before = rawjson.elements(value, "a part of the result")
    after = [change(one, rename) for one in before]
    same = all(one is other for one, other in zip(before, after, strict=True))
    return value if same else Raw(msgspec.json.encode(after))


def _messages(value: Raw, rename: Rename) -> Raw:
    return _each(value, lambda one, rename: _members(one, {"content": _blocks}, rename), rename)


def _blocks(value: Raw, rename: Rename) -> Raw:
    """Change one content block, or several."""
    return _each(value, _block, rename) if rawjson.kind(value) == "an array" else _block(value, rename)


def _block(value: Raw, rename: Rename) -> Raw:
    if rawjson.kind(value) != "an object":
        return value
    match rawjson.string(rawjson.members(value, "a content block").get("type", ABSENT)):
        case "resource_link":
            return _resource(value, rename)
        case "resource":
            return _members(value, {"resource": _resource}, rename)
        case _:
            return value


def _resources(value: Raw, rename: Rename) -> Raw:
    return _each(value, _resource, rename)


def _resource(value: Raw, rename: Rename) -> Raw:
    return _members(value, {"uri": _uri}, rename)


def _uri(value: Raw, rename: Rename) -> Raw:
    uri = rawjson.string(value)
    if uri is None or (now := rename(uri)) == uri:
        return value
    return Raw(msgspec.json.encode(now))
