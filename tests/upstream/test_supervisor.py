"""How a slot starts its upstream: once for all who ask, and not again and again where that is no use."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from mcpd.config.model import Timeout
from mcpd.errors import Misconfigured, ServerUnavailable, final
from mcpd.upstream.supervisor import Slot
from tests.upstream.fakes import INITIALIZED, LEGACY, MODERN, Listener, Script, World, after, dies, failure, submit

REFUSES: Script = {"server/discover": -32601, "initialize": -32000}
LEAVES: Script = {"server/discover": -32601, "initialize": dies}
DEAF: Script = {}


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    return World(nursery)


# -- once for all --------------------------------------------------------------------------------


async def test_the_first_request_starts_it(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot()
    assert (slot.state.value, slot.session) == ("stopped", None)

    (request,) = submit(slot, "t")
    assert slot.state.value == "starting"

    assert await request.over() == [("result", {"content": []})]
    assert slot.state.value == "ready"
    assert slot.session is not None
    assert (slot.session.revision, slot.session.incarnation) == ("2025-11-25", 1)


async def test_a_hundred_callers_share_one_start_and_are_served_in_order(
    world: World, autojump_clock: MockClock
) -> None:
    slot = world.slot()
    names = [f"{number}" for number in range(100)]

    requests = submit(slot, *names)

    for request in requests:
        assert await request.over() == [("result", {"content": []})]
    assert (world.spawns, world.servers[0].calls) == (1, names)


async def test_a_hundred_callers_share_one_failure(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(LEAVES)

    requests = submit(slot, *"x" * 100)

    for request in requests:
        await request.over()
        assert isinstance(request.problem, ServerUnavailable)
    assert {request.problem.message for request in requests} == {
        "server 'fake' could not be started: it ended before it was ready (exit status 0)"
    }
    assert {(one.problem.server, one.problem.may_have_run) for one in requests} == {("fake", False)}
    assert world.spawns == 1


async def test_explicit_starts_and_those_who_wait_for_ready_share_it_too(
    world: World, autojump_clock: MockClock
) -> None:
    slot = world.slot({**LEGACY, "initialize": after(1, INITIALIZED)})

    async with trio.open_nursery() as callers:
        for _ in range(10):
            callers.start_soon(slot.start)
            callers.start_soon(slot.ready)

    assert (world.spawns, slot.state.value) == (1, "ready")


async def test_a_start_that_failed_is_told_to_all_kinds_of_callers(world: World, autojump_clock: MockClock) -> None:
    slot, told = world.slot({**REFUSES, "initialize": after(1, -32000)}), list[str]()

    async def expect(ask: object) -> None:
        with pytest.raises(ServerUnavailable) as caught:
            await ask()  # type: ignore[operator]  # a method of the slot
        told.append(caught.value.message)

    async with trio.open_nursery() as callers:
        callers.start_soon(expect, slot.start)
        callers.start_soon(expect, slot.ready)
        callers.start_soon(expect, slot.ready)

    assert told == ["server 'fake' could not be started: it refused initialize: no (code -32000)"] * 3
    assert world.spawns == 1


async def test_who_comes_while_a_failed_process_is_still_ending_shares_its_failure(
    world: World, autojump_clock: MockClock
) -> None:
    world.ends_in_seconds = 3
    slot = world.slot(REFUSES)
    early = await failure(slot)

    late = await failure(slot)

    assert early.message == late.message
    assert (world.spawns, trio.current_time()) == (1, 3)


# -- how a start can fail ------------------------------------------------------------------------


async def test_a_start_has_a_deadline(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(DEAF, timeout=Timeout(start_seconds=8))

    problem = await failure(slot)

    assert problem.message == "server 'fake' could not be started: it did not answer within 8 s"
    assert trio.current_time() == 8
    assert world.servers[0].methods == ["server/discover", "initialize"]


async def test_the_error_of_a_failed_start_shows_the_end_of_stderr(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot({"server/discover": lambda server, _: server.ring.append(b"no\nAPI_KEY is not set\n")})

    problem = await failure(slot)

    assert problem.details == {"stderr": "no\nAPI_KEY is not set"}
    assert problem.hint == "mcpd logs fake"


async def test_a_command_that_is_not_there_is_looked_for_once(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot()
    world.no_launch = Misconfigured("${KEY} is not set", server="fake", hint="export KEY")

    first, second = await failure(slot), await failure(slot)

    assert isinstance(second, Misconfigured)
    assert (first.message, second.message) == ("${KEY} is not set", "${KEY} is not set")
    assert (second.hint, second.may_have_run, second.retry_after_seconds) == ("export KEY", False, 30.0)
    assert (slot.state.value, world.spawns) == ("failed", 0)


async def test_a_command_that_the_system_refuses_to_run_is_tried_once(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(final(ServerUnavailable("cannot run /fake: permission denied")))

    problem = await failure(slot)

    assert "cannot run /fake: permission denied" in problem.message
    assert (problem.server, problem.may_have_run) == ("fake", False)
    assert (slot.state.value, world.spawns) == ("failed", 1)


async def test_what_the_system_has_not_got_now_is_tried_again(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(ServerUnavailable("cannot run /fake: too many open files"), LEGACY)

    problem = await failure(slot)

    assert "too many open files" in problem.message
    assert await submit(slot, "t")[0].over() == [("result", {"content": []})]
    assert world.spawns == 2


async def test_a_bug_of_ours_costs_this_upstream_only(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(RuntimeError("oops"), LEGACY)

    problem = await failure(slot)
    await trio.sleep(1)

    assert "oops" in problem.message
    assert "upstream.crashed" in world.log.events
    assert await submit(slot, "t")[0].over() == [("result", {"content": []})]


# -- back-off ------------------------------------------------------------------------------------


async def test_a_call_in_a_short_back_off_waits_for_the_next_start(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(LEAVES, LEGACY)
    await failure(slot)
    await wait_all_tasks_blocked()
    assert slot.state.value == "backoff"
    assert slot.retry_after_seconds == pytest.approx(0.1)

    (request,) = submit(slot, "t")

    assert await request.over() == [("result", {"content": []})]
    assert world.servers[1].spawned_at == pytest.approx(0.1)


async def test_a_back_off_that_nobody_waits_for_ends_in_rest(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(LEAVES)
    await failure(slot)

    await trio.sleep(1)

    assert (slot.state.value, world.spawns, slot.retry_after_seconds) == ("stopped", 1, None)


async def fail_often(slot: Slot, world: World, times: int) -> None:
    """Let every start fail, each as soon as the slot tries again."""
    for spawns in range(world.spawns, world.spawns + times):
        await failure(slot)
        await wait_all_tasks_blocked()
        assert world.spawns == spawns + 1


async def test_five_spawns_and_then_it_is_left_alone_for_thirty_seconds(
    world: World, autojump_clock: MockClock
) -> None:
    slot = world.slot(LEAVES)
    await fail_often(slot, world, 5)
    assert [one.spawned_at for one in world.servers] == pytest.approx([0, 0.1, 0.3, 0.7, 1.5])
    assert slot.state.value == "failed"

    await trio.sleep(29)
    problem = await failure(slot)

    assert "it ended before it was ready" in problem.message
    assert (problem.retry_after_seconds, problem.may_have_run, world.spawns) == (1.0, False, 5)
    await trio.sleep(1.01)
    await failure(slot)
    assert world.spawns == 6


async def test_a_call_in_a_long_back_off_is_told_when_to_come_again(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(LEAVES)
    await fail_often(slot, world, 5)
    await trio.sleep(30)
    await fail_often(slot, world, 1)
    assert slot.state.value == "backoff"

    problem = await failure(slot)

    assert isinstance(problem, ServerUnavailable)
    assert (problem.retry_after_seconds, problem.hint, world.spawns) == (3.2, "mcpd logs fake", 6)


async def test_an_explicit_start_forgets_what_failed(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(*[LEAVES] * 5, LEGACY)
    await fail_often(slot, world, 5)
    assert slot.state.value == "failed"

    await slot.start()

    assert (slot.state.value, slot.problem, world.spawns) == ("ready", None, 6)


async def test_an_explicit_start_does_not_wait_for_the_end_of_a_back_off(
    world: World, autojump_clock: MockClock
) -> None:
    slot = world.slot(LEAVES, LEGACY)
    await failure(slot)
    await wait_all_tasks_blocked()
    (request,) = submit(slot, "t")

    await slot.start()

    assert (slot.state.value, trio.current_time()) == ("ready", 0)
    assert await request.over() == [("result", {"content": []})]


async def test_a_refusal_is_remembered_for_thirty_seconds(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(REFUSES, LEGACY)
    await failure(slot)
    await trio.sleep(29)

    problem = await failure(slot)

    assert problem.message == "server 'fake' could not be started: it refused initialize: no (code -32000)"
    assert (problem.retry_after_seconds, slot.state.value, world.spawns) == (1.0, "failed", 1)
    await trio.sleep(1.01)
    assert await submit(slot, "t")[0].over() == [("result", {"content": []})]


# -- what is learned of it -----------------------------------------------------------------------


async def test_a_server_that_leaves_on_the_probe_is_started_again_and_that_is_no_failure(
    world: World, autojump_clock: MockClock
) -> None:
    slot = world.slot({"server/discover": dies}, LEGACY)

    await slot.start()

    assert [one.methods[0] for one in world.servers] == ["server/discover", "initialize"]
    assert (slot.incarnations, world.memory.eras) == (1, {"fake": "silent"})


async def test_a_server_that_is_silent_on_the_probe_is_not_probed_the_next_time(
    world: World, autojump_clock: MockClock
) -> None:
    slot = world.slot({**LEGACY, "server/discover": None})
    await slot.start()
    assert trio.current_time() == 10
    await slot.stop()

    await slot.start()

    assert world.servers[1].methods[0] == "initialize"
    assert (trio.current_time(), slot.incarnations) == (10, 2)


async def test_a_server_that_turns_out_modern_is_not_remembered_as_legacy(
    world: World, autojump_clock: MockClock
) -> None:
    world.memory.eras["fake"] = "silent"
    slot = world.slot({**MODERN, "initialize": -32022})

    await slot.start()

    assert slot.session is not None
    assert (slot.session.era, world.memory.eras) == ("modern", {"fake": "modern"})


async def test_the_listener_hears_of_what_the_server_notifies(
    world: World, autojump_clock: MockClock
) -> None:
    slot, heard = world.slot(), list[str | None]()
    slot.observer = Listener(heard)
    await slot.start()

    world.servers[0].say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})

    assert heard == ["notifications/tools/list_changed"]
