"""What `initialize` and `server/discover` answer, for clients of any revision."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from mcpd.protocol import mcp
from mcpd.protocol.shaping import capabilities, discover_result, initialize_result, negotiated

ALL = [*mcp.MODERN, *mcp.LEGACY]
INFO = b'{"name":"s","version":"1.0","title":"S","icons":[ ],"websiteUrl":"https://s","x":1.0}'


def shown(revision: str, **declared: bytes) -> Any:
    return json.loads(capabilities({name: Raw(value) for name, value in declared.items()}, revision=revision))


@pytest.mark.parametrize("revision", mcp.LEGACY)
def test_a_revision_with_a_handshake_is_agreed_to(revision: str) -> None:
    assert negotiated(revision) == revision


@pytest.mark.parametrize("requested", ["2026-07-28", "2099-01-01", "2024-10-07", "DRAFT", "", None, 7, [], {}, True])
def test_any_other_is_answered_with_the_newest(requested: object) -> None:
    assert negotiated(requested) == "2025-11-25"


@pytest.mark.parametrize("revision", ALL)
def test_changes_of_the_three_lists_are_always_told(revision: str) -> None:
    assert shown(revision, tools=b"{}", prompts=b'{"listChanged":false}', resources=b'{"subscribe":true}') == {
        "tools": {"listChanged": True},
        "prompts": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
    }


@pytest.mark.parametrize("revision", ALL)
def test_what_is_not_declared_is_not_there(revision: str) -> None:
    assert shown(revision) == {}
    assert (
        shown(revision, tools=b"null", prompts=b"false", logging=b"null", completions=b"null", extensions=b"null") == {}
    )


@pytest.mark.parametrize("revision", ALL)
def test_what_is_declared_without_details_is_declared(revision: str) -> None:
    assert shown(revision, tools=b"true", logging=b"true") == {"tools": {"listChanged": True}, "logging": {}}


def test_other_members_keep_their_bytes() -> None:
    declared = {"tools": Raw(b'{"x": 1.0}'), "logging": Raw(b"{ }"), "experimental": Raw(b'{"a":{"n":1E5}}')}

    assert capabilities(declared, revision="2025-06-18") == (
        b'{"tools":{"x":1.0,"listChanged":true},"logging":{ },"experimental":{"a":{"n":1E5}}}'
    )


@pytest.mark.parametrize("revision", ALL)
def test_completions_are_declared_from_2025_03_26(revision: str) -> None:
    assert shown(revision, completions=b"{}") == ({} if revision == "2024-11-05" else {"completions": {}})


@pytest.mark.parametrize("revision", ALL)
def test_tasks_and_what_nobody_knows_are_not_passed_on(revision: str) -> None:
    assert shown(revision, tasks=b'{"list":{}}', holograms=b"{}", logging=b"{}") == {"logging": {}}


@pytest.mark.parametrize("revision", ALL)
def test_of_the_extensions_modern_clients_see_the_interfaces(revision: str) -> None:
    seen = shown(revision, extensions=b'{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{"a":1.0}}')

    assert seen == ({"extensions": {"io.modelcontextprotocol/ui": {"a": 1.0}}} if revision in mcp.MODERN else {})


@pytest.mark.parametrize("extensions", [b"{}", b"true", b"[]", b'{"io.modelcontextprotocol/ui":true}'])
def test_extensions_that_are_none_are_left_out(extensions: bytes) -> None:
    assert shown("2026-07-28", extensions=extensions) == {}


@pytest.mark.parametrize("revision", mcp.LEGACY)
def test_a_handshake_is_answered_with_all_that_the_server_says_of_itself(revision: str) -> None:
    done = initialize_result(Raw(INFO), b'{"tools":{}}', "Be\nkind", revision)

    assert done == (
        b'{"protocolVersion":"%b","capabilities":{"tools":{}},"serverInfo":%b,"instructions":"Be\\nkind"}'
        % (revision.encode(), INFO)
    )


def test_a_server_without_instructions_has_none() -> None:
    done = initialize_result(Raw(INFO), b"{}", None, "2025-11-25")

    assert json.loads(done).keys() == {"protocolVersion", "capabilities", "serverInfo"}
    assert json.loads(initialize_result(Raw(INFO), b"{}", "", "2025-11-25"))["instructions"] == ""


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        (b"", {"name": "unnamed", "version": "0"}),
        (b"{}", {"name": "unnamed", "version": "0"}),
        (b'"s"', {"name": "unnamed", "version": "0"}),
        (b'{"name":"s","x":1}', {"name": "s", "x": 1, "version": "0"}),
        (b'{"name":null,"version":2}', {"name": "unnamed", "version": "0"}),
    ],
)
def test_a_name_and_a_version_are_always_there(info: bytes, expected: dict[str, Any]) -> None:
    assert json.loads(initialize_result(Raw(info), b"{}", None, "2024-11-05"))["serverInfo"] == expected


@pytest.mark.parametrize(("is_public", "scope"), [(True, "public"), (False, "private")])
def test_a_discovery_names_modern_revisions_only(is_public: bool, scope: str) -> None:
    done = discover_result(Raw(INFO), b'{"tools":{"n":1.0}}', "Be kind", ttl_ms=7, is_public=is_public)

    assert b'"tools":{"n":1.0}' in done
    assert INFO in done
    assert json.loads(done) == {
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {"n": 1.0}},
        "instructions": "Be kind",
        "ttlMs": 7,
        "cacheScope": scope,
        "_meta": {mcp.META_SERVER: json.loads(INFO)},
    }


def test_a_discovery_of_a_server_that_says_nothing_says_nothing() -> None:
    assert json.loads(discover_result(Raw(b""), b"{}", None, ttl_ms=0, is_public=False)) == {
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {},
        "ttlMs": 0,
        "cacheScope": "private",
    }
