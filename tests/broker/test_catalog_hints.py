"""How long a list is good: what its server promises, and what it does not."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.broker.desk import Desk
from tests.broker.lists import TELLS, known, lists, names, tools, walks
from tests.upstream.fakes import DISCOVERED, Reaction, Script, World, after


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    return World(nursery)


def modern(*answers: Reaction, declares: bool = False) -> Script:
    capabilities = TELLS["capabilities"] if declares else {}
    return {**lists(*answers), "server/discover": {**DISCOVERED, "capabilities": capabilities}}


def hinted(*names: str, ttl: Any = 5000, scope: Any = "public", **more: Any) -> dict[str, Any]:
    return tools(*names, ttlMs=ttl, cacheScope=scope, **more)


async def test_a_list_is_good_for_as_long_as_its_server_promised(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, modern(hinted("a"), hinted("b")))
    await names(desk)

    await trio.sleep(4.9)
    assert (await names(desk), walks(world)) == ((["a"], False), 1)
    await trio.sleep(0.2)
    assert (await names(desk), walks(world)) == ((["b"], False), 2)


@pytest.mark.parametrize("ttl", [0, -1, 1.5, "5000", True, None, [5000]])
async def test_what_promises_nothing_is_asked_for_again(world: World, autojump_clock: MockClock, ttl: Any) -> None:
    desk = Desk(world, modern(hinted("a", ttl=ttl), hinted("b")))
    await names(desk)

    assert known(desk).ttl_ms_left(trio.current_time()) == 0
    assert await names(desk) == (["b"], False)


async def test_a_change_ends_a_promise(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, modern(hinted("a", ttl=60_000), after(1, hinted("b"))))
    await names(desk)
    world.mover.batch(lambda: desk.catalog.list_changed("tools"))

    assert known(desk).ttl_ms_left(trio.current_time()) == 0
    assert await names(desk) == (["b"], False)


async def test_a_list_is_as_good_and_as_public_as_its_worst_page(world: World, autojump_clock: MockClock) -> None:
    pages = (
        hinted("a", ttl=5000, nextCursor="2"),
        after(2, hinted("b", ttl=9000, nextCursor="3")),
        hinted("c", ttl=8000, scope="private"),
    )
    desk = Desk(world, modern(*pages))
    await names(desk)
    now = trio.current_time()

    assert known(desk).cache_scope == "private"
    assert [known(desk).ttl_ms_left(now + later) for later in (0, 1, 2.5, 4)] == [3000, 2000, 500, 0]


@pytest.mark.parametrize(
    ("scope", "kept"), [("public", "public"), ("private", "private"), ("all", "private"), (1, "private")]
)
async def test_only_what_is_called_public_is(world: World, autojump_clock: MockClock, scope: Any, kept: str) -> None:
    desk = Desk(world, modern(hinted("a", scope=scope)))
    await names(desk)

    assert known(desk).cache_scope == kept


async def test_a_legacy_server_promises_nothing_and_its_list_is_private(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, lists(tools("a")))
    await names(desk)

    assert (known(desk).ttl_ms_left(trio.current_time()), known(desk).cache_scope) == (0, "private")


@pytest.mark.parametrize(("declares", "hears", "asked"), [(True, True, 1), (True, False, 2), (False, True, 2)])
async def test_after_its_time_a_list_is_good_only_while_changes_are_heard_of(
    world: World, autojump_clock: MockClock, declares: bool, hears: bool, asked: int
) -> None:
    desk = Desk(world, modern(hinted("a"), declares=declares))
    desk.catalog.hears_changes = lambda kind: hears and kind == "tools"
    await names(desk)
    await trio.sleep(200)

    assert await names(desk) == (["a"], False)
    assert walks(world) == asked


async def test_what_may_have_changed_unheard_is_fetched_again(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, modern(hinted("a"), hinted("b"), declares=True))
    desk.catalog.hears_changes = lambda kind: True
    await names(desk)

    world.mover.batch(lambda: desk.catalog.changed("tools"))
    await wait_all_tasks_blocked()

    assert walks(world) == 2
    assert await names(desk) == (["b"], False)
