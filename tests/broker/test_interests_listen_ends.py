"""How listens end, and that they keep a server from nothing."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from mcpd.broker.asked import SUBSCRIPTION_ID, Refused
from mcpd.broker.listening import GRACE_SECONDS
from mcpd.config.model import Timeout
from mcpd.errors import ServerLost
from tests.broker.ears import Ear, Ears, acknowledges, legacy, modern
from tests.upstream.fakes import FakeServer, World, after, dies, submit

AWAKE = Timeout(idle_seconds=0)


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    return World(nursery)


async def started(world: World, *scripts: Any, **settings: Any) -> Ears:
    ears = Ears(world, *(scripts or (modern(),)), **settings)
    await ears.slot.start()
    return ears


def ends(server: FakeServer, message: dict[str, Any]) -> None:
    """Acknowledge a listen and end it at once."""
    acknowledges(server, message)
    server.say({"jsonrpc": "2.0", "id": message["id"], "result": {}})


def end(ears: Ears, listen: int) -> None:
    ears.server.say({"jsonrpc": "2.0", "id": listen, "result": {"_meta": {SUBSCRIPTION_ID: listen}}})


# -- ends ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["result", "cancelled", "cancelled, then result", "error", "no answer"])
async def test_a_listen_that_ends_is_opened_again_after_a_pause_and_what_was_missed_is_told(
    world: World, autojump_clock: MockClock, way: str
) -> None:
    ears, a = await started(world, timeout=AWAKE), Ear("a")
    ears.interests.hear_lists(["tools"])
    await ears.subscribe(a, "x:1")
    lists, resources = ears.listen_ids
    for listen in (lists, resources):
        if "cancelled" in way:
            ears.notify("cancelled", requestId=listen, reason="shutting down")
        if "result" in way:
            end(ears, listen)
        if way == "error":
            ears.server.say({"jsonrpc": "2.0", "id": listen, "error": {"code": -32603, "message": "no"}})
        if way == "no answer":
            ears.server.say({"jsonrpc": "2.0", "id": listen})
    await wait_all_tasks_blocked()
    assert len(ears.listens) == 2
    assert not ears.interests.hears_changes("tools")
    ears.updated("x:1", resources)
    assert (a.uris, ears.dropped["foreign_subscription"]) == ([], 1)

    await trio.sleep(60)
    assert sorted(map(str, ears.listens[2:])) == sorted(map(str, ears.listens[:2]))
    assert (ears.lists, a.uris, ears.interests.hears_changes("tools")) == (["tools"], ["x:1"], True)
    assert ears.slot.current is not None
    assert ears.slot.current.channel.counts["late"] == (2 if way == "cancelled, then result" else 0)


async def test_a_server_that_ends_each_listen_is_asked_a_few_times_a_minute_and_then_once(
    world: World, autojump_clock: MockClock
) -> None:
    ears = await started(world, modern(ends), timeout=AWAKE)
    ears.interests.hear_lists(["tools"])
    await trio.sleep(60)
    assert 2 <= len(ears.listens) <= 5

    asked = len(ears.listens)
    await trio.sleep(3600)
    assert 50 <= len(ears.listens) - asked <= 61


async def test_a_server_that_never_acknowledges_is_asked_a_few_times_a_minute_at_most(
    world: World, autojump_clock: MockClock
) -> None:
    ears = await started(world, modern(None), timeout=AWAKE)
    ears.interests.hear_lists(["tools"])
    await trio.sleep(3600)

    assert 30 <= len(ears.listens) <= 61
    assert ears.listen_ids[:-1] == ears.cancelled[: len(ears.listen_ids) - 1]


async def test_a_listen_that_was_open_for_long_is_opened_again_soon(world: World, autojump_clock: MockClock) -> None:
    ears = await started(world, timeout=AWAKE)
    ears.interests.hear_lists(["tools"])
    for number in range(1, 8):
        await trio.sleep(100)
        end(ears, ears.listen_ids[-1])
        await trio.sleep(10)
        assert len(ears.listens) == number + 1


async def test_a_listen_for_lists_that_is_refused_is_tried_again_by_the_next_incarnation_only(
    world: World, autojump_clock: MockClock
) -> None:
    ears = await started(world, modern(-32603), modern(), timeout=AWAKE)
    ears.interests.hear_lists(["tools"])
    await trio.sleep(3600)
    ears.interests.hear_lists(["prompts"])
    await trio.sleep(3600)
    assert (len(ears.listens), ears.interests.hears_changes("tools")) == (1, False)
    assert ears.dropped == {"listen_refused": 1}

    await ears.restart()
    await wait_all_tasks_blocked()
    assert (len(ears.listens), ears.interests.hears_changes("tools")) == (1, True)


async def test_a_server_that_does_not_know_listen_is_asked_for_resources_once(
    world: World, autojump_clock: MockClock
) -> None:
    ears, a = await started(world, modern(-32601)), Ear("a")
    for _ in range(3):
        with pytest.raises(Refused):
            await ears.interests.subscribed(a, "x:1")

    assert len(ears.listens) == 1


async def test_all_uris_are_listened_for_again_after_a_restart_and_told_once_since_they_may_have_changed(
    world: World, autojump_clock: MockClock
) -> None:
    ears, a = await started(world), Ear("a")
    await ears.subscribe(a, "x:1", "x:2")
    await ears.restart()
    await wait_all_tasks_blocked()

    assert ears.listens == [{"resourceSubscriptions": ["x:1", "x:2"]}]
    assert sorted(a.uris) == ["x:1", "x:2"]


async def test_who_waits_hears_that_the_server_was_lost_and_not_that_anything_may_have_run(
    world: World, autojump_clock: MockClock
) -> None:
    ears = await started(world, modern(dies), modern())
    with pytest.raises(ServerLost) as caught:
        await ears.interests.subscribed(Ear("a"), "x:1")

    assert caught.value.may_have_run is None


# -- at rest -------------------------------------------------------------------------------------


async def test_a_listen_is_not_in_flight_and_keeps_a_server_from_nothing(
    world: World, autojump_clock: MockClock
) -> None:
    ears, a = await started(world), Ear("a")
    ears.interests.hear_lists(["tools"])
    await ears.subscribe(a, "x:1")
    assert ears.slot.in_flight == 0

    await trio.sleep(301)
    assert ears.slot.state.value == "stopped"
    await ears.slot.start()
    await wait_all_tasks_blocked()
    assert len(ears.listens) == 2


async def test_a_server_with_listens_drains_as_soon_as_its_calls_are_answered(
    world: World, autojump_clock: MockClock
) -> None:
    ears = await started(world)
    ears.interests.hear_lists(["tools"])
    await wait_all_tasks_blocked()
    (request,) = submit(ears.slot, "t")
    await ears.slot.stop()

    assert request.outcomes == [("result", {"content": []})]
    assert (trio.current_time(), ears.dropped) == (0, {})


async def test_what_is_wanted_while_a_server_drains_is_for_the_next_one(
    world: World, autojump_clock: MockClock
) -> None:
    for script in (modern(), legacy()):
        ears = await started(world, {**script, "tools/call": after(1, {})})
        submit(ears.slot, "t")
        one = ears.slot.current
        assert one is not None
        ears.slot.retire(one)
        outcome = ears.interests.subscribe(Ear("a"), "x:1")
        ears.interests.level(Ear("a"), "info")
        ears.interests.hear_lists(["tools"])
        await wait_all_tasks_blocked()
        assert (ears.listens, ears.asked, ears.sent("logging/setLevel")) == ([], [], [])

        await ears.slot.start()
        await ears.granted(outcome)
        await trio.sleep(10)


async def test_a_server_that_has_been_followed_has_no_more_say(world: World, autojump_clock: MockClock) -> None:
    deaf = {"resources_subscribe": None, "logging_setLevel": None, "tools_call": after(1, {})}
    slow = legacy(resources_subscribe=after(5, {}))
    ears, a = await started(world, legacy(**deaf), slow), Ear("a")
    ears.interests.level(a, "info")
    outcome = ears.interests.subscribe(a, "x:1")
    submit(ears.slot, "t")
    await wait_all_tasks_blocked()
    first = ears.slot.current
    assert first is not None
    ears.slot.retire(first)
    await ears.slot.start()
    await trio.sleep(100)
    await ears.granted(outcome)
    ears.updated("x:1")

    assert (a.uris, ears.asked, ears.dropped) == (["x:1"], ["+x:1"], {})


async def test_a_server_that_keeps_ending_its_listens_rests_all_the_same(
    world: World, autojump_clock: MockClock
) -> None:
    ears = await started(world, modern(ends))
    ears.interests.hear_lists(["tools"])
    await trio.sleep(400)
    assert ears.slot.state.value == "stopped"

    sent = len(ears.server.messages)
    await trio.sleep(3600)
    assert (len(ears.server.messages), world.spawns) == (sent, 1)


async def test_a_suspect_keeps_its_listens_and_does_not_hand_them_on(world: World, autojump_clock: MockClock) -> None:
    ears = await started(world)
    ears.server.stalled = True
    ears.interests.hear_lists(["tools"])
    one = ears.slot.current
    assert one is not None
    one.suspend()
    assert len(ears.server.queued) == 1

    ears.slot.trust(one)
    ears.server.unstall()
    await wait_all_tasks_blocked()
    assert (len(ears.listens), ears.interests.hears_changes("tools")) == (1, True)


async def test_a_storm_on_a_replaced_listen_keeps_one_event_for_each_uri(
    world: World, autojump_clock: MockClock
) -> None:
    ears, a = await started(world), Ear("a")
    await ears.subscribe(a, "x:1", "x:2")
    timers, old = len(world.timers), ears.listen_ids[0]
    for _ in range(2000):
        ears.notify("resources/updated", old, uri="x:1", blob="x" * 5000)
    assert (a.heard, len(world.timers)) == ([], timers)

    await trio.sleep(GRACE_SECONDS + 1)
    assert [params for _, params in a.heard] == [{"uri": "x:1", "_meta": {"mcpd/server": "fake"}}]
