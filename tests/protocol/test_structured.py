"""When two JSON values are the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from mcpd.protocol.structured import canonical, repeats


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1,"b":[1.0,true]}', '{ "b" : [ 1.0 , true ],\n "a":1 }'),
        ('"\\u00e9\\/"', '"é/"'),
        ("12345678901234567890123", " 12345678901234567890123\n"),
        ("1.10", "1.10"),
        ("{}", "{ }"),
    ],
)
def test_json_that_says_the_same_has_one_spelling(one: str, other: str) -> None:
    assert canonical(one.encode()) == canonical(other.encode()) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "1.0"),
        ("1", "true"),
        ("0", "false"),
        ("1", '"1"'),
        ("1.0", '"1.0"'),
        ("null", '"null"'),
        ("12345678901234567890123", "12345678901234567890124"),
        ("9007199254740993", "9007199254740992"),
        ("0.1", "0.10000000000000000001"),
        ("[1,2]", "[2,1]"),
        ('{"a":null}', "{}"),
    ],
)
def test_json_that_differs_in_anything_has_two_spellings(one: str, other: str) -> None:
    assert canonical(one.encode()) != canonical(other.encode())


@pytest.mark.parametrize("text", [b"", b"hello", b"{", b"NaN", b"1" * 5000, b"\xff", b'"\\ud800"', b"[" * 5000 + b"]" * 5000])
def test_what_is_no_json_has_no_spelling(text: bytes) -> None:
    assert canonical(text) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@given(json_values, st.randoms())
def test_layout_and_the_order_of_members_do_not_matter(value: Any, random: Any) -> None:
    def shuffled(inner: Any) -> Any:
        if isinstance(inner, dict):
            return {key: shuffled(inner[key]) for key in random.sample(sorted(inner), len(inner))}
        return [*map(shuffled, inner)] if isinstance(inner, list) else inner

    compact, pretty = json.dumps(value).encode(), json.dumps(shuffled(value), indent=2, ensure_ascii=False).encode()

    assert canonical(Raw(compact)) == canonical(pretty) is not None


@pytest.mark.parametrize(
    ("content", "structured", "same"),
    [
        ('[{"type":"image","data":"aGk="}]', '{"content": [ {"data":"aGk=","type":"image"} ]}', True),
        ('[{"type":"image","data":"aGk="}]', '[{"type":"image","data":"aGk="}]', True),
        ('[{"type":"image","data":"aGk="}]', '{"content": [], "more": 1}', False),
        ("[]", "{}", False),
    ],
)
def test_structured_content_may_be_the_blocks_once_more(content: str, structured: str, same: bool) -> None:
    assert repeats(Raw(content.encode()), Raw(structured.encode())) is same
