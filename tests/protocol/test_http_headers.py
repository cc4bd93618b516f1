"""Headers that mirror a message, the tools that may ask for them, and how long to wait."""

from __future__ import annotations

import base64
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.errors import ServerProtocol
from mcpd.protocol.http_headers import Param, encode, mirrored, params_of, retry_after, vet


def schema(**properties: object) -> bytes:
    return json.dumps({"type": "object", "properties": properties}).encode()


def header(name: object, kind: object = "string", **more: object) -> dict[str, object]:
    return {"type": kind, "x-mcp-header": name, **more}


# -- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["", "a", "us-west1", "two words", "a  b", "~!@#$%^&*()", "=?base64?", "x=?base64?YQ==?="])
def test_a_plain_value_stands_for_itself(value: str) -> None:
    assert encode(value) == value


@pytest.mark.parametrize(
    "value",
    [" a", "a ", " ", "\ta", "a\tb", "a\nb", "a\r\nX-Evil: 1", "é", "日本", "\0", "\x7f", "=?base64?YQ==?=", "=?base64??="],
)
def test_any_other_value_travels_in_base64(value: str) -> None:
    found = re.fullmatch(r"=\?base64\?([A-Za-z0-9+/=]*)\?=", encode(value))

    assert found is not None
    assert base64.b64decode(found[1], validate=True).decode() == value


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_every_value_can_stand_in_a_header_and_be_read_back(value: str) -> None:
    text = encode(value)

    assert re.fullmatch(r"[ -~]*", text)
    assert text == text.strip()
    found = re.fullmatch(r"=\?base64\?(.*)\?=", text)
    assert (base64.b64decode(found[1]).decode() if found else text) == value


# -- tools ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "params"),
    [
        ({"a": {"type": "string"}}, []),
        ({"a": header("Region")}, [Param(("a",), "Mcp-Param-Region")]),
        ({"a": header("N", "integer"), "b": header("B", "boolean")}, [Param(("a",), "Mcp-Param-N"), Param(("b",), "Mcp-Param-B")]),
        ({"o": {"type": "object", "properties": {"i": header("In")}}}, [Param(("o", "i"), "Mcp-Param-In")]),
        ({"properties": header("P")}, [Param(("properties",), "Mcp-Param-P")]),
        ({"a": {"default": header("not a schema!"), "enum": [header("nor this!")], "const": header("!")}}, []),
    ],
)  # fmt: skip
def test_arguments_are_mirrored_as_their_schema_says(properties: dict[str, object], params: list[Param]) -> None:
    assert sorted(params_of(schema(**properties))) == sorted(params)


BAD: list[tuple[str, bytes, str]] = [
    ("an empty name", schema(a=header("")), "no name of a header"),
    ("a blank in it", schema(a=header("My Region")), "no name of a header"),
    ("a colon in it", schema(a=header("a:b")), "no name of a header"),
    ("a line break in it", schema(a=header("a\r\nb")), "no name of a header"),
    ("a letter of another alphabet", schema(a=header("Région")), "no name of a header"),
    ("no text", schema(a=header(7)), "no string"),
    ("null", schema(a=header(None)), "no string"),
    ("on a number", schema(a=header("A", "number")), "'number'"),
    ("on an object", schema(a=header("A", "object")), "'object'"),
    ("on an array", schema(a=header("A", "array")), "'array'"),
    ("on null", schema(a=header("A", "null")), "'null'"),
    ("on several types", schema(a=header("A", ["string", "null"])), "not one type"),
    ("on no type", schema(a={"x-mcp-header": "A"}), "not one type"),
    ("twice", schema(a=header("A"), b=header("A")), "a and b have the same"),
    ("twice in other letters", schema(a=header("Abc"), b=header("aBC")), "a and b have the same"),
    ("on the arguments as a whole", json.dumps(header("A", "object")).encode(), "by its name alone"),
    *[
        (f"below {keyword}", schema(a={"type": "object", keyword: below}), "by its name alone")
        for keyword, below in [
            ("items", header("A")), ("items", [header("A")]), ("prefixItems", [header("A")]), ("contains", header("A")),
            ("additionalProperties", header("A")), ("patternProperties", {"x": header("A")}), ("not", header("A")),
            ("if", header("A")), ("then", header("A")), ("else", header("A")), ("oneOf", [header("A")]),
            ("anyOf", [{"properties": {"b": header("A")}}]), ("allOf", [{"properties": {"b": header("A")}}]),
            ("$defs", {"d": header("A")}), ("definitions", {"d": header("A")}), ("dependentSchemas", {"d": header("A")}),
        ]
    ],
]  # fmt: skip


