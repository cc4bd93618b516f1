"""A server that let a call run out is suspect: its callers do not wait for it longer than a live one takes."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.upstream.fakes import LEGACY, Script, World, after, submit

HANGS: Script = {**LEGACY, "tools/call": None}
DEAF: Script = {**HANGS, "ping": None}
SLOW_PONG: Script = {**HANGS, "ping": after(3, {})}
PONG: Script = {**HANGS, "ping": {}}


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    return World(nursery)


async def test_new_calls_of_a_silent_suspect_go_to_a_fresh_one(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(DEAF, LEGACY)
    await slot.start()
    (hung,) = submit(slot, "hung")
    assert slot.give_up(hung, "timed out", timed_out=True) is True

    first, second = submit(slot, "first", "second")

    await first.over()
    await second.over()
    assert trio.current_time() == pytest.approx(0.25)
    assert (world.spawns, world.servers[1].calls) == (2, ["first", "second"])


async def test_a_suspect_that_answers_at_once_gets_what_has_waited(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(PONG)
    await slot.start()
    (hung,) = submit(slot, "hung")
    slot.give_up(hung, "timed out", timed_out=True)

    submit(slot, "next")
    await trio.sleep(1)

    assert (world.spawns, world.servers[0].calls) == (1, ["hung", "next"])


async def test_a_suspect_that_nobody_needs_has_its_five_seconds(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(SLOW_PONG)
    await slot.start()
    (hung,) = submit(slot, "hung")
    slot.give_up(hung, "timed out", timed_out=True)

    await trio.sleep(4)
    submit(slot, "next")
    await trio.sleep(1)

    assert (world.spawns, world.servers[0].calls) == (1, ["hung", "next"])


async def test_a_call_that_comes_while_it_is_in_doubt_does_not_wait(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(SLOW_PONG, LEGACY)
    await slot.start()
    (hung,) = submit(slot, "hung")
    slot.give_up(hung, "timed out", timed_out=True)
    await trio.sleep(1)

    (following,) = submit(slot, "next")
    await following.over()

    assert trio.current_time() == pytest.approx(1)
    assert (world.spawns, world.servers[1].calls) == (2, ["next"])


async def test_what_a_suspect_has_in_flight_may_still_be_answered(world: World, autojump_clock: MockClock) -> None:
    slow: Script = {**LEGACY, "ping": None, "tools/call": after(2, {"content": []})}
    slot = world.slot(slow, LEGACY)
    await slot.start()
    hung, other = submit(slot, "hung", "other")
    slot.give_up(hung, "timed out", timed_out=True)

    (following,) = submit(slot, "next")
    await following.over()
    outcome = await other.over()

    assert outcome == [("result", {"content": []})]
    assert world.servers[1].calls == ["next"]
