"""What a connection hands its requests to."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol

from mcpd.protocol.jsonrpc import Request

if TYPE_CHECKING:
    from .connection import Connection


class Control(Protocol):
    """What the requests of a connection are handed to; `counters` are the daemon's."""

    counters: Counter[str]

    def request(self, connection: Connection, request_id: bytes, message: Request) -> None:
        """Handle one request; raise McpdError to refuse it."""

    def pause(self, connection: Connection) -> None:
        """Let no more calls of a connection go: it does not read."""

    def resume(self, connection: Connection) -> None:
        """Let the calls of a connection go again."""

    def turned(self, connection: Connection) -> None:
        """Forget what a connection had with the project that it has turned away from."""

    def left(self, connection: Connection) -> None:
        """Forget a connection."""

    def crashed(self, connection: Connection, problem: BaseException) -> None:
        """Note a bug that serving this connection has shown."""
