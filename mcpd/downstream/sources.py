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

# The daemon itself, as a server; no entry of a configuration can have that name.
ITSELF = "mcpd"


class Sources:
    """Makes what the faces of connections show; what few ask for is loaded when somebody does."""

    def __init__(self, broker: Broker, lists: Lists, tail: Tail, steering: Steering) -> None:
        self._broker, self._lists, self._tail, self._steering = broker, lists, tail, steering

    def of(self, connection: Connection) -> Source:
        """Return what a connection is shown: one server as it is, several as one, a search over them, or mcpd."""
        hello = connection.visitor.hello or Hello()
        if hello.server == ITSELF:
            from .own import Own

            return Own(self._broker, self._tail, self._steering)
        if hello.server is not None and hello.mode == "direct":
            return Direct(self._broker, self._lists, hello.server)
        from .aggregate import Aggregate

        servers = hello.servers if hello.server is None else [hello.server]
        aggregate = Aggregate(self._broker, servers, hello.separator, hello.names)
        if hello.mode == "direct":
            return aggregate
        from .facade import Facade

        return Facade(self._broker, aggregate, auto=hello.mode == "auto")
