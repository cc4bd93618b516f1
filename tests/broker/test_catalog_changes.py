"""What becomes of a list when its server says that it has changed, or is another incarnation."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from mcpd.config.model import Limits, Tools
from tests.broker.desk import Desk
from tests.broker.lists import changed, known, lists, names, tools, walks
from tests.upstream.fakes import INITIALIZED, FakeServer, World, after, dies


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    return World(nursery)


def told(desk: Desk) -> list[tuple[str, int, list[str]]]:
    """Return what will be told of changes: kind, revision, names."""
    kept: list[tuple[str, int, list[str]]] = []
    desk.catalog.on_change = lambda kind, listing: kept.append((kind, listing.revision, [*listing.names]))
    return kept


def numbered() -> Any:
    """Answer with another list every time."""
    count = iter(range(1_000_000))

    def answer(server: FakeServer, message: dict[str, Any]) -> None:
        server.react(message, tools(f"t{next(count)}"))

    return answer


# -- one change, one refetch, one event ----------------------------------------------------------


async def test_a_change_is_fetched_and_told_once_though_nobody_asks(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, lists(tools("a"), tools("a", "b")))
    events = told(desk)
    await names(desk)

    changed(world)
    await wait_all_tasks_blocked()

    assert (events, walks(world)) == ([("tools", 2, ["a", "b"])], 2)
    assert (await names(desk), walks(world)) == ((["a", "b"], False), 2)


async def test_a_list_that_nobody_has_asked_for_is_not_fetched(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, lists(tools("a")))
    events = told(desk)
    await desk.slot.start()

    changed(world)
    await trio.sleep(10)

    assert (events, walks(world)) == ([], 0)


async def test_a_list_that_is_the_same_is_told_to_nobody(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, lists(tools("a")))
    events = told(desk)
    await names(desk)

    changed(world)
    await trio.sleep(10)

    assert (events, walks(world), known(desk).revision) == ([], 2, 1)


async def test_who_asks_while_it_is_fetched_again_joins(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, lists(tools("a"), after(1, tools("b"))))
    await names(desk)
    changed(world)

    async with trio.open_nursery() as callers:
        for _ in range(64):
            callers.start_soon(names, desk)

    assert (await names(desk), walks(world)) == ((["b"], False), 2)


async def test_a_change_that_was_not_declared_is_believed(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, lists(tools("a"), tools("b"), initialize=INITIALIZED))
    await names(desk)

    changed(world)
    await wait_all_tasks_blocked()

    assert walks(world) == 2
    assert await names(desk) == (["b"], False)


async def test_a_change_of_resources_is_one_of_their_templates_too(world: World, autojump_clock: MockClock) -> None:
    script = {
        **lists(tools("a")),
        "resources/list": {"resources": [{"uri": "x:1", "name": "one"}]},
        "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "x:{n}", "name": "any"}]},
    }
    desk = Desk(world, script)
    for kind in ("resources", "templates", "tools"):
        await names(desk, kind)

    changed(world, "resources")
    await wait_all_tasks_blocked()

    counts = [walks(world, method) for method in ("resources/list", "resources/templates/list", "tools/list")]
    assert counts == [2, 2, 1]


async def test_the_filter_is_applied_to_what_is_new(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, lists(tools("get_a"), tools("get_a", "set_a"), tools("get_b")), tools=Tools(deny=("set_*",)))
    events = told(desk)
    await names(desk)

    changed(world)
    await trio.sleep(1)
    assert (events, known(desk).names.keys()) == ([], {"get_a"})
    changed(world)
    await trio.sleep(1)
    assert events == [("tools", 2, ["get_b"])]


async def test_a_call_of_a_tool_that_goes_meanwhile_is_not_disturbed(world: World, autojump_clock: MockClock) -> None:
    script = {**lists(tools("t"), tools("other")), "tools/call": after(5, {"content": []})}
    desk = Desk(world, script)
    client = desk.client()
    await names(desk)
    call = client.call("t")

    changed(world)
    await trio.sleep(1)

    assert [*known(desk).names] == ["other"]
    assert (await client.outcome(call))["content"] == []


# -- storms --------------------------------------------------------------------------------------


async def test_what_is_announced_during_a_refetch_is_fetched_exactly_once_more(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, lists(tools("a"), after(1, tools("b")), tools("c")))
    events = told(desk)
    await names(desk)
    changed(world)
    await trio.sleep(0.5)

    for _ in range(100):
        changed(world)
    await trio.sleep(30)

    assert walks(world) == 3
    assert events == [("tools", 2, ["b"]), ("tools", 3, ["c"])]


async def test_a_storm_is_fetched_at_once_and_then_four_times_a_second(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, lists(numbered()))
    events = told(desk)
    await names(desk)

    changed(world)
    await wait_all_tasks_blocked()
    assert walks(world) == 2
    for _ in range(100):
        changed(world)
        await trio.sleep(0.01)
    await trio.sleep(30)

    assert walks(world) == 2 + 4
    assert len(events) == 5


async def test_a_server_that_says_changed_whenever_it_is_asked_is_asked_more_and_more_slowly(
    world: World, autojump_clock: MockClock
) -> None:
    def answer(server: FakeServer, message: dict[str, Any]) -> None:
        server.react(message, tools("a"))
        changed(world)

    desk = Desk(world, lists(answer))
    await names(desk)
    await trio.sleep(60)

    assert 30 <= walks(world) <= 35  # 60 s by 2 s, and the first few


# -- a refetch that fails ------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [-32603, {"tools": 7}, None, tools("a", "b", "c", "d")])
async def test_a_refetch_that_fails_leaves_the_list_which_is_stale_and_says_why(
    world: World, autojump_clock: MockClock, failure: Any
) -> None:
    desk = Desk(world, lists(tools("a"), failure), limits=Limits(items=3))
    events = told(desk)
    await names(desk)

    changed(world)
    await trio.sleep(40)

    assert desk.catalog.failed("tools")
    assert desk.catalog.counts["failed"] == 1
    why = desk.catalog.problem("tools")
    assert why is not None
    assert why.message.startswith("server 'fake'")
    assert (events, walks(world), await names(desk)) == ([], 2, (["a"], True))


async def test_a_refetch_that_failed_is_told_of_when_it_succeeds(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, lists(tools("a"), -32603, tools("b")))
    events = told(desk)
    await names(desk)
    changed(world)
    await trio.sleep(1)

    assert await names(desk) == (["b"], False)
    assert events == [("tools", 2, ["b"])]
    assert not desk.catalog.failed("tools")


async def test_who_was_told_that_there_is_no_list_hears_of_the_first_one(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, lists(-32603, tools("a")))
    events = told(desk)
    with pytest.raises(Exception, match="refused tools/list"):
        await names(desk)

    changed(world)
    await wait_all_tasks_blocked()

    assert events == [("tools", 1, ["a"])]


# -- another incarnation -------------------------------------------------------------------------


async def test_another_incarnation_is_asked_for_what_somebody_has_asked_for(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, lists(tools("a"), tools("b")))
    events = told(desk)
    await names(desk)
    await desk.slot.stop()
    await desk.slot.start()
    session = desk.slot.session
    assert session is not None

    desk.catalog.on_ready(session)
    await wait_all_tasks_blocked()

    assert events == [("tools", 2, ["b"])]
    assert world.servers[1].methods.count("tools/list") == 1
    assert not {"prompts/list", "resources/list"} & {*world.servers[1].methods}


async def test_an_incarnation_that_ends_on_the_question_leaves_the_old_list(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, lists(tools("a"), dies, tools("b")))
    await names(desk)
    changed(world)
    await trio.sleep(1)
    assert await names(desk) == (["a"], True)

    await desk.slot.start()
    session = desk.slot.session
    assert session is not None
    desk.catalog.on_ready(session)
    await trio.sleep(1)

    assert await names(desk) == (["b"], False)
    assert walks(world) == 3


async def test_only_what_is_asked_for_is_wanted(world: World, autojump_clock: MockClock) -> None:
    desk, asked = Desk(world, lists(tools("a"), initialize=INITIALIZED)), list[str]()
    desk.catalog.on_wanted = asked.append
    assert desk.catalog.wanted == frozenset()

    for kind in ("tools", "templates", "tools"):
        await names(desk, kind)

    assert desk.catalog.wanted == {"tools", "templates"}
    assert asked == ["tools", "templates"]
