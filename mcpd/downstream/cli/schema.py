"""What a tool's JSON Schema says about one value, read as leniently as servers write it.

Only what helps to type an argument and to describe it is looked at: types, properties, items, allowed
values. Whatever cannot be made out means "anything": the server has the last word on its arguments.
References are followed inside of the schema only, no expression of a server is ever run, and what one
question costs is bounded, whatever the schema refers to and how often.

Spec: JSON Schema 2020-12, and the older drafts that servers use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec

TYPES = ("string", "integer", "number", "boolean", "array", "object", "null")

# Subschemas that one question may look at: references may form a cycle, and alternatives a tree of any size.
MAX_STEPS = 64
# Names that are listed, and values whose type is looked at.
MAX_LISTED = 1000
# A longer list of values is no help to anybody, and counts as none.
MAX_CHOICES = 10_000

# Of a schema and of what it refers to or includes, the nearest counts.
_SINGLE = (
    "type", "enum", "const", "default", "examples", "minimum", "format", "description", "contentEncoding",
    "items", "additionalProperties", "patternProperties", "anyOf", "oneOf",
)  # fmt: skip
# These count all.
_JOINED = ("properties", "required")

Keywords = dict[str, Any]


class Shape:
    """What is known about one value.

    Args:
        schema: its schema, decoded.
        root: the schema that references start from.
    """

    def __init__(self, schema: object, root: object) -> None:
        self._root = root
        walk = _Walk(root)
        self._own = walk.folded(schema)
        # Alternatives in any depth, flattened.
        self._variants = walk.variants(self._own)

    @property
    def types(self) -> tuple[str, ...]:
        """The JSON types that it can have, in the order of `TYPES`; empty if anything goes."""
        parts = [self._own] if not self._variants or "type" in self._own else self._variants
        found: set[str] = set()
        for part in parts:
            types = _types(part)
            if not types:
                return ()
            found |= types
        return tuple(name for name in TYPES if name in found)

    @property
    def names(self) -> list[str]:
        """The names of its properties in order, those of all alternatives included; `MAX_LISTED` at most."""
        return list(islice(_unique(self._all("properties")), MAX_LISTED))

    @property
    def required(self) -> list[str]:
        """The names that the schema demands and has no default for; `MAX_LISTED` at most.

        Some generators list what has a default as required, and their servers do without it.
        """
        demanded = islice(_unique(self._own["required"]), MAX_LISTED)
        return [name for name in demanded if not any(_has_default(each, name) for each in self._own["properties"])]

    @property
    def is_closed(self) -> bool:
        """Whether it refuses names that it does not have."""
        return self._own.get("additionalProperties") is False and not self._own.get("patternProperties")

    @property
    def choices(self) -> list[Any] | None:
        """The values that it can have, decoded; None if they are not listed."""
        if not self._variants or "enum" in self._own or "const" in self._own:
            return _choices(self._own)
        lists: dict[int, list[Any]] = {}
        for part in self._variants:
            choices = [None] if part.get("type") == "null" else _choices(part)
            if choices is None:
                return None
            lists[id(part.get("enum", part))] = choices
        return [choice for choices in lists.values() for choice in choices]

    @property
    def items(self) -> Shape | None:
        """The shape of its elements, if it is an array and they are described."""
        return self._either([part["items"] for part in self._parts if isinstance(part.get("items"), dict)])

    def has(self, name: str) -> bool:
        """Tell whether there is a property of this name."""
        return any(name in properties for properties in self._all("properties"))

    def member(self, name: str) -> Shape | None:
        """Return the shape of one member; None if nothing is said about it."""
        found = [properties[name] for properties in self._all("properties") if name in properties]
        other = self._own.get("additionalProperties")
        return self._either(found or ([other] if isinstance(other, dict) else []))

    def keyword(self, name: str) -> Any:
        """Return the value of a keyword, None if it is not there."""
        return self._own.get(name)

    def text(self, name: str) -> str:
        """Return the value of a keyword that is a text, empty if it is none."""
        value = self._own.get(name)
        return value if isinstance(value, str) else ""

    @property
    def _parts(self) -> list[Keywords]:
        return [self._own, *self._variants]

    def _all(self, keyword: str) -> list[Any]:
        """Return what all parts have under a joined keyword, the same thing once."""
        return list({id(each): each for part in self._parts for each in part[keyword]}.values())

    def _either(self, schemas: list[Any]) -> Shape | None:
        if not schemas:
            return None
        return Shape(schemas[0] if len(schemas) == 1 else {"anyOf": schemas}, self._root)


def read(schema: bytes | None) -> Shape | None:
    """Return what a tool's `inputSchema` says; None if there is none or it cannot be read."""
    if schema is None:
        return None
    try:
        decoded = msgspec.json.decode(schema)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return Shape(decoded, decoded) if isinstance(decoded, dict) else None


