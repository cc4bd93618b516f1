"""The lists of one upstream: fetched once for all who ask, and kept for when they cannot be had."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from mcpd.config.model import Limits, Tools
from mcpd.errors import CallTimeout, McpdError, ServerLost, ServerProtocol, ServerUnavailable
from tests.broker.desk import Desk
from tests.broker.lists import changed, known, lists, names, problem, tools, walks
from tests.upstream.fakes import DISCOVERED, INITIALIZED, LEGACY, MODERN, Script, World, after, dies


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    return World(nursery)


# -- one walk ------------------------------------------------------------------------------------


async def test_one_walk_serves_all_who_ask(world: World, autojump_clock: MockClock) -> None:
    desk, found = Desk(world, lists(after(1, tools("a", "b")))), list[object]()

    async def ask() -> None:
        found.append(await names(desk))

    async with trio.open_nursery() as callers:
        for _ in range(10):
            callers.start_soon(ask)

    assert found == [(["a", "b"], False)] * 10
    assert (world.spawns, walks(world)) == (1, 1)


async def test_a_caller_that_leaves_does_not_end_the_walk_of_the_others(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, lists(after(3, tools("a"))))
    with trio.move_on_after(1):
        await names(desk)

    assert await names(desk) == (["a"], False)
    assert (walks(world), trio.current_time()) == (1, 3)


async def test_all_pages_are_fetched(world: World, autojump_clock: MockClock) -> None:
    pages = lists(tools("a", "b", nextCursor="p2"), tools("c", nextCursor=""), tools("d"))
    desk = Desk(world, pages)

    assert await names(desk) == (["a", "b", "c", "d"], False)
    params = [one["params"] for one in world.servers[0].messages if one["method"] == "tools/list"]
    assert params == [{}, {"cursor": "p2"}, {"cursor": ""}]


async def test_a_modern_server_is_asked_in_the_modern_way(world: World, autojump_clock: MockClock) -> None:
    first, second = tools("a", nextCursor="p2"), tools("b")
    desk = Desk(world, {**lists(first, second), "server/discover": DISCOVERED})

    assert await names(desk) == (["a", "b"], False)
    params = [one["params"] for one in world.servers[0].messages if one["method"] == "tools/list"]
    assert [sorted(one) for one in params] == [["_meta"], ["_meta", "cursor"]]


# -- how long a list is good ---------------------------------------------------------------------


async def test_a_list_is_good_until_the_server_says_that_it_has_changed(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, lists(tools("a"), tools("a", "b")))
    await names(desk)
    await trio.sleep(200)
    assert (await names(desk), walks(world)) == ((["a"], False), 1)

    changed(world)

    assert walks(world) == 1
    async with trio.open_nursery() as callers:
        for _ in range(10):
            callers.start_soon(names, desk)
    assert (await names(desk), walks(world)) == ((["a", "b"], False), 2)


async def test_a_change_during_a_walk_is_not_forgotten(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, lists(tools("a", nextCursor="p2"), after(2, tools("b")), tools("a", "b", "c")))
    async with trio.open_nursery() as callers:
        callers.start_soon(names, desk)
        await trio.sleep(1)
        changed(world)

    assert await names(desk) == (["a", "b", "c"], False)


async def test_a_server_that_never_says_so_is_asked_again_after_a_minute(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, lists(tools("a"), tools("b"), initialize=INITIALIZED))
    await names(desk)

    await trio.sleep(59)
    assert await names(desk) == (["a"], False)
    await trio.sleep(1)
    assert await names(desk) == (["b"], False)


async def test_another_incarnation_may_have_another_list(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, lists(tools("a"), tools("b")))
    await names(desk)
    await desk.slot.stop()
    await desk.slot.start()

    assert await names(desk) == (["b"], False)


async def test_a_list_is_fetched_anew_for_who_insists(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, lists(tools("a"), tools("b")))
    await names(desk)

    assert await names(desk, fresh=True) == (["b"], False)


async def test_the_list_of_an_upstream_that_is_not_running_is_stale_and_starts_nothing(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, lists(tools("a"), tools("b")))
    await names(desk)
    await desk.slot.stop()

    assert await names(desk) == (["a"], True)
    assert world.spawns == 1
    assert await names(desk, fresh=True) == (["b"], False)
    assert world.spawns == 2


async def test_the_revision_counts_up_only_when_something_is_different(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, lists(tools("a"), tools("a"), tools("b"), tools("a")))
    revisions = []
    for _ in range(4):
        await names(desk, fresh=True)
        revisions.append(known(desk).revision)

    assert revisions == [1, 1, 2, 3]


async def test_resources_and_their_templates_change_together(world: World, autojump_clock: MockClock) -> None:
    script: Script = {
        **lists(tools("a")),
        "resources/list": {"resources": [{"uri": "x:1", "name": "one"}]},
        "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "x:{n}", "name": "any"}]},
    }
    desk = Desk(world, script)
    for kind, item in (("resources", "x:1"), ("templates", "x:{n}"), ("tools", "a")):
        assert await names(desk, kind) == ([item], False)

    changed(world, "resources")
    for kind in ("resources", "templates", "tools"):
        await names(desk, kind)

    counts = [walks(world, method) for method in ("resources/list", "resources/templates/list", "tools/list")]
    assert counts == [2, 2, 1]


# -- what cannot be had --------------------------------------------------------------------------


async def test_a_walk_that_fails_leaves_the_old_list_which_is_stale(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, lists(tools("a"), -32603, {"tools": 7}, tools("b")))
    await names(desk)
    changed(world)

    assert await names(desk) == (["a"], True)
    assert await names(desk) == (["a"], True)
    assert await names(desk) == (["b"], False)
    assert walks(world) == 4


async def test_a_first_walk_that_fails_is_an_error_and_the_next_one_may_not(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, lists(-32603, {"wrong": []}, tools("a")))

    refused, malformed = await problem(desk), await problem(desk)

    assert isinstance(refused, ServerProtocol)
    assert (refused.message, refused.server) == ("server 'fake' refused tools/list: no", "fake")
    assert (malformed.message, malformed.server) == ("server 'fake': the answer has no `tools` member", "fake")
    assert await names(desk) == (["a"], False)


async def test_a_server_that_does_not_start_has_no_list(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, {"server/discover": -32601, "initialize": -32000})

    assert isinstance(await problem(desk), ServerUnavailable)


async def test_a_server_that_ends_on_the_question_has_no_list(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, lists(dies))

    assert isinstance(await problem(desk), ServerLost)


async def test_a_walk_ends_after_half_a_minute_and_the_server_is_told(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, lists(tools("a", nextCursor="p2"), None))

    told = await problem(desk)

    assert isinstance(told, CallTimeout)
    assert told.message == "server 'fake' did not list its tools within 30 s"
    assert (trio.current_time(), world.servers[0].methods[-1]) == (30, "notifications/cancelled")


@pytest.mark.parametrize("kind", ["tools", "prompts", "resources", "templates"])
async def test_a_server_that_does_not_know_the_method_has_an_empty_list(
    world: World, autojump_clock: MockClock, kind: str
) -> None:
    everything = {**INITIALIZED, "capabilities": {"tools": {}, "prompts": {}, "resources": {}}}
    unknown = dict.fromkeys(("tools/list", "prompts/list", "resources/list", "resources/templates/list"), -32601)
    desk = Desk(world, {**LEGACY, "initialize": everything, **unknown})

    assert await names(desk, kind) == ([], False)


async def test_what_a_server_does_not_declare_is_not_asked_for_except_tools(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, {**MODERN, "tools/list": tools("a")})

    for kind, found in (("tools", ["a"]), ("prompts", []), ("resources", []), ("templates", [])):
        assert await names(desk, kind) == (found, False)

    assert world.servers[0].methods == ["server/discover", "tools/list"]


# -- half a list ---------------------------------------------------------------------------------


async def test_a_list_that_does_not_end_is_kept_as_far_as_it_goes(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, lists(tools("a", nextCursor="x"), tools("b", nextCursor="x")))

    assert await names(desk) == (["a", "b"], False)
    assert known(desk).incomplete == "a cursor came twice: 'x'"


async def test_half_a_list_does_not_replace_a_whole_one(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, lists(tools("a", "b"), tools("a", "b", "c", "d")), limits=Limits(items=3))
    await names(desk)
    changed(world)

    assert await names(desk) == (["a", "b"], True)
    assert known(desk).incomplete is None


async def test_an_item_that_cannot_be_used_is_set_aside(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, lists({"tools": [{"name": "a"}, {"nam": "b"}, 7, {"name": "c"}, {"name": "a"}]}))

    assert await names(desk) == (["a", "c"], False)
    assert [text.partition(":")[0] for text in known(desk).set_aside] == ["item 2", "item 3", "item 5"]


# -- the policy ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "seen"),
    [
        (Tools(), ["get_a", "set_a", "Get_b"]),
        (Tools(allow=("get_*",)), ["get_a"]),
        (Tools(deny=("set_*",)), ["get_a", "Get_b"]),
        (Tools(allow=("*_a",), deny=("set_a",)), ["get_a"]),
        (Tools(allow=("*_a", "Get_b"), deny=("*",)), []),
        (Tools(allow=()), []),
        (Tools(allow=("[gG]et_?",)), ["get_a", "Get_b"]),
    ],
)
async def test_a_tool_that_the_entry_denies_is_neither_listed_nor_called(
    world: World, autojump_clock: MockClock, policy: Tools, seen: list[str]
) -> None:
    desk = Desk(world, lists(tools("get_a", "set_a", "Get_b")), tools=policy)
    client = desk.client()

    assert await names(desk) == (seen, False)
    for name in ("get_a", "set_a", "Get_b"):
        if name in seen:
            await client.body(client.call(name))
        else:
            with pytest.raises(McpdError, match=f"tool '{name}' of server 'fake' is denied by its entry"):
                client.call(name)
    await wait_all_tasks_blocked()
    assert world.servers[0].calls == [name for name in ("get_a", "set_a", "Get_b") if name in seen]
