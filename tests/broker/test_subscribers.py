"""A copy that somebody has subscribed to runs, whatever becomes of one run of it."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.broker.desk import Client, Desk
from tests.broker.ears import legacy, modern
from tests.upstream.fakes import Script, World

UPDATED = "notifications/resources/updated"


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    return World(nursery)


def updates(client: Client) -> list[str]:
    return [params["uri"] for method, params in client.notices if method == UPDATED]


@pytest.mark.parametrize("script", [legacy(), modern()])
async def test_a_server_that_is_lost_starts_again_for_its_subscribers_and_they_are_told(
    world: World, autojump_clock: MockClock, script: Script
) -> None:
    desk = Desk(world, script, scope="user")
    client = desk.client()
    await desk.place.interests.subscribed(client, "x:y")

    world.servers[0].die()
    await trio.sleep(60)

    assert (world.spawns, desk.slot.state.value, updates(client)) == (2, "ready", ["x:y"])


async def test_a_server_that_is_silent_is_replaced_for_its_subscribers(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, {**legacy(), "tools/call": None, "ping": None}, scope="user")
    client = desk.client()
    await desk.place.interests.subscribed(client, "x:y")

    await client.error(client.call(timeout=1))
    await trio.sleep(60)

    assert (world.spawns, desk.slot.state.value, updates(client)) == (2, "ready", ["x:y"])


async def test_a_server_that_is_stopped_is_not_started_for_its_subscribers(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, legacy(), scope="user")
    await desk.place.interests.subscribed(desk.client(), "x:y")

    await desk.slot.stop()
    await trio.sleep(60)

    assert (world.spawns, desk.slot.state.value) == (1, "stopped")


async def test_without_subscribers_what_is_lost_stays_away(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, legacy(), scope="user")
    client = desk.client()
    await desk.place.interests.subscribed(client, "x:y")
    desk.place.interests.unsubscribe(client, "x:y")

    world.servers[0].die()
    await trio.sleep(60)

    assert (world.spawns, desk.slot.state.value) == (1, "stopped")
