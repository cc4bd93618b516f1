"""Deadlines that are over hold on to nothing."""

from __future__ import annotations

import weakref

from mcpd.timers import Timers


class Thing:
    """Something with a deadline, and with much besides."""

    over = False

    def due(self) -> None:
        """Nothing: nobody serves the deadlines here."""


async def test_what_is_over_is_let_go_long_before_its_deadline() -> None:
    timers = Timers()
    seen = []
    for _ in range(1000):
        thing = Thing()
        timers.watch(3600.0, thing)
        thing.over = True
        timers.died()
        seen.append(weakref.ref(thing))
    del thing

    assert sum(one() is not None for one in seen) <= 64
    assert len(timers) == 0
