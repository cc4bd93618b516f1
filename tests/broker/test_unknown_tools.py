"""A tool that is not on the list at hand: the list may be old, and what is in flight does not care."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.broker.desk import Desk
from tests.upstream.fakes import INITIALIZED, LEGACY, FakeServer, Script, World, after

TELLS = {**INITIALIZED, "capabilities": {"tools": {"listChanged": True}}}


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    return World(nursery)


def lists(*answers: list[str], **more: Any) -> Script:
    """Return the script of a server that lists these names in turn, and then the last ones."""
    left = list(answers)

    def answer(server: FakeServer, message: dict[str, Any]) -> None:
        names = left.pop(0) if len(left) > 1 else left[0]
        server.react(message, {"tools": [{"name": name, "inputSchema": {}} for name in names]})

    return {**LEGACY, "initialize": TELLS, "tools/list": answer, **more}


def walks(world: World) -> int:
    return world.servers[0].methods.count("tools/list")


async def test_a_tool_that_was_added_since_is_called_after_one_more_look(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, lists(["old"], ["old", "new"]))
    await desk.catalog.listing("tools")
    client = desk.client()

    for _ in range(2):
        assert "content" in await client.outcome(client.call("new"))

    assert (walks(world), world.servers[0].calls) == (2, ["new", "new"])


async def test_a_tool_that_is_not_there_is_looked_for_once_and_never_called(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, lists(["create_issue", "close_issue"]))
    await desk.catalog.listing("tools")
    client = desk.client()

    error = await client.error(client.call("creat_issue"))

    assert (error["code"], error["class"], error["may_have_run"]) == (2, "unknown_tool", False)
    assert error["near"][0] == "create_issue"
    assert (walks(world), world.servers[0].calls, desk.outcomes) == (2, [], {"not_sent": 1})


async def test_a_tool_that_is_removed_while_it_runs_gives_its_result_all_the_same(
    world: World, autojump_clock: MockClock
) -> None:
    slow = after(5, {"content": [{"type": "text", "text": "done"}]})
    desk = Desk(world, lists(["short-lived", "other"], ["other"], **{"tools/call": slow}))
    await desk.catalog.listing("tools")
    client = desk.client()
    call = client.call("short-lived")
    await wait_all_tasks_blocked()

    world.servers[0].say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    listing, stale = await desk.catalog.listing("tools")

    assert ([name for name, _ in listing.items], stale) == (["other"], False)
    assert (await client.outcome(call))["content"] == [{"type": "text", "text": "done"}]
