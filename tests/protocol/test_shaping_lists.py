"""List items and whole lists for clients of any revision."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from mcpd.errors import ServerProtocol
from mcpd.protocol import mcp
from mcpd.protocol.shaping import ListKind, descriptor, list_result

INFO = Raw(b'{"name":"s","version":"1.0"}')
REST = b'"name":"t","title":"T","icons":[],"execution":{"taskSupport":"optional"},"inputSchema":{"type":"object","x":1.0},"_meta":{}'
NEW, OLD = ("2025-11-25", "2025-06-18"), ("2025-03-26", "2024-11-05")


def plain(value: Raw | bytes) -> Any:
    return json.loads(bytes(value))


def tool(output: bytes) -> Raw:
    return Raw(b'{ %b, "outputSchema" : %b}' % (REST, output))


@pytest.mark.parametrize("kind", ["tools", "prompts", "resources", "templates"])
@pytest.mark.parametrize("revision", [*mcp.MODERN, *mcp.LEGACY])
def test_what_a_revision_does_not_know_stays(kind: ListKind, revision: str) -> None:
    raw = Raw(b"{ %b }" % REST)

    assert descriptor(kind, raw, revision) is raw


@pytest.mark.parametrize("output", [b'{"type":"object"}', b'{"x":1.0, "type" : "ob\\u006aect"}'])
def test_an_output_schema_for_objects_stays_where_there_is_one(output: bytes) -> None:
    for revision in (*NEW, *mcp.MODERN):
        raw = tool(output)
        assert descriptor("tools", raw, revision) is raw
    for revision in OLD:
        assert bytes(descriptor("tools", tool(output), revision)) == b"{%b}" % REST


@pytest.mark.parametrize(
    "output",
    [
        b"{}",
        b'{"type":"array"}',
        b'{"type":["object"]}',
        b'{"anyOf":[{"type":"object"}]}',
        b"true",
        b"null",
        b'"object"',
        b"[]",
    ],
)
def test_any_other_output_schema_is_for_modern_clients(output: bytes) -> None:
    for revision in mcp.LEGACY:
        assert bytes(descriptor("tools", tool(output), revision)) == b"{%b}" % REST
    raw = tool(output)
    assert descriptor("tools", raw, mcp.MODERN[0]) is raw


def test_only_tools_have_an_output_schema() -> None:
    for kind in ("prompts", "resources", "templates"):
        raw = tool(b"[]")
        assert descriptor(kind, raw, "2024-11-05") is raw  # type: ignore[arg-type]


def test_a_tool_that_is_no_object_is_an_error_of_the_server() -> None:
    with pytest.raises(ServerProtocol, match="the tool is an array, not an object"):
        descriptor("tools", Raw(b"[]"), "2025-11-25")


ITEMS = [Raw(b'{"name":"a", "n":1.0}'), Raw(b'{"name":"\\u0062"}')]


@pytest.mark.parametrize("member", ["tools", "prompts", "resources", "resourceTemplates"])
def test_a_list_for_a_legacy_client_is_the_list(member: str) -> None:
    done = list_result(member, ITEMS, modern=False, ttl_ms=5, is_public=True, server_info=INFO)

    assert done == b'{"%b":[{"name":"a", "n":1.0},{"name":"\\u0062"}]}' % member.encode()


@pytest.mark.parametrize(
    ("ttl_ms", "is_public", "hints"),
    [
        (5, True, {"ttlMs": 5, "cacheScope": "public"}),
        (0, False, {"ttlMs": 0, "cacheScope": "private"}),
        (-1, False, {"ttlMs": 0, "cacheScope": "private"}),
    ],
)
def test_a_list_for_a_modern_client_says_how_long_it_is_good(
    ttl_ms: int, is_public: bool, hints: dict[str, object]
) -> None:
    done = list_result("tools", ITEMS, modern=True, ttl_ms=ttl_ms, is_public=is_public, server_info=INFO)

    assert b'{"name":"a", "n":1.0},{"name":"\\u0062"}' in done
    assert plain(done) == {
        "tools": [{"name": "a", "n": 1.0}, {"name": "b"}],
        "resultType": "complete",
        **hints,
        "_meta": {mcp.META_SERVER: plain(INFO)},
    }


def test_a_list_without_items_or_server_is_a_list() -> None:
    assert list_result("tools", [], modern=False, ttl_ms=0, is_public=False, server_info=INFO) == b'{"tools":[]}'
    done = list_result("tools", [], modern=True, ttl_ms=0, is_public=False, server_info=Raw(b""))
    assert plain(done) == {"tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def test_what_else_is_to_be_said_is_said_in_both_eras() -> None:
    meta = {"mcpd/pending": ["a"], "mcpd/raw": Raw(b"1.0")}

    legacy = list_result("tools", [], modern=False, ttl_ms=0, is_public=False, server_info=INFO, meta=meta)
    modern = list_result("tools", [], modern=True, ttl_ms=0, is_public=False, server_info=INFO, meta=meta)

    assert legacy == b'{"tools":[],"_meta":{"mcpd/pending":["a"],"mcpd/raw":1.0}}'
    assert plain(modern)["_meta"] == {"mcpd/pending": ["a"], "mcpd/raw": 1.0, mcp.META_SERVER: plain(INFO)}


def test_a_thousand_items_are_one_list() -> None:
    items = [Raw(b'{"name":"%d"}' % at) for at in range(1000)]

    done = list_result("tools", items, modern=True, ttl_ms=0, is_public=False, server_info=INFO)

    assert [item["name"] for item in msgspec.json.decode(done)["tools"]] == [str(at) for at in range(1000)]
