"""What becomes of requests whose upstream dies, hangs or is retired."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from mcpd.config.model import Stop
from mcpd.errors import ServerLost
from mcpd.upstream.supervisor import Slot
from tests.upstream.fakes import LEGACY, MODERN, Listener, Request, Script, World, after, submit

ANSWERED: list[tuple[str, object]] = [("result", {"content": []})]
HANGS: Script = {**LEGACY, "tools/call": None}
DEAF_LATER: Script = {**LEGACY, "tools/call": None, "ping": None}


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    return World(nursery)


# -- lost ----------------------------------------------------------------------------------------


async def test_what_was_written_is_lost_and_may_have_run(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(HANGS, LEGACY)
    await slot.start()
    requests = submit(slot, "a", "b")

    world.servers[0].die()

    for request in requests:
        await request.over()
        assert isinstance(request.problem, ServerLost)
        assert request.problem.message == "server 'fake' ended (exit status 0)"
        assert (request.problem.server, request.problem.may_have_run) == ("fake", True)
    assert world.spawns == 1


async def test_what_was_not_written_waits_for_the_next_incarnation(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(HANGS, LEGACY)
    await slot.start()
    (written,) = submit(slot, "written")
    world.servers[0].stalled = True
    held = submit(slot, "b", "c", "d")

    world.servers[0].die()

    assert [await request.over() for request in held] == [ANSWERED] * 3
    assert isinstance(written.problem, ServerLost)
    assert (world.spawns, world.servers[1].calls) == (2, ["b", "c", "d"])
    assert world.servers[1].spawned_at == pytest.approx(0.1)


async def test_a_loss_that_concerns_nobody_starts_nothing(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot()
    await slot.start()

    world.servers[0].die()
    await wait_all_tasks_blocked()
    assert (slot.state.value, slot.session) == ("backoff", None)
    await trio.sleep(1)

    assert (slot.state.value, world.spawns) == ("stopped", 1)
    assert "upstream.lost" in world.log.events


@pytest.mark.parametrize(
    ("lingers_seconds", "ends_in_seconds"), [(0.3, 0.0), (1e9, 3.0)], ids=["it leaves slowly", "it does not leave"]
)
async def test_who_comes_while_a_dead_one_is_cleared_away_waits_for_the_next_incarnation(
    world: World, autojump_clock: MockClock, lingers_seconds: float, ends_in_seconds: float
) -> None:
    world.lingers_seconds, world.ends_in_seconds = lingers_seconds, ends_in_seconds
    slot = world.slot()
    await slot.start()

    world.servers[0].die()
    requests = submit(slot, "at once")
    await trio.sleep(0.2)
    requests += submit(slot, "soon")
    await trio.sleep(0.4)
    requests += submit(slot, "later")

    assert [await request.over() for request in requests] == [ANSWERED] * 3
    assert (world.spawns, sorted(world.servers[1].calls)) == (2, ["at once", "later", "soon"])


async def test_a_crash_loop_ends_after_five_spawns(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot({**LEGACY, "tools/call": lambda server, _: server.die()})
    for _ in range(5):
        await submit(slot, "a")[0].over()
        await trio.sleep(2)

    (request,) = submit(slot, "a")

    assert (slot.state.value, world.spawns) == ("failed", 5)
    assert request.problem.to_error()["data"] == {
        "class": "server_unavailable",
        "server": "fake",
        "hint": "mcpd start fake",
        "retry_after_seconds": 28.0,
        "may_have_run": False,
    }


async def test_a_run_of_ten_seconds_forgives_earlier_ones(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot()
    for _ in range(20):
        await slot.ready()
        await trio.sleep(10)
        world.servers[-1].die()
        await trio.sleep(1)

    assert (slot.state.value, world.spawns) == ("stopped", 20)


# -- timed out -----------------------------------------------------------------------------------


async def time_out(slot: Slot, request: Request) -> bool:
    """Give a request up as a deadline does, and let everybody take note."""
    began = slot.give_up(request, "timed out", timed_out=True)
    await wait_all_tasks_blocked()
    return began


@pytest.mark.parametrize(
    ("script", "probe"), [(DEAF_LATER, "ping"), ({**MODERN, "tools/call": None}, "server/discover")], ids=["old", "new"]
)
async def test_after_a_timeout_the_server_is_told_and_probed(
    world: World, autojump_clock: MockClock, script: Script, probe: str
) -> None:
    slot = world.slot(script)
    await slot.start()
    (request,) = submit(slot, "a")

    assert await time_out(slot, request) is True

    call, cancelled, probed = world.servers[0].messages[-3:]
    assert cancelled["method"] == "notifications/cancelled"
    assert cancelled["params"] == {"requestId": call["id"], "reason": "timed out"}
    assert probed["method"] == probe
    assert ("_meta" in probed["params"]) is (probe == "server/discover")
    assert request.outcomes == []


@pytest.mark.parametrize("answer", [{}, -32601], ids=["a result", "an error"])
async def test_a_server_that_answers_the_probe_is_kept(
    world: World, autojump_clock: MockClock, answer: dict[str, object] | int
) -> None:
    slot = world.slot({**HANGS, "ping": after(4.9, answer)})
    await slot.start()
    (request,) = submit(slot, "a")
    await time_out(slot, request)

    await trio.sleep(60)

    assert (slot.state.value, world.spawns, slot.in_flight) == ("ready", 1, 0)


async def test_a_server_that_is_silent_on_the_probe_is_retired(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(DEAF_LATER, LEGACY)
    await slot.start()
    (request,) = submit(slot, "a")
    await time_out(slot, request)

    await trio.sleep(4.9)
    assert slot.state.value == "ready"
    await trio.sleep(0.2)
    assert slot.state.value == "stopped"

    assert await submit(slot, "b")[0].over() == ANSWERED
    assert world.servers[1].calls == ["b"]
    await trio.sleep(10)
    assert (world.servers[0].ended, slot.state.value) == (True, "ready")


async def test_a_silent_probe_is_not_waited_for_when_the_server_is_retired(
    world: World, autojump_clock: MockClock
) -> None:
    slot = world.slot(DEAF_LATER, stop=Stop(drain_seconds=60))
    await slot.start()
    (request,) = submit(slot, "a")
    await time_out(slot, request)

    await trio.sleep(6)

    assert world.servers[0].ended


async def test_one_probe_at_a_time_is_enough(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(DEAF_LATER)
    await slot.start()

    for request in submit(slot, "a", "b", "c"):
        await time_out(slot, request)

    assert world.servers[0].methods.count("ping") == 1
    assert world.servers[0].methods.count("notifications/cancelled") == 3


async def test_a_server_may_be_probed_again_after_it_has_answered(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(HANGS)
    await slot.start()

    for request in submit(slot, "a", "b"):
        await time_out(slot, request)

    assert world.servers[0].methods.count("ping") == 2


async def test_a_request_that_was_never_written_says_nothing_of_the_server(
    world: World, autojump_clock: MockClock
) -> None:
    slot = world.slot(HANGS)
    await slot.start()
    world.servers[0].stalled = True
    (request,) = submit(slot, "a")

    assert await time_out(slot, request) is False

    world.servers[0].unstall()
    assert world.servers[0].calls == []
    assert "ping" not in world.servers[0].methods


async def test_a_request_that_waits_for_the_start_is_given_up_alone(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot({**LEGACY, "initialize": after(5, {"protocolVersion": "2025-11-25"})})
    early, other = submit(slot, "a", "b")

    assert await time_out(slot, early) is False

    assert await other.over() == ANSWERED
    assert (early.outcomes, world.servers[0].calls) == ([], ["b"])


async def test_a_request_that_is_answered_cannot_be_given_up(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot()
    (request,) = submit(slot, "a")
    await request.over()

    assert await time_out(slot, request) is False
    assert world.servers[0].methods[-1] == "tools/call"


@pytest.mark.parametrize(("on_timeout", "state"), [("retire", "stopped"), ("keep", "ready")])
async def test_an_entry_may_say_what_a_timeout_means(
    world: World, autojump_clock: MockClock, on_timeout: str, state: str
) -> None:
    slot = world.slot(DEAF_LATER, on_timeout=on_timeout)
    await slot.start()
    (request,) = submit(slot, "a")

    await time_out(slot, request)
    await trio.sleep(20)

    assert (slot.state.value, "ping" in world.servers[0].methods) == (state, False)


# -- retired -------------------------------------------------------------------------------------


async def test_a_retired_one_answers_what_it_has_while_a_fresh_one_takes_the_new(
    world: World, autojump_clock: MockClock
) -> None:
    slow: Script = {**LEGACY, "tools/call": after(3, {"content": ["slow"]})}
    slot, heard = world.slot(slow, LEGACY), list[str | None]()
    await slot.start()
    (old,) = submit(slot, "old")
    assert slot.current is not None

    slot.retire(slot.current)
    (new,) = submit(slot, "new")

    assert await new.over() == ANSWERED
    assert (slot.state.value, slot.in_flight, old.outcomes) == ("ready", 1, [])
    slot.observer = Listener(heard)
    world.servers[0].say({"jsonrpc": "2.0", "method": "of the old one"})
    world.servers[1].say({"jsonrpc": "2.0", "method": "of the new one"})
    assert heard == ["of the old one", "of the new one"]

    assert await old.over() == [("result", {"content": ["slow"]})]
    await trio.sleep(1)
    assert [one.ended for one in world.servers] == [True, False]
    assert [one.calls for one in world.servers] == [["old"], ["new"]]


async def test_what_a_retired_one_never_got_goes_to_the_fresh_one(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot()
    await slot.start()
    world.servers[0].stalled = True
    requests = submit(slot, "a", "b")
    assert slot.current is not None

    slot.retire(slot.current)

    assert [await request.over() for request in requests] == [ANSWERED, ANSWERED]
    assert [one.calls for one in world.servers] == [[], ["a", "b"]]


async def test_a_retired_one_that_dies_does_not_disturb_the_fresh_one(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(HANGS, LEGACY)
    await slot.start()
    (old,) = submit(slot, "old")
    assert slot.current is not None
    slot.retire(slot.current)
    await slot.ready()

    world.servers[0].die()
    await old.over()
    await trio.sleep(1)

    assert old.problem.may_have_run is True
    assert (slot.state.value, world.spawns) == ("ready", 2)


async def test_a_stop_ends_the_retired_too(world: World, autojump_clock: MockClock) -> None:
    slot = world.slot(HANGS, LEGACY)
    await slot.start()
    submit(slot, "old")
    assert slot.current is not None
    slot.retire(slot.current)
    await slot.ready()

    await slot.stop()

    assert [one.ended for one in world.servers] == [True, True]
    assert slot.state.value == "stopped"
