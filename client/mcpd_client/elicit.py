"""The forms with which a server asks a user (MCP elicitation): what a field takes, and what is wrong with an answer.

A form's schema is a flat object of primitives. It comes from a server, so that every part of it may be
missing or of another type than it should be: what makes no sense as a rule is no rule.
"""

from __future__ import annotations

import json
import re
from datetime import date, datetime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Self

MODES = ("form", "url")
# More are not named in a sentence.
NAMED_CHOICES = 20
FORMATS = {
    "email": "an e-mail address",
    "uri": "a URI as https://example.org/",
    "date": "a date as 2026-01-31",
    "date-time": "a date and time as 2026-01-31T12:00:00Z",
}
YES, NO = ("y", "yes", "true", "on", "1"), ("n", "no", "false", "off", "0")
# What stands for a list without items, since an empty answer takes the default.
NONE = "-"


class Choice:
    """One of the values that a field takes, and what it is called."""

    __slots__ = ("title", "value")

    def __init__(self, value: Any, title: object = None) -> None:
        self.value = value
        self.title = title if isinstance(title, str) and title else _as_text(value)

    def is_meant_by(self, text: str) -> bool:
        """Tell whether `text` is its value or its title."""
        return text == _as_text(self.value) or text.casefold() == self.title.casefold()

    def label(self) -> str:
        """Return title and value, where they differ."""
        value = _as_text(self.value)
        return value if self.title == value else f"{self.title} ({value})"


class Field:
    """One field of a form.

    Attributes:
        kind: `text`, `integer`, `number`, `boolean`, `choice`, `choices`, or `any` for what no form should have.
        default: a value that the field takes itself; None if there is none.
    """

    __slots__ = ("choices", "default", "description", "kind", "name", "required", "rules", "title")

    def __init__(self, name: str, rules: Mapping[str, Any], *, required: bool) -> None:
        self.name = name
        self.rules = rules
        self.required = required
        self.title = rules["title"] if isinstance(rules.get("title"), str) else name
        self.description = rules["description"] if isinstance(rules.get("description"), str) else ""
        self.kind, self.choices = _kind_of(rules)
        default = rules.get("default")
        self.default: Any = default if default is not None and self.takes(default) else None

    @property
    def is_numbered(self) -> bool:
        """Whether a choice can be named by its number: not where that could be another one's name."""
        return not any(choice.title.isdecimal() or _as_text(choice.value).isdecimal() for choice in self.choices)

    def takes(self, value: Any) -> bool:
        """Tell whether `value` is an answer."""
        match self.kind:
            case "text":
                return isinstance(value, str) and _fits_text(value, self.rules)
            case "integer":
                return _is_number(value) and value == int(value) and _is_within(value, *self._bounds())
            case "number":
                return _is_number(value) and _is_within(value, *self._bounds())
            case "boolean":
                return isinstance(value, bool)
            case "choice":
                return any(_is_same(choice.value, value) for choice in self.choices)
            case "choices":
                known = isinstance(value, list) and all(any(_is_same(c.value, v) for c in self.choices) for v in value)
                return known and _is_within(len(value), *self._counts())
        return True

    def expects(self) -> str:
        """Return what the field takes, in words that follow `must be`."""
        match self.kind:
            case "text":
                return _expected_text(self.rules)
            case "integer" | "number":
                what = "a whole number" if self.kind == "integer" else "a number"
                bounds = _range(*self._bounds())
                return f"{what}, {bounds}" if bounds else what
            case "boolean":
                return "yes or no"
            case "choice":
                return f"one of {self._names()}"
            case "choices":
                return f"{_range(*self._counts()) or 'any'} of {self._names()}"
        return "JSON or text"

    def show(self, value: Any) -> str:
        """Return a value of this field for people, so that `parse` would understand it."""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if self.kind == "choices" and isinstance(value, list):
            return ", ".join(self._title_of(each) for each in value) or NONE
        return self._title_of(value)

    def parse(self, text: str) -> Any:
        """Return the value that `text` stands for.

        Raises:
            ValueError: it is none that the field takes; in a plain sentence.
        """
        try:
            value = self._read(text)
        except (ValueError, OverflowError):
            value = None
        if value is None or not self.takes(value):
            # The text itself is left out: it may be what nobody else should see.
            raise ValueError(f"{self.name!r} must be {self.expects()}")
        return value

    def _read(self, text: str) -> Any:
        match self.kind:
            case "text":
                return text
            case "integer":
                return int(text)
            case "number":
                return int(text) if re.fullmatch(r"\s*[+-]?\d+\s*", text, re.ASCII) else float(text)
            case "boolean":
                word = text.strip().casefold()
                return True if word in YES else False if word in NO else None
            case "choice":
                return self._choose(text.strip())
            case "choices":
                return self._choose_all(text)
        return _read_any(text)

    def _choose(self, text: str) -> Any:
        for choice in self.choices:
            if choice.is_meant_by(text):
                return choice.value
        if self.is_numbered and text.isdecimal() and 0 < int(text) <= len(self.choices):
            return self.choices[int(text) - 1].value
        raise ValueError(text)

    def _choose_all(self, text: str) -> list[Any]:
        if text.strip() == NONE:
            return []
        # A name may have a comma itself.
        parts = [text.strip()] if any(choice.is_meant_by(text.strip()) for choice in self.choices) else text.split(",")
        values: list[Any] = []
        for part in parts:
            value = self._choose(part.strip())
            if value not in values:
                values.append(value)
        return values

    def _title_of(self, value: Any) -> str:
        return next((choice.title for choice in self.choices if _is_same(choice.value, value)), _as_text(value))

    def _bounds(self) -> tuple[float | None, float | None]:
        return _number(self.rules.get("minimum")), _number(self.rules.get("maximum"))

    def _counts(self) -> tuple[float | None, float | None]:
        return _number(self.rules.get("minItems")), _number(self.rules.get("maxItems"))

    def _names(self) -> str:
        names = [choice.label() for choice in self.choices[:NAMED_CHOICES]]
        return ", ".join([*names, "…"] if len(self.choices) > NAMED_CHOICES else names)

    @classmethod
    def all_of(cls, schema: object) -> list[Self]:
        """Return the fields of a form in its order; what is required and not described comes last."""
        form = schema if isinstance(schema, dict) else {}
        properties = form["properties"] if isinstance(form.get("properties"), dict) else {}
        required = [name for name in _list(form.get("required")) if isinstance(name, str)]
        described = {name: rules if isinstance(rules, dict) else {} for name, rules in properties.items()}
        described |= {name: {} for name in required if name not in described}
        return [cls(name, rules, required=name in required) for name, rules in described.items()]


