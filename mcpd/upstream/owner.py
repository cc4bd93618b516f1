"""What a slot learns from its incarnations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from mcpd.errors import McpdError
from mcpd.protocol.jsonrpc import Message

from .exchange import Exchange

if TYPE_CHECKING:
    from .incarnation import Incarnation
    from .observer import Observer


class Owner(Protocol):
    """Who keeps the incarnation, and learns at once what becomes of it; `observer` gets what the server asks.

    Its `project` is whose copy this is, None for one that more share.
    """

    observer: Observer
    project: str | None

    def on_ready(self, incarnation: Incarnation) -> None:
        """The session is agreed."""

    def on_failing(self, incarnation: Incarnation, problem: McpdError) -> None:
        """It could not be started; its process still has to end."""

    def on_unsent(self, incarnation: Incarnation, unsent: list[Exchange]) -> None:
        """It takes no more requests; these were never written, and may go elsewhere."""

    def on_forgotten(self, incarnation: Incarnation, unsent: list[Exchange]) -> None:
        """The server has forgotten the session: these were not looked at, and a new session has to be begun."""

    def on_notification(self, incarnation: Incarnation, message: Message) -> None:
        """The server notified something."""
