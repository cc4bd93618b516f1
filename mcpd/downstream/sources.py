"""What the face of a connection shows, by what its hello says."""

from __future__ import annotations

from mcpd.broker.broker import Broker

from .aggregate import Aggregate
from .connection import Connection
from .direct import Direct
from .facade import Facade
from .lists import Lists
from .shown import Source
from .visitor import Hello


def source_of(broker: Broker, lists: Lists, connection: Connection) -> Source:
    """Return what a connection is shown: one server as it is, or several as one, or a search over them."""
    hello = connection.visitor.hello or Hello()
    if hello.server is not None:
        return Direct(broker, lists, hello.server)
    aggregate = Aggregate(broker, hello.servers, hello.separator, hello.names)
    return aggregate if hello.mode == "direct" else Facade(broker, aggregate, auto=hello.mode == "auto")
