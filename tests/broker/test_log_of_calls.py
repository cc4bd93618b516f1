"""What a server logs is heard by the clients that it is meant for, whichever copy is theirs."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from mcpd.config.model import Config
from tests.broker.desk import Client, Desk
from tests.upstream.fakes import INITIALIZED, LEGACY, MODERN, FakeServer, Script, World, server

LOGGING: Script = {**LEGACY, "initialize": {**INITIALIZED, "capabilities": {"logging": {}}}, "logging/setLevel": {}}


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    return World(nursery)


def log(one: FakeServer, data: Any) -> None:
    one.say({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": data}})


def heard(client: Client) -> list[Any]:
    """What a client has heard of the logs."""
    return [params["data"] for method, params in client.notices if method == "notifications/message"]


async def test_what_a_modern_server_logs_of_a_call_that_was_given_up_reaches_no_other_client(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, {**MODERN, "tools/call": None})
    one, two = desk.client("one"), desk.client("two")
    one.log_level = two.log_level = "info"
    given_up = one.call()
    await trio.sleep(1)
    world.mover.batch(lambda: given_up.cancel("not wanted"))
    two.call()

    log(world.servers[-1], "of one")

    assert (heard(one), heard(two)) == ([], [])


async def test_who_does_not_want_the_log_and_gives_a_call_up_is_in_nobodys_way(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, {**MODERN, "tools/call": None})
    one, two = desk.client("one"), desk.client("two")
    two.log_level = "info"
    given_up = one.call()
    await trio.sleep(1)
    world.mover.batch(lambda: given_up.cancel("not wanted"))
    two.call()

    log(world.servers[-1], "of two")

    assert heard(two) == ["of two"]


def want(desk: Desk, client: Client, level: str | None) -> None:
    """Let a client say from which level on it wants the log of this one server."""
    world = desk.world
    world.mover.batch(lambda: desk.upstream.level(client, level))


def chatty(one: FakeServer, message: dict[str, Any]) -> None:
    """Log something before the session is agreed."""
    log(one, f"early in {one.cwd}")
    one.react(message, LOGGING["initialize"])


async def test_the_log_of_one_projects_copy_is_not_heard_in_another_project(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, {**LOGGING, "initialize": chatty})
    one, two = desk.client("one", "/one"), desk.client("two", "/two")
    want(desk, two, "debug")
    await one.outcome(one.call())

    log(world.servers[0], "of one")

    assert (world.servers[0].cwd, heard(two)) == ("/one", [])


async def test_who_waits_with_others_for_the_first_start_does_not_hear_what_is_logged_in_their_folder(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, {**LOGGING, "initialize": chatty})
    one, two = desk.client("one", "/one"), desk.client("two", "/two")
    two.log_level = "debug"
    calls = one.call(), two.call()
    await one.outcome(calls[0])
    await two.outcome(calls[1])

    log(world.servers[0], "of one")
    log(world.servers[1], "of two")

    assert [each.cwd for each in world.servers] == ["/one", "/two"]
    assert heard(two) == ["early in /two", "of two"]


async def test_what_was_wanted_before_the_first_start_is_heard_of_the_clients_own_copy(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, LOGGING)
    one, two = desk.client("one", "/one"), desk.client("two", "/one")
    want(desk, two, "debug")
    await one.outcome(one.call())
    await trio.sleep(1)

    log(world.servers[0], "of both")

    assert (heard(one), heard(two)) == ([], ["of both"])
    assert world.servers[0].got("logging/setLevel") == [{"level": "debug"}]


async def test_what_is_wanted_of_one_server_is_not_undone_by_its_first_use(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, LOGGING)
    client = desk.client("one", "/one")
    client.log_level = "emergency"
    want(desk, client, "debug")
    await client.outcome(client.call())

    log(world.servers[0], "of one")

    assert heard(client) == ["of one"]


async def test_what_is_wanted_of_one_server_is_wanted_of_its_next_entry_too(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, LOGGING)
    client = desk.client("one", "/one")
    await client.outcome(client.call())
    want(desk, client, "debug")
    changed = Config(path="config.toml", servers={"fake": server(args=("other",))})

    world.mover.batch(lambda: desk.broker.reload(changed))
    await client.outcome(client.call())
    log(world.servers[-1], "of the next")

    assert (world.spawns, heard(client)) == (2, ["of the next"])


async def test_a_client_that_has_left_wants_nothing_any_more(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, LOGGING)
    one, two = desk.client("one", "/one"), desk.client("two", "/one")
    want(desk, two, "debug")
    world.mover.batch(lambda: desk.broker.forget("two"))
    await one.outcome(one.call())

    log(world.servers[0], "of one")

    assert heard(two) == []
