"""`mcpd/events`: what has happened lately, and what happens from now on.

Who follows gets the rows of all servers with the last events, and then every event: applied to the rows
they show how things are. A follower that does not read misses events; as soon as it reads again it is
told how many, with the rows as they are then.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from mcpd.broker.broker import Broker
from mcpd.events import KEPT_EVENTS, Happened
from mcpd.logs import iso

from . import rows
from .connection import Connection

# What a `state` event and the row of a server both have.
_OF_STATE = ("state", "reason", "incarnation", "pid", "scope", "project")


class EventParams(Struct):
    """`params` of mcpd/events."""

    server: str | None = None
    tail: int = 50
    follow: bool = False


class Watch:
    """Answers mcpd/events."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def handle(self, connection: Connection, request_id: bytes, p: EventParams) -> None:
        """Answer one request, and tell what happens from then on if the client follows.

        Raises:
            UnknownServer: there is no such server.
        """
        events, now = self._broker.events, self.rows(p.server)
        if p.server is not None and not now:
            raise self._broker.why_not(p.server)
        concerning = [_shown(one) for one in events.recent if _concerns(one, p.server)]
        last = min(max(p.tail, 0), KEPT_EVENTS)
        result = {"events": concerning[-last:] if last else []}
        if not p.follow:
            connection.answer(request_id, result)
            return
        connection.answer(request_id, {**result, "servers": now})
        for forget in connection.followers:
            forget()  # it follows one thing at a time
        follower = _Follower(self, connection, p.server)
        events.follow(follower)
        connection.followers[:] = [lambda: events.leave(follower)]

    def rows(self, server: str | None) -> list[dict[str, Any]]:
        """Return the rows of all servers or of one, as they are now."""
        return [row for row in rows.of_all(self._broker, everything=True) if server in (None, row["name"])]


class _Follower:
    """One connection that follows what happens to one server, or to all."""

    def __init__(self, watch: Watch, connection: Connection, server: str | None) -> None:
        self._watch, self._connection, self._server = watch, connection, server
        self._missed = 0

    def hear(self, happened: Happened) -> None:
        if _concerns(happened, self._server):
            self.catch_up()
            if self._connection.has_room:
                self._connection.notify("mcpd/event", _shown(happened))
            else:
                self._missed += 1

    def catch_up(self) -> None:
        if self._missed and self._connection.has_room:
            said = {"time": iso(time.time()), "event": "missed", "count": self._missed}
            self._missed = 0
            self._connection.notify("mcpd/event", {**said, "servers": self._watch.rows(self._server)})


def tell_reload(broker: Broker, outcome: Mapping[str, Sequence[str]]) -> None:
    """Tell that the configuration was read again, and the states of servers that are new with it."""
    broker.events.tell("config", None, **outcome)
    fresh = {*outcome["added"], *outcome["changed"]}
    for row in rows.of_all(broker, everything=True):
        if row["name"] in fresh:
            broker.events.tell("state", row["name"], **{key: row[key] for key in _OF_STATE if key in row})


def _concerns(happened: Happened, server: str | None) -> bool:
    """Whether an event is about a server, or about them all, or any will do."""
    return server is None or happened.server in (None, server)


def _shown(happened: Happened) -> dict[str, Any]:
    about = {} if happened.server is None else {"server": happened.server}
    return {"time": iso(happened.time), "event": happened.event, **about, **happened.facts}
