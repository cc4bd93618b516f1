"""Single tools: from the list that is at hand, from `tools/search`, or from a list that is fetched for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from mcpd.config.model import Tools
from mcpd.errors import McpdError
from tests.broker.desk import Desk
from tests.broker.lists import changed, lists, names, tools, walks
from tests.upstream.fakes import INITIALIZED, FakeServer, Reaction, Script, World, after, dies


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    return World(nursery)


def searchable(search: Reaction, *answers: Any, declared: Any = True, place: str = "tools") -> Script:
    """Return a server that lists like this, and can be asked for one tool."""
    capabilities = {"tools": {}, place: {"search_tool": declared}}
    script = lists(*(answers or (tools("a", "b"),)), initialize={**INITIALIZED, "capabilities": capabilities})
    return {**script, "tools/search": search}


def by_name(server: FakeServer, message: dict[str, Any]) -> None:
    """Answer with the tool of that name, between two others."""
    server.react(message, tools("x", message["params"]["name"], "y"))


async def find(desk: Desk, tool: str = "a") -> tuple[str | None, bool]:
    """Return the name on the descriptor that is found, and whether that is certain."""
    found = await desk.catalog.find(tool)
    return (None if found.descriptor is None else json.loads(bytes(found.descriptor))["name"], found.certain)


def asked(world: World) -> tuple[int, int]:
    """Return how often a tool was searched for, and how often all were listed."""
    return walks(world, "tools/search"), walks(world)


# -- servers that can be asked -------------------------------------------------------------------


@pytest.mark.parametrize("place", ["tools", "experimental"])
@pytest.mark.parametrize("declared", [True, {}, {"version": 1}])
async def test_a_tool_is_asked_for_by_name_where_that_is_declared(
    world: World, autojump_clock: MockClock, place: str, declared: Any
) -> None:
    desk = Desk(world, searchable(by_name, declared=declared, place=place))

    assert await find(desk) == ("a", True)
    assert asked(world) == (1, 0)


@pytest.mark.parametrize("declared", [False, None, 1, "yes", []])
async def test_what_does_not_declare_it_is_asked_for_its_list(
    world: World, autojump_clock: MockClock, declared: Any
) -> None:
    desk = Desk(world, searchable(by_name, declared=declared))

    assert await find(desk) == ("a", True)
    assert asked(world) == (0, 1)


async def test_many_who_look_for_the_same_tool_ask_once(world: World, autojump_clock: MockClock) -> None:
    desk, found = Desk(world, searchable(after(1, tools("a")))), list[object]()

    async def ask() -> None:
        found.append(await find(desk))

    async with trio.open_nursery() as callers:
        for _ in range(10):
            callers.start_soon(ask)

    assert found == [("a", True)] * 10
    assert await find(desk) == ("a", True)
    assert asked(world) == (1, 0)


async def test_who_leaves_does_not_end_the_search_for_the_others(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, searchable(after(3, tools("a"))))
    with trio.move_on_after(1):
        await find(desk)

    assert await find(desk) == ("a", True)
    assert (asked(world), trio.current_time()) == ((1, 0), 3)


async def test_a_tool_that_a_search_does_not_find_is_not_there(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, searchable({"tools": []}))

    assert await find(desk) == (None, True)
    assert await find(desk) == (None, True)
    assert asked(world) == (2, 0)  # it may be there the next time


@pytest.mark.parametrize("refusal", [-32601, -32602, {"found": 7}, {"tools": [{"name": "z"}, 7]}])
async def test_a_server_that_cannot_after_all_is_asked_for_its_list(
    world: World, autojump_clock: MockClock, refusal: Any
) -> None:
    desk = Desk(world, searchable(refusal))

    assert await find(desk) == ("a", True)
    assert await find(desk, "b") == ("b", True)
    assert asked(world) == (1, 1)


async def test_a_search_that_is_never_answered_is_given_up(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, searchable(None))

    assert await find(desk) == ("a", True)
    assert trio.current_time() == 10
    assert "notifications/cancelled" in world.servers[0].methods


@pytest.mark.parametrize("event", ["change", "restart"])
async def test_a_definition_is_asked_for_again_after_a_change_and_of_another_incarnation(
    world: World, autojump_clock: MockClock, event: str
) -> None:
    desk = Desk(world, searchable(by_name))
    await find(desk)
    if event == "change":
        changed(world)
    else:
        await desk.slot.stop()
    await wait_all_tasks_blocked()

    assert await find(desk) == ("a", True)
    assert asked(world) == (2, 0)


# -- lists ---------------------------------------------------------------------------------------


async def test_a_list_of_the_last_minute_is_good_enough(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, searchable(by_name))
    await names(desk)

    assert await find(desk) == ("a", True)
    assert asked(world) == (0, 1)
    await trio.sleep(61)
    assert await find(desk) == ("a", True)
    assert asked(world) == (1, 1)


async def test_a_tool_that_is_new_is_found_on_a_list_that_is_fetched_for_it(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, lists(tools("a"), tools("a", "b")))
    await names(desk)
    await trio.sleep(1)

    assert await find(desk, "b") == ("b", True)
    assert walks(world) == 2


async def test_a_tool_that_is_on_no_list_is_looked_for_once(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, lists(tools("a")))

    assert await find(desk, "b") == (None, True)
    assert walks(world) == 1


@pytest.mark.parametrize("half", [tools("a", nextCursor="x"), {"tools": [{"nam": "b"}]}])
async def test_what_half_a_list_does_not_have_may_be_there(world: World, autojump_clock: MockClock, half: Any) -> None:
    desk = Desk(world, lists(half))

    assert await find(desk, "b") == (None, False)


async def test_what_a_stale_list_does_not_have_may_be_there(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, lists(tools("a"), -32603))
    await names(desk)
    await trio.sleep(1)

    assert await find(desk, "b") == (None, False)


async def test_a_tool_that_the_entry_denies_is_not_even_looked_for(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, searchable(by_name), tools=Tools(deny=("a",)))

    assert await find(desk) == (None, True)
    assert world.spawns == 0


async def test_a_server_that_ends_on_the_question_has_nothing_to_say(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, searchable(dies, dies))

    with pytest.raises(McpdError):
        await find(desk)


# -- calls ---------------------------------------------------------------------------------------


async def test_a_call_of_a_new_tool_is_checked_with_one_search(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, {**searchable(by_name), "tools/call": {"content": []}})
    client = desk.client()
    await names(desk)

    assert (await client.outcome(client.call("new")))["content"] == []
    assert (asked(world), world.servers[0].calls) == ((1, 1), ["new"])


async def test_a_call_of_a_tool_that_a_search_does_not_find_never_leaves(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, searchable({"tools": []}))
    client = desk.client()
    await names(desk)

    error = await client.error(client.call("new"))

    assert (error["class"], world.servers[0].calls) == ("unknown_tool", [])
