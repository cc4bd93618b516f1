"""Descriptors of tools, prompts and resources that take no more room than a client has for them; pure.

Only a client that asks for it gets this: it knows how much of a model's context it may fill. The whole
descriptor is always to be had by its name.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from . import rawjson
from .jsonrpc import ABSENT

# Less than this says nothing.
MIN_BYTES = 16
_MORE = "…"
# What a schema says to people; it means the same without.
_WORDS = frozenset(("description", "title", "examples", "$comment"))
# Below these the members have names of the author's own, which may be any of those words.
_NAMED = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
# Below these there are values, and no schemas.
_VALUES = frozenset(("default", "const", "enum"))


class Budget(Struct, frozen=True):
    """How long the description, and each schema, of an item may be, in bytes of UTF-8; None for any length."""

    description_bytes: int | None = None
    schema_bytes: int | None = None

    def fit(self, descriptor: Raw) -> Raw:
        """Return a descriptor that keeps to the budget; the same object if it does already.

        A description is cut between two characters. A schema loses its texts; if it is still too long, the one
        of the arguments takes any object, and the description says so; one of results is left out.

        Raises:
            ServerProtocol: It is no object.
        """
        limits = [limit for limit in (self.description_bytes, self.schema_bytes) if limit is not None]
        if not limits or len(descriptor) <= min(limits):
            return descriptor
        members = rawjson.members(descriptor, "the descriptor")
        changes = self._shorter_schemas(members)
        text = rawjson.string(members.get("description", ABSENT))
        hidden = " (its arguments are too long to be shown)" if bytes(changes.get("inputSchema", ABSENT)) == _ANY else ""
        cut = _cut(text or "", self.description_bytes) + hidden
        if cut != (text or ""):
            changes["description"] = Raw(msgspec.json.encode(cut))
        if not changes:
            return descriptor
        return Raw(msgspec.json.encode({name: raw for name, raw in (members | changes).items() if raw}))

    def _shorter_schemas(self, members: dict[str, Raw]) -> dict[str, Raw]:
        changes: dict[str, Raw] = {}
        for name, instead in (("inputSchema", Raw(_ANY)), ("outputSchema", ABSENT)):
            schema = members.get(name, ABSENT)
            if self.schema_bytes is not None and len(schema) > self.schema_bytes:
                bare = _bare(schema)
                changes[name] = bare if len(bare) <= self.schema_bytes else instead
        return changes


_ANY = b'{"type":"object"}'


def _cut(text: str, limit: int | None) -> str:
    body = text.encode("utf-8", "replace")
    if limit is None or len(body) <= limit:
        return text
    return body[: limit - len(_MORE.encode())].decode("utf-8", "ignore").rstrip() + _MORE


def _bare(schema: Raw) -> Raw:
    try:
        return Raw(msgspec.json.encode(_without_words(msgspec.json.decode(schema))))
    except (msgspec.MsgspecError, RecursionError):
        return schema


def _without_words(schema: Any, *, names: bool = False) -> Any:
    if isinstance(schema, list):
        return [_without_words(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if names:
        return {name: _without_words(one) for name, one in schema.items()}
    return {
        name: one if name in _VALUES else _without_words(one, names=name in _NAMED)
        for name, one in schema.items()
        if name not in _WORDS
    }
