"""Runs one incarnation as a task of its own; what ends it concerns nobody else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import trio

from mcpd.errors import McpdError, ServerUnavailable, first_leaf

from .around import Surroundings
from .eras import unasked_era
from .incarnation import Incarnation


async def live(
    one: Incarnation, around: Surroundings, project: str | None, ended: Callable[[McpdError | None], None]
) -> None:
    """Run it to its end, then call `ended` in a batch with the problem that it ended for, if it was one."""
    problem: McpdError | None = None
    try:
        launch, era = around.expanded(one.server, project), unasked_era(around.eras, one.server)
        if launch.url is None:
            await one.run(launch, era)
        else:
            # What breaks in a task of its transport is this incarnation's affair.
            async with trio.open_nursery() as tasks:
                one.home = replace(around, nursery=tasks)
                await one.run(launch, era)
                tasks.cancel_scope.cancel()  # nobody waits for what a command prints any more
    except* McpdError as group:
        problem = first_leaf(group)
    # One of the three places that catch everything: a bug in one upstream costs that upstream.
    except* Exception as group:  # noqa: BLE001
        bug = repr(first_leaf(group))
        problem = ServerUnavailable(f"mcpd failed to run server '{one.server.name}': {bug}")
        around.note("crashed", one, problem=bug)
    finally:
        around.mover.batch(lambda: ended(problem))
