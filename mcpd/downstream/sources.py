"""What the face of a connection shows, by what its hello says."""

from __future__ import annotations

from mcpd.broker.broker import Broker

from .connection import Connection
from .direct import Direct
from .lists import Lists
from .shown import Source
from .visitor import Hello


def source_of(broker: Broker, lists: Lists, connection: Connection) -> Source:
    """Return what a connection is shown."""
    hello = connection.visitor.hello or Hello()
    return Direct(broker, lists, hello.server or "demo")
