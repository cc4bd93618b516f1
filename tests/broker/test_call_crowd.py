"""Many calls at once: places, queues, and what becomes of all of them when the server fails."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from mcpd.config.model import Limits, Stop
from tests.broker.desk import Desk
from tests.upstream.fakes import LEGACY, FakeServer, Script, World, after, dies

REFUSES: Script = {"server/discover": -32601, "initialize": -32000}
LEAVES: Script = {"server/discover": -32601, "initialize": dies}
HANGS: Script = {**LEGACY, "tools/call": None}
SLOW: Script = {**LEGACY, "tools/call": after(1, {"content": []})}
ONE_PLACE = Limits(in_flight=1)


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    return World(nursery)


async def test_an_upstream_has_so_many_calls_in_flight_and_not_more(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, SLOW, limits=Limits(in_flight=3))
    await desk.slot.start()
    client = desk.client()

    calls = [client.call(f"{number}") for number in range(7)]
    assert (desk.places, desk.slot.in_flight) == ((3, 4), 3)
    for call in calls:
        await client.body(call)

    assert world.servers[0].calls == [f"{number}" for number in range(7)]
    assert (trio.current_time(), desk.outcomes, desk.places) == (3, {"done": 7}, (0, 0))


async def test_no_client_starves_another(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, SLOW, limits=Limits(in_flight=4))
    await desk.slot.start()
    greedy, modest = desk.client("greedy"), desk.client("modest")
    for number in range(40):
        greedy.call(f"{number}")

    await modest.body(modest.call("mine"))

    assert trio.current_time() == 2


async def test_too_many_calls_of_one_client_are_refused_and_those_of_another_are_not(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, SLOW)
    await desk.slot.start()
    client = desk.client()
    calls = [client.call() for _ in range(16 + 256 + 1)]

    assert await client.outcome(calls[-1]) == {
        "code": 30,
        "message": "too many calls of this client wait for server 'fake'",
        "data": {"class": "overloaded", "server": "fake", "retry_after_seconds": 1.0, "may_have_run": False},
    }
    other = desk.client("other")
    await other.body(other.call())
    for call in calls:
        await client.body(call)
    assert (desk.outcomes, desk.places) == ({"done": 273, "not_sent": 1}, (0, 0))


@pytest.mark.parametrize("script", [REFUSES, LEAVES], ids=["it refuses", "it leaves"])
async def test_a_crowd_is_told_of_a_failed_start_one_by_one(
    world: World, autojump_clock: MockClock, script: Script
) -> None:
    desk = Desk(world, script)
    clients = [desk.client(number) for number in range(5)]
    calls = [(client, client.call()) for client in clients for _ in range(16 + 256)]

    for client, call in calls:
        assert (await client.error(call))["class"] == "server_unavailable"

    assert (desk.outcomes, desk.places) == ({"not_sent": 5 * 272}, (0, 0))
    assert world.spawns <= 5


async def test_a_crowd_is_told_of_the_end_of_the_daemon(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, HANGS, stop=Stop(drain_seconds=1))
    await desk.slot.start()
    client = desk.client()
    calls = [client.call() for _ in range(16 + 256)]

    world.mover.batch(desk.broker.close)
    await desk.broker.closed()

    told = [await client.error(call) for call in calls]
    assert {one["class"] for one in told} == {"shutting_down"}
    assert [one["may_have_run"] for one in told] == [True] * 16 + [False] * 256
    assert desk.outcomes == {"unknown": 16, "not_sent": 256}


async def test_calls_that_wait_for_a_place_outlive_the_server(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, {**LEGACY, "tools/call": dies}, LEGACY, limits=ONE_PLACE)
    await desk.slot.start()
    client = desk.client()

    first, second, third = client.call("first"), client.call("second"), client.call("third")

    assert (await client.error(first))["class"] == "server_lost"
    assert "content" in await client.outcome(second)
    assert "content" in await client.outcome(third)
    assert [one.calls for one in world.servers] == [["first"], ["second", "third"]]
    assert (desk.outcomes, desk.places) == ({"unknown": 1, "done": 2}, (0, 0))


async def test_a_call_that_times_out_lets_the_next_one_go(world: World, autojump_clock: MockClock) -> None:
    hung: list[str] = []

    def hangs_once(server: FakeServer, message: dict[str, object]) -> None:
        if hung:
            server.react(message, {"content": []})
        hung.append("once")

    desk = Desk(world, {**LEGACY, "tools/call": hangs_once}, limits=ONE_PLACE)
    await desk.slot.start()
    client = desk.client()
    first, second = client.call("first", timeout=5), client.call("second")

    assert "content" in await client.outcome(second)

    assert (await client.error(first))["class"] == "timeout"
    assert trio.current_time() == 5


async def test_a_call_waits_for_a_server_that_is_being_stopped(world: World, autojump_clock: MockClock) -> None:
    world.ends_in_seconds = 2
    desk = Desk(world)
    await desk.slot.start()
    client = desk.client()

    async with trio.open_nursery() as stopping:
        stopping.start_soon(desk.slot.stop)
        await trio.sleep(1)
        call = client.call()

    assert "content" in await client.outcome(call)
    assert world.servers[1].spawned_at == 2
