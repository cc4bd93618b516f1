"""Whatever happens to it, an upstream has one run that takes requests, and each request has one outcome."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from mcpd.errors import McpdError
from mcpd.upstream.supervisor import Slot
from tests.upstream.fakes import INITIALIZED, LEGACY, FakeServer, Reaction, Request, Script, World, after, dies, submit

STEPS = 60


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    return World(nursery)


def anyhow(chance: random.Random) -> Reaction:
    """Answer a call at once, later, never, or by leaving."""

    def react(server: FakeServer, message: dict[str, Any]) -> None:
        answer = {"content": []}
        server.react(message, chance.choice([answer, answer, after(chance.uniform(0, 8), answer), None, dies]))

    return react


def servers_that_take_requests(world: World, slot: Slot) -> list[FakeServer]:
    """Return the servers that were started, have not ended, and were not told to."""
    alive = {one.pid for one in slot._alive if not one.stopping and not one._over}
    return [one for one in world.servers if one.pid in alive]


@pytest.mark.parametrize("seed", range(30))
async def test_no_two_runs_take_requests_at_any_time(
    world: World, autojump_clock: MockClock, nursery: trio.Nursery, seed: int
) -> None:
    chance, most = random.Random(seed), 0
    world.ends_in_seconds, world.lingers_seconds = chance.uniform(0, 3), chance.uniform(0, 1)
    script: Script = {
        **LEGACY, "initialize": after(chance.uniform(0, 1), INITIALIZED), "tools/call": anyhow(chance), "ping": None,
    }  # fmt: skip
    slot, requests = world.slot(script), list[Request]()

    async def quietly(ask: Callable[[], Any]) -> None:
        try:
            await ask()
        except McpdError:
            return

    def kill() -> None:
        if world.servers:
            world.servers[-1].die()

    def give_up() -> None:
        if waiting := [one for one in requests if not one.outcomes]:
            one = chance.choice(waiting)
            slot.give_up(one, "timed out", timed_out=True)
            one.outcomes.append(("given up", None))

    acts: list[Callable[[], object]] = [
        lambda: requests.extend(submit(slot, "t")),
        lambda: requests.extend(submit(slot, "t")),
        kill,
        give_up,
        lambda: nursery.start_soon(quietly, slot.stop),
        lambda: nursery.start_soon(quietly, slot.start),
        lambda: slot.retire(slot.current) if slot.current is not None else None,
    ]
    for _ in range(STEPS):
        chance.choice(acts)()
        for pause in (0, chance.choice([0.01, 0.3, 4])):
            await wait_all_tasks_blocked()
            most = max(most, len(servers_that_take_requests(world, slot)))
            assert most <= 1
            await trio.sleep(pause)
    await slot.stop()
    await trio.sleep(100)

    assert most == 1
    assert world.spawns > 3
    assert [one for one in requests if len(one.outcomes) != 1] == []
    assert all(one.ended for one in world.servers)
