"""What the face of a connection shows, by what its hello says."""

from __future__ import annotations

from mcpd.broker.broker import Broker

from .connection import Connection
from .direct import Direct
from .lists import Lists
from .shown import Source
from .steering import Steering
from .tail import Tail
from .visitor import Hello


class Sources:
    """Makes what the faces of connections show."""

    def __init__(self, broker: Broker, lists: Lists, tail: Tail, steering: Steering) -> None:
        self._broker, self._lists, self._tail, self._steering = broker, lists, tail, steering

    def of(self, connection: Connection) -> Source:
        """Return what a connection is shown."""
        hello = connection.visitor.hello or Hello()
        if hello.server == "mcpd":
            from .own import Own  # few ask for it

            return Own(self._broker, self._tail, self._steering)
        return Direct(self._broker, self._lists, hello.server or "demo")
