"""Lists that an earlier daemon has left: answered while the server starts, and then compared."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
import trio
from msgspec import Raw
from trio.testing import MockClock

from mcpd.broker import presenting
from mcpd.broker.shelf import Shelved
from mcpd.config.model import Tools
from mcpd.errors import ServerProtocol, UnknownTool
from tests.broker.desk import Desk
from tests.broker.lists import changed, known, lists, names, tools, walks
from tests.upstream.fakes import LEGACY, Script, World, after


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    return World(nursery)


class Memory:
    """A shelf without a disk."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], Shelved] = {}
        self.asked = self.puts = 0

    async def get(self, identity: str, kind: str) -> Shelved | None:
        self.asked += 1
        await trio.sleep(0.01)
        return self.kept.get((identity, kind))

    def put(self, identity: str, kind: str, shelved: Shelved) -> None:
        if kind != presenting.KIND:
            self.puts += 1
            self.kept[identity, kind] = shelved

    @property
    def only(self) -> Shelved:
        (shelved,) = self.kept.values()
        return shelved


async def left_by(world: World, *answers: Any, **settings: Any) -> Memory:
    """Return the shelf that a daemon leaves whose server has listed its tools like this."""
    shelf = Memory()
    desk = Desk(world, lists(*answers), shelf=shelf, **settings)
    for _ in answers:
        await names(desk, fresh=True)
    await desk.slot.stop()
    world.servers.clear()
    world.spawns = 0
    return shelf


def slow(*answers: Any) -> Script:
    """A server that takes five seconds to start."""
    script = lists(*answers)
    return {**script, "initialize": after(5, script["initialize"])}  # type: ignore[arg-type]  # a result


async def test_a_list_is_answered_at_once_while_its_server_starts(world: World, autojump_clock: MockClock) -> None:
    shelf = await left_by(world, tools("a"))
    desk = Desk(world, slow(tools("a", "b")), shelf=shelf)
    events: list[tuple[str, int]] = []
    desk.catalog.on_change = lambda kind, listing: events.append((kind, listing.revision))
    began = trio.current_time()

    assert await names(desk) == (["a"], True)
    assert trio.current_time() - began < 0.1
    await trio.sleep(6)

    assert (world.spawns, walks(world), events) == (1, 1, [("tools", 2)])
    assert (await names(desk), walks(world)) == ((["a", "b"], False), 1)


async def test_many_who_ask_look_at_the_shelf_once_and_start_one_server(
    world: World, autojump_clock: MockClock
) -> None:
    shelf = await left_by(world, tools("a"))
    shelf.asked = 0
    desk, found = Desk(world, slow(tools("a")), shelf=shelf), list[object]()

    async def ask() -> None:
        found.append(await names(desk))

    async with trio.open_nursery() as callers:
        for _ in range(10):
            callers.start_soon(ask)
    await trio.sleep(6)

    assert found == [(["a"], True)] * 10
    assert (shelf.asked, world.spawns, walks(world)) == (1, 1, 1)


async def test_a_list_that_is_the_same_keeps_its_revision_and_is_not_written_again(
    world: World, autojump_clock: MockClock
) -> None:
    shelf = await left_by(world, tools("a"), tools("b"), tools("c"))
    assert (shelf.only.revision, shelf.puts) == (3, 3)
    desk = Desk(world, lists(tools("c")), shelf=shelf)

    assert await names(desk, fresh=True) == (["c"], False)
    assert (known(desk).revision, shelf.puts) == (3, 3)


async def test_a_list_that_differs_gets_the_next_revision(world: World, autojump_clock: MockClock) -> None:
    shelf = await left_by(world, tools("a"), tools("b"))
    desk = Desk(world, lists(tools("a")), shelf=shelf)

    assert await names(desk, fresh=True) == (["a"], False)
    assert (known(desk).revision, shelf.only.revision) == (3, 3)


async def test_who_insists_is_not_answered_from_the_shelf(world: World, autojump_clock: MockClock) -> None:
    shelf = await left_by(world, tools("a"))
    desk = Desk(world, slow(tools("b")), shelf=shelf)

    assert await names(desk, fresh=True) == (["b"], False)


