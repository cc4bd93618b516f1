"""So many servers may be busy starting at once; who only waits lends his place."""

from __future__ import annotations

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from mcpd.timers import Timers
from mcpd.upstream.crowd import LOOK_SECONDS, Busy, Crowd


class Starts:
    """Starts that hold a place until they are told to leave."""

    def __init__(self, nursery: trio.Nursery, places: int) -> None:
        self.busy = set[int]()
        self.timers = Timers()
        nursery.start_soon(self.timers.run)
        self.crowd = Crowd(self.timers, places, self.busy.__contains__)
        self.nursery, self.inside = nursery, list[int]()
        self.scopes = dict[int, trio.CancelScope]()

    async def start(self, *numbers: int) -> None:
        for number in numbers:
            self.nursery.start_soon(self._enter, number)
            await wait_all_tasks_blocked()

    async def _enter(self, number: int) -> None:
        with trio.CancelScope() as self.scopes[number]:
            await self.crowd.enter(number, lambda: number)
            self.inside.append(number)


async def test_only_so_many_start_at_once_and_the_rest_in_order(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    starts = Starts(nursery, 2)
    starts.busy |= {1, 2, 3, 4}

    await starts.start(1, 2, 3, 4)
    assert starts.inside == [1, 2]
    starts.crowd.leave(2)
    await wait_all_tasks_blocked()

    assert starts.inside == [1, 2, 3]


async def test_who_does_not_use_the_processor_lends_his_place(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    starts = Starts(nursery, 2)
    starts.busy |= {2, 3}

    await starts.start(1, 2, 3)
    await trio.sleep(LOOK_SECONDS * 1.5)

    assert starts.inside == [1, 2, 3]
    starts.crowd.leave(1)
    await starts.start(4)
    assert starts.inside == [1, 2, 3]


async def test_who_is_given_up_while_waiting_takes_no_place(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    starts = Starts(nursery, 1)
    starts.busy |= {1, 2, 3}
    await starts.start(1, 2, 3)

    starts.scopes[2].cancel()
    await wait_all_tasks_blocked()
    starts.crowd.leave(1)
    await wait_all_tasks_blocked()

    assert starts.inside == [1, 3]


def test_a_process_is_busy_when_its_time_has_grown() -> None:
    import os

    busy = Busy()

    assert busy(os.getpid())
    sum(range(5_000_000))
    assert busy(os.getpid())
    assert busy(1 << 30)
    assert not busy(1 << 30)
