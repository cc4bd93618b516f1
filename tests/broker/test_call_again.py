"""Nothing is sent twice, unless the entry asks for it and the server says that it does no harm."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from mcpd.errors import ExchangeLost
from tests.broker.desk import Desk
from tests.upstream.fakes import LEGACY, FakeServer, Script, World


def tool(**annotations: bool) -> dict[str, object]:
    return {"tools": [{"name": "echo", "inputSchema": {}, "annotations": annotations}]}


def dies(server: FakeServer, message: dict[str, object]) -> None:
    server.die()


def dying(listing: dict[str, object]) -> Script:
    return {**LEGACY, "tools/list": listing, "tools/call": dies}


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    return World(nursery)


@pytest.mark.parametrize("hints", [{"readOnlyHint": True}, {"idempotentHint": True}])
async def test_a_harmless_call_is_sent_once_more_where_the_entry_says_so(
    world: World, autojump_clock: MockClock, hints: dict[str, bool]
) -> None:
    desk = Desk(world, dying(tool(**hints)), LEGACY, retry="transport")
    await desk.place.catalog.listing("tools")
    client = desk.client()

    assert "content" in await client.outcome(client.call("echo"))

    assert [one.calls for one in world.servers] == [["echo"], ["echo"]]
    assert desk.outcomes == {"done": 1}


@pytest.mark.parametrize(
    ("retry", "hints"), [("safe", {"readOnlyHint": True}), ("transport", {}), ("transport", {"readOnlyHint": False})]
)
async def test_any_other_call_is_not(
    world: World, autojump_clock: MockClock, retry: str, hints: dict[str, bool]
) -> None:
    desk = Desk(world, dying(tool(**hints)), LEGACY, retry=retry)
    await desk.place.catalog.listing("tools")
    client = desk.client()

    error = await client.error(client.call("echo"))

    assert (error["class"], error["may_have_run"], world.spawns) == ("server_lost", True, 1)


async def test_a_call_whose_exchange_broke_off_is_one_of_these(world: World, autojump_clock: MockClock) -> None:
    def breaks_off(server: FakeServer, message: dict[str, object]) -> None:
        server.owner.on_failed(str(message["id"]).encode(), ExchangeLost("it broke off", may_have_run=True))  # type: ignore[attr-defined]  # an incarnation has it
        server.script = LEGACY

    desk = Desk(world, {**dying(tool(readOnlyHint=True)), "tools/call": breaks_off}, retry="transport")
    await desk.place.catalog.listing("tools")
    client = desk.client()

    assert "content" in await client.outcome(client.call("echo"))
    assert (world.spawns, world.servers[0].calls) == (1, ["echo", "echo"])


async def test_it_is_sent_once_more_and_not_again_and_again(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, dying(tool(readOnlyHint=True)), retry="transport")
    await desk.place.catalog.listing("tools")
    client = desk.client()

    error = await client.error(client.call("echo"))

    assert (error["class"], world.spawns) == ("server_lost", 2)