async def test_a_server_that_cannot_start_is_listed_from_the_shelf(world: World, autojump_clock: MockClock) -> None:
    shelf = await left_by(world, tools("a"))
    desk = Desk(world, {"server/discover": -32601, "initialize": -32000}, lists(tools("a")), shelf=shelf)

    assert await names(desk) == (["a"], True)
    await trio.sleep(1)
    assert await names(desk) == (["a"], True)
    assert desk.catalog.failed("tools")
    await desk.slot.start()
    assert await names(desk) == (["a"], False)


async def test_the_shelf_keeps_every_byte_of_a_descriptor(world: World, autojump_clock: MockClock) -> None:
    line = b'{"name": "a", "n":12345678901234567890.10, "\\u0061":1.0,"x":"\\u00e4\xc3\xa4", "$ref":"#/a"}'

    def verbatim(server: Any, message: dict[str, Any]) -> None:
        server.say_line(b'{"jsonrpc":"2.0","id":%d,"result":{"tools":[%b]}}' % (message["id"], line))

    shelf = await left_by(world, verbatim)

    assert [bytes(raw) for _, raw in shelf.only.items] == [line]


# -- the filter ----------------------------------------------------------------------------------


async def test_the_shelf_is_unfiltered_and_what_is_read_is_filtered(world: World, autojump_clock: MockClock) -> None:
    shelf = await left_by(world, tools("get_a", "set_a"), tools=Tools(deny=("set_*",)))
    assert [name for name, _ in shelf.only.items] == ["get_a", "set_a"]

    desk = Desk(world, slow(tools("get_a", "set_a")), shelf=shelf, tools=Tools(allow=("set_*",)))
    assert await names(desk) == (["set_a"], True)
    # It is not the list that was called revision 1.
    assert (known(desk).revision, shelf.only.revision) == (2, 2)

    desk = Desk(world, slow(tools("get_a", "set_a")), shelf=shelf, tools=Tools(deny=("set_*",)))
    assert await names(desk) == (["get_a"], True)
    assert known(desk).revision == 3


# -- what the shelf does not decide --------------------------------------------------------------


async def test_a_tool_that_is_not_on_an_old_list_is_called(world: World, autojump_clock: MockClock) -> None:
    shelf = await left_by(world, tools("a"))
    desk = Desk(world, slow(tools("a", "b")), shelf=shelf)
    client = desk.client()
    assert await names(desk) == (["a"], True)

    outcome = await client.outcome(client.call("b"))

    assert outcome["content"] == []
    assert world.servers[0].calls == ["b"]


async def test_an_unknown_tool_is_refused_with_the_names_that_the_server_has_now(
    world: World, autojump_clock: MockClock
) -> None:
    shelf = await left_by(world, tools("beta"))
    desk = Desk(world, {**lists(tools("alpha")), "tools/call": -32602}, shelf=shelf)
    client = desk.client()
    assert await names(desk) == (["beta"], True)

    error = await client.error(client.call("alphb"))

    assert (error["code"], error["near"]) == (UnknownTool.code, ["alpha"])


@pytest.mark.parametrize("half", [tools("a", nextCursor="x"), -32603])
async def test_half_a_list_is_not_put_on_the_shelf(world: World, autojump_clock: MockClock, half: Any) -> None:
    shelf = Memory()
    desk = Desk(world, {**LEGACY, "tools/list": half}, shelf=shelf)
    with contextlib.suppress(ServerProtocol):
        await names(desk)

    assert world.servers[0].methods.count("tools/list") >= 1
    assert shelf.kept == {}


async def test_a_change_is_put_on_the_shelf(world: World, autojump_clock: MockClock) -> None:
    shelf = Memory()
    desk = Desk(world, lists(tools("a"), tools("b")), shelf=shelf)
    await names(desk)
    changed(world)
    await trio.sleep(1)

    assert [json.loads(bytes(Raw(raw)))["name"] for _, raw in shelf.only.items] == ["b"]


async def test_without_an_identity_nothing_is_kept_or_looked_for(world: World, autojump_clock: MockClock) -> None:
    shelf = Memory()
    desk = Desk(world, lists(tools("a")), shelf=shelf)
    launch, world.no_launch = world.no_launch, UnknownTool("it cannot be expanded")
    with pytest.raises(UnknownTool):
        await names(desk)
    world.no_launch = launch

    assert (shelf.asked, shelf.puts) == (0, 0)
