"""What clients want to hear of a modern server: one listen for lists, one for all resources."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from mcpd.broker.asked import Refused
from mcpd.broker.listening import GRACE_SECONDS, MAX_REPLACED
from mcpd.config.model import Timeout
from mcpd.errors import BadRequest, CallTimeout, McpdError
from tests.broker.ears import Ear, Ears, acknowledge, acknowledges, modern
from tests.upstream.fakes import FakeServer, World, after


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    return World(nursery)


async def started(world: World, *scripts: Any) -> Ears:
    ears = Ears(world, *(scripts or (modern(),)), timeout=Timeout(idle_seconds=0))
    await ears.slot.start()
    return ears


async def refusal(ears: Ears, ear: Ear, uri: str) -> McpdError:
    """Return why a client cannot subscribe."""
    with pytest.raises(McpdError) as caught:
        await ears.interests.subscribed(ear, uri)
    return caught.value


def uris(*uris: str) -> dict[str, list[str]]:
    """Return the filter for these."""
    return {"resourceSubscriptions": list(uris)}


# -- lists ---------------------------------------------------------------------------------------


async def test_nothing_is_listened_for_until_somebody_cares(world: World, autojump_clock: MockClock) -> None:
    ears = await started(world)
    await wait_all_tasks_blocked()
    assert ears.listens == []
    assert not ears.interests.hears_changes("tools")

    ears.interests.hear_lists(["tools", "resources", "templates"])
    await wait_all_tasks_blocked()
    assert ears.listens == [{"resourcesListChanged": True, "toolsListChanged": True}]
    assert [ears.interests.hears_changes(kind) for kind in ("tools", "templates", "prompts")] == [True, True, False]

    ears.interests.hear_lists(["tools"])
    ears.interests.hear_lists(["resources"])
    await wait_all_tasks_blocked()
    assert len(ears.listens) == 1


async def test_a_client_that_asks_for_another_list_widens_the_listen(world: World, autojump_clock: MockClock) -> None:
    ears = await started(world)
    ears.interests.hear_lists(["tools"])
    await wait_all_tasks_blocked()
    ears.interests.hear_lists(["prompts"])
    await wait_all_tasks_blocked()

    first, second = ears.listen_ids
    assert ears.listens[1] == {"promptsListChanged": True, "toolsListChanged": True}
    assert ears.cancelled == [first]
    ears.notify("tools/list_changed", second)
    ears.notify("tools/list_changed", first)
    await trio.sleep(10)
    assert ears.lists == ["tools"]


async def test_lists_that_the_server_does_not_tell_of_are_not_asked_for(
    world: World, autojump_clock: MockClock
) -> None:
    ears = await started(world, modern(capabilities={"tools": {"listChanged": True}, "prompts": {}}))
    ears.interests.hear_lists(["tools", "prompts", "resources"])
    await wait_all_tasks_blocked()
    assert ears.listens == [{"toolsListChanged": True}]

    ears = await started(world, modern(capabilities={}))
    ears.interests.hear_lists(["tools"])
    await wait_all_tasks_blocked()
    assert ears.listens == []


async def test_only_what_was_acknowledged_is_heard(world: World, autojump_clock: MockClock) -> None:
    def less(server: FakeServer, message: dict[str, Any]) -> None:
        acknowledge(server, message, {"toolsListChanged": True, "promptsListChanged": False})

    ears = await started(world, modern(less))
    ears.interests.hear_lists(["tools", "prompts"])
    await trio.sleep(1000)

    assert [ears.interests.hears_changes(kind) for kind in ("tools", "prompts")] == [True, False]
    assert len(ears.listens) == 1


async def test_a_change_counts_only_on_an_open_listen_for_it(world: World, autojump_clock: MockClock) -> None:
    ears, a = await started(world), Ear("a")
    ears.interests.hear_lists(["tools"])
    await ears.subscribe(a, "x:1")
    lists, resources = ears.listen_ids

    ears.notify("tools/list_changed", lists)
    ears.notify("tools/list_changed", str(lists))
    assert (ears.lists, ears.dropped) == (["tools", "tools"], {})

    ears.notify("tools/list_changed")
    ears.notify("tools/list_changed", 4711)
    ears.notify("tools/list_changed", resources)
    ears.notify("prompts/list_changed", lists)
    ears.updated("x:1")
    ears.updated("x:1", lists)
    ears.updated("x:1", {"id": resources})
    assert (ears.lists, a.uris, ears.dropped) == (["tools", "tools"], [], {"foreign_subscription": 7})

    ears.updated("x:2", resources)
    ears.updated("x:1", resources)
    assert (a.uris, ears.dropped["unwanted_update"]) == (["x:1"], 1)


async def test_each_incarnation_has_a_listen_of_its_own(world: World, autojump_clock: MockClock) -> None:
    ears = await started(world)
    ears.interests.hear_lists(["tools"])
    await wait_all_tasks_blocked()
    await ears.restart()
    await wait_all_tasks_blocked()

    assert ears.listens == [{"toolsListChanged": True}]
    assert (ears.interests.hears_changes("tools"), ears.lists) == (True, [])


# -- resources -----------------------------------------------------------------------------------


async def test_one_listen_is_for_all_uris_that_anybody_wants(world: World, autojump_clock: MockClock) -> None:
    ears, a, b = await started(world), Ear("a"), Ear("b")
    await ears.subscribe(a, "x:1")
    await ears.subscribe(b, "x:1")
    await ears.subscribe(b, "x:2")

    first, second = ears.listen_ids
    assert ears.listens == [uris("x:1"), uris("x:1", "x:2")]
    assert ears.cancelled == [first]
    ears.updated("x:1", second)
    assert (a.uris, b.uris) == (["x:1"], ["x:1"])

    ears.interests.forget("b")
    await wait_all_tasks_blocked()
    assert ears.listens[2:] == [uris("x:1")]

    ears.interests.unsubscribe(a, "x:1")
    await wait_all_tasks_blocked()
    assert (len(ears.listens), ears.cancelled) == (3, ears.listen_ids)


async def test_the_listen_before_is_closed_only_when_the_new_one_is_acknowledged(
    world: World, autojump_clock: MockClock
) -> None:
    waiting = list[dict[str, Any]]()

    def later(server: FakeServer, message: dict[str, Any]) -> None:
        waiting.append(message)

    ears, a = await started(world, modern(later)), Ear("a")
    ears.interests.subscribe(a, "x:1")
    await wait_all_tasks_blocked()
    acknowledges(ears.server, waiting[0])
    for number in range(2, 10):  # what is wanted meanwhile goes into one more
        outcome = ears.interests.subscribe(a, f"x:{number}")
    await wait_all_tasks_blocked()
    first = ears.listen_ids[0]
    ears.updated("x:1", first)
    assert (ears.cancelled, a.uris, outcome.known) == ([], ["x:1"], False)

    acknowledges(ears.server, waiting[1])
    await wait_all_tasks_blocked()
    assert ears.cancelled == [first]
    acknowledges(ears.server, waiting[2])
    await ears.granted(outcome)
    assert [len(one["resourceSubscriptions"]) for one in ears.listens] == [1, 2, 9]


async def test_an_event_that_arrives_on_both_listens_is_told_once_and_none_is_lost(
    world: World, autojump_clock: MockClock
) -> None:
    ears, a = await started(world), Ear("a")
    await ears.subscribe(a, "x:1", "x:2", "x:3")
    *_, old, new = ears.listen_ids
    ears.updated("x:1", old)
    ears.updated("x:1", new)
    ears.updated("x:2", new)
    ears.updated("x:2", old)
    ears.updated("x:3", old)  # which it was not asked for
    assert (a.uris, ears.dropped) == (["x:1", "x:2"], {"unwanted_update": 1})

    await trio.sleep(GRACE_SECONDS + 1)
    assert a.uris == ["x:1", "x:2"]
    ears.updated("x:1", old)
    assert (a.uris, ears.dropped["foreign_subscription"]) == (["x:1", "x:2"], 1)


async def test_an_event_that_only_the_replaced_listen_has_brought_is_told_late_and_as_it_came(
    world: World, autojump_clock: MockClock
) -> None:
    ears, a = await started(world), Ear("a")
    await ears.subscribe(a, "x:1", "x:2")
    old, _ = ears.listen_ids
    ears.notify("resources/updated", old, uri="x:1", n=1.5)
    ears.notify("resources/updated", old, uri="x:1", n=2.5)
    assert a.heard == []

    await trio.sleep(GRACE_SECONDS + 1)
    assert [params for _, params in a.heard] == [{"uri": "x:1", "n": 2.5, "_meta": {"mcpd/server": "fake"}}]


async def test_the_end_of_a_replaced_listen_is_waited_for_no_longer_than_that(
    world: World, autojump_clock: MockClock
) -> None:
    ears, a = await started(world), Ear("a")
    await ears.subscribe(a, "x:1", "x:2")
    old, _ = ears.listen_ids
    ears.updated("x:1", old)
    ears.notify("cancelled", requestId=old)

    assert a.uris == ["x:1"]


async def test_filters_that_change_fast_are_remembered_up_to_a_bound(world: World, autojump_clock: MockClock) -> None:
    ears, a = await started(world), Ear("a")
    await ears.subscribe(a, *(f"x:{number:02}" for number in range(MAX_REPLACED + 3)))
    oldest, *_, newest = ears.listen_ids
    ears.updated("x:00", oldest)
    ears.updated("x:00", newest)

    assert (a.uris, ears.dropped) == (["x:00"], {"foreign_subscription": 1})


async def test_an_update_carries_the_name_of_its_server_and_not_our_subscription_id(
    world: World, autojump_clock: MockClock
) -> None:
    ears, a = await started(world), Ear("a")
    await ears.subscribe(a, "x:1")
    ears.notify("resources/updated", ears.listen_ids[0], uri="x:1", big=12345678901234567890, _meta={"v/k": 1.0})

    assert a.bodies == [b'{"uri":"x:1","big":12345678901234567890,"_meta":{"v/k":1.0,"mcpd/server":"fake"}}']


async def test_a_uri_that_the_server_does_not_acknowledge_is_refused_and_others_are_not(
    world: World, autojump_clock: MockClock
) -> None:
    def less(server: FakeServer, message: dict[str, Any]) -> None:
        wanted = message["params"]["notifications"]["resourceSubscriptions"]
        acknowledge(server, message, uris(*(uri for uri in wanted if uri != "x:bad")))

    ears, a = await started(world, modern(less)), Ear("a")
    await ears.subscribe(a, "x:1")
    for _ in range(3):
        problem = await refusal(ears, a, "x:bad")
        assert isinstance(problem, BadRequest)
        assert problem.message == "server 'fake' does not tell of changes of 'x:bad'"
    assert ears.listens == [uris("x:1"), uris("x:1", "x:bad")]
    await ears.subscribe(a, "x:2")
    ears.updated("x:1", ears.listen_ids[-1])

    assert a.uris == ["x:1"]


async def test_a_refused_listen_is_the_answer_and_takes_nothing_from_who_listens_already(
    world: World, autojump_clock: MockClock
) -> None:
    def picky(server: FakeServer, message: dict[str, Any]) -> None:
        bad = "x:bad" in message["params"]["notifications"]["resourceSubscriptions"]
        server.react(message, -32602 if bad else acknowledges)

    ears, a, b = await started(world, modern(picky)), Ear("a"), Ear("b")
    await ears.subscribe(a, "x:1")
    assert isinstance(await refusal(ears, b, "x:bad"), Refused)
    await ears.subscribe(b, "x:2")
    ears.updated("x:1", ears.listen_ids[-1])

    assert (a.uris, ears.dropped) == (["x:1"], {"listen_refused": 1})
    assert ears.listens[-1] == uris("x:1", "x:2")


async def test_what_is_wanted_while_a_listen_is_refused_is_asked_for_on_its_own(
    world: World, autojump_clock: MockClock
) -> None:
    def picky(server: FakeServer, message: dict[str, Any]) -> None:
        bad = "x:bad" in message["params"]["notifications"]["resourceSubscriptions"]
        server.react(message, after(1, -32602) if bad else acknowledges)

    ears = await started(world, modern(picky))
    refused = ears.interests.subscribe(Ear("a"), "x:bad")
    granted = ears.interests.subscribe(Ear("b"), "x:1")
    with pytest.raises(Refused):
        await refused.wait()
    await ears.granted(granted)

    assert ears.listens == [uris("x:bad"), uris("x:1")]


async def test_a_uri_may_be_called_like_a_list(world: World, autojump_clock: MockClock) -> None:
    ears, a = await started(world), Ear("a")
    ears.interests.hear_lists(["tools"])
    await ears.subscribe(a, "tools")
    lists, resources = ears.listen_ids
    ears.notify("tools/list_changed", resources)
    ears.updated("tools", lists)

    assert (ears.lists, a.uris, ears.dropped) == ([], [], {"foreign_subscription": 2})


async def test_a_server_that_offers_no_subscriptions_is_not_asked(world: World, autojump_clock: MockClock) -> None:
    ears = await started(world, modern(capabilities={"resources": {}}))

    assert isinstance(await refusal(ears, Ear("a"), "x:1"), BadRequest)
    assert ears.listens == []


async def test_a_server_that_acknowledges_nothing_costs_the_time_of_a_call(
    world: World, autojump_clock: MockClock
) -> None:
    ears = await started(world, modern(None))
    problem = await refusal(ears, Ear("a"), "x:1")

    assert isinstance(problem, CallTimeout)
    assert (trio.current_time(), ears.interests.wanted) == (30, False)


async def test_a_wish_from_before_the_start_is_granted_by_whoever_starts(
    world: World, autojump_clock: MockClock
) -> None:
    ears = Ears(world, modern())
    outcome = ears.interests.subscribe(Ear("a"), "x:1")
    await ears.slot.start()
    await ears.granted(outcome)

    assert ears.listens == [uris("x:1")]
