"""What a tool's JSON Schema says about one value, read as leniently as servers write it.

Only what helps to type an argument and to describe it is looked at: types, properties, items, allowed
values. Whatever cannot be made out means "anything": the server has the last word on its arguments.
References are followed inside of the schema only, each question looks at a bounded number of
subschemas, and no expression of a server is ever run.

Spec: JSON Schema 2020-12, and the older drafts that servers use.
"""

from __future__ import annotations

from typing import Any

import msgspec

TYPES = ("string", "integer", "number", "boolean", "array", "object", "null")

# Subschemas that one question may look at: references may form a cycle, and alternatives a tree of any size.
MAX_STEPS = 64

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
    def names(self) -> dict[str, None]:
        """The names of its properties, in order, those of all alternatives included."""
        return {name: None for part in self._parts() for name in _properties(part)}

    @property
    def required(self) -> tuple[str, ...]:
        """The names that the schema demands and has no default for.

        Some generators list what has a default as required, and their servers do without it.
        """
        properties = _properties(self._own)
        names = dict.fromkeys(_strings(self._own.get("required")))
        return tuple(name for name in names if not _has_default(properties, name))

    @property
    def is_closed(self) -> bool:
        """Whether it refuses other names than `names`."""
        return self._own.get("additionalProperties") is False and not self._own.get("patternProperties")

    @property
    def choices(self) -> list[Any] | None:
        """The values that it can have, decoded; None if they are not listed."""
        if not self._variants or "enum" in self._own or "const" in self._own:
            return _choices(self._own)
        found: list[Any] = []
        for part in self._variants:
            choices = [None] if part.get("type") == "null" else _choices(part)
            if choices is None:
                return None
            found += choices
        return found

    @property
    def items(self) -> Shape | None:
        """The shape of its elements, if it is an array and they are described."""
        return self._either([part["items"] for part in self._parts() if isinstance(part.get("items"), dict)])

    def property(self, name: str) -> Shape | None:
        """Return the shape of one member; None if nothing is said about it."""
        found = [_properties(part)[name] for part in self._parts() if name in _properties(part)]
        other = self._own.get("additionalProperties")
        return self._either(found or ([other] if isinstance(other, dict) else []))

    def keyword(self, name: str) -> Any:
        """Return the value of a keyword, None if it is not there."""
        return self._own.get(name)

    def text(self, name: str) -> str:
        """Return the value of a keyword that is a text, empty if it is none."""
        value = self._own.get(name)
        return value if isinstance(value, str) else ""

    def _parts(self) -> list[Keywords]:
        return [self._own, *self._variants]

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
        """Return the keywords of a schema and of what it refers to or includes; the nearest win."""
        folded: Keywords = {}
        pending = [schema]
        while pending and self._steps_left:
            self._steps_left -= 1
            part = pending.pop(0)
            if isinstance(part, dict):
                folded = _merged(folded, part)
                pending += self._included(part)
        return folded

    def variants(self, own: Keywords) -> list[Keywords]:
        """Return the alternatives that a schema offers, those of alternatives in their place."""
        found: list[Keywords] = []
        for branch in _alternatives(own):
            if not self._steps_left:
                return [*found, {}]
            folded = self.folded(branch)
            found += self.variants(folded) or [folded]
        return found

    def _included(self, part: Keywords) -> list[object]:
        every = part.get("allOf")
        included: list[object] = every[:MAX_STEPS] if isinstance(every, list) else []
        if isinstance(reference := part.get("$ref"), str):
            included = [_target(self._root, reference), *included]
        return included


def _merged(folded: Keywords, part: Keywords) -> Keywords:
    if not folded:
        return part
    merged = {**part, **folded}
    if isinstance(part.get("properties"), dict) and isinstance(folded.get("properties"), dict):
        merged["properties"] = {**part["properties"], **folded["properties"]}
    if isinstance(part.get("required"), list) and isinstance(folded.get("required"), list):
        merged["required"] = [*folded["required"], *part["required"]]
    return merged


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
    if known := {*([named] if isinstance(named, str) else _strings(named))}.intersection(TYPES):
        return known
    if choices := _choices(part):
        return {type_of(choice) for choice in choices}
    if _properties(part):
        return {"object"}
    return {"array"} if isinstance(part.get("items"), dict) else set()


def _choices(part: Keywords) -> list[Any] | None:
    if isinstance(choices := part.get("enum"), list):
        return choices
    return [part["const"]] if "const" in part else None


def _properties(part: Keywords) -> dict[str, Any]:
    properties = part.get("properties")
    return properties if isinstance(properties, dict) else {}


def _strings(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


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
