"""The requests of one connection that have to wait for something: each runs as a task of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from mcpd.errors import McpdError, first_leaf
from mcpd.mover import Mover
from mcpd.protocol import jsonrpc

from .handler import Control

if TYPE_CHECKING:
    from .connection import Connection

Work = Callable[[], Awaitable[object]]
Refusal = Callable[[McpdError], dict[str, Any]]


class Tasks:
    """The tasks of a connection.

    Attributes:
        lasting: requests that are answered only when they end, as `subscriptions/listen`.
    """

    def __init__(self, connection: Connection, mover: Mover, nursery: trio.Nursery, control: Control) -> None:
        self._connection, self._mover, self._nursery, self._control = connection, mover, nursery, control
        self.lasting: dict[bytes, trio.CancelScope] = {}

    def start(self, request_id: bytes, work: Work, refusal: Refusal, *, lasts: bool) -> None:
        """Run a request; see `Connection.start`."""
        scope = trio.CancelScope()
        table: dict[bytes, Any] = self.lasting if lasts else self._connection.calls
        table[request_id] = scope
        self._mover.leave = True
        self._nursery.start_soon(self._serve, request_id, scope, work, refusal)

    async def _serve(self, request_id: bytes, scope: trio.CancelScope, work: Work, refusal: Refusal) -> None:
        with scope:
            try:
                await trio.lowlevel.checkpoint_if_cancelled()  # of what is given up already nothing is done
                result = await work()
                self._mover.batch(lambda: self._done(request_id, result, scope))
            except* McpdError as group:
                error = refusal(first_leaf(group))
                self._mover.batch(lambda: self.failed(request_id, error, scope))
            # One of the three places that catch everything: a bug in one request costs that request.
            except* Exception as group:  # noqa: BLE001
                self._control.crashed(self._connection, first_leaf(group))
                body = {"code": jsonrpc.INTERNAL_ERROR, "message": "mcpd failed to handle this request; see its log"}
                self._mover.batch(lambda: self.failed(request_id, body, scope))

    def _forget(self, request_id: bytes, scope: trio.CancelScope) -> bool:
        """Whether the request is still waited for: else it was cancelled, or its id is another one's by now."""
        for table in (self._connection.calls, self.lasting):
            if table.get(request_id) is scope:
                del table[request_id]
                return True
        return False

    def _done(self, request_id: bytes, result: object, scope: trio.CancelScope) -> None:
        if self._forget(request_id, scope):
            self._connection.answer(request_id, result)

    def failed(self, request_id: bytes, error: dict[str, Any], scope: trio.CancelScope) -> None:
        """Answer a request with an error, if it is still waited for."""
        if self._forget(request_id, scope):
            self._connection.send(jsonrpc.refusal(request_id, msgspec.json.encode(error)))
            self._connection.settle()

    def end(self, request_id: bytes) -> None:
        """End a request that lasts; nobody is answered. Idempotent."""
        if (scope := self.lasting.pop(request_id, None)) is not None:
            self._mover.leave = True
            scope.cancel()

    def close(self) -> None:
        """End all that last. Idempotent."""
        for request_id in list(self.lasting):
            self.end(request_id)
