"""The place of one running copy of an upstream: its slot, and all that belongs to those who share it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Awaitable, Callable, Collection, Hashable
from pathlib import PurePath

import msgspec
import trio
from msgspec import Raw

from mcpd.config.model import Server
from mcpd.errors import McpdError, Overloaded
from mcpd.protocol import capabilities, mcp
from mcpd.protocol.capabilities import NOTHING, Capabilities
from mcpd.protocol.jsonrpc import Message
from mcpd.protocol.session import Session
from mcpd.upstream.around import Surroundings
from mcpd.upstream.exchange import Exchange
from mcpd.upstream.incarnation import Incarnation
from mcpd.upstream.lifecycle import State
from mcpd.upstream.observer import Observer
from mcpd.upstream.supervisor import Slot

from .asking import Asked, Input
from .call import Call
from .catalog import Catalog, Listing, is_harmless, matches
from .explaining import Explaining
from .ghosts import Ghosts
from .home import Home
from .interests import Interests
from .keeping import Shelf, identity_of
from .limits import Admission
from .parties import Client, Guest
from .passing import Passing
from .presenting import Presenting
from .requests import ToolRequest
from .results import ResultStore
from .routing import Routing, calls_of
from .scopes import Scope

# A queue that is full empties at the pace of the upstream.
OVERLOADED_RETRY_SECONDS = 1.0


class Place(Observer):
    """One copy of an upstream.

    Attributes:
        scope: who shares it.
        project: the folder of the project that it works in, if it works in one's.
        clients: who has used it and is still connected, by key.
        served: how many clients ever have.
        home: who decides who shares what.
        presenting: how its server presents itself.
        passing: lets calls go that wait for a place.
        asking: calls whose clients are asked what a modern server wants to know.
    """

    def __init__(
        self,
        server: Server,
        scope: Scope,
        project: str | None,
        around: Surroundings,
        store: ResultStore,
        paused: Collection[Hashable],
        shelf: Shelf | None = None,
    ) -> None:
        self.server, self.scope, self.project = server, scope, project
        self.timers, self.store, self._around = around.timers, store, around
        self.slot = Slot(server, around, project)
        self.admission: Admission[Call] = Admission(server.limits.in_flight, paused=paused)
        start = functools.partial(_start, around.nursery)
        self.catalog = Catalog(self.slot, start, server.tools, around.timers, shelf, self.identity)
        self.presenting = Presenting(shelf, self.identity)
        self.interests = Interests(
            self.slot, around.timers, around.mover,
            list_changed=self.catalog.list_changed, sole_requester=self._sole_requester,
            hearers=lambda capability: self.home.hearers(self, capability),
        )  # fmt: skip
        self.leveled = self.interests.leveled
        self.catalog.on_change = self._on_change
        self.catalog.hears_changes = self.interests.hears_changes
        self.catalog.on_wanted = self._on_wanted
        self.ghosts = Ghosts(around.timers)
        tools = Explaining(self.catalog, self.slot, around)
        self.refusal, self.explains = tools.refusal, tools.explains
        self.denied, self.unknown_tool = tools.denied, tools.unknown_tool
        self.routing = Routing(self, self.ghosts, self._note_question)
        self.asking = set[Call]()
        self.clients: dict[Hashable, Client] = {}
        self._guests: dict[Hashable, Guest] = {}
        self.served = 0
        self.home = Home()
        self._leaving = False
        self.passing = Passing(self.admission, self._left)
        self.slot.observer = self

    @property
    def name(self) -> str:
        """The upstream's name."""
        return self.server.name

    @property
    def is_stopped(self) -> bool:
        """Whether nothing of it runs, nor is to run."""
        return self.slot.state is State.STOPPED

    def identity(self) -> str | None:
        """Return the digest of all that the server is, what it works in and its credentials included.

        None while that is not known: who shares it is still open, or it cannot be started.
        """
        if self.scope.kind == "auto":
            return None
        expand = functools.partial(self._around.expanded, self.server, self.project)
        return identity_of(self.server, expand, self.project)

    def close(self, problem: McpdError, drain_seconds: float | None = None) -> None:
        """Begin its last stop: nothing is accepted any more, but refused with `problem`. Idempotent."""
        self._leaving = True
        self.slot.close(problem, drain_seconds)
        for call in list(self.asking):
            call.end(problem)

    async def run(self) -> None:
        """Start it where nobody waits for that; a failure shows in the status only."""
        with contextlib.suppress(McpdError):
            await self.slot.ready()

    def move(self, project: str | None) -> None:
        """Let its next incarnation work in another project's folder."""
        self.project = self.slot.project = project

    # -- calls -----------------------------------------------------------------------------------

    def release(self, call: Call) -> None:
        """Give a call's place back; an exclusive one that haunts its server keeps its lane until that is over."""
        self.slot.idle.use()
        if not (call.exclusive or self.admission.queued or self.routing.open or self.passing.busy):
            self.admission.release(call.client.key)  # as nearly always
        elif call.exclusive and self.ghosts.holds(call):
            self.routing.on_idle(call.client.key)
        else:
            self.passing.release(call)

    def _left(self, call: Call) -> None:
        if self.routing.open:
            self.routing.on_idle(call.client.key)

    def use(self, client: Client) -> None:
        """Count a client that uses it for the first time."""
        self.clients[client.key] = owner = client.owner
        self.served += 1
        self.hear(owner)

    def hear(self, client: Client) -> None:
        """Let a client hear the log as it wants to; nobody does while it is not known who shares it."""
        if self.scope.kind != "auto":
            self.interests.level(client, self.home.level_of(client))

    @property
    def present(self) -> list[Guest]:
        """Who uses it, or may start it."""
        return [*self.clients.values(), *self._guests.values()]

    def meet(self, guest: Guest) -> None:
        """Take note of who may start it, and so may be asked; that alone does not make him a client."""
        self._guests[guest.key] = guest

    def forget(self, key: Hashable) -> None:
        """Forget a client that has left, or has turned to another project. Idempotent."""
        self.clients.pop(key, None)
        self._guests.pop(key, None)
        self.interests.forget(key)
        self.routing.forget(key)

    def is_exclusive(self, call: Call) -> bool:
        """Whether nobody else's calls may run beside a call: its server may ask, and does not say for whom."""
        if not self.server.interactive or not isinstance(call.request, ToolRequest):
            return False
        session = self.slot.session
        modern = session.modern if session is not None else False
        return not modern and matches(self.server.interactive, call.request.tool)

    def refused(self, call: Call, error: Raw) -> None:
        """Note what an upstream's error means for others; retire it, where the entry says so."""
        self.routing.on_error(call, error)
        one = self.slot.current
        if self.server.on_rpc_error == "retire" and one is not None and one.number == call.incarnation:
            self.slot.retire(one)

    def may_repeat(self, call: Call) -> bool:
        """Whether a lost call may be sent again: it only reads, or its entry and its server say that it does no harm."""
        if not isinstance(call.request, ToolRequest):
            return self.server.retry != "never"
        if self.server.retry != "transport" or self.catalog.tools is None:
            return False
        descriptor = self.catalog.tools.names.get(call.what)
        return descriptor is not None and is_harmless(descriptor)

    def overloaded(self) -> Overloaded:
        """Return the error for a client that has too many calls waiting."""
        return Overloaded(
            f"too many calls of this client wait for server '{self.name}'",
            server=self.name, retry_after_seconds=OVERLOADED_RETRY_SECONDS, may_have_run=False,
        )  # fmt: skip

    # -- questions -------------------------------------------------------------------------------

    def only_client(self) -> Asked | None:
        """Return the client whose alone this copy is, if it is one's and it is there."""
        key = self.scope.key
        return (self.clients.get(key) or self._guests.get(key)) if self.scope.kind == "client" else None

    @property
    def lane(self) -> Hashable:
        """The client that has the server to itself for now; or None."""
        return self.admission.lane

    @property
    def roots(self) -> list[dict[str, str]] | None:
        """The folders that a server may be told of: its project's, if it works in one."""
        if self.project is None or self.scope.kind == "user":
            return None
        folder = PurePath(self.project)
        return [{"uri": folder.as_uri(), "name": folder.name}]

    def local_answer(self, asked: Input) -> bytes | None:
        """Answer what needs nobody: the roots of a project are the project, unless its one client knows better."""
        roots, owner = self.roots, self.only_client()
        if asked.method != capabilities.ROOTS or roots is None or (owner is not None and owner.capabilities.roots):
            return None
        return msgspec.json.encode({"roots": roots})

    def level_of(self, key: Hashable) -> str | None:
        """From which level on a client wants the log, if it has said so."""
        return self.interests.level_of(key)

    @property
    def is_wanted(self) -> bool:  # type: ignore[override]
        """Whether a client has subscribed to something that only a running server can tell of."""
        return self.interests.wanted

    def _sole_requester(self) -> Client | None:
        """Return the only client that the server works for and that wants its log, if there is exactly one."""
        if (one := self.slot.current) is None:
            return None
        if one.channel.origin:  # it came over the stream of a request, and so belongs to that
            asker = one.channel.asker
            return asker.client if isinstance(asker, Call) else None
        able = {call.client.key: call.client for call in calls_of(one) if self.level_of(call.client.key) is not None}
        return able.popitem()[1] if len({*able, *self.ghosts.keys(one)}) == len(able) == 1 else None

    def _on_wanted(self, kind: str) -> None:
        self._around.mover.batch(lambda: self.interests.hear_lists([kind]))

    def _on_change(self, kind: str, listing: Listing) -> None:
        """Tell all who have asked for a list that it is another one now."""
        items = len(listing.items)
        self.slot.events.tell("list_changed", self.name, kind=kind, revision=listing.revision, items=items)
        self._around.mover.batch(lambda: self.interests.changed(kind, listing.revision))

    def _note_question(self, method: str, client: Asked) -> None:
        self._around.log.info("upstream.asked", upstream=self.name, method=method, client=client.key)
        self.slot.events.tell("question", self.name, kind=method, client=client.key, action="asked")

    # -- what the slot reports -------------------------------------------------------------------

    def offers(self) -> bytes:
        """Return what a legacy session offers: what the present clients can answer, and the project's folder.

        A tool that is marked as interactive has a lane of its own, and a remote server asks over the stream of the
        call, so that whoever calls can be asked.
        """
        offered: Capabilities = NOTHING
        for client in self.present:
            offered |= client.capabilities
        can_route = bool(self.server.interactive) or self.scope.kind == "client" or self.server.transport == "http"
        roots = self.roots is not None or (offered.roots and self.scope.kind == "client")
        offered = msgspec.structs.replace(offered, form=offered.form or can_route, roots=roots)
        protocol = self.server.protocol
        return offered.to_json(protocol) if protocol in mcp.LEGACY else offered.to_json()

    def on_state(self) -> None:
        """Tell that the state has changed; what is leaving has no part in its server any more."""
        slot = self.slot
        slot.events.tell(
            "state",
            self.name,
            state=slot.state.value,
            reason=None if slot.problem is None else slot.problem.message,
            incarnation=slot.incarnations + (slot.state is State.STARTING),  # the one that is about to begin
            pid=None if slot.current is None else slot.current.pid,
            scope=self.scope.kind,
            project=self.project,
            leaving=self._leaving or None,
        )

    def on_session(self, session: Session) -> None:
        """Let the upstream decide who shares it, now that its era is known."""
        self.home.learn(self, session.era)

    def on_ready(self, incarnation: Incarnation) -> None:
        """Send away who does not belong here, and look whether the lists are still what they were."""
        self.home.sort_out(self)
        if incarnation.session is not None and not self._leaving:
            self.presenting.put(incarnation.session)
            self.interests.on_ready(incarnation)
            self.catalog.on_ready(incarnation.session)

    def on_end(self, incarnation: Incarnation) -> None:
        """Take back what it has asked."""
        self.routing.on_end(incarnation)
        self.ghosts.on_end(incarnation)

    def on_given_up(self, incarnation: Incarnation, exchange: Exchange) -> None:
        """Remember for whom the server may still speak, where it matters whom it speaks for."""
        if isinstance(exchange, Call) and self._speaks_for_callers(incarnation, exchange):
            over = functools.partial(self.passing.release, exchange) if exchange.exclusive else _nothing
            self.ghosts.add(incarnation, exchange, exchange.client.key, over)

    def _speaks_for_callers(self, incarnation: Incarnation, call: Call) -> bool:
        session = incarnation.session
        if session is not None and session.modern:
            return self.level_of(call.client.key) is not None
        offered = capabilities.read(incarnation.offered)
        return (offered.form or offered.url or offered.sampling) and self.scope.kind != "client"

    def on_notification(self, incarnation: Incarnation, message: Message) -> None:
        """Hand a notification to whom it concerns."""
        if message.method in ("notifications/cancelled", "notifications/elicitation/complete"):
            self.routing.on_notification(incarnation, message)
        if incarnation is self.slot.current:
            self.interests.on_notification(message)

    def on_request(self, incarnation: Incarnation, message: Message) -> None:
        """Hand a question on."""
        self.routing.on_request(incarnation, message)


def _nothing() -> None:
    """There is no place to give back."""


def _start(nursery: trio.Nursery, task: Callable[[], Awaitable[object]]) -> None:
    nursery.start_soon(task)
