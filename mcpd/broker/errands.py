"""What is still being done for a client that has been answered already, until it leaves."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Hashable

import trio

from mcpd.errors import McpdError
from mcpd.upstream.around import Surroundings


class Errands:
    """The errands of all clients.

    They run in the nursery of the upstreams, but end with their client: who has left must not be noted anywhere.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._running: dict[Hashable, dict[Hashable, trio.CancelScope]] = {}

    def begin(self, client: Hashable, name: Hashable, work: Callable[[], Awaitable[object]]) -> None:
        """Do something for a client, unless that is being done already; if it fails, nobody is told."""
        errands = self._running.setdefault(client, {})
        if name not in errands:
            errands[name] = scope = trio.CancelScope()
            self._around.mover.leave = True
            self._around.nursery.start_soon(self._run, client, name, scope, work)

    async def _run(
        self, client: Hashable, name: Hashable, scope: trio.CancelScope, work: Callable[[], Awaitable[object]]
    ) -> None:
        try:
            with scope, contextlib.suppress(McpdError):
                await trio.lowlevel.checkpoint()
                await work()
        finally:
            errands = self._running.get(client, {})
            if errands.get(name) is scope:
                del errands[name]
            if not errands:
                self._running.pop(client, None)

    def end(self, client: Hashable) -> None:
        """Give up all that is being done for a client."""
        for scope in self._running.pop(client, {}).values():
            self._around.mover.leave = True
            scope.cancel()
