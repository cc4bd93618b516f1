import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.downstream.cli.arguments import build
from mcpd.downstream.cli.commandline import CallCommand
from mcpd.downstream.cli.schema import read
from mcpd.downstream.cli.toolpages import tool_page


def test_the_nearest_of_what_is_referred_to_counts():
    schema = {
        "properties": {"a": {"$ref": "#/$defs/A", "description": "mine"}},
        "$defs": {
            "A": {
                "description": "theirs",
                "allOf": [{"$ref": "#/$defs/B"}],
                "properties": {"x": {}},
                "required": ["x"],
            },
            "B": {"type": "object", "properties": {"y": {"default": 1}, "z": {}}, "required": ["y", "z"]},
        },
    }

    shape = read(json.dumps(schema).encode()).member("a")

    assert (shape.text("description"), shape.types) == ("mine", ("object",))
    assert (shape.names, shape.required) == (["x", "y", "z"], ["x", "z"])


@pytest.mark.parametrize("reference", ["#/$defs/a~1b~0c", "#/%24defs/a~1b~0c", "#/allOf/0"])
def test_a_reference_is_a_pointer(reference):
    schema = {
        "$defs": {"a/b~c": {"type": "integer"}},
        "allOf": [{"type": "integer"}],
        "properties": {"x": {"$ref": reference}},
    }

    assert read(json.dumps(schema).encode()).member("x").types == ("integer",)


def test_members_of_alternatives_are_members():
    schema = {"oneOf": [{"properties": {"v": {"type": "string"}, "a": {}}}, {"properties": {"v": {"type": "null"}}}]}

    shape = read(json.dumps(schema).encode())

    assert shape.names == ["v", "a"]
    assert shape.member("v").types == ("string", "null")
    assert shape.has("a")
    assert not shape.has("b")
    assert shape.member("b") is None


def test_what_is_repeated_by_reference_is_looked_at_once():
    big = {"properties": {f"p{n}": {} for n in range(20_000)}, "required": [f"p{n}" for n in range(20_000)]}
    branch = {"properties": {"q": {}}, "allOf": [{"$ref": "#/$defs/big"}] * 40}
    schema = {
        "properties": {f"r{n}": {"$ref": "#/$defs/branch"} for n in range(300)},
        "$defs": {"big": big, "branch": branch},
    }

    page = tool_page("s", json.dumps({"name": "t", "inputSchema": schema}).encode(), 80)

    assert len(page.stdout) < 50_000


@pytest.mark.parametrize(
    "schema",
    [
        b"",
        b"null",
        b"[]",
        b"true",
        b"{",
        b"[" * 100_000,
        b'{"properties":[1],"required":7,"additionalProperties":"no"}',
        b'{"properties":{"a":1,"b":null},"required":[1,{}],"anyOf":{}}',
        b'{"properties":{"a":{"type":7,"enum":3,"items":4,"properties":5,"anyOf":[1,null]}}}',
        b'{"$ref":"#"}',
        b'{"allOf":[{"$ref":"#"}],"anyOf":[{"$ref":"#"},{"$ref":"#/anyOf/0"}]}',
        b'{"properties":{"a":{"$ref":"https://example.com/x"},"b":{"$ref":"#/nowhere/0"},"c":{"$ref":"x"}}}',
    ],
)
def test_a_schema_of_any_kind_stops_nobody(schema):
    command = CallCommand("s", "t", ("a=x", "b.c=1", "d[]=2"))

    assert build(command, schema, {}) == b'{"a":"x","b":{"c":1},"d":[2]}'


def test_a_schema_that_branches_without_end_costs_a_bounded_time():
    branches = {f"b{n}": {"anyOf": [{"$ref": f"#/$defs/b{m}"} for m in range(50)]} for n in range(50)}
    schema = {"properties": {"a": {"$ref": "#/$defs/b0"}}, "$defs": branches}

    assert read(json.dumps(schema).encode()).member("a").types == ()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
keys = st.from_regex(r"[a-z_-][a-z0-9_-]{0,9}", fullmatch=True)


@given(json_values, keys)
def test_a_schema_can_always_be_asked(schema, name):
    shape = read(json.dumps({"properties": {name: schema}, "anyOf": [schema, {"$ref": "#/anyOf/0"}]}).encode())

    assert name in shape.names
    for one in (shape, shape.member(name), shape.items):
        if one is not None:
            assert isinstance((one.types, one.required, one.choices, one.is_closed, one.text("description")), tuple)
