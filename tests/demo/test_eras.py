"""Both eras of the demo server, message by message, and what each lists."""

import pytest

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
MODERN = {VERSION: "2026-07-28", CAPABILITIES: {}}
TOOLS = ["echo", "add", "counter", "slow", "big", "fail", "image", "ask"]


@pytest.mark.parametrize(
    ("asked", "agreed"),
    [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        (None, "2025-11-25"),
    ],
)
def test_initialize_agrees_on_the_asked_revision_or_the_newest_legacy_one(start, asked, agreed):
    result = start().initialize(asked)

    assert result["protocolVersion"] == agreed
    assert result["capabilities"] == {"tools": {}}
    assert result["serverInfo"]["name"] == "mcpd-demo"
    assert "resultType" not in result


def test_discover_says_all_that_a_modern_client_needs(modern):
    result = modern.request("server/discover")["result"]

    assert result["resultType"] == "complete"
    assert result["supportedVersions"] == ["2026-07-28"]
    assert result["capabilities"] == {"tools": {}}
    assert result["ttlMs"] > 0
    assert result["cacheScope"] == "public"
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "mcpd-demo"


def test_initialize_is_accepted_after_discover_and_twice(start):
    client = start()
    client.request("server/discover", meta=MODERN)

    assert client.initialize()["protocolVersion"] == "2025-11-25"
    assert client.initialize("2024-11-05")["protocolVersion"] == "2024-11-05"
    assert client.text("echo", {"text": "legacy"}) == "legacy"
    assert client.call("echo", {"text": "modern"}, meta=MODERN)["resultType"] == "complete"


def test_ping_is_answered_in_legacy_also_before_initialize_and_unknown_in_modern(start):
    client = start()

    assert client.request("ping")["result"] == {}
    assert client.request("ping", meta=MODERN)["error"]["code"] == -32601


def test_a_legacy_request_before_initialize_is_refused(start):
    assert start().request("tools/list")["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({VERSION: "2099-01-01", CAPABILITIES: {}}, -32022),
        ({VERSION: "2026-07-28"}, -32602),
        ({CAPABILITIES: {}}, -32602),
        ({VERSION: 1, CAPABILITIES: {}}, -32602),
        (None, -32602),
    ],
)
def test_discover_with_wrong_metadata_is_refused(start, meta, code):
    error = start().request("server/discover", meta=meta)["error"]

    assert error["code"] == code
    if code == -32022:
        assert error["data"] == {"supported": ["2026-07-28"], "requested": "2099-01-01"}


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "resources/list", "subscriptions/listen"])
def test_what_the_modern_era_does_not_have_is_an_unknown_method(modern, method):
    assert modern.request(method)["error"]["code"] == -32601


def test_both_eras_list_the_same_tools_and_the_modern_one_says_how_long(start):
    old, new = start(), start(meta=MODERN)
    old.initialize()

    old_result, new_result = (client.request("tools/list")["result"] for client in (old, new))

    assert old_result.keys() == {"tools"}
    assert new_result["tools"] == old_result["tools"]
    assert new_result.keys() == {"resultType", "tools", "ttlMs", "cacheScope", "_meta"}
    assert [tool["name"] for tool in old_result["tools"]] == TOOLS


def test_every_tool_and_argument_is_described(modern):
    for tool in modern.request("tools/list")["result"]["tools"]:
        assert tool["title"]
        assert len(tool["description"]) > 15
        assert tool["annotations"].keys() == {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
        schema = tool["inputSchema"]
        assert schema["type"] == "object"
        for name, argument in schema["properties"].items():
            assert argument["description"]
            assert ("default" in argument) != (name in schema["required"])