class _Walk:
    """One question's way through a schema, with a limit."""

    def __init__(self, root: object) -> None:
        self._root = root
        self._steps_left = MAX_STEPS

    def folded(self, schema: object) -> Keywords:
        """Return the keywords of a schema and of what it refers to or includes.

        `properties` is a list of dicts, `required` a list of lists of texts; both are always there.
        """
        folded: Keywords = {keyword: [] for keyword in _JOINED}
        pending = [schema]
        while pending and self._steps_left:
            self._steps_left -= 1
            part = pending.pop(0)
            if isinstance(part, dict):
                _fold(folded, part)
                pending += self._included(part)
        return folded

    def variants(self, own: Keywords) -> list[Keywords]:
        """Return the alternatives that a schema offers, those of alternatives in their place."""
        found: list[Keywords] = []
        for branch in _alternatives(own):
            if not self._steps_left:
                return [*found, self.folded(None)]
            folded = self.folded(branch)
            found += self.variants(folded) or [folded]
        return found

    def _included(self, part: Keywords) -> list[object]:
        every = part.get("allOf")
        included: list[object] = every[:MAX_STEPS] if isinstance(every, list) else []
        if isinstance(reference := part.get("$ref"), str):
            included = [_target(self._root, reference), *included]
        return included


def _fold(folded: Keywords, part: Keywords) -> None:
    for keyword in _SINGLE:
        if keyword in part:
            folded.setdefault(keyword, part[keyword])
    if isinstance(properties := part.get("properties"), dict):
        folded["properties"].append(properties)
    if isinstance(required := part.get("required"), list):
        folded["required"].append(required)


def _target(root: object, reference: str) -> object:
    """Return the subschema that a local reference points to; None for any other one."""
    if not reference.startswith("#"):
        return None
    from urllib.parse import unquote

    place = root
    for part in unquote(reference[1:]).split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(place, dict):
            place = place.get(name)
        elif isinstance(place, list) and name.isdecimal() and len(name) < 6 and int(name) < len(place):
            place = place[int(name)]
        else:
            return None
    return place


def _alternatives(part: Keywords) -> list[Any]:
    for keyword in ("anyOf", "oneOf"):
        if isinstance(found := part.get(keyword), list):
            return found
    return []


def _types(part: Keywords) -> set[str]:
    """Return the types of keywords without alternatives; an empty set means anything."""
    named = part.get("type")
    names = [named] if isinstance(named, str) else named if isinstance(named, list) else []
    if known := {name for name in names if isinstance(name, str)}.intersection(TYPES):
        return known
    if choices := _choices(part):
        return {type_of(choice) for choice in choices[:MAX_LISTED]}
    if any(part["properties"]):
        return {"object"}
    return {"array"} if isinstance(part.get("items"), dict) else set()


def _choices(part: Keywords) -> list[Any] | None:
    if isinstance(choices := part.get("enum"), list):
        return choices if len(choices) <= MAX_CHOICES else None
    return [part["const"]] if "const" in part else None


def _unique(groups: Iterable[Iterable[Any]]) -> Iterator[str]:
    seen = set()
    for group in groups:
        for name in group:
            if isinstance(name, str) and name not in seen:
                seen.add(name)
                yield name


def _has_default(properties: dict[str, Any], name: str) -> bool:
    schema = properties.get(name)
    return isinstance(schema, dict) and "default" in schema


def type_of(value: object) -> str:
    """Return the JSON type of a decoded value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def same(one: object, other: object) -> bool:
    """Tell whether two decoded values are the same JSON: 1 is 1.0, but not true."""
    return one == other and (isinstance(one, bool) is isinstance(other, bool))
