"""Descriptors for clients with little room: what is cut, and what never is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from mcpd.protocol.budgets import MIN_BYTES, Budget

SCHEMA = {
    "type": "object",
    "title": "Arguments",
    "properties": {
        "description": {"type": "string", "description": "What it says. " * 20},
        "n": {"type": "integer", "default": {"title": 1}, "examples": [1, 2]},
    },
    "required": ["description"],
}
TOOL = {"name": "write", "description": "Writes. " * 40, "inputSchema": SCHEMA, "outputSchema": SCHEMA}


def fitted(tool: Any, **budget: int) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(bytes(Budget(**budget).fit(Raw(json.dumps(tool).encode()))))
    return result


def test_what_keeps_to_the_budget_is_the_same_object() -> None:
    raw = Raw(json.dumps(TOOL).encode())
    assert Budget().fit(raw) is raw
    assert Budget(description_bytes=10_000, schema_bytes=10_000).fit(raw) is raw


def test_a_description_is_cut_and_the_rest_is_as_it_was() -> None:
    seen = fitted(TOOL, description_bytes=40)
    assert seen["description"] == "Writes. Writes. Writes. Writes. Write…"
    assert {**seen, "description": TOOL["description"]} == TOOL


@given(st.text(min_size=1, alphabet=st.characters(exclude_categories=["Cs"])), st.integers(MIN_BYTES, 60))
def test_a_cut_description_is_never_longer_and_never_splits_a_character(text: str, limit: int) -> None:
    seen = fitted({"name": "x", "description": text, "more": "x" * 100}, description_bytes=limit)["description"]
    assert len(seen.encode()) <= limit
    assert text.startswith(seen.removesuffix("…"))


def test_a_schema_loses_its_texts_first_and_no_argument_and_no_value() -> None:
    seen = fitted(TOOL, schema_bytes=200)
    bare = {
        "type": "object",
        "properties": {"description": {"type": "string"}, "n": {"type": "integer", "default": {"title": 1}}},
        "required": ["description"],
    }
    assert (seen["inputSchema"], seen["outputSchema"], seen["description"]) == (bare, bare, TOOL["description"])


def test_a_schema_that_is_still_too_long_takes_any_object_and_the_description_says_so() -> None:
    seen = fitted(TOOL, schema_bytes=50, description_bytes=20)
    assert seen["inputSchema"] == {"type": "object"}
    assert "outputSchema" not in seen
    assert seen["description"] == "Writes. Writes. W… (its arguments are too long to be shown)"


@pytest.mark.parametrize("schema", [[1], "x" * 300, {"properties": ["x" * 300]}, {"properties": {"a": [["y" * 300]]}}])
def test_a_schema_that_is_none_does_no_harm(schema: Any) -> None:
    assert fitted({"name": "x", "inputSchema": schema}, schema_bytes=60)["name"] == "x"
