"""`mcpd/subscribe`, `unsubscribe` and `log_level`: what a client wants to hear without asking each time."""

from __future__ import annotations

import weakref

import trio
from msgspec import Struct

from mcpd.broker.broker import Broker
from mcpd.broker.levels import LEVELS
from mcpd.broker.place import Place
from mcpd.errors import BadRequest

from .connection import Connection

OFF = "off"


class SubscribeParams(Struct):
    """`params` of mcpd/subscribe and mcpd/unsubscribe."""

    server: str
    uri: str


class LevelParams(Struct):
    """`params` of mcpd/log_level: for one server, or for all that the client uses; `off` ends it."""

    level: str
    server: str | None = None


class _Subscribing:
    """One mcpd/subscribe under way; it is over when `scope` is cancelled, and then nothing is subscribed."""

    def __init__(self, connection: Connection, p: SubscribeParams) -> None:
        self.of = (connection.key, p.server, p.uri)
        self.scope = trio.CancelScope()


class Wishes:
    """Notes what clients want to hear."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._under_way = weakref.WeakSet[_Subscribing]()

    def subscribe(self, connection: Connection, request_id: bytes, p: SubscribeParams) -> None:
        """Let a client hear of a resource; answered when the server has agreed."""
        self._broker.upstream(p.server)  # an unknown name is refused at once
        one = _Subscribing(connection, p)
        self._under_way.add(one)

        async def subscribed(place: Place) -> None:
            await place.interests.subscribed(connection, p.uri)

        async def work() -> dict[str, object]:
            with one.scope:
                await self._broker.at(p.server, connection, subscribed)
            return {}

        connection.start(request_id, work)

    def unsubscribe(self, connection: Connection, request_id: bytes, p: SubscribeParams) -> None:
        """Let a client hear of a resource no more, whatever has become of its wish so far."""
        self._broker.resolve(p.server, connection.seeker).interests.unsubscribe(connection, p.uri)
        for one in self._under_way:
            if one.of == (connection.key, p.server, p.uri):
                connection.wake()
                one.scope.cancel()
        connection.answer(request_id, {})

    def log_level(self, connection: Connection, request_id: bytes, p: LevelParams) -> None:
        """Let a client hear what servers log; answered when those that run have agreed."""
        if p.level not in (OFF, *LEVELS):
            raise BadRequest(f"there is no log level '{p.level[:50]}'", hint=f"one of {', '.join(LEVELS)}, {OFF}")
        level = None if p.level == OFF else p.level
        if p.server is not None:
            places = self._broker.upstream(p.server).level(connection, level)
        else:
            connection.log_level = level
            places = self._broker.set_level(connection)

        async def work() -> dict[str, object]:
            for place in places:
                await place.interests.level_agreed()
            return {}

        connection.start(request_id, work)
