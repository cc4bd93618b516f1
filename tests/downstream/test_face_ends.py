"""What becomes of what an MCP client has asked for when something ends meanwhile, or is another one."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from msgspec import Raw
from trio.testing import MockClock

from mcpd.downstream import requested
from mcpd.downstream.asker import Asker
from mcpd.downstream.face import Face
from mcpd.downstream.parking import MAX_PARKED
from mcpd.downstream.requested import Ask
from mcpd.downstream.shown import Route
from mcpd.errors import BadRequest
from tests.downstream.hall import Hall
from tests.downstream.host import FORM, META, asks_then, hosts
from tests.downstream.test_face import INFO, SERVER, TEXT
from tests.downstream.test_hearing import TELLING, UPDATED, heard, listening, updates
from tests.upstream.fakes import MODERN, FakeServer, Script

LOG_LEVEL = "io.modelcontextprotocol/logLevel"
SEVERAL: dict[str, Any] = {"server": None}
NAMED: Script = {**TELLING, "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}}


def line(method: str, params: Any, **more: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **more}).encode() + b"\n"


async def test_the_level_of_a_request_is_told_to_each_server_that_it_goes_to(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"a": NAMED, "b": NAMED})
    with hosts(hall, SEVERAL) as (host,):
        await host.result(host.modern("tools/list"))
        for name in ("a-echo", "b-echo"):
            await host.result(host.modern("tools/call", {"name": name}, meta={LOG_LEVEL: "debug"}))
        await trio.sleep(1)
        assert [hall.latest[name].got("logging/setLevel") for name in "ab"] == [[{"level": "debug"}]] * 2
        await host.result(host.modern("tools/call", {"name": "b-echo"}))
        hall.latest["a"].say({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "debug", "data": 1}})
        hall.latest["b"].say({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "debug", "data": 2}})
        assert [one["data"] for one in heard(host, "notifications/message")] == [1]


async def test_a_listen_hears_though_its_id_was_that_of_one_that_has_just_been_cancelled(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"one": TELLING})
    with hosts(hall) as (host,):
        await host.result(host.modern("tools/list"))
        await listening(host, "a", toolsListChanged=True)
        for _ in range(30):
            again = line("notifications/cancelled", {"requestId": "a"})
            wanted = {"notifications": {"resourceSubscriptions": ["x:y"]}, "_meta": META}
            host.line(again + line("subscriptions/listen", wanted, id="a"))
            await host.note("notifications/subscriptions/acknowledged")
            await trio.sleep(1)
            updates(hall.servers[0], "x:y")
            await host.note(UPDATED)
            await trio.sleep(1)
            assert not heard(host, UPDATED)


def slow_for(uri: str) -> Any:
    """Agree to a subscription at once, but to one of them late."""

    def on_subscribe(server: FakeServer, message: dict[str, Any]) -> None:
        seconds = 5.0 if message["params"]["uri"] == uri else 0.0
        server.timers.after(seconds, lambda: server.react(message, {}))

    return on_subscribe


async def test_what_a_listen_wants_that_is_not_open_yet_is_not_lost_with_another_one(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"one": {**TELLING, "resources/subscribe": slow_for("x:slow")}})
    with hosts(hall) as (host,):
        await listening(host, "a", resourceSubscriptions=["x:y"])
        host.modern("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["x:y", "x:slow"]}}, id="b")
        await trio.sleep(1)
        host.notify("notifications/cancelled", {"requestId": "a"})
        note = await host.note("notifications/subscriptions/acknowledged")
        assert note["params"]["notifications"] == {"resourceSubscriptions": ["x:slow", "x:y"]}
        updates(hall.servers[0], "x:y")
        await host.note(UPDATED)
        assert not hall.servers[0].got("resources/unsubscribe")


async def test_an_unsubscribe_wins_over_a_subscribe_that_is_still_under_way(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"one": {**TELLING, "resources/subscribe": slow_for("x:slow")}})
    with hosts(hall) as (host,):
        await host.initialize()
        wish = host.send("resources/subscribe", {"uri": "x:slow"})
        await trio.sleep(1)
        await host.result(host.send("resources/unsubscribe", {"uri": "x:slow"}))
        await host.answer(wish)
        await trio.sleep(10)
        updates(hall.servers[0], "x:slow")
        await trio.sleep(1)
        assert not heard(host, UPDATED)
        assert not hall.place("one").interests.wanted


async def test_a_client_that_leaves_with_an_open_listen_leaves_no_copy_behind(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"one": TELLING}, scope="client")
    with hosts(hall, {}, {}) as (host, modern):
        await host.initialize()
        await host.result(host.send("resources/subscribe", {"uri": "x:y"}))
        await listening(modern, "a", resourceSubscriptions=["x:y"], toolsListChanged=True)
        assert len(hall.broker.upstreams["one"].places) == 2
    await trio.sleep(60)
    assert not hall.broker.upstreams["one"].places


async def test_a_half_closed_connection_ends_with_an_error_that_comes_late(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"a": NAMED, "b": NAMED})
    with hosts(hall, SEVERAL) as (host,):
        call = host.modern("tools/call", {"name": "a-echo"}, meta={LOG_LEVEL: "nonsense"})
        host.end_input()
        assert (await host.error(call))["code"] == -32602
        await trio.sleep(1)
        assert host.connection.closed


async def test_a_modern_server_may_give_a_state_like_ours(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    def asks(server: FakeServer, message: dict[str, Any]) -> None:
        if "requestState" in message["params"]:
            server.react(message, {**TEXT, "resultType": "complete"})
        else:
            wanted = {"q": {"method": "elicitation/create", "params": FORM}}
            server.react(message, {"resultType": "input_required", "inputRequests": wanted, "requestState": "mcpd-parked-7"})

    found = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "resultType": "complete"}
    with hosts(Hall(nursery, {"one": {**MODERN, "server/discover": found, "tools/call": asks}})) as (host,):
        asked = await host.result(host.modern("tools/call", {"name": "echo"}))
        params = {"name": "echo", "inputResponses": {"q": {"action": "decline"}}, "requestState": asked["requestState"]}
        assert (await host.result(host.modern("tools/call", params)))["content"] == TEXT["content"]


async def test_arguments_that_are_nested_as_deep_as_can_be_read_tell_requests_apart(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    def digest(face: Face, depth: int) -> bytes:
        params = b'{"name":"echo","arguments":%b1%b}' % (b'{"a":' * depth, b"}" * depth)
        return Asker(face, Ask(b"1", "tools/call", requested.read(Raw(params)), True), "call", Route("one", "echo")).digest

    with hosts(Hall(nursery, {"one": SERVER})) as (host,):
        await host.initialize()
        face = host.connection.face
        assert face is not None
        found = list[bytes]()
        for depth in range(500, 1000):
            try:
                found.append(digest(face, depth))
            except BadRequest:
                break  # here even the request cannot be read any more
        assert len({*found}) == len(found) > 100


async def test_a_host_that_shakes_hands_again_meets_the_server_that_is_there_now(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"one": SERVER})
    with hosts(hall) as (host,):
        assert (await host.initialize())["serverInfo"] == INFO
        hall.by_name["one"] = {**SERVER, "initialize": {**SERVER["initialize"], "instructions": "Be brief."}}  # type: ignore[dict-item]
        hall.broker.reload(hall.config("one", one={"args": ("--new",)}))
        await trio.sleep(20)
        assert (await host.initialize())["instructions"] == "Be brief."
        hall.broker.reload(hall.config())
        error = await host.error(host.send("initialize", {}))
        assert error["data"]["class"] == "unknown_server"


async def test_what_comes_up_after_the_client_has_said_its_last_is_not_waited_for(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    def asks_late(server: FakeServer, message: dict[str, Any]) -> None:
        server.timers.after(5, lambda: asks_then(TEXT)(server, message))

    hall = Hall(nursery, {"one": {**SERVER, "tools/call": asks_late}})
    with hosts(hall) as (host,):
        call = host.modern("tools/call", {"name": "echo"})
        await trio.sleep(1)
        host.end_input()
        assert (await host.result(call))["content"] == TEXT["content"]


async def test_of_calls_that_nobody_comes_back_for_only_so_many_are_kept(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    def impatient(server: FakeServer, message: dict[str, Any]) -> None:
        server.say({"jsonrpc": "2.0", "id": f"q{message['id']}", "method": "elicitation/create", "params": FORM})
        server.react(message, TEXT)

    with hosts(Hall(nursery, {"one": {**SERVER, "tools/call": impatient}})) as (host,):
        states = []
        for _ in range(MAX_PARKED + 1):
            asked = await host.result(host.modern("tools/call", {"name": "echo"}))
            states.append(asked["requestState"])
        first, *_, last = [{"name": "echo", "requestState": state} for state in states]
        assert (await host.error(host.modern("tools/call", first)))["data"]["class"] == "stale_session"
        assert (await host.result(host.modern("tools/call", last)))["content"] == TEXT["content"]


async def test_another_hello_ends_what_the_face_before_has_subscribed_to(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"one": TELLING})
    with hosts(hall) as (host,):
        await host.initialize()
        await host.result(host.send("resources/subscribe", {"uri": "x:y"}))
        await host.result(host.send("mcpd/hello", {"server": "one", "project": "/p"}))
        await trio.sleep(10)
        assert hall.servers[0].got("resources/unsubscribe") == [{"uri": "x:y"}]


async def test_an_unsubscribe_and_a_subscribe_that_follows_at_once_are_done_in_that_order(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"one": TELLING})
    with hosts(hall) as (host,):
        await host.initialize()
        await host.result(host.send("resources/subscribe", {"uri": "x:y"}))
        for number in range(20):
            ends = line("resources/unsubscribe", {"uri": "x:y"}, id=f"u{number}")
            host.line(ends + line("resources/subscribe", {"uri": "x:y"}, id=f"s{number}"))
            assert [await host.result(f"{kind}{number}") for kind in "us"] == [{}, {}]
            updates(hall.servers[0], "x:y")
            await host.note(UPDATED)


@pytest.mark.parametrize("reaction", [{}, -32000])
async def test_who_leaves_in_the_moment_in_which_its_server_answers_does_not_get_another_one(
    nursery: trio.Nursery, autojump_clock: MockClock, reaction: Any
) -> None:
    asked: list[dict[str, Any]] = []
    waits: Script = {**TELLING, "resources/subscribe": lambda server, message: asked.append(message)}
    hall = Hall(nursery, {"one": waits}, scope="client")
    with hosts(hall) as (host,):
        host.modern("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["x:y"]}})
        await trio.sleep(1)
        hall.servers[-1].react(asked[0], reaction)
    await trio.sleep(60)
    assert not hall.broker.upstreams["one"].places
