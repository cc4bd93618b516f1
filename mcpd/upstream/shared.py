"""Work that is done once for all who want it while it is done."""

from __future__ import annotations

import copy
import math
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import trio

from mcpd.errors import McpdError

T = TypeVar("T")


class _Run(Generic[T]):
    """One time that it is done."""

    def __init__(self, deadline: float) -> None:
        self.done = trio.Event()
        self.scope = trio.CancelScope(deadline=deadline)
        self.result: T | None = None
        self.problem: McpdError | None = None


class Shared(Generic[T]):
    """Does a piece of work when asked, in a task of its own: no waiter that goes away takes it along.

    Args:
        nursery: where it runs.
        seconds: how long it may take.
        late: makes the error of one that took longer.
    """

    def __init__(self, nursery: trio.Nursery, seconds: float, late: Callable[[], McpdError]) -> None:
        self._nursery, self._seconds, self._late = nursery, seconds, late
        self._run: _Run[T] | None = None
        self._latest = math.inf

    async def of(self, work: Callable[[], Awaitable[T]]) -> T:
        """Wait for what is being done, or do `work`; all who wait get the same outcome.

        Raises:
            McpdError: It failed; each gets an error of its own.
        """
        if (run := self._run) is None:
            run = self._run = _Run[T](min(trio.current_time() + self._seconds, self._latest))
            self._nursery.start_soon(self._do, run, work)
        await run.done.wait()
        if run.problem is not None:
            raise copy.copy(run.problem)
        return run.result  # type: ignore[return-value]  # it was set: there is no problem

    def hurry(self, seconds: float) -> None:
        """Give what is being done, or will be, no more than that."""
        self._latest = trio.current_time() + seconds
        if self._run is not None:
            self._run.scope.deadline = min(self._run.scope.deadline, self._latest)

    async def _do(self, run: _Run[T], work: Callable[[], Awaitable[T]]) -> None:
        run.problem = self._late()  # until it is known better
        try:
            with run.scope:
                run.result = await work()
                run.problem = None
        except McpdError as problem:
            run.problem = problem
        finally:
            self._run = None
            run.done.set()