def fill_defaults(schema: object) -> dict[str, Any]:
    """Return the content of a form in which nothing was changed: every default that its field takes."""
    return {field.name: field.default for field in Field.all_of(schema) if field.default is not None}


def parse_answer(schema: object, name: str, text: str) -> Any:
    """Return the value of one field from what a user typed.

    Raises:
        ValueError: the field does not take it; in a plain sentence without the text itself.
        KeyError: there is no such field.
    """
    for field in Field.all_of(schema):
        if field.name == name:
            return field.parse(text)
    raise KeyError(name)


def check(schema: object, content: object) -> str | None:
    """Return what is wrong with the content of a form, in a plain sentence; None if nothing is."""
    if not isinstance(content, dict):
        return "the answer must be an object"
    fields = {field.name: field for field in Field.all_of(schema)}
    for name in content:
        if name not in fields:
            return f"there is no field {name!r}; there is {', '.join(fields) or 'none'}"
    for name, field in fields.items():
        if name not in content:
            if field.required:
                return f"{name!r} is required" + (" and has no default" if field.default is None else "")
        elif not field.takes(content[name]):
            return f"{name!r} must be {field.expects()}"
    return None


def _kind_of(rules: Mapping[str, Any]) -> tuple[str, Sequence[Choice]]:
    if choices := _choices(rules):
        return "choice", choices
    kinds = rules.get("type")
    kind = next((each for each in _list(kinds) if each != "null"), None) if isinstance(kinds, list) else kinds
    if kind == "string":
        return "text", ()
    if kind in ("integer", "number", "boolean"):
        return str(kind), ()
    if kind == "array" and (choices := _choices(rules.get("items"))):
        return "choices", choices
    return "any", ()


def _choices(rules: object) -> list[Choice]:
    if not isinstance(rules, dict):
        return []
    if values := _list(rules.get("enum")):
        titles = _list(rules.get("enumNames"))
        return [Choice(value, titles[i] if i < len(titles) else None) for i, value in enumerate(values)]
    options = _list(rules.get("oneOf")) or _list(rules.get("anyOf"))
    return [Choice(each["const"], each.get("title")) for each in options if isinstance(each, dict) and "const" in each]


def _fits_text(value: str, rules: Mapping[str, Any]) -> bool:
    if not _is_within(len(value), _number(rules.get("minLength")), _number(rules.get("maxLength"))):
        return False
    if (pattern := _pattern(rules)) is not None and not pattern.search(value):
        return False
    return _fits_format(value, rules.get("format"))


def _fits_format(value: str, name: object) -> bool:
    match name:
        case "email":
            return re.fullmatch(r"[^@\s]+@[^@\s]+", value) is not None
        case "uri":
            return re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:\S+", value) is not None
        case "date":
            return re.fullmatch(r"\d{4}-\d\d-\d\d", value, re.ASCII) is not None and _is_read_by(date, value)
        case "date-time":
            form = r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)"
            return re.fullmatch(form, value, re.ASCII) is not None and _is_read_by(datetime, value[:19].upper())
    return True


def _is_read_by(kind: type[date], value: str) -> bool:
    try:
        kind.fromisoformat(value)
    except ValueError:
        return False
    return True


def _expected_text(rules: Mapping[str, Any]) -> str:
    name = rules.get("format")
    text = FORMATS.get(name, "text") if isinstance(name, str) else "text"
    if length := _range(_number(rules.get("minLength")), _number(rules.get("maxLength"))):
        text += f" of {length} characters"
    return text if _pattern(rules) is None else f"{text} that matches {rules['pattern']}"


def _pattern(rules: Mapping[str, Any]) -> re.Pattern[str] | None:
    try:
        return re.compile(rules["pattern"]) if isinstance(rules.get("pattern"), str) else None
    except re.error:
        # Another dialect of regular expressions than Python's.
        return None


def _range(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f"{low} to {high}" if low != high else str(low)
    if low is not None:
        return f"at least {low}"
    return "" if high is None else f"at most {high}"


def _is_within(value: float, low: float | None, high: float | None) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    # Neither NaN nor infinity can be said in JSON.
    return value == value and abs(value) != float("inf")


def _number(value: Any) -> float | None:
    return value if _is_number(value) else None


def _is_same(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _read_any(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
