"""Who shares a copy of an upstream: decided by its entry and its era, and never against its clients."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from mcpd.broker.scopes import Seeker, kind_of, scope_of
from mcpd.config.model import Server
from tests.broker.desk import Desk
from tests.upstream.fakes import LEGACY, MODERN, Script, World, after, server


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    return World(nursery)


def remote(**settings: Any) -> Server:
    return Server(name="far", url="https://x.test/mcp", **settings)


# -- the decision ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "era", "kind"),
    [
        (server(), "modern", "user"),
        (server(), "legacy", "project"),
        (server(), None, "auto"),
        (remote(), None, "user"),
        (server(protocol="modern"), None, "user"),
        (server(protocol="2026-07-28"), None, "user"),
        (server(protocol="legacy"), None, "project"),
        (server(protocol="2024-11-05"), None, "project"),
        (server(scope="user"), "legacy", "user"),
        (server(scope="project"), "modern", "project"),
        (server(scope="client"), "modern", "client"),
        (server(cwd="${project}"), "modern", "project"),
        (server(args=("--root", "${project:-/}")), "modern", "project"),
        (server(env={"ROOT": "${project}"}, scope="user"), "modern", "project"),
    ],
)
def test_entry_and_era_say_who_shares_a_server(entry: Server, era: str | None, kind: str) -> None:
    assert kind_of(entry, era) == kind


def test_a_client_may_narrow_and_never_widen() -> None:
    alone = Seeker("c", "/p", alone=True)

    assert {scope_of(kind, alone) for kind in ("user", "project", "client", "auto")} == {("client", "c")}


# -- what comes of it --------------------------------------------------------------------------------


async def test_two_projects_have_a_legacy_server_each_and_each_its_folder(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, LEGACY)
    one, two = desk.client("one", "/one"), desk.client("two", "/two")
    calls = [one.call("a"), two.call("b")]

    await one.outcome(calls[0])
    await two.outcome(calls[1])

    assert sorted((each.cwd, *each.calls) for each in world.servers) == [("/one", "a"), ("/two", "b")]


async def test_the_second_start_is_not_needed_to_find_out(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, {**LEGACY, "initialize": after(1, LEGACY["initialize"])})  # type: ignore[arg-type]
    clients = [desk.client(n, f"/{n % 2}") for n in range(6)]

    for client, call in [(client, client.call(str(client.key))) for client in clients]:
        await client.outcome(call)

    assert sorted((each.cwd, each.calls) for each in world.servers) == [("/0", ["0", "2", "4"]), ("/1", ["1", "3", "5"])]


async def test_who_leaves_in_the_moment_in_which_the_server_is_ready_goes_no_further(
    world: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, got = Desk(world, LEGACY), list[object]()
    monkeypatch.setattr(desk.upstream, "sort_out", lambda place: scope.cancel())

    async def work(place: object) -> None:
        got.append(place)

    with trio.fail_after(10), trio.CancelScope() as scope:
        await desk.broker.at("fake", desk.client("one", "/one"), work)

    assert (world.spawns, got) == (1, [])


async def test_one_project_shares_one(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, LEGACY)
    one, two = desk.client("one", "/p"), desk.client("two", "/p")

    await one.outcome(one.call())
    await two.outcome(two.call())

    assert world.spawns == 1


async def test_clients_outside_of_any_project_share_one(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, LEGACY)
    one, two = desk.client("one"), desk.client("two")

    await one.outcome(one.call())
    await two.outcome(two.call())

    assert (world.spawns, world.servers[0].cwd) == (1, "/")


async def test_all_share_a_modern_server_that_runs_in_nobodys_folder(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, MODERN)
    one, two = desk.client("one", "/one"), desk.client("two", "/two")

    for client, call in [(one, one.call("a")), (two, two.call("b"))]:
        await client.outcome(call)

    serving = [each for each in world.servers if each.calls]
    assert [(each.cwd, each.calls) for each in serving] == [("/", ["a", "b"])]


async def test_a_modern_server_with_a_folder_of_its_own_starts_once(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, MODERN, cwd="/srv")
    one, two = desk.client("one", "/one"), desk.client("two", "/two")

    await one.outcome(one.call())
    await two.outcome(two.call())

    assert world.spawns == 1


async def test_a_copy_that_all_share_is_no_projects_though_it_was_begun_for_one(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, MODERN, cwd="/srv")
    one = desk.client("one", "/one")
    await one.outcome(one.call())
    place = desk.upstream.place_for(one.seeker)

    later = Desk(world, MODERN, cwd="/srv").upstream.place_for(one.seeker)  # it is known to be modern by now

    assert (place.scope.kind, place.project) == ("user", None)
    assert place.identity() == later.identity() is not None


async def test_what_it_was_is_remembered_so_that_it_starts_in_the_right_place_at_once(
    world: World, autojump_clock: MockClock
) -> None:
    world.memory.eras["fake"] = "modern"
    desk = Desk(world, MODERN)
    one = desk.client("one", "/one")

    await one.outcome(one.call())

    assert [each.cwd for each in world.servers] == ["/"]


async def test_a_server_that_was_modern_and_is_legacy_now_is_not_shared_by_projects(
    world: World, autojump_clock: MockClock
) -> None:
    world.memory.eras["fake"] = "modern"
    desk = Desk(world, LEGACY)
    one, two = desk.client("one", "/one"), desk.client("two", "/two")
    calls = one.call("a"), two.call("b")

    await one.outcome(calls[0])
    await two.outcome(calls[1])

    assert {each.cwd: each.calls for each in world.servers if each.calls} == {"/one": ["a"], "/two": ["b"]}


async def test_who_waits_while_the_era_is_unknown_shares_a_failed_start(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, {"server/discover": -32601, "initialize": -32000})
    one, two = desk.client("one", "/one"), desk.client("two", "/two")
    calls = one.call(), two.call()

    assert (await one.error(calls[0]))["class"] == (await two.error(calls[1]))["class"] == "server_unavailable"
    assert world.spawns == 1


async def test_a_call_that_queues_moves_with_those_that_wait(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, {**LEGACY, "initialize": after(1, LEGACY["initialize"])}, limits=Desk.limits(in_flight=1))
    one, two = desk.client("one", "/one"), desk.client("two", "/two")
    calls = [(one, one.call("a")), (two, two.call("b")), (one, one.call("c")), (two, two.call("d"))]

    for client, call in calls:
        await client.outcome(call)

    assert sorted((each.cwd, each.calls) for each in world.servers) == [("/one", ["a", "c"]), ("/two", ["b", "d"])]
    assert {place.admission.running + place.admission.queued for place in desk.broker.places} == {0}


async def test_a_client_that_has_its_own_takes_it_along_when_it_leaves(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, LEGACY, scope="client")
    one, two = desk.client("one"), desk.client("two")
    await one.outcome(one.call())
    await two.outcome(two.call())

    world.mover.batch(lambda: desk.broker.forget("one"))
    await trio.sleep(10)

    assert [each.ended for each in world.servers] == [True, False]


@pytest.mark.parametrize("script", [LEGACY, MODERN])
async def test_a_client_that_turns_to_another_project_gets_a_copy_of_its_own_in_that_folder(
    world: World, autojump_clock: MockClock, script: Script
) -> None:
    desk = Desk(world, script)
    client = desk.client("one")
    client.seeker = Seeker("one", "/one", alone=True)
    await client.outcome(client.call("a"))

    client.seeker = Seeker("one", "/two", alone=True)
    world.mover.batch(lambda: desk.broker.turn(client))
    await client.outcome(client.call("b"))
    await trio.sleep(10)

    assert [(each.cwd, each.calls, each.ended) for each in world.servers] == [("/one", ["a"], True), ("/two", ["b"], False)]


async def test_a_client_that_wants_no_copy_of_its_own_any_more_leaves_none_behind(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, LEGACY)
    client = desk.client("one")
    client.seeker = Seeker("one", "/one", alone=True)
    await client.outcome(client.call())

    client.seeker = Seeker("one", "/one")
    world.mover.batch(lambda: desk.broker.turn(client))
    await trio.sleep(10)

    assert [each.ended for each in world.servers] == [True]


async def test_an_upstream_that_speaks_now_this_now_that_comes_to_rest(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, *[LEGACY, MODERN] * 10)
    one, two = desk.client("one", "/one"), desk.client("two", "/two")
    calls = one.call("a"), two.call("b")

    await one.outcome(calls[0])
    await two.outcome(calls[1])

    assert world.spawns < 10


async def test_what_was_kept_of_one_projects_copy_is_not_answered_in_another(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, LEGACY, cwd="/srv")
    one, two, again = (desk.client(name, folder) for name, folder in (("1", "/one"), ("2", "/two"), ("3", "/one")))
    for client in (one, two, again):
        await client.outcome(client.call())

    identities = [desk.upstream.place_for(client.seeker).identity() for client in (one, two, again)]

    assert None not in identities
    assert identities[0] == identities[2] != identities[1]


async def test_places_of_projects_that_nobody_uses_are_not_kept_for_ever(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, LEGACY)
    for number in range(100):
        client = desk.client(number, f"/{number}")
        await client.outcome(client.call())
        world.mover.batch(lambda key=number: desk.broker.forget(key))  # type: ignore[misc]
        place = desk.upstream.place_for(client.seeker)
        await place.slot.stop()

    assert len(desk.upstream.places) < 50


@pytest.mark.parametrize(("scope", "spawns"), [("client", 0), ("project", 1), ("user", 1)])
async def test_a_copy_that_would_be_nobodys_is_not_started_ahead(
    world: World, autojump_clock: MockClock, scope: str, spawns: int
) -> None:
    desk = Desk(world, scope=scope, prewarm=True)

    desk.broker.prewarm()
    await trio.sleep(10)

    assert world.spawns == spawns
