"""What MCP clients hear without asking each time: lists, resources and the log, in both eras."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.downstream.hall import Hall
from tests.downstream.host import Host, hosts
from tests.downstream.test_face import SERVER, TEXT
from tests.upstream.fakes import FakeServer, Script

ID = "io.modelcontextprotocol/subscriptionId"
UPDATED = "notifications/resources/updated"
CHANGED = "notifications/tools/list_changed"
TELLING: Script = {
    **SERVER,
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "logging": {}},
        "serverInfo": {"name": "fake", "version": "7"},
    },
    "resources/list": {"resources": []},
    "logging/setLevel": {},
}


def changes_its_tools(server: FakeServer) -> None:
    """Have another list from now on, and say so."""
    server.script = {**server.script, "tools/list": {"tools": [{"name": "new", "inputSchema": {"type": "object"}}]}}
    server.say({"jsonrpc": "2.0", "method": CHANGED})


def updates(server: FakeServer, uri: str) -> None:
    server.say({"jsonrpc": "2.0", "method": UPDATED, "params": {"uri": uri}})


def heard(host: Host, method: str) -> list[Any]:
    host.look()
    return [note["params"] for note in host.notes if note["method"] == method]


async def listening(host: Host, listen_id: Any, **wanted: Any) -> Any:
    """Open a listen and return what of it is acknowledged."""
    host.modern("subscriptions/listen", {"notifications": wanted}, id=listen_id)
    note = await host.note("notifications/subscriptions/acknowledged")
    assert note["params"]["_meta"][ID] == listen_id
    return note["params"]["notifications"]


async def test_a_legacy_host_hears_once_that_a_list_has_changed(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {"one": TELLING})
    with hosts(hall, {}, {}) as (host, idle):
        await host.initialize()
        await idle.initialize()
        await host.result(host.send("tools/list"))
        changes_its_tools(hall.servers[0])
        await trio.sleep(10)
        assert len(heard(host, CHANGED)) == 1
        assert not heard(idle, CHANGED)
        assert (await host.result(host.send("tools/list")))["tools"][0]["name"] == "new"


async def test_each_listen_hears_what_it_has_asked_for_under_its_own_id(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"one": TELLING})
    with hosts(hall) as (host,):
        await host.result(host.modern("tools/list"))
        assert await listening(host, "a", toolsListChanged=True) == {"toolsListChanged": True}
        assert await listening(host, 7, toolsListChanged=True, resourceSubscriptions=["x:y"]) == {
            "toolsListChanged": True,
            "resourceSubscriptions": ["x:y"],
        }
        # Of prompts there are none, and a false wish is none.
        assert await listening(host, "c", promptsListChanged=True, toolsListChanged=False) == {}
        changes_its_tools(hall.servers[0])
        updates(hall.servers[0], "x:y")
        await trio.sleep(10)
        assert {note["_meta"][ID] for note in heard(host, CHANGED)} == {"a", 7}
        (update,) = heard(host, UPDATED)
        assert (update["uri"], update["_meta"][ID]) == ("x:y", 7)


async def test_a_listen_that_is_cancelled_hears_no_more_and_the_server_is_told_when_it_was_the_last(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"one": TELLING})
    with hosts(hall) as (host,):
        await listening(host, "a", resourceSubscriptions=["x:y"])
        await listening(host, "b", resourceSubscriptions=["x:y"])
        server = hall.servers[0]
        host.notify("notifications/cancelled", {"requestId": "a"})
        await trio.sleep(1)
        updates(server, "x:y")
        await trio.sleep(1)
        assert [note["_meta"][ID] for note in heard(host, UPDATED)] == ["b"]
        assert "resources/unsubscribe" not in server.methods
        host.notify("notifications/cancelled", {"requestId": "b"})
        await trio.sleep(1)
        assert server.methods.count("resources/unsubscribe") == 1
        assert not host.has_answer("a")


async def test_a_legacy_host_hears_of_what_it_has_subscribed_to_until_it_does_not_want_to(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"one": TELLING})
    with hosts(hall) as (host,):
        await host.initialize()
        await host.result(host.send("resources/subscribe", {"uri": "x:y"}))
        updates(hall.servers[0], "x:y")
        updates(hall.servers[0], "x:z")
        await trio.sleep(1)
        assert [note["uri"] for note in heard(host, UPDATED)] == ["x:y"]
        await host.result(host.send("resources/unsubscribe", {"uri": "x:y"}))
        updates(hall.servers[0], "x:y")
        await trio.sleep(1)
        assert len(heard(host, UPDATED)) == 1


async def test_a_subscription_that_the_server_does_not_offer_is_refused(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    plain = {**SERVER, "initialize": {**SERVER["initialize"], "capabilities": {"resources": {}}}}  # type: ignore[dict-item]
    with hosts(Hall(nursery, {"one": plain})) as (host,):
        await host.initialize()
        assert (await host.error(host.send("resources/subscribe", {"uri": "x:y"})))["code"] == -32602
        assert await listening(host, "a", resourceSubscriptions=["x:y"]) == {"resourceSubscriptions": []}


async def test_an_open_listen_does_not_keep_a_client_that_has_ended_its_input(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"one": TELLING})
    with hosts(hall) as (host,):
        await listening(host, "a", toolsListChanged=True, resourceSubscriptions=["x:y"])
        host.end_input()
        await trio.sleep(1)
        assert host.connection.closed
        assert "resources/unsubscribe" in hall.servers[0].methods


@pytest.mark.parametrize("is_modern", [False, True])
async def test_the_log_is_heard_from_the_level_on_that_was_asked_for(
    nursery: trio.Nursery, autojump_clock: MockClock, is_modern: bool
) -> None:
    def logs(server: FakeServer, message: dict[str, Any]) -> None:
        for level in ("debug", "error"):
            note = {"level": level, "data": level}
            server.say({"jsonrpc": "2.0", "method": "notifications/message", "params": note})
        server.react(message, TEXT)

    with hosts(Hall(nursery, {"one": {**TELLING, "tools/call": logs}}), {}, {}) as (host, other):
        await other.initialize()
        await other.result(other.send("tools/call", {"name": "echo"}))
        if is_modern:
            level = {"io.modelcontextprotocol/logLevel": "warning"}
            await host.result(host.modern("tools/call", {"name": "echo"}, meta=level))
            await host.result(host.modern("tools/call", {"name": "echo"}))
        else:
            await host.initialize()
            assert (await host.error(host.send("logging/setLevel", {"level": "loud"})))["code"] == -32602
            await host.result(host.send("logging/setLevel", {"level": "warning"}))
            await host.result(host.send("tools/call", {"name": "echo"}))
        assert [note["data"] for note in heard(host, "notifications/message")] == ["error"]
        assert not heard(other, "notifications/message")
