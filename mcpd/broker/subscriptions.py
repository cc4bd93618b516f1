"""Which resources clients want to hear of, and what has to be agreed with the server for that.

The server is asked once for a uri, however many clients want it. A legacy server is asked uri by uri; a
modern one gets one listen for all of them. Either way what was agreed ends with the incarnation, and is
agreed anew with the next one; since nobody knows what has happened between them, whoever wanted to hear
of a resource is told then that it may have changed.

Spec: 2024-11-05 … 2025-11-25 server/resources, "Subscriptions"; 2026-07-28 basic/patterns/subscriptions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from functools import partial

import msgspec
from msgspec import Raw

from mcpd.config.model import Server
from mcpd.errors import BadRequest, McpdError, Overloaded
from mcpd.timers import Timers

from .asked import Client, Outcome, Run, ask, marked
from .listening import Listen, Listening

UPDATED = "notifications/resources/updated"
# Of one client and one server.
MAX_URIS = 1000
MAX_URI_BYTES = 8192


class _Wanted:
    """One uri: who wants to hear of it, and who waits for the server to agree."""

    __slots__ = ("clients", "waiting")

    def __init__(self) -> None:
        self.clients: dict[Hashable, Client] = {}
        self.waiting: list[tuple[Hashable, Outcome]] = []


class _Acknowledged(msgspec.Struct):
    resourceSubscriptions: list[str] | None = None


class PerUri:
    """The agreement with a legacy server: one uri at a time, and of each uri one request at a time."""

    def __init__(self, timers: Timers, seconds: float, table: Subscriptions) -> None:
        self._timers, self._seconds, self._table = timers, seconds, table
        self._one: Run | None = None
        self._on = set[str]()
        self._asking = set[str]()
        self._failed = set[str]()
        self._missed = set[str]()

    @property
    def heard(self) -> frozenset[str]:
        """The uris that the server tells of now."""
        return frozenset(self._on)

    def miss(self, uri: str) -> None:
        """Note that what happens to a uri until it is agreed on nobody hears."""
        self._missed.add(uri)

    def begin(self, one: Run | None) -> None:
        """Go on with another incarnation, or with none: nothing is agreed with it yet."""
        self._missed |= self._on
        self._one, self._on, self._asking, self._failed = one, set(), set(), set()
        if one is not None:
            self._missed &= self._table.wanted()
            for uri in self._table.wanted():
                self._settle(uri)

    def look(self, uri: str) -> None:
        """Ask for a uri, or for it no more, unless that is under way. Idempotent."""
        self._failed.discard(uri)
        if uri in self._on and uri not in self._asking and self._table.wants(uri):
            self._table.agreed(frozenset((uri,)))
        else:
            self._settle(uri)

    def _settle(self, uri: str) -> None:
        one, wanted = self._one, self._table.wants(uri)
        if one is None or one.stopping or uri in self._asking or wanted == (uri in self._on):
            return
        if wanted and uri in self._failed:
            return
        self._asking.add(uri)
        done = partial(self._done, one, uri, wanted)
        verb = "subscribe" if wanted else "unsubscribe"
        ask(one, self._timers, f"resources/{verb}", msgspec.json.encode({"uri": uri}), done, self._seconds)

    def _done(self, one: Run, uri: str, wanted: bool, problem: McpdError | None) -> None:
        if one is not self._one:
            return
        self._asking.discard(uri)
        if not wanted:
            self._on.discard(uri)  # and if it did not agree: what it tells of nobody wants
        elif problem is None:
            self._on.add(uri)
            self._agreed(uri)
        else:
            self._failed.add(uri)
            self._table.refused(frozenset((uri,)), problem)
        self._settle(uri)
        if not self._table.wants(uri):
            self._failed.discard(uri)

    def _agreed(self, uri: str) -> None:
        self._table.agreed(frozenset((uri,)))
        if uri in self._missed:
            self._missed.discard(uri)
            self._table.missed(frozenset((uri,)))


class Subscriptions:
    """The resources of one slot that somebody wants to hear of; the host of their listen.

    Args:
        server: whose resources.
        timers: for limits and pauses.
        counts: where what nobody wanted is counted.
        wake: called when a task has to run.
    """

    def __init__(self, server: Server, timers: Timers, counts: Counter[str], wake: Callable[[], None]) -> None:
        self._server, self._counts, self._wake = server, counts, wake
        self._table: dict[str, _Wanted] = {}
        self._of: dict[Hashable, set[str]] = {}
        self._offered: bool | None = None  # until a server has said what it can
        self._per_uri = PerUri(timers, server.timeout.call_seconds, self)
        self.listening = Listening(timers, counts, self, across=True)
        self._modern = False

    # -- what clients want -----------------------------------------------------------------------

    def __bool__(self) -> bool:
        return bool(self._table)

    def subscribe(self, client: Client, uri: str) -> Outcome:
        """Let a client hear of a resource; the outcome is known when the server has agreed.

        Raises:
            BadRequest: The server offers no subscriptions, or the uri is none.
            Overloaded: The client has too many.
        """
        if self._offered is False:
            raise self._not_offered()
        if not 0 < len(uri) <= MAX_URI_BYTES:
            raise BadRequest(f"a uri has 1 to {MAX_URI_BYTES} characters", server=self._server.name)
        own = self._of.get(client.key, ())
        if len(own) >= MAX_URIS and uri not in own:
            why = f"this client has subscribed to {MAX_URIS} resources of server '{self._server.name}' already"
            raise Overloaded(why, server=self._server.name)
        entry, outcome = self._want(client, uri), Outcome(self._wake)
        entry.waiting.append((client.key, outcome))
        self._look((uri,))
        return outcome

    def _want(self, client: Client, uri: str) -> _Wanted:
        self._of.setdefault(client.key, set()).add(uri)
        entry = self._table.setdefault(uri, _Wanted())
        entry.clients[client.key] = client
        return entry

    def of(self, key: Hashable) -> list[str]:
        """Return what a client hears of, or is to hear of when the server has said nothing against it.

        What it waits for is not among that: whoever waits asks again where it has to.
        """
        uris = sorted(self._of.get(key, ()))
        return [uri for uri in uris if all(waiting != key for waiting, _ in self._table[uri].waiting)]

    def take_over(self, client: Client, uris: Iterable[str]) -> None:
        """Let a client hear of what it heard of from another copy; it is told that it may have changed meanwhile."""
        if self._offered is False:
            return
        for uri in uris:
            self._want(client, uri)
            if uri in self._per_uri.heard | self.listening.heard:
                client.notified(UPDATED, self._may_have_changed(uri))
            else:
                self._per_uri.miss(uri)
                self.listening.miss(frozenset((uri,)))
        self._look(uris)

    def unsubscribe(self, key: Hashable, uri: str) -> None:
        """Let a client hear of a resource no more. Idempotent."""
        if self._drop(key, uri):
            self._look((uri,))

    def withdraw(self, key: Hashable, uri: str, outcome: Outcome) -> None:
        """Take back a wish that nobody waits for any more; what had been agreed before stays."""
        entry = self._table.get(uri)
        if entry is None or (key, outcome) not in entry.waiting:
            return
        entry.waiting.remove((key, outcome))
        if not any(waiting == key for waiting, _ in entry.waiting):
            self.unsubscribe(key, uri)

    def forget(self, key: Hashable) -> None:
        """Forget a client that has left."""
        self._look([uri for uri in self._of.pop(key, set()) if self._drop(key, uri)])

    def _drop(self, key: Hashable, uri: str) -> bool:
        """Forget one wish, and return whether nobody has it any more."""
        entry = self._table.get(uri)
        if entry is None or entry.clients.pop(key, None) is None:
            return False
        if (own := self._of.get(key)) is not None:
            own.discard(uri)
            if not own:
                del self._of[key]
        for waiting in [one for one in entry.waiting if one[0] == key]:
            entry.waiting.remove(waiting)
            waiting[1].settle()
        if not entry.clients:
            del self._table[uri]
        return not entry.clients

    def _not_offered(self) -> BadRequest:
        name = self._server.name
        return BadRequest(f"server '{name}' offers no subscriptions to resources", server=name)

    # -- what is agreed --------------------------------------------------------------------------

    def begin(self, one: Run) -> None:
        """Agree anew with an incarnation that is ready."""
        session = one.session
        self._modern = session is not None and session.modern
        self._offered = session is not None and session.declares("resources", "subscribe")
        if not self._offered:
            self.refused(self.wanted(), self._not_offered())
        usable = one if self._offered else None
        self._per_uri.begin(None if self._modern else usable)
        self.listening.begin(usable if self._modern else None)

    def _look(self, uris: Iterable[str]) -> None:
        if self._modern:
            self.listening.look()
        else:
            for uri in uris:
                self._per_uri.look(uri)

    def wants(self, uri: str) -> bool:
        """Whether anybody wants to hear of a resource."""
        return uri in self._table

    def wanted(self) -> frozenset[str]:
        """Return what anybody wants to hear of."""
        return frozenset(self._table)

    def filter(self, keys: frozenset[str]) -> object:
        """Return what to listen for."""
        return {"resourceSubscriptions": sorted(keys)}

    def honoured(self, acknowledged: Raw) -> frozenset[str]:
        """Return what the server tells of."""
        try:
            return frozenset(msgspec.json.decode(acknowledged, type=_Acknowledged).resourceSubscriptions or ())
        except (msgspec.MsgspecError, RecursionError):
            return frozenset()

    def agreed(self, keys: frozenset[str]) -> None:
        """Tell those who wait that the server tells of these from now on."""
        for entry in self._entries(keys):
            waiting, entry.waiting = entry.waiting, []
            for _, outcome in waiting:
                outcome.settle()

    def refused(self, keys: frozenset[str], problem: McpdError | None) -> None:
        """Tell those who wait that it does not; with them their wish is gone."""
        for uri in keys:
            entry = self._table.get(uri)
            if entry is None:
                continue
            waiting, entry.waiting = entry.waiting, []
            if problem is not None:
                problem.server = self._server.name
            for key, outcome in waiting:
                outcome.settle(problem or self._not_this(uri))
                self._drop(key, uri)

    def _not_this(self, uri: str) -> BadRequest:
        name = self._server.name
        return BadRequest(f"server '{name}' does not tell of changes of '{uri[:200]}'", server=name)

    def _entries(self, keys: frozenset[str]) -> list[_Wanted]:
        return [self._table[uri] for uri in keys if uri in self._table]

    # -- what is told ----------------------------------------------------------------------------

    def updated(self, uri: str, params: Raw, listen: Listen | None) -> None:
        """Take an update from the server: a legacy one, or one of a listen."""
        if uri not in self._table or (listen is not None and uri not in listen.wanted):
            self._counts["unwanted_update"] += 1
        elif listen is None:
            self._pass_on(uri, marked(params, self._server.name))
        elif self.listening.brings(listen, uri, params):
            self._pass_on(uri, marked(params, self._server.name, tagged=True))

    def tell(self, key: str, params: bytes | None) -> None:
        """Tell of an update that has waited."""
        told = self._may_have_changed(key) if params is None else marked(params, self._server.name, tagged=True)
        self._pass_on(key, told)

    def _may_have_changed(self, uri: str) -> bytes:
        return marked(msgspec.json.encode({"uri": uri}), self._server.name)

    def missed(self, keys: frozenset[str]) -> None:
        """Tell that these may have changed."""
        for uri in keys:
            self.tell(uri, None)

    def _pass_on(self, uri: str, params: bytes) -> None:
        entry = self._table.get(uri)
        for client in list(entry.clients.values()) if entry is not None else ():
            client.notified(UPDATED, params)
