"""How long a call may take, and how it is given up, wherever it is."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from mcpd.broker.requests import ReadRequest
from mcpd.config.model import Limits, Timeout
from tests.broker.desk import Client, Desk
from tests.upstream.fakes import INITIALIZED, LEGACY, FakeServer, Reaction, Script, World, after

HANGS: Script = {**LEGACY, "tools/call": None}
SLOW_START: Script = {**LEGACY, "initialize": after(5, INITIALIZED)}
ONE_PLACE = Limits(in_flight=1)


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    return World(nursery)


def cancelled(server: FakeServer) -> list[Any]:
    """Return the reasons of the cancellations that a server got."""
    return [one["params"]["reason"] for one in server.messages if one["method"] == "notifications/cancelled"]


async def ready(world: World, *scripts: Script, **settings: Any) -> tuple[Desk, Client]:
    """Return a desk whose server is ready, and a client."""
    desk = Desk(world, *scripts, **settings)
    await desk.slot.start()
    return desk, desk.client()


# -- the deadline --------------------------------------------------------------------------------


async def test_a_call_that_is_not_answered_in_time_may_have_run(world: World, autojump_clock: MockClock) -> None:
    desk, client = await ready(world, HANGS)

    assert await client.outcome(client.call("slow")) == {
        "code": 12,
        "message": "server 'fake' did not answer 'slow' within 30 s",
        "data": {
            "class": "timeout",
            "tool": "slow",
            "seconds": 30.0,
            "server": "fake",
            "hint": "mcpd call --timeout 120 …",
            "may_have_run": True,
        },
    }
    assert trio.current_time() == 30
    assert (desk.outcomes, desk.places) == ({"unknown": 1}, (0, 0))
    assert cancelled(world.servers[0]) == ["timed out"]


async def test_an_answer_that_comes_too_late_is_dropped(world: World, autojump_clock: MockClock) -> None:
    desk, client = await ready(world, {**LEGACY, "tools/call": after(31, {"content": []})})
    call = client.call()
    await client.error(call)

    await trio.sleep(10)

    assert len(client.told[call]) == 1
    assert desk.outcomes == {"unknown": 1}


async def test_a_client_says_how_long_it_waits_but_not_beyond_the_limit(
    world: World, autojump_clock: MockClock
) -> None:
    _, client = await ready(world, HANGS, timeout=Timeout(max_seconds=60))

    assert (await client.error(client.call(timeout=2)))["seconds"] == 2
    assert trio.current_time() == 2
    assert (await client.error(client.call(timeout=1000)))["seconds"] == 60
    assert trio.current_time() == 62


async def test_a_call_that_waits_for_a_place_times_out_without_being_sent(
    world: World, autojump_clock: MockClock
) -> None:
    desk, client = await ready(world, HANGS, limits=ONE_PLACE)
    client.call("first")

    error = await client.error(client.call("second", timeout=3))

    assert (error["class"], error["may_have_run"], trio.current_time()) == ("timeout", False, 3)
    assert (world.servers[0].calls, cancelled(world.servers[0])) == (["first"], [])
    assert (desk.outcomes, desk.places) == ({"not_sent": 1}, (1, 0))


async def test_a_call_that_waits_for_the_start_times_out_without_being_sent(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, SLOW_START)
    client = desk.client()

    error = await client.error(client.call("t", timeout=3))

    assert error["message"] == "server 'fake' was not ready for 't' within 3 s"
    assert (error["may_have_run"], desk.outcomes, desk.places) == (False, {"not_sent": 1}, (0, 0))
    await trio.sleep(10)
    assert (desk.slot.state.value, world.servers[0].calls) == ("ready", [])


async def test_a_start_does_not_eat_the_time_of_a_call_that_set_none(world: World, autojump_clock: MockClock) -> None:
    answers: Script = {**SLOW_START, "tools/call": after(3.5, {"content": []})}
    desk = Desk(world, answers, timeout=Timeout(call_seconds=4))
    client = desk.client()

    assert "content" in await client.outcome(client.call())
    assert trio.current_time() == 8.5


async def test_the_time_of_a_call_begins_when_it_is_sent(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, {**SLOW_START, "tools/call": None}, timeout=Timeout(call_seconds=4))
    client = desk.client()

    error = await client.error(client.call())

    assert (error["message"], error["may_have_run"]) == ("server 'fake' did not answer 't' within 4 s", True)
    assert trio.current_time() == 9


async def test_a_deadline_of_the_client_counts_from_its_request(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, {**SLOW_START, "tools/call": None})
    client = desk.client()

    error = await client.error(client.call(timeout=7))

    assert (trio.current_time(), error["may_have_run"]) == (7, True)


@pytest.mark.parametrize("timeout", [None, 20.0])
async def test_calls_that_are_over_leave_no_deadline_behind(
    world: World, autojump_clock: MockClock, timeout: float | None
) -> None:
    script: Script = {**SLOW_START, "tools/call": None, "ping": {}}
    desk = Desk(world, script, timeout=Timeout(idle_seconds=0, call_seconds=20))
    client = desk.client()
    calls = [client.call(timeout=timeout) for _ in range(40)]

    for call in calls:
        await client.error(call)
    await trio.sleep(100)

    assert len(world.timers) == 0


# -- progress ------------------------------------------------------------------------------------


def progresses(every_seconds: float, times: int) -> Reaction:
    """Report progress so many times, and then answer."""

    def react(server: FakeServer, message: dict[str, Any]) -> None:
        def report(count: int) -> None:
            params = {"progressToken": message["id"], "progress": count, "message": "…"}
            server.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

        for count in range(1, times + 1):
            server.timers.after(every_seconds * count, lambda count=count: report(count))  # type: ignore[misc]
        server.timers.after(every_seconds * (times + 1), lambda: server.react(message, {"content": []}))

    return react


async def test_progress_extends_a_call(world: World, autojump_clock: MockClock) -> None:
    script: Script = {**LEGACY, "tools/call": progresses(3, 4)}
    _, client = await ready(world, script, timeout=Timeout(call_seconds=4))

    assert "content" in await client.outcome(client.call())
    assert trio.current_time() == 15


async def test_progress_does_not_extend_a_call_beyond_the_limit(world: World, autojump_clock: MockClock) -> None:
    script: Script = {**LEGACY, "tools/call": progresses(3, 100)}
    desk, client = await ready(world, script, timeout=Timeout(call_seconds=4, max_seconds=10))

    error = await client.error(client.call())

    assert (error["class"], error["may_have_run"], trio.current_time()) == ("timeout", True, 10)
    assert desk.outcomes == {"unknown": 1}


async def test_progress_does_not_extend_a_deadline_of_the_client(world: World, autojump_clock: MockClock) -> None:
    _, client = await ready(world, {**LEGACY, "tools/call": progresses(3, 100)})

    await client.error(client.call(timeout=4))

    assert trio.current_time() == 4


async def test_a_call_that_stops_to_progress_times_out(world: World, autojump_clock: MockClock) -> None:
    def stalls(server: FakeServer, message: dict[str, Any]) -> None:
        params = {"progressToken": message["id"], "progress": 1}
        notification = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
        server.timers.after(3, lambda: server.say(notification))

    _, client = await ready(world, {**LEGACY, "tools/call": stalls}, timeout=Timeout(call_seconds=4))

    await client.error(client.call())

    assert trio.current_time() == 7


@pytest.mark.parametrize("token", ["mine", 7, "7"])
async def test_progress_comes_back_with_the_clients_own_token(
    world: World, autojump_clock: MockClock, token: object
) -> None:
    desk, client = await ready(world, {**LEGACY, "tools/call": progresses(1, 2)})
    other = desk.client("other")

    calls = client.call(meta={"progressToken": token}), other.call(meta={"progressToken": token})
    await client.body(calls[0])
    await other.body(calls[1])

    expected = [{"progressToken": token, "progress": count, "message": "…"} for count in (1, 2)]
    assert (client.progress, other.progress) == (expected, expected)


async def test_progress_that_nobody_asked_for_is_kept_back(world: World, autojump_clock: MockClock) -> None:
    _, client = await ready(world, {**LEGACY, "tools/call": progresses(1, 2)})

    await client.body(client.call())

    assert client.progress == []
    assert "_meta" not in world.servers[0].messages[-1]["params"]


# -- cancelled -----------------------------------------------------------------------------------


async def test_a_call_that_was_sent_is_cancelled_at_the_server(world: World, autojump_clock: MockClock) -> None:
    desk, client = await ready(world, {**LEGACY, "tools/call": after(5, {"content": []})})
    call = client.call()
    await wait_all_tasks_blocked()

    call.cancel("the user pressed Ctrl-C")
    call.cancel("twice")

    assert cancelled(world.servers[0]) == ["the user pressed Ctrl-C"]
    assert (desk.outcomes, desk.places) == ({"unknown": 1}, (0, 0))
    await trio.sleep(60)
    assert client.told == {}
    assert "ping" not in world.servers[0].methods


async def test_a_call_that_waits_for_a_place_leaves_the_queue(world: World, autojump_clock: MockClock) -> None:
    desk, client = await ready(world, {**LEGACY, "tools/call": after(1, {"content": []})}, limits=ONE_PLACE)
    client.call("first")
    second, third = client.call("second"), client.call("third")

    second.cancel("no longer needed")

    assert (desk.outcomes, desk.places) == ({"not_sent": 1}, (1, 1))
    await client.body(third)
    assert world.servers[0].calls == ["first", "third"]
    assert second not in client.told


async def test_a_call_that_waits_for_the_start_is_not_sent(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, SLOW_START)
    client = desk.client()
    first, second = client.call("first"), client.call("second")

    first.cancel("no longer needed")

    await client.body(second)
    assert world.servers[0].calls == ["second"]
    assert (desk.outcomes, desk.places) == ({"not_sent": 1, "done": 1}, (0, 0))


async def test_a_call_whose_tool_is_being_looked_for_is_not_sent(world: World, autojump_clock: MockClock) -> None:
    desk, client = await ready(world, {**LEGACY, "tools/list": after(1, {"tools": []})})
    await desk.catalog.listing("tools")
    call = client.call("new")

    call.cancel("no longer needed")
    await trio.sleep(10)

    assert (world.servers[0].calls, client.told, desk.outcomes) == ([], {}, {"not_sent": 1})


async def test_a_call_that_is_over_cannot_be_cancelled(world: World, autojump_clock: MockClock) -> None:
    desk, client = await ready(world)
    call = client.call()
    await client.body(call)

    call.cancel("too late")

    assert (cancelled(world.servers[0]), desk.outcomes, desk.places) == ([], {"done": 1}, (0, 0))


async def test_a_resource_that_does_not_come_is_named_as_what_it_is(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, LEGACY)
    client = desk.client()

    error = await client.error(client.send(ReadRequest(server="fake", uri="note:1", timeout=2.0)))

    assert (error["class"], error["resource"], "tool" in error) == ("timeout", "note:1", False)
    assert error["hint"] == "mcpd read --timeout 8 …"
