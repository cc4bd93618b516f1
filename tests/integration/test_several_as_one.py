"""Several servers over one socket as one MCP server, and a search over them: with real processes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration import chatty
from tests.integration.wire import Wire, text_of
from tests.integration.world import demo, shell, until

if TYPE_CHECKING:
    from tests.integration.world import World

INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
TWO = {"one": demo(), "two": demo(tools={"deny": ["fail"]})}


def host(world: World, **hello: Any) -> Wire:
    """Return a host that has opened a session."""
    wire = world.connect()
    wire.ask("mcpd/hello", {"version": 1, **hello})
    wire.ask("initialize", INITIALIZE)
    wire.notify("notifications/initialized", {})
    return wire


def names(wire: Wire) -> list[str]:
    return [tool["name"] for tool in wire.ask("tools/list")["tools"]]


def call(wire: Wire, name: str, /, **arguments: Any) -> dict[str, Any]:
    result: dict[str, Any] = wire.ask("tools/call", {"name": name, "arguments": arguments})
    return result


def test_the_tools_of_all_servers_are_listed_and_called_and_a_slow_one_is_not_waited_for(world: World) -> None:
    world.configure({**TWO, "slow": shell("exec sleep 1000", stop={"eof_seconds": 0})})
    with host(world) as wire:
        whole = until(lambda: (found := wire.ask("tools/list")) and found["_meta"]["mcpd/pending"] == ["slow"] and found)
        listed = [tool["name"] for tool in whole["tools"]]

        assert ("one-echo" in listed, "one-fail" in listed, "two-fail" in listed) == (True, True, False)
        assert text_of(call(wire, "two-echo", text="hi")) == "hi"
        assert text_of(call(wire, "mcp__one__add", a=1, b=2)) == "3"
        refused = wire.fail("tools/call", {"name": "one-ecco", "arguments": {}})
        assert (refused["code"], "one-echo" in refused["message"]) == (-32602, True)


def test_a_name_of_before_is_called_without_a_list(world: World) -> None:
    world.configure(TWO)
    with host(world, servers=["one", "two"]) as wire:
        assert text_of(call(wire, "one-echo", text="hi")) == "hi"


def test_what_an_earlier_daemon_has_kept_is_there_while_the_servers_start(world: World) -> None:
    gate = world.path / "gate"
    gate.touch()
    world.configure({"one": shell(f"while [ ! -e {gate} ]; do sleep 0.1; done; exec $0")})
    with host(world) as wire:
        before = until(lambda: names(wire))
    world.run("down")
    gate.unlink()

    with host(world) as wire, host(world, mode="search") as searching:
        assert names(wire) == before
        assert [hit["name"] for hit in json.loads(text_of(call(searching, "search_tools", query="echo")))["tools"]] == ["one-echo"]
        assert json.loads(text_of(call(searching, "describe_tool", name="one-echo")))["name"] == "one-echo"
        assert world.row("one")["state"] == "starting"
        gate.touch()
        assert text_of(call(searching, "call_tool", name="one-echo", arguments={"text": "hi"})) == "hi"


def test_what_is_searched_is_called_like_any_tool(world: World) -> None:
    world.configure(TWO)
    with host(world, mode="search") as wire:
        assert names(wire) == ["search_tools", "describe_tool", "call_tool"]
        hits = until(lambda: json.loads(text_of(call(wire, "search_tools", query="add")))["tools"])
        assert {hit["name"] for hit in hits} >= {"one-add", "two-add"}
        assert json.loads(text_of(call(wire, "describe_tool", name="one-add")))["inputSchema"]["required"] == ["a", "b"]
        assert text_of(call(wire, "call_tool", name="two-add", arguments={"a": 1, "b": 2})) == "3"
        assert call(wire, "call_tool", name="one-nothing")["isError"] is True


def test_a_call_through_another_tool_reports_its_progress_and_is_cancelled_like_any(world: World) -> None:
    world.configure(TWO)
    with host(world, servers=["one"], mode="search") as wire:
        arguments = {"name": "one-slow", "arguments": {"seconds": 10}}
        asked = wire.send("tools/call", {"name": "call_tool", "arguments": arguments, "_meta": {"progressToken": "p"}})
        while (note := wire.read())["method"] != "notifications/progress":
            pass

        wire.notify("notifications/cancelled", {"requestId": asked})

        assert note["params"]["progressToken"] == "p"
        until(lambda: world.row("one")["in_flight"] == 0)
        assert wire.ask("ping") == {}
        assert wire.early == []


@pytest.mark.parametrize("era", chatty.ERAS)
def test_resources_of_two_servers_with_the_same_uris_are_told_apart(world: World, era: str) -> None:
    world.configure({"a": chatty.entry(world, era, ledger="a"), "b": chatty.entry(world, era, ledger="b")})
    with host(world, names="mcp") as wire:
        until(lambda: len(wire.ask("resources/list")["resources"]) == 14)

        for uri, ledger in (("chatty://note/1", "a"), ("mcpd+b:chatty://note/1", "b"), ("mcpd+b:chatty://echo/x", "b")):
            read = wire.ask("resources/read", {"uri": uri})["contents"]
            assert [one["uri"] for one in read] == [uri]
            sent = chatty.received(world, "resources/read", ledger)[-1]
            assert sent["params"]["uri"] == uri.removeprefix("mcpd+b:")
        until(lambda: "mcp_resource__b__read" in names(wire))
        (block,) = call(wire, "mcp_resource__b__read", uri="chatty://note/2")["content"]
        assert block["resource"]["uri"] == "mcpd+b:chatty://note/2"
        got = wire.ask("prompts/get", {"name": "mcp__b__greet", "arguments": {"name": "you"}})
        assert "you" in json.dumps(got)
