"""What the place of an upstream learns from its slot, and says for it."""

from __future__ import annotations

from mcpd.protocol.jsonrpc import Message
from mcpd.protocol.session import Session

from .exchange import Exchange
from .incarnation import Incarnation


class Observer:
    """Who wants to know; this one takes note of nothing, and offers nothing.

    Attributes:
        is_wanted: it is to run although nobody asks it anything.
    """

    is_wanted: bool = False

    def on_state(self) -> None:
        """The state of the slot has changed."""

    def on_session(self, session: Session) -> None:
        """A session is agreed; the slot is about to be ready."""

    def on_ready(self, incarnation: Incarnation) -> None:
        """It is ready, and nothing that has waited was sent to it yet."""

    def on_end(self, incarnation: Incarnation) -> None:
        """Nothing of an incarnation is left."""

    def on_given_up(self, incarnation: Incarnation, exchange: Exchange) -> None:
        """A request was given up that the server has, and the server was told."""

    def on_notification(self, incarnation: Incarnation, message: Message) -> None:
        """The server has notified something, other than the progress of a pending request."""

    def on_request(self, incarnation: Incarnation, message: Message) -> None:
        """The server asks something; it has to be answered."""
        incarnation.channel.refuse_unknown(message)

    def offers(self) -> bytes:
        """Return what a legacy session that begins now offers to be asked: ClientCapabilities as JSON."""
        return b"{}"
