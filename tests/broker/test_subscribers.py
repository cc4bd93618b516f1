"""A copy that somebody has subscribed to runs, whatever becomes of one run of it."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from mcpd.broker.place import Place
from mcpd.config.model import Config
from tests.broker.desk import Client, Desk
from tests.broker.ears import legacy, modern
from tests.upstream.fakes import FakeServer, Script, World, server

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


# -- when another copy is theirs -----------------------------------------------------------------------


def changed(desk: Desk, **settings: Any) -> None:
    """Put another entry in force."""
    config = Config(path="config.toml", servers={"fake": server(**settings)})
    desk.world.mover.batch(lambda: desk.broker.reload(config))


async def subscribe(client: Client, desk: Desk, uri: str = "x:y") -> None:
    """Subscribe as the socket's clients do."""

    async def subscribed(place: Place) -> None:
        await place.interests.subscribed(client, uri)

    await desk.broker.at("fake", client, subscribed)


def asked_for(one: FakeServer) -> list[str]:
    """Return the uris that a server is to tell of, by all that it got."""
    listens = [params["notifications"].get("resourceSubscriptions", []) for params in one.got("subscriptions/listen")]
    return [params["uri"] for params in one.got("resources/subscribe")] + [uri for uris in listens for uri in uris]


@pytest.mark.parametrize("script", [legacy(), modern()])
async def test_when_the_entry_changes_the_new_copy_starts_for_the_subscribers_and_tells_them(
    world: World, autojump_clock: MockClock, script: Script
) -> None:
    desk = Desk(world, script, scope="user")
    client = desk.client()
    await subscribe(client, desk)

    changed(desk, scope="user", env={"NEW": "1"})
    await trio.sleep(60)

    assert [(one.ended, asked_for(one)) for one in world.servers] == [(True, ["x:y"]), (False, ["x:y"])]
    assert updates(client) == ["x:y"]


async def test_who_unsubscribes_after_the_entry_has_changed_hears_nothing(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, legacy(), scope="user")
    client = desk.client()
    await subscribe(client, desk)

    changed(desk, scope="user", env={"NEW": "1"})
    desk.broker.resolve("fake", client.seeker).interests.unsubscribe(client, "x:y")
    await trio.sleep(60)

    assert (asked_for(world.servers[1]), updates(client)) == ([], [])


async def test_a_subscription_that_waits_while_the_entry_changes_is_agreed_with_the_new_copy(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, {**legacy(), "resources/subscribe": None}, legacy(), scope="user")
    client = desk.client()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(subscribe, client, desk)
        await trio.sleep(1)
        changed(desk, scope="user", env={"NEW": "1"})

    assert asked_for(world.servers[1]) == ["x:y"]
    assert updates(client) == []


async def test_a_copy_that_was_stopped_is_not_started_by_a_new_entry(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, legacy(), scope="user")
    client = desk.client()
    await subscribe(client, desk)
    await desk.slot.stop()

    changed(desk, scope="user", env={"NEW": "1"})
    await trio.sleep(60)
    spawns = world.spawns
    await client.outcome(client.call())

    assert (spawns, asked_for(world.servers[1]), updates(client)) == (1, ["x:y"], ["x:y"])


async def test_subscriptions_end_with_the_server_that_is_removed(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, legacy(), scope="user")
    client = desk.client()
    await subscribe(client, desk)

    desk.broker.reload(Config(path="config.toml"))
    await trio.sleep(60)

    assert ([one.ended for one in world.servers], updates(client)) == ([True], [])


# A server that was modern, and shared by all, is legacy when it starts again; and the other way round.
FLIPS = {"modern": (modern(), legacy()), "legacy": (legacy(), modern())}


@pytest.mark.parametrize("era", FLIPS)
async def test_when_a_server_turns_out_to_be_of_another_era_subscribers_go_to_the_copy_that_is_theirs(
    world: World, autojump_clock: MockClock, era: str
) -> None:
    desk = Desk(world, FLIPS[era][0])
    clients = [desk.client(name, f"/{name}") for name in ("one", "two")]
    for client in clients:
        await subscribe(client, desk)

    world.scripts = [FLIPS[era][1]]
    for one in list(world.servers):
        one.die()
    await trio.sleep(120)

    assert [updates(client)[:1] for client in clients] == [["x:y"], ["x:y"]]
    hearing = sorted((one.cwd, *set(uris)) for one in world.servers if not one.ended and (uris := asked_for(one)))
    assert hearing == ([("/", "x:y")] if era == "legacy" else [("/one", "x:y"), ("/two", "x:y")])
    places = [desk.broker.resolve("fake", client.seeker) for client in clients]
    for place, client in zip(places, clients, strict=True):
        assert (place.slot.state.value, place.interests.leave(client.key)) == ("ready", ["x:y"])


async def test_subscribers_that_wait_for_a_new_entry_to_show_its_era_each_get_their_own(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, legacy(), scope="user")
    clients = [desk.client(name, f"/{name}") for name in ("one", "two")]
    for client in clients:
        await subscribe(client, desk)

    world.memory.eras.clear()
    changed(desk)
    await trio.sleep(60)

    hearing = sorted((one.cwd, *asked_for(one)) for one in world.servers if not one.ended)
    assert hearing == [("/one", "x:y"), ("/two", "x:y")]
    assert [updates(client) for client in clients] == [["x:y"], ["x:y"]]
