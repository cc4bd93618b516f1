"""What becomes of a call whose client turns to another project."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from mcpd.broker.scopes import Seeker
from tests.broker.desk import Client, Desk
from tests.upstream.fakes import LEGACY, MODERN, Script, World, after

SLOW = after(5, {"content": []})


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    return World(nursery)


def turn(desk: Desk, client: Client, project: str) -> None:
    """Let a client turn to another project, as its connection does."""
    client.seeker = Seeker(client.key, project)

    def work() -> None:
        for call in client.calls:
            call.go_stale()
        desk.broker.turn(client)

    desk.world.mover.batch(work)


@pytest.mark.parametrize("script", [{**LEGACY, "tools/call": SLOW}, {**MODERN, "tools/call": SLOW}])
async def test_a_result_for_the_project_before_is_dropped_and_counted(
    world: World, autojump_clock: MockClock, script: Script
) -> None:
    desk = Desk(world, script, scope="user")
    one, two = desk.client("one", "/a"), desk.client("two", "/a")
    stale, mine = one.call("stale"), two.call("mine")
    await trio.sleep(1)

    turn(desk, one, "/b")
    await trio.sleep(10)

    error = await one.error(stale)  # which is all that it was told
    assert (error["class"], error["may_have_run"]) == ("stale_session", True)
    assert "content" in await two.outcome(mine)
    assert world.servers[-1].calls == ["stale", "mine"]
    current = desk.broker.resolve("fake", one.seeker).slot.current
    assert current is not None
    assert current.channel.counts == {"late": 1}
