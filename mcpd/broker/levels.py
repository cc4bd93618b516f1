"""Which log messages of a server a client gets to see.

A legacy server has one level for its whole session: it is set to the most verbose one that any client has
asked for, and each client hears its own level and above. When the last of them has left it is set to
`emergency`, the least that there is: the specification knows no "off", and what then still comes nobody
hears. A server that nobody has asked yet keeps the level that it starts with.

A modern server hears the level with each request. What it then says on stdio carries no trace of the
request, so it goes to the only client that has one with a level in flight, or to nobody.

Spec: 2024-11-05 … 2025-11-25 server/utilities/logging; 2026-07-28 the same, "Per-request log level".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from functools import partial

import msgspec
import trio
from msgspec import Raw

from mcpd.config.model import Server
from mcpd.errors import BadRequest, McpdError
from mcpd.timers import Timers

from .asked import Client, Run, ask, marked

MESSAGE = "notifications/message"
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_RANK = {level: rank for rank, level in enumerate(LEVELS)}
# A message of a level that is none is of interest to whoever is interested in `info`.
_UNKNOWN = _RANK["info"]
QUIET = "emergency"


class Levels:
    """The log levels of one slot.

    Args:
        server: whose.
        timers: for limits.
        counts: where what nobody hears is counted.
        wake: lets tasks run that were woken in a batch.
        sole_requester: returns the only client with a request in flight that carries a level, if there
            is exactly one.
    """

    def __init__(
        self,
        server: Server,
        timers: Timers,
        counts: Counter[str],
        wake: Callable[[], None],
        sole_requester: Callable[[], Client | None],
    ) -> None:
        self._server, self._timers, self._counts = server, timers, counts
        self._wake, self._sole_requester = wake, sole_requester
        self._moved = trio.Event()
        self.clients: dict[Hashable, tuple[Client, str]] = {}
        self._one: Run | None = None
        self._modern = False
        self._set: str | None = None  # what the server was told last
        self._asking = False

    def level(self, client: Client, level: str | None) -> None:
        """Let a client hear this level and above, or nothing.

        Raises:
            BadRequest: There is no such level.
        """
        if level is None:
            self.forget(client.key)
            return
        if level not in _RANK:
            raise BadRequest(f"there is no log level '{level[:60]}'", hint=f"one of {', '.join(LEVELS)}")
        self.clients[client.key] = (client, level)
        self._settle()

    def forget(self, key: Hashable) -> None:
        """Let a client hear nothing. Idempotent."""
        if self.clients.pop(key, None) is not None:
            self._settle()

    async def agreed(self) -> None:
        """Wait until the server has been told what is wanted; one that does not run is told when it starts."""
        await trio.lowlevel.checkpoint()
        while self._asking:
            await self._moved.wait()

    def level_of(self, key: Hashable) -> str | None:
        """Return what a client has asked for."""
        found = self.clients.get(key)
        return found[1] if found is not None else None

    # -- what the server is told -----------------------------------------------------------------

    def begin(self, one: Run) -> None:
        """Tell an incarnation that is ready."""
        session = one.session
        self._modern = session is not None and session.modern
        tells = session is not None and not session.modern and session.offers("logging")
        self._one = one if tells else None
        self._set, self._asking = None, False
        self._settle()
        self._signal()

    def _settle(self) -> None:
        """Set the level, unless it is set or a request for it is under way."""
        one = self._one
        if one is None or one.stopping or self._asking:
            return
        wanted = self._wanted()
        if wanted is None or wanted == self._set:
            return
        self._set, self._asking = wanted, True
        params = msgspec.json.encode({"level": wanted})
        ask(one, self._timers, "logging/setLevel", params, partial(self._done, one), self._server.timeout.call_seconds)

    def _wanted(self) -> str | None:
        if self.clients:
            return min((level for _, level in self.clients.values()), key=_RANK.__getitem__)
        return QUIET if self._set is not None else None

    def _done(self, one: Run, problem: McpdError | None) -> None:
        if one is not self._one:
            return
        self._asking = False
        if problem is not None:
            self._counts["level_refused"] += 1
        self._settle()
        self._signal()

    def _signal(self) -> None:
        self._wake()
        self._moved.set()
        self._moved = trio.Event()

    # -- what clients hear -----------------------------------------------------------------------

    def message(self, level: str | None, params: Raw) -> None:
        """Pass a log message on to those who may hear it."""
        rank = _RANK.get(level or "", _UNKNOWN)
        hearers = [client for client in self._hearers() if self._hears(client, rank)]
        if not hearers:
            self._counts["unheard_message"] += 1
            return
        body = marked(params, self._server.name)
        for client in hearers:
            client.notified(MESSAGE, body)

    def _hearers(self) -> list[Client]:
        if not self._modern:
            return [client for client, _ in self.clients.values()]
        client = self._sole_requester()
        return [client] if client is not None else []

    def _hears(self, client: Client, rank: int) -> bool:
        level = self.level_of(client.key)
        return level is not None and rank >= _RANK[level]
