"""How a slot ends its upstream: asked to, because nobody uses it, or for good."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from mcpd.config.model import Stop, Timeout
from mcpd.errors import ShuttingDown, Stopping
from mcpd.upstream.supervisor import Slot
from tests.upstream.fakes import LEGACY, Script, World, after, dies, failure, submit

REFUSES: Script = {"server/discover": -32601, "initialize": -32000}
LEAVES: Script = {"server/discover": -32601, "initialize": dies}
ANSWERED: list[tuple[str, object]] = [("result", {"content": []})]
SLOW: Script = {**LEGACY, "tools/call": after(3, {"content": []})}
HANGS: Script = {**LEGACY, "tools/call": None}
DEAF: Script = {}


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    return World(nursery)


async def begin_stop(slot: Slot, nursery: trio.Nursery) -> None:
    """Ask it to stop, and return when that is under way."""
    nursery.start_soon(slot.stop)
    await wait_all_tasks_blocked()


# -- asked to stop -------------------------------------------------------------------------------


async def test_a_stop_ends_the_process_and_a_second_one_does_nothing(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(stop=Stop(eof_seconds=4, term_seconds=3))
    await slot.start()

    await slot.stop()
    await slot.stop()

    assert (slot.state.value, slot.session, slot.in_flight) == ("stopped", None, 0)
    assert world.servers[0].ended
    assert set(world.servers[0].patience) == {(4, 3)}


async def test_a_stop_before_any_start_does_nothing(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot()

    await slot.stop()

    assert (slot.state.value, world.spawns) == ("stopped", 0)


async def test_all_who_stop_wait_until_nothing_is_left(world: World, autojump_clock: MockClock) -> None:
    world.ends_in_seconds = 2
    slot = world.slot()
    await slot.start()

    async with trio.open_nursery() as callers:
        callers.start_soon(slot.stop)
        callers.start_soon(slot.stop)
        callers.start_soon(slot.closed)

    assert (world.servers[0].ended, trio.current_time()) == (True, 2)


async def test_what_is_in_flight_is_answered_before_it_stops(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(SLOW)
    await slot.start()
    requests = submit(slot, "a", "b")

    await slot.stop()

    assert [request.outcomes for request in requests] == [ANSWERED, ANSWERED]
    assert trio.current_time() == 3


async def test_what_is_not_answered_in_time_fails_and_may_have_run(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(HANGS, stop=Stop(drain_seconds=5))
    await slot.start()
    (request,) = submit(slot, "a")

    await slot.stop()

    assert isinstance(request.problem, Stopping)
    assert (request.problem.server, request.problem.may_have_run) == ("fake", True)
    assert trio.current_time() == 5


async def test_what_was_not_even_written_fails_and_has_not_run(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(LEGACY)
    await slot.start()
    world.servers[0].stalled = True
    (request,) = submit(slot, "a")

    await slot.stop()

    assert isinstance(request.problem, Stopping)
    assert (request.problem.may_have_run, world.servers[0].calls, trio.current_time()) == (False, [], 0)


async def test_a_server_that_dies_while_it_drains_has_lost_its_calls(
    world: World, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    slot = world.slot(HANGS)
    await slot.start()
    (request,) = submit(slot, "a")
    await begin_stop(slot, nursery)

    world.servers[0].die()
    await slot.closed()

    assert request.problem.may_have_run is True
    assert (slot.state.value, world.spawns) == ("stopped", 1)


@pytest.mark.parametrize(("script", "state"), [(REFUSES, "failed"), (LEAVES, "backoff")], ids=["failed", "backoff"])
async def test_a_stop_after_a_failure_forgets_it(
    world: World, autojump_clock: MockClock, script: Script, state: str
) -> None:
    slot = world.slot(script, LEGACY)
    await failure(slot)
    await wait_all_tasks_blocked()
    assert slot.state.value == state

    await slot.stop()

    assert (slot.state.value, slot.retry_after_seconds) == ("stopped", None)
    assert await submit(slot, "a")[0].over() == ANSWERED


# -- meanwhile -----------------------------------------------------------------------------------


async def test_a_call_during_a_stop_waits_and_starts_it_again(
    world: World, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    world.ends_in_seconds = 2
    slot = world.slot()
    await slot.start()
    await begin_stop(slot, nursery)

    (request,) = submit(slot, "late")
    assert slot.state.value == "stopping"

    assert await request.over() == ANSWERED
    assert (world.spawns, world.servers[1].spawned_at, world.servers[1].calls) == (2, 2, ["late"])


async def test_a_call_in_the_moment_of_a_stop_waits_too(
    world: World, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    slot = world.slot(timeout=Timeout(idle_seconds=10))
    await slot.start()
    await trio.sleep(9)
    requests = submit(slot)
    world.timers.at(10, lambda: requests.extend(submit(slot, "late")))

    await trio.sleep(2)

    assert [request.outcomes for request in requests] == [ANSWERED]


async def test_an_explicit_start_during_a_stop_is_refused(
    world: World, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    world.ends_in_seconds = 2
    slot = world.slot()
    await slot.start()
    await begin_stop(slot, nursery)

    with pytest.raises(Stopping) as caught:
        await slot.start()

    assert (caught.value.server, trio.current_time()) == ("fake", 0)
    await slot.closed()
    assert world.spawns == 1


async def test_who_waits_for_ready_during_a_stop_starts_it_again(
    world: World, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    world.ends_in_seconds = 2
    slot = world.slot()
    await slot.start()
    await begin_stop(slot, nursery)

    session = await slot.ready()

    assert (session.incarnation, trio.current_time()) == (2, 2)


async def test_a_stop_during_the_start_fails_all_who_wait(
    world: World, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    slot = world.slot(DEAF)
    (request,) = submit(slot, "a")
    nursery.start_soon(slot.stop)

    with pytest.raises(Stopping):
        await slot.start()

    await slot.closed()
    assert isinstance(request.problem, Stopping)
    assert request.problem.may_have_run is False
    assert (slot.state.value, trio.current_time()) == ("stopped", 0)
    assert all(one.ended for one in world.servers)


async def test_a_start_that_is_stopped_midway_does_not_tell_what_failed_before(
    world: World, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    slot = world.slot(REFUSES, DEAF)
    await failure(slot)
    await wait_all_tasks_blocked()

    async def stop_soon() -> None:
        await trio.sleep(1)
        await slot.stop()

    nursery.start_soon(stop_soon)
    with pytest.raises(Stopping):
        await slot.start()


async def test_calls_that_wait_for_a_retry_are_told_of_a_stop(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(DEAF, timeout=Timeout(start_seconds=1))
    await failure(slot)
    await wait_all_tasks_blocked()
    (request,) = submit(slot, "a")

    await slot.stop()
    await trio.sleep(1)

    assert isinstance(request.problem, Stopping)
    assert (slot.state.value, world.spawns) == ("stopped", 1)


# -- nobody uses it ------------------------------------------------------------------------------


async def test_an_upstream_that_nobody_uses_stops_and_starts_again_on_a_call(
    world: World, autojump_clock: MockClock
) -> None:
    slot = world.slot(timeout=Timeout(idle_seconds=300))
    await submit(slot, "a")[0].over()
    await trio.sleep(200)
    await submit(slot, "b")[0].over()

    await trio.sleep(299)
    assert slot.state.value == "ready"
    await trio.sleep(2)
    assert (slot.state.value, world.servers[0].ended) == ("stopped", True)

    assert await submit(slot, "c")[0].over() == ANSWERED
    assert world.spawns == 2


async def test_an_upstream_is_in_use_while_a_call_runs(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot({**LEGACY, "tools/call": after(100, {"content": []})}, timeout=Timeout(idle_seconds=10))

    assert await submit(slot, "a")[0].over() == ANSWERED

    assert world.spawns == 1
    await trio.sleep(25)
    assert slot.state.value == "stopped"


async def test_an_explicit_start_counts_as_use(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(timeout=Timeout(idle_seconds=300))
    await trio.sleep(1000)
    await slot.start()

    await trio.sleep(299)
    assert slot.state.value == "ready"
    await trio.sleep(2)
    assert slot.state.value == "stopped"


async def test_an_upstream_is_kept_for_ever_if_its_entry_says_so(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(timeout=Timeout(idle_seconds=0))
    await slot.start()

    await trio.sleep(80_000)

    assert slot.state.value == "ready"


# -- for good ------------------------------------------------------------------------------------


async def test_after_the_last_stop_everything_is_refused(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot()
    await slot.start()

    slot.close(ShuttingDown("the daemon is stopping", server="fake"))
    await slot.closed()

    assert isinstance(await failure(slot), ShuttingDown)
    for ask in (slot.start, slot.ready):
        with pytest.raises(ShuttingDown):
            await ask()
    assert (slot.state.value, world.spawns) == ("stopped", 1)


async def test_the_last_stop_tells_what_is_in_flight_why_it_ends(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(HANGS, stop=Stop(drain_seconds=1))
    await slot.start()
    (written,) = submit(slot, "a")
    world.servers[0].stalled = True
    (held,) = submit(slot, "b")

    slot.close(ShuttingDown("the daemon is stopping", server="fake"))
    await slot.closed()

    assert isinstance(written.problem, ShuttingDown)
    assert isinstance(held.problem, ShuttingDown)
    assert (written.problem.may_have_run, held.problem.may_have_run) == (True, False)


async def test_the_last_stop_lets_nobody_wait_for_the_end_of_an_ordinary_one(
    world: World, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    world.ends_in_seconds = 2
    slot = world.slot()
    await slot.start()
    await begin_stop(slot, nursery)
    (request,) = submit(slot, "late")

    slot.close(ShuttingDown("the daemon is stopping", server="fake"))
    await slot.closed()

    assert isinstance(request.problem, ShuttingDown)
    assert world.spawns == 1


async def test_a_kill_does_not_wait_for_what_is_in_flight(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(HANGS)
    await slot.start()
    (request,) = submit(slot, "a")
    slot.close(ShuttingDown("the daemon is stopping", server="fake"))

    slot.kill()
    await slot.closed()

    assert request.problem.may_have_run is True
    assert (world.servers[0].ended, trio.current_time()) == (True, 0)
