"""What clients want to hear of one legacy server: resources, one by one, and who is told of lists."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from mcpd.broker.asked import Refused
from mcpd.broker.subscriptions import MAX_URI_BYTES, MAX_URIS
from mcpd.errors import BadRequest, CallTimeout, McpdError, Overloaded, ServerLost, ServerUnavailable
from tests.broker.ears import Ear, Ears, legacy
from tests.upstream.fakes import FakeServer, World, after, dies


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    return World(nursery)


async def refusal(ears: Ears, ear: Ear, uri: str) -> McpdError:
    """Return why a client cannot subscribe."""
    with pytest.raises(McpdError) as caught:
        await ears.interests.subscribed(ear, uri)
    return caught.value


# -- subscribing ---------------------------------------------------------------------------------


async def test_the_server_is_asked_once_for_a_uri_that_two_clients_want(
    world: World, autojump_clock: MockClock
) -> None:
    ears, a, b = Ears(world, legacy()), Ear("a"), Ear("b")
    await ears.subscribe(a, "x:1")
    await ears.subscribe(b, "x:1", "x:2")

    assert ears.asked == ["+x:1", "+x:2"]

    ears.interests.unsubscribe(a, "x:1")
    await wait_all_tasks_blocked()
    assert ears.asked == ["+x:1", "+x:2"]

    ears.interests.unsubscribe(b, "x:1")
    assert ears.asked == ["+x:1", "+x:2", "-x:1"]


async def test_a_client_that_subscribes_twice_is_counted_once(world: World, autojump_clock: MockClock) -> None:
    ears, a = Ears(world, legacy()), Ear("a")
    await ears.subscribe(a, "x:1", "x:1")
    ears.updated("x:1")
    ears.interests.unsubscribe(a, "x:1")

    assert (ears.asked, a.uris) == (["+x:1", "-x:1"], ["x:1"])


async def test_to_unsubscribe_from_what_was_never_subscribed_does_nothing(
    world: World, autojump_clock: MockClock
) -> None:
    ears, a, b = Ears(world, legacy()), Ear("a"), Ear("b")
    await ears.subscribe(a, "x:1")
    ears.interests.unsubscribe(b, "x:1")
    ears.interests.unsubscribe(b, "x:9")

    assert ears.asked == ["+x:1"]


async def test_a_client_that_leaves_takes_its_subscriptions_with_it(world: World, autojump_clock: MockClock) -> None:
    ears, a, b = Ears(world, legacy()), Ear("a"), Ear("b")
    await ears.subscribe(a, "x:1", "x:2")
    await ears.subscribe(b, "x:2")
    ears.interests.forget("a")
    await wait_all_tasks_blocked()
    ears.updated("x:2")

    assert ears.asked == ["+x:1", "+x:2", "-x:1"]
    assert (a.uris, b.uris) == ([], ["x:2"])
    assert ears.interests.wanted

    ears.interests.forget("b")
    assert not ears.interests.wanted


async def test_a_uri_that_is_wanted_again_while_the_server_still_answers_is_asked_for_in_order(
    world: World, autojump_clock: MockClock
) -> None:
    slow = legacy(resources_subscribe=after(1, {}), resources_unsubscribe=after(1, {}))
    ears, a = Ears(world, slow), Ear("a")
    await ears.subscribe(a, "x:1")
    for _ in range(20):
        ears.interests.unsubscribe(a, "x:1")
        outcome = ears.interests.subscribe(a, "x:1")
    await ears.granted(outcome)

    assert ears.asked == ["+x:1", "-x:1", "+x:1"]


async def test_a_refusal_reaches_the_client_that_asked_as_the_server_gave_it(
    world: World, autojump_clock: MockClock
) -> None:
    def refuse(server: FakeServer, message: dict[str, Any]) -> None:
        error = {"code": -32002, "message": "no such resource", "data": {"uri": "x:1"}}
        server.say({"jsonrpc": "2.0", "id": message["id"], "error": error})

    ears, a = Ears(world, legacy(resources_subscribe=refuse)), Ear("a")
    problem = await refusal(ears, a, "x:1")

    assert isinstance(problem, Refused)
    told = problem.to_error()
    assert (told["code"], told["message"]) == (-32002, "no such resource")
    assert json.loads(bytes(told["data"])) == {"uri": "x:1"}
    assert not ears.interests.wanted
    assert ears.asked == ["+x:1"]


async def test_a_server_that_offers_no_subscriptions_is_not_asked(world: World, autojump_clock: MockClock) -> None:
    ears = Ears(world, legacy({"resources": {"listChanged": True}}))
    problem = await refusal(ears, Ear("a"), "x:1")

    assert isinstance(problem, BadRequest)
    assert problem.message == "server 'fake' offers no subscriptions to resources"
    assert (ears.asked, ears.interests.wanted) == ([], False)


async def test_a_wish_from_before_the_start_is_refused_if_the_server_offers_no_subscriptions(
    world: World, autojump_clock: MockClock
) -> None:
    ears = Ears(world, legacy({}))
    outcome = ears.interests.subscribe(Ear("a"), "x:1")
    await ears.slot.start()

    with pytest.raises(BadRequest):
        await outcome.wait()
    assert (ears.asked, ears.interests.wanted) == ([], False)


async def test_a_server_that_cannot_be_started_is_the_answer(world: World, autojump_clock: MockClock) -> None:
    ears = Ears(world, ServerUnavailable("no such command"))

    assert "no such command" in (await refusal(ears, Ear("a"), "x:1")).message
    assert not ears.interests.wanted


async def test_a_server_that_does_not_answer_costs_the_time_of_a_call(world: World, autojump_clock: MockClock) -> None:
    ears, a = Ears(world, legacy(resources_subscribe=None)), Ear("a")
    problem = await refusal(ears, a, "x:1")

    assert isinstance(problem, CallTimeout)
    assert (trio.current_time(), ears.interests.wanted) == (30, False)
    await trio.sleep(1)
    assert ears.cancelled == [one["id"] for one in ears.sent("resources/subscribe")]


async def test_a_client_that_gives_up_waiting_is_not_subscribed(world: World, autojump_clock: MockClock) -> None:
    ears, a, b = Ears(world, legacy(resources_subscribe=after(5, {}))), Ear("a"), Ear("b")
    with trio.move_on_after(1):
        await ears.interests.subscribed(a, "x:1")
    assert not ears.interests.wanted

    await ears.subscribe(b, "x:1")
    ears.updated("x:1")
    assert (a.uris, b.uris) == ([], ["x:1"])


async def test_of_two_requests_of_one_client_one_may_be_given_up(world: World, autojump_clock: MockClock) -> None:
    ears, a = Ears(world, legacy(resources_subscribe=after(5, {}))), Ear("a")
    async with trio.open_nursery() as requests:
        requests.start_soon(ears.subscribe, a, "x:1")
        with trio.move_on_after(1):
            await ears.interests.subscribed(a, "x:1")
    ears.updated("x:1")

    assert (a.uris, ears.asked) == (["x:1"], ["+x:1"])


async def test_who_waits_hears_that_the_server_was_lost_and_not_that_anything_may_have_run(
    world: World, autojump_clock: MockClock
) -> None:
    ears = Ears(world, legacy(resources_subscribe=dies), legacy())
    problem = await refusal(ears, Ear("a"), "x:1")

    assert isinstance(problem, ServerLost)
    assert problem.may_have_run is None


async def test_a_client_has_so_many_subscriptions_and_a_uri_so_many_characters(
    world: World, autojump_clock: MockClock
) -> None:
    ears, a = Ears(world, legacy()), Ear("a")
    await ears.slot.start()
    for number in range(MAX_URIS):
        ears.interests.subscribe(a, f"x:{number}")

    with pytest.raises(Overloaded):
        ears.interests.subscribe(a, "x:more")
    ears.interests.subscribe(a, "x:0")
    ears.interests.subscribe(Ear("b"), "x:more")
    for uri in ("", "x" * (MAX_URI_BYTES + 1)):
        with pytest.raises(BadRequest):
            ears.interests.subscribe(Ear("c"), uri)


# -- restarts ------------------------------------------------------------------------------------


async def test_what_was_subscribed_is_subscribed_again_after_a_restart_and_told_once_since_it_may_have_changed(
    world: World, autojump_clock: MockClock
) -> None:
    ears, a, b = Ears(world, legacy()), Ear("a"), Ear("b")
    await ears.subscribe(a, "x:1", "x:2")
    await ears.subscribe(b, "x:2")
    await ears.restart()
    await wait_all_tasks_blocked()

    assert sorted(ears.asked) == ["+x:1", "+x:2"]
    assert (sorted(a.uris), b.uris) == (["x:1", "x:2"], ["x:2"])
    assert a.heard[0][1]["_meta"] == {"mcpd/server": "fake"}

    ears.updated("x:2")
    assert (a.uris.count("x:2"), b.uris.count("x:2")) == (2, 2)


async def test_what_nobody_wants_any_more_is_not_subscribed_again(world: World, autojump_clock: MockClock) -> None:
    ears, a = Ears(world, legacy()), Ear("a")
    await ears.subscribe(a, "x:1", "x:2")
    await ears.slot.stop()
    ears.interests.unsubscribe(a, "x:1")
    await ears.slot.start()

    assert ears.asked == ["+x:2"]


async def test_a_server_that_refuses_after_a_restart_is_not_asked_again_and_again(
    world: World, autojump_clock: MockClock
) -> None:
    ears, a = Ears(world, legacy(), legacy(resources_subscribe=-32603), legacy()), Ear("a")
    await ears.subscribe(a, "x:1")
    await ears.restart()
    await trio.sleep(1000)
    assert ears.asked == ["+x:1"]

    await ears.slot.stop()
    await ears.slot.start()
    assert ears.asked == ["+x:1"]
    await wait_all_tasks_blocked()
    ears.updated("x:1")
    assert a.uris == ["x:1", "x:1"]


async def test_who_wants_what_was_refused_after_a_restart_lets_it_be_asked_once_more(
    world: World, autojump_clock: MockClock
) -> None:
    def refuse_once(server: FakeServer, message: dict[str, Any]) -> None:
        server.react(message, {} if server.methods.count("resources/subscribe") > 1 else -32603)

    ears, a, b = Ears(world, legacy(), legacy(resources_subscribe=refuse_once)), Ear("a"), Ear("b")
    await ears.subscribe(a, "x:1")
    await ears.restart()
    await wait_all_tasks_blocked()
    await ears.subscribe(b, "x:1")
    ears.updated("x:1")

    assert (ears.asked, a.uris, b.uris) == (["+x:1", "+x:1"], ["x:1", "x:1"], ["x:1", "x:1"])


async def test_subscribing_keeps_a_server_neither_from_resting_nor_from_stopping(
    world: World, autojump_clock: MockClock
) -> None:
    ears, a = Ears(world, legacy(resources_subscribe=None)), Ear("a")
    await ears.slot.start()
    ears.interests.subscribe(a, "x:1")
    assert ears.slot.in_flight == 0

    await ears.slot.stop()
    assert trio.current_time() == 0