@pytest.mark.parametrize(("bad", "why"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_a_tool_with_an_invalid_annotation_must_not_be_used(bad: bytes, why: str) -> None:
    with pytest.raises(ServerProtocol, match=re.escape(why)):
        vet(b'{"name":"t","inputSchema":%b}' % bad)


@pytest.mark.parametrize(
    "descriptor",
    [
        b'{"name":"t"}', b'{"name":"t","inputSchema":{}}', b'{"name":"x-mcp-header","inputSchema":{"type":"object"}}',
        b'{"name":"t","inputSchema":"x-mcp-header"}', b'["x-mcp-header"]', b'{"x-mcp-header', b'"x-mcp-header"',
        b'{"name":"t","inputSchema":' + schema(a=header("A")) + b"}",
    ],
)  # fmt: skip
def test_any_other_tool_may(descriptor: bytes) -> None:
    assert vet(descriptor) is None  # type: ignore[func-returns-value]  # it raises, or does not


def test_a_schema_of_any_depth_is_looked_through() -> None:
    deep: object = header("A")
    for _ in range(300):
        deep = {"type": "object", "properties": {"p": deep}}

    (param,) = params_of(json.dumps(deep).encode())

    assert param == Param(("p",) * 300, "Mcp-Param-A")


PARAMS = (Param(("a",), "Mcp-Param-A"), Param(("o", "i"), "Mcp-Param-I"))


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"a": "x"}, {"Mcp-Param-A": "x"}),
        ({"a": ""}, {"Mcp-Param-A": ""}),
        ({"a": " x"}, {"Mcp-Param-A": "=?base64?IHg=?="}),
        ({"a": 42}, {"Mcp-Param-A": "42"}),
        ({"a": -1}, {"Mcp-Param-A": "-1"}),
        ({"a": 42.0}, {"Mcp-Param-A": "42"}),
        ({"a": 1e3}, {"Mcp-Param-A": "1000"}),
        ({"a": 1.5}, {"Mcp-Param-A": "1.5"}),
        ({"a": 2**53 - 1}, {"Mcp-Param-A": "9007199254740991"}),
        ({"a": 2**53}, {}),
        ({"a": True}, {"Mcp-Param-A": "true"}),
        ({"a": False}, {"Mcp-Param-A": "false"}),
        ({"a": None}, {}),
        ({"a": ["x"]}, {}),
        ({"a": {"b": 1}}, {}),
        ({}, {}),
        ({"o": {"i": "y"}}, {"Mcp-Param-I": "y"}),
        ({"o": "i"}, {}),
        ({"b": "x"}, {}),
        ([], {}),
    ],
)
def test_a_call_mirrors_what_it_has(arguments: object, headers: dict[str, str]) -> None:
    assert mirrored(PARAMS, json.dumps(arguments).encode()) == headers


@pytest.mark.parametrize("arguments", [b"", b"{", b"null"])
def test_arguments_that_cannot_be_read_mirror_nothing(arguments: bytes) -> None:
    assert mirrored(PARAMS, arguments) == {}


# -- waiting -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0), ("1", 1.0), (" 120 ", 120.0), ("", None), ("soon", None), ("-1", None), ("1.5", None), ("٣", None),
        ("9" * 5000, None),
        ("Sun, 06 Nov 1994 08:49:47 GMT", 10.0), ("Sun, 06 Nov 1994 08:49:27 GMT", 0.0), ("Sun, 99 Nov 1994 08:49:37 GMT", None),
    ],
)  # fmt: skip
def test_how_long_to_wait_is_a_number_or_a_date(text: str, seconds: float | None) -> None:
    assert retry_after(text, now=784111777.0) == seconds
