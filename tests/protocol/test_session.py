"""How a request is stamped for what was agreed."""

from __future__ import annotations

import json

import pytest
from msgspec import Raw

from mcpd.protocol.session import Session, list_params, meta, stamp

MODERN, LEGACY = Session("2026-07-28", "modern"), Session("2025-11-25", "legacy")
STAMP = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "mcpd", "version": "0.1.0"},
}


def written(session: Session, token: bytes | None = None, **extra: str) -> object:
    """Return the `_meta` that is written where a client sent `extra`, whose values are JSON."""
    found = meta(session, token, {key: Raw(value.encode()) for key, value in extra.items()})
    return None if found is None else json.loads(found)


# -- the two eras --------------------------------------------------------------------------------


def test_every_modern_request_carries_revision_capabilities_and_client() -> None:
    assert written(MODERN) == STAMP
    assert json.loads(b"{%b}" % stamp("2026-07-28")) == STAMP


def test_a_legacy_request_carries_nothing() -> None:
    assert meta(LEGACY) is None
    assert meta(LEGACY, None, {}) is None


def test_progress_is_asked_for_with_our_own_token_in_both_eras() -> None:
    assert written(MODERN, b"7") == {**STAMP, "progressToken": 7}
    assert written(LEGACY, b"7") == {"progressToken": 7}


# -- what a client sent --------------------------------------------------------------------------


def test_the_token_of_a_client_never_passes() -> None:
    assert written(MODERN, None, progressToken='"mine"') == STAMP
    assert written(LEGACY, None, progressToken='"mine"') is None
    assert written(MODERN, b"7", progressToken="1") == {**STAMP, "progressToken": 7}
    assert written(LEGACY, b"7", progressToken="1") == {"progressToken": 7}


@pytest.mark.parametrize(
    "key",
    [
        "io.modelcontextprotocol/protocolVersion",
        "io.modelcontextprotocol/clientCapabilities",
        "io.modelcontextprotocol/clientInfo",
        "io.modelcontextprotocol/logLevel",
        "io.modelcontextprotocol/related-task",
    ],
)
def test_keys_of_the_protocol_never_pass(key: str) -> None:
    assert written(MODERN, None, **{key: '"2024-11-05"'}) == STAMP
    assert written(LEGACY, None, **{key: '"2024-11-05"'}) is None


def test_all_other_keys_pass() -> None:
    theirs = {"traceparent": '"00-abc-def-01"', "com.example/a": '{"b":[1]}', 'odd "key"\n': "null"}
    read = {"traceparent": "00-abc-def-01", "com.example/a": {"b": [1]}, 'odd "key"\n': None}

    assert written(MODERN, None, **theirs) == {**STAMP, **read}
    assert written(LEGACY, None, **theirs) == read
    assert written(LEGACY, b"7", **theirs) == {"progressToken": 7, **read}


def test_values_pass_bit_exact() -> None:
    assert meta(LEGACY, None, {"a": Raw(rb'{ "x" : 1.00, "y":"\u00e9" }')}) == rb'{"a":{ "x" : 1.00, "y":"\u00e9" }}'


# -- parameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "meta_json", "written"),
    [
        (b"{}", None, b"{}"),
        (b'{"cursor":"c"}', None, b'{"cursor":"c"}'),
        (b"{}", b'{"x":1}', b'{"_meta":{"x":1}}'),
        (b'{"cursor":"c"}', b'{"x":1}', b'{"cursor":"c","_meta":{"x":1}}'),
        (b'{"cursor":""}', b'{"x":1}', b'{"cursor":"","_meta":{"x":1}}'),
    ],
)
def test_a_list_request_gets_its_meta_beside_the_cursor(params: bytes, meta_json: bytes | None, written: bytes) -> None:
    assert list_params(params, meta_json) == written


# -- what was declared ---------------------------------------------------------------------------


def test_a_flag_counts_only_where_it_is_declared_true() -> None:
    session = Session(
        "2025-11-25",
        "legacy",
        {
            "tools": Raw(b'{"listChanged":true}'),
            "prompts": Raw(b'{"listChanged":"yes"}'),
            "resources": Raw(b"[]"),
            "logging": Raw(b"{}"),
        },
    )

    assert session.declares("tools", "listChanged")
    assert not session.declares("tools", "subscribe")
    assert not any(session.declares(one, "listChanged") for one in ("prompts", "resources", "logging", "absent"))
    assert session.offers("resources")
    assert not session.offers("absent")


def test_an_agreement_says_whether_requests_are_stamped() -> None:
    assert (MODERN.modern, LEGACY.modern) == (True, False)


# -- what is declared ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capabilities", "searches"),
    [
        ({"tools": b'{"search_tool":true}'}, True),
        ({"tools": b'{"search_tool":{}}'}, True),
        ({"experimental": b'{"search_tool":true}'}, True),
        ({"experimental": b'{"search_tool":{"version":1}}', "tools": b"{}"}, True),
        ({"tools": b'{"search_tool":false}', "experimental": b'{"search_tool":{}}'}, True),
        ({"tools": b'{"search_tool":false}'}, False),
        ({"tools": b'{"search_tool":null}'}, False),
        ({"tools": b'{"search_tool":1}'}, False),
        ({"tools": b'{"search_tool":[]}'}, False),
        ({"tools": b"true"}, False),
        ({"search_tool": b"true"}, False),
        ({}, False),
    ],
)
def test_a_search_for_tools_is_declared_as_true_or_as_an_object(capabilities: dict[str, bytes], searches: bool) -> None:
    found = {name: Raw(body) for name, body in capabilities.items()}

    assert Session("2025-11-25", "legacy", found).searches_tools is searches
