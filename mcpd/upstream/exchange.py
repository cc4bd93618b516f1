"""One request to an upstream, from its composition to its one outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import msgspec
import trio
from msgspec import Raw

from mcpd.errors import HttpFailed, McpdError
from mcpd.protocol import jsonrpc
from mcpd.protocol.session import Session

# Behind one address there may be several that do not know each other's sessions.
MAX_RETURNS = 3


class Exchange:
    """One request to an upstream, until it is answered, has failed or was given up.

    Subclasses say what is sent and take the one outcome: `on_result`, `on_error` or `on_failure`.

    Attributes:
        lasting: it may stay open as long as the incarnation that it was sent to, and belongs to that one
            alone: it does not count as in flight, holds up no drain, and is never sent to another.
        returns: how often it came back because its session was not known any more.
    """

    __slots__ = ("frame", "id", "returns")

    lasting: ClassVar[bool] = False

    def __init__(self) -> None:
        self.id = b""
        self.frame: bytes = b""
        self.returns = 0

    def compose(self, session: Session, request_id: bytes) -> tuple[bytes, bytes]:
        """Return the quoted method and the `params`, as JSON, for this agreement."""
        raise NotImplementedError

    def on_result(self, result: Raw) -> None:
        """Take the result."""
        raise NotImplementedError

    def on_error(self, error: Raw) -> None:
        """Take the upstream's own error."""
        raise NotImplementedError

    def on_failure(self, problem: McpdError) -> None:
        """Take an error of ours."""
        raise NotImplementedError

    def on_progress(self, params: Raw) -> None:
        """Take a progress notification; most do not care."""


def is_in_vain(exchange: Exchange, server: str) -> bool:
    """Note that a request has come back; fail it if one new session after the other did not help, and say so."""
    exchange.returns += 1
    if exchange.returns <= MAX_RETURNS:
        return False
    why = f"server '{server}' does not know the session that it has just begun, {exchange.returns} times in a row"
    exchange.on_failure(HttpFailed(why, server=server, may_have_run=False))
    return True


class Awaited(Exchange):
    """A request whose outcome a task waits for."""

    __slots__ = ("_done", "_method", "_outcome", "_params", "_wake")

    def __init__(self, method: str, params: Callable[[Session], bytes], wake: Callable[[], None]) -> None:
        super().__init__()
        self._wake = wake
        self._method, self._params = msgspec.json.encode(method), params
        self._done = trio.Event()
        self._outcome: Raw | jsonrpc.ErrorView | McpdError | None = None

    def compose(self, session: Session, request_id: bytes) -> tuple[bytes, bytes]:
        """Return what the constructor was given."""
        return self._method, self._params(session)

    def on_result(self, result: Raw) -> None:
        """Wake the waiter."""
        self._settle(result)

    def on_error(self, error: Raw) -> None:
        """Wake the waiter."""
        self._settle(jsonrpc.read_error(error))

    def on_failure(self, problem: McpdError) -> None:
        """Wake the waiter."""
        self._settle(problem)

    def _settle(self, outcome: Raw | jsonrpc.ErrorView | McpdError) -> None:
        if self._outcome is None:
            self._outcome = outcome
            self._done.set()
            self._wake()

    async def outcome(self) -> Raw | jsonrpc.ErrorView:
        """Wait for the result or the upstream's error.

        Raises:
            McpdError: It failed on our side.
        """
        await self._done.wait()
        if isinstance(self._outcome, McpdError):
            raise self._outcome
        return self._outcome  # type: ignore[return-value]  # set, or the event was not
