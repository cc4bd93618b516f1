"""Log messages: the level that a server is told, and who hears what."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from mcpd.broker.levels import LEVELS
from mcpd.errors import BadRequest
from tests.broker.ears import Ear, Ears, legacy, modern
from tests.upstream.fakes import World, after


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    return World(nursery)


async def started(world: World, script: Any) -> Ears:
    ears = Ears(world, script)
    await ears.slot.start()
    return ears


async def levels(ears: Ears) -> list[str]:
    """Return the levels that the running server was told."""
    await wait_all_tasks_blocked()
    return [one["params"]["level"] for one in ears.sent("logging/setLevel")]


def logs(ears: Ears, *levels: str) -> None:
    """Let the server log one message of each level, which it also says."""
    for level in levels:
        ears.notify("message", level=level, data=level)


# -- legacy --------------------------------------------------------------------------------------


async def test_the_server_is_told_the_most_verbose_level_that_anybody_wants_when_that_changes(
    world: World, autojump_clock: MockClock
) -> None:
    ears, a, b = await started(world, legacy()), Ear("a"), Ear("b")
    for client, level in ((a, "warning"), (b, "error"), (b, "debug"), (a, "info")):
        ears.interests.level(client, level)
        await wait_all_tasks_blocked()

    assert await levels(ears) == ["warning", "debug"]

    ears.interests.forget("b")
    assert await levels(ears) == ["warning", "debug", "info"]


async def test_each_client_hears_its_own_level_and_above(world: World, autojump_clock: MockClock) -> None:
    ears, a, b, c = await started(world, legacy()), Ear("a"), Ear("b"), Ear("c")
    ears.interests.level(a, "debug")
    ears.interests.level(b, "error")
    logs(ears, *LEVELS)

    assert a.messages == list(LEVELS)
    assert b.messages == ["error", "critical", "alert", "emergency"]
    assert c.messages == []
    assert b.heard[0][1] == {"level": "error", "data": "error", "_meta": {"mcpd/server": "fake"}}


async def test_a_message_of_a_level_that_is_none_counts_as_info(world: World, autojump_clock: MockClock) -> None:
    ears, a, b = await started(world, legacy()), Ear("a"), Ear("b")
    ears.interests.level(a, "info")
    ears.interests.level(b, "notice")
    logs(ears, "chatty")
    ears.notify("message", data="none")
    ears.notify("message", level=3, data="a number")

    assert (a.messages, b.messages) == (["chatty", "none", "a number"], [])


async def test_what_nobody_asked_for_is_counted_and_dropped(world: World, autojump_clock: MockClock) -> None:
    ears, a = await started(world, legacy()), Ear("a")
    logs(ears, "emergency")
    ears.interests.level(a, "error")
    logs(ears, "debug")
    ears.interests.level(a, None)
    logs(ears, "emergency")

    assert (a.messages, ears.dropped) == ([], {"unheard_message": 3})


async def test_a_server_is_quieted_when_the_last_client_has_left_and_left_alone_if_nobody_ever_asked(
    world: World, autojump_clock: MockClock
) -> None:
    ears, a = await started(world, legacy()), Ear("a")
    ears.interests.forget("a")
    assert await levels(ears) == []

    ears.interests.level(a, "info")
    await wait_all_tasks_blocked()
    ears.interests.forget("a")
    assert await levels(ears) == ["info", "emergency"]

    await ears.restart()
    assert await levels(ears) == []


async def test_the_next_incarnation_is_told_again(world: World, autojump_clock: MockClock) -> None:
    ears, a = Ears(world, legacy()), Ear("a")
    ears.interests.level(a, "notice")
    await ears.slot.start()
    assert await levels(ears) == ["notice"]

    await ears.restart()
    assert await levels(ears) == ["notice"]


async def test_a_server_without_logging_is_told_nothing(world: World, autojump_clock: MockClock) -> None:
    ears = await started(world, legacy({}))
    ears.interests.level(Ear("a"), "debug")

    assert await levels(ears) == []


async def test_levels_that_change_faster_than_the_server_answers_cost_one_request_at_a_time(
    world: World, autojump_clock: MockClock
) -> None:
    ears, a = await started(world, legacy(logging_setLevel=after(1, {}))), Ear("a")
    for level in [*LEVELS * 50, "alert"]:
        ears.interests.level(a, level)
    await trio.sleep(10)

    assert await levels(ears) == ["debug", "alert"]


@pytest.mark.parametrize("answer", [-32602, None])
async def test_a_server_that_refuses_a_level_or_never_answers_is_told_the_next_one(
    world: World, autojump_clock: MockClock, answer: int | None
) -> None:
    ears, a = await started(world, legacy(logging_setLevel=answer)), Ear("a")
    ears.interests.level(a, "debug")
    await trio.sleep(100)
    assert ears.dropped == {"level_refused": 1}

    ears.interests.level(a, "error")
    assert await levels(ears) == ["debug", "error"]


async def test_a_level_that_is_none_is_refused_and_changes_nothing(world: World, autojump_clock: MockClock) -> None:
    ears, a = await started(world, legacy()), Ear("a")
    ears.interests.level(a, "error")
    with pytest.raises(BadRequest, match="there is no log level 'loud'"):
        ears.interests.level(a, "loud")

    assert (await levels(ears), ears.interests.level_of("a")) == (["error"], "error")


# -- modern --------------------------------------------------------------------------------------


async def test_a_modern_server_is_told_no_level_but_who_composes_a_request_is(
    world: World, autojump_clock: MockClock
) -> None:
    ears, a = await started(world, modern()), Ear("a")
    ears.interests.level(a, "info")

    assert await levels(ears) == []
    assert (ears.interests.level_of("a"), ears.interests.level_of("b")) == ("info", None)

    ears.interests.forget("a")
    assert ears.interests.level_of("a") is None


async def test_a_message_of_a_modern_server_reaches_the_only_one_who_can_have_asked_for_it_or_nobody(
    world: World, autojump_clock: MockClock
) -> None:
    ears, a, b = await started(world, modern()), Ear("a"), Ear("b")
    ears.interests.level(a, "info")
    ears.interests.level(b, "debug")
    logs(ears, "error")
    ears.sole = a
    logs(ears, "error", "debug")
    ears.sole = Ear("c")
    logs(ears, "error")

    assert (a.messages, b.messages, ears.sole.messages) == (["error"], [], [])
    assert ears.dropped == {"unheard_message": 3}
