from __future__ import annotations

from typing import Any

import pytest

from mcpd_client.elicit import Field, check, fill_defaults, parse_answer

COLOURS = {"oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]}
SIZES = {"enum": ["s", "m"], "enumNames": ["Small", "Medium"]}
TAGS = {"type": "array", "items": {"anyOf": [{"const": "a", "title": "Alpha"}, {"const": "b", "title": "Beta, 2nd"}]}}


def form(rules: object, *, required: bool = False) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": rules}, "required": ["x"] if required else []}


@pytest.mark.parametrize(
    ("rules", "text", "value"),
    [
        ({"type": "string"}, " as typed ", " as typed "),
        ({"type": "string", "minLength": 2, "maxLength": 3}, "éé", "éé"),
        ({"type": "string", "pattern": "^a+$"}, "aaa", "aaa"),
        ({"type": "string", "format": "email"}, "a@b.example", "a@b.example"),
        ({"type": "string", "format": "uri"}, "urn:isbn:1", "urn:isbn:1"),
        ({"type": "string", "format": "date"}, "2024-02-29", "2024-02-29"),
        ({"type": "string", "format": "date-time"}, "2026-01-31T12:00:00.5+02:00", "2026-01-31T12:00:00.5+02:00"),
        ({"type": "string", "format": "unheard-of"}, "x", "x"),
        ({"type": ["null", "string"]}, "x", "x"),
        ({"type": "integer", "minimum": 1, "maximum": 3}, " 3 ", 3),
        ({"type": "integer"}, "123456789012345678901", 123456789012345678901),
        ({"type": "number"}, "2", 2),
        ({"type": "number"}, "-1.5e3", -1500.0),
        ({"type": "boolean"}, "Y", True),
        ({"type": "boolean"}, "no", False),
        ({"type": "string", "enum": ["red", "green"]}, "GREEN", "green"),
        ({"type": "string", "enum": ["red", "green"]}, "2", "green"),
        ({"enum": ["2", "1"]}, "2", "2"),
        ({"enum": [1, True]}, "true", True),
        (SIZES, "medium", "m"),
        (SIZES, "m", "m"),
        (COLOURS, "Green", "g"),
        (COLOURS, "1", "r"),
        ({"anyOf": COLOURS["oneOf"]}, "g", "g"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, "b, 1,b", ["b", "a"]),
        (TAGS, "Beta, 2nd", ["b"]),
        (TAGS, "alpha,2", ["a", "b"]),
        (TAGS, "-", []),
        ({"type": "object"}, '{"a": 1}', {"a": 1}),
        ({}, "just text", "just text"),
    ],
)
def test_what_is_typed_becomes_a_value_of_the_field(rules: object, text: str, value: object) -> None:
    parsed = parse_answer(form(rules), "x", text)

    assert (parsed, type(parsed)) == (value, type(value))
    assert check(form(rules), {"x": parsed}) is None


@pytest.mark.parametrize(
    ("rules", "text", "expected"),
    [
        ({"type": "string", "minLength": 2}, "é", "text of at least 2 characters"),
        ({"type": "string", "maxLength": 2}, "abc", "text of at most 2 characters"),
        ({"type": "string", "minLength": 2, "maxLength": 3}, "a", "text of 2 to 3 characters"),
        ({"type": "string", "pattern": "^a+$"}, "ab", "text that matches ^a+$"),
        ({"type": "string", "format": "email"}, "a b@c", "an e-mail address"),
        ({"type": "string", "format": "uri"}, "example.org", "a URI as https://example.org/"),
        ({"type": "string", "format": "date"}, "2026-02-29", "a date as 2026-01-31"),
        ({"type": "string", "format": "date"}, "20260131", "a date as 2026-01-31"),
        ({"type": "string", "format": "date-time"}, "2026-01-31T12:00:00", "a date and time as 2026-01-31T12:00:00Z"),
        ({"type": "string", "format": "date-time"}, "2026-01-31T25:00:00Z", "a date and time as 2026-01-31T12:00:00Z"),
        ({"type": "integer"}, "1.5", "a whole number"),
        ({"type": "integer", "minimum": 1, "maximum": 3}, "4", "a whole number, 1 to 3"),
        ({"type": "number", "minimum": 0.5}, "0", "a number, at least 0.5"),
        ({"type": "number", "maximum": 7}, "8", "a number, at most 7"),
        ({"type": "number"}, "nan", "a number"),
        ({"type": "number"}, "1e999", "a number"),
        ({"type": "boolean"}, "maybe", "yes or no"),
        (COLOURS, "blue", "one of Red (r), Green (g)"),
        (COLOURS, "3", "one of Red (r), Green (g)"),
        (COLOURS, "0", "one of Red (r), Green (g)"),
        ({"enum": ["1", "b"]}, "2", "one of 1, b"),
        ({**TAGS, "minItems": 1, "maxItems": 1}, "a,b", "1 of Alpha (a), Beta, 2nd (b)"),
        ({**TAGS, "minItems": 1}, "-", "at least 1 of Alpha (a), Beta, 2nd (b)"),
        (TAGS, "a,c", "any of Alpha (a), Beta, 2nd (b)"),
    ],
)
def test_what_does_not_fit_is_explained_without_repeating_it(rules: object, text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=r"must be") as caught:
        parse_answer(form(rules), "x", text)

    assert str(caught.value) == f"'x' must be {expected}"


@pytest.mark.parametrize(
    ("rules", "value"),
    [
        ({"type": "string"}, 1),
        ({"type": "string", "format": "date"}, "tomorrow"),
        ({"type": "integer"}, "1"),
        ({"type": "integer"}, True),
        ({"type": "integer"}, 1.5),
        ({"type": "number"}, float("nan")),
        ({"type": "boolean"}, 1),
        ({"enum": [1]}, True),
        (COLOURS, "Red"),
        (TAGS, "a"),
        (TAGS, ["a", "c"]),
        ({**TAGS, "maxItems": 1}, ["a", "b"]),
    ],
)
def test_content_that_breaks_a_rule_is_found(rules: object, value: object) -> None:
    problem = check(form(rules), {"x": value})

    assert problem is not None
    assert problem.startswith("'x' must be ")


def test_content_is_checked_as_a_whole() -> None:
    assert check(form({"type": "string"}), {}) is None
    assert check(form({"type": "string"}, required=True), {}) == "'x' is required and has no default"
    assert check(form({"type": "string", "default": "d"}, required=True), {}) == "'x' is required"
    assert check(form({"type": "string"}), {"y": 1}) == "there is no field 'y'; there is x"
    assert check({}, {"y": 1}) == "there is no field 'y'; there is none"
    assert check({}, []) == "the answer must be an object"


def test_a_whole_number_may_be_written_with_a_fraction_of_zero() -> None:
    assert check(form({"type": "integer"}), {"x": 2.0}) is None


@pytest.mark.parametrize("default", ["r", None])
def test_every_kind_of_field_has_its_default(default: str | None) -> None:
    rules = {
        "text": {"type": "string", "default": ""},
        "count": {"type": "integer", "default": 0},
        "ratio": {"type": "number", "default": 0.5},
        "flag": {"type": "boolean", "default": False},
        "colour": {**COLOURS, "default": default},
        "tags": {**TAGS, "default": ["b"]},
        "none": {"type": "string"},
    }

    expected = {"text": "", "count": 0, "ratio": 0.5, "flag": False, "colour": default, "tags": ["b"]}
    assert fill_defaults({"properties": rules}) == {name: each for name, each in expected.items() if each is not None}


def test_a_default_that_breaks_the_rules_is_none() -> None:
    assert fill_defaults(form({"type": "integer", "default": "7"})) == {}


@pytest.mark.parametrize(
    "schema",
    [None, [], "form", {"properties": []}, {"properties": {"x": None}}, {"properties": {"x": {"enum": "abc"}}},
     {"properties": {"x": {"type": "string", "minLength": "2", "pattern": "(", "title": 1, "description": []}}},
     {"properties": {"x": {"oneOf": [1, {"title": "no const"}]}}}],
)  # fmt: skip
def test_a_schema_that_makes_no_sense_asks_for_nothing_in_particular(schema: object) -> None:
    assert fill_defaults(schema) == {}
    assert check(schema, {}) is None
    assert all(field.parse("a") == "a" for field in Field.all_of(schema))


def test_what_is_required_and_not_described_is_asked_for_all_the_same() -> None:
    assert [(field.name, field.required) for field in Field.all_of({"required": ["y", 1]})] == [("y", True)]


def test_an_unknown_field_has_no_answer() -> None:
    with pytest.raises(KeyError):
        parse_answer({}, "x", "1")


@pytest.mark.parametrize(
    ("rules", "value", "shown"),
    [
        ({"type": "boolean"}, False, "no"),
        ({"type": "integer"}, 5, "5"),
        (COLOURS, "g", "Green"),
        (TAGS, ["a"], "Alpha"),
        (TAGS, [], "-"),
    ],
)
def test_a_value_is_shown_as_it_can_be_typed(rules: object, value: object, shown: str) -> None:
    (field,) = Field.all_of(form(rules))

    assert field.show(value) == shown
    assert field.parse(shown) == value


def test_a_long_list_of_choices_does_not_fill_the_sentence() -> None:
    (field,) = Field.all_of(form({"enum": [f"c{n}" for n in range(1000)]}))

    assert field.expects().endswith("c19, …")
