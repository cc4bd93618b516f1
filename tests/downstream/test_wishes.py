"""`mcpd/subscribe` and `mcpd/unsubscribe`, as they come one behind the other: the last one counts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from mcpd.downstream.wishes import SubscribeParams, Wishes
from tests.broker.ears import legacy, modern
from tests.downstream.hall import Hall, Line
from tests.upstream.fakes import Script, after

URI = SubscribeParams("one", "x:y")
SLOW: Script = {**legacy(), "resources/subscribe": after(1, {})}


class Eager(Line):
    """A client whose work begins at once."""

    def __init__(self, nursery: trio.Nursery) -> None:
        super().__init__()
        self._nursery = nursery

    def start(self, request_id: bytes, work: Callable[[], Awaitable[object]]) -> None:
        self._nursery.start_soon(self._serve, request_id, work)

    async def _serve(self, request_id: bytes, work: Callable[[], Awaitable[object]]) -> None:
        self.answer(request_id, await work())


@pytest.mark.parametrize("script", [legacy(), modern(), SLOW])
@pytest.mark.parametrize("seconds", [None, 0.0, 0.5, 1.5])
@pytest.mark.parametrize(("words", "hears"), [("+-", False), ("+-+", True), ("++-", False), ("-+", True)])
async def test_the_last_word_counts_wherever_the_one_before_has_got_to(
    nursery: trio.Nursery, autojump_clock: MockClock, script: Script, seconds: float | None, words: str, hears: bool
) -> None:
    hall = Hall(nursery, {"one": {**script, "server/discover": _later(script)}}, scope="user")
    wishes, line = Wishes(hall.broker), Eager(nursery)
    client: Any = line

    for word in words:
        (wishes.subscribe if word == "+" else wishes.unsubscribe)(client, b"1", URI)
        if seconds is not None:
            await trio.sleep(seconds)
    await trio.sleep(60)

    assert line.results == [{}] * len(words)
    assert bool(hall.place("one").interests.leave("line")) is hears


async def test_who_unsubscribes_from_one_resource_keeps_the_wish_for_another(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"one": legacy()}, scope="user")
    wishes, line = Wishes(hall.broker), Eager(nursery)
    client: Any = line

    wishes.subscribe(client, b"1", SubscribeParams("one", "x:other"))
    wishes.subscribe(client, b"2", URI)
    wishes.unsubscribe(client, b"3", URI)
    await trio.sleep(60)

    assert hall.place("one").interests.leave("line") == ["x:other"]


def _later(script: Script) -> Any:
    """Answer the first question a second later than the script does."""
    answer: Any = script["server/discover"]
    return after(1, answer)
