"""Calls that need a nod: who is asked, who waits, and what becomes of it.

The order is fixed: the server is found, the policy is asked, then a person; only then does the call's own time
begin to run, and only then is anything of it sent. So a call that is denied, withdrawn or forgotten has not run.

What the tool is that somebody nods at is looked up before he is asked: its definition is pinned with the nod,
and one that has become another is asked for anew, whatever was remembered of the old one.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Protocol

import trio
from msgspec import Raw

from mcpd.errors import ApprovalRequired, BadRequest, Denied, McpdError, Overloaded
from mcpd.upstream.around import Surroundings

from .catalog import Listing
from .errands import Errands
from .nod import Nod, redactor
from .parties import Client, Guest
from .pins import Pins, definition_of, digest_of, key_of, only_reads
from .requests import Request, ToolRequest

if TYPE_CHECKING:
    from mcpd.config.model import Server

    from .call import Call
    from .place import Place

MAX_PER_SERVER, MAX_PER_CLIENT = 64, 16
FULL_RETRY_SECONDS = 5.0
# A nod that comes too late lets the same call go once, if it is made again within this time.
LATE_SECONDS = 600.0
MAX_LATE = 64


Seen = tuple["Place", Raw | None]


class Look(Protocol):
    """Does something at the copy of a server that is a client's; see `Broker.at`."""

    async def __call__(self, name: str, guest: Guest, work: Callable[[Place], Awaitable[Seen]]) -> Seen:
        """Do it; raises McpdError."""


class Approvals:
    """All calls that wait for a nod.

    Attributes:
        waiting: by the id that a nod names.
        on_asked: called with each call that begins to wait, so that others can be asked.

    Args:
        around: timers, tasks, events and the log.
        pins: of definitions.
        errands: run what looks a tool up; they end with their client.
        look: does something at the copy of a server that is a client's.
        go: lets a call go on its way.
        places: all copies of all servers.
        seconds: how long a nod is waited for.
    """

    def __init__(
        self,
        around: Surroundings,
        pins: Pins,
        errands: Errands,
        look: Look,
        go: Callable[[Call], None],
        places: Callable[[], Iterable[Place]],
        seconds: Callable[[], float],
    ) -> None:
        self._around, self._pins, self._errands = around, pins, errands
        self._find, self._go, self._places, self._seconds = look, go, places, seconds
        self.waiting: dict[str, Nod] = {}
        self.on_asked: Callable[[Nod], None] = lambda nod: None
        self._held: dict[Call, Nod] = {}
        self._late: dict[str, tuple[Nod, Hashable, float]] = {}
        self._granted: dict[Hashable, float] = {}
        self._last = 0

    @property
    def problem(self) -> str | None:
        """Why what was approved is not kept, or was not found again."""
        return self._pins.problem

    # -- what the broker asks --------------------------------------------------------------------

    @staticmethod
    def mode(server: Server, client: Client, request: Request) -> str | None:
        """Return by which rule a call needs a nod; None if nobody has to look at it.

        Raises:
            Denied: The rule is that none is let through.
        """
        if not isinstance(request, ToolRequest):
            return None
        policy = client.seeker.policy
        mode = server.approve if policy is None else policy.approve(server)
        if mode == "never":
            why = f"calls of server '{server.name}' are never let through for this client"
            hint = 'its entry says approve = "never"'
            raise Denied(why, server=server.name, hint=hint, may_have_run=False)
        return None if mode == "auto" and server.project is None else mode

    def take(self, place: Place, call: Call, mode: str) -> None:
        """Hold a call until it is known what it needs, and has got that."""
        call.hold()
        call.nod = self._held[call] = Nod(call, place, mode, self._leave)
        self._errands.begin(call.client.key, call, partial(self._look, call.nod))

    def end(self, problem: McpdError, server: str | None = None) -> None:
        """End all calls that wait, or those to one server; nothing of them was sent."""
        for call, nod in list(self._held.items()):
            if server in (None, nod.server.name):
                call.on_failure(type(problem)(problem.message, server=nod.server.name, may_have_run=False))

    def hold_back(self, place: Place, found: Listing) -> None:
        """Take those tools off a list whose definition is another one than was pinned."""
        for name, raw in found.items:
            pin = self._pins.get(key_of(place.server, place.project, name))
            if pin is not None and pin.digest != digest_of(definition_of(raw)):
                found.held[name] = raw
        if found.held:
            found.items = [item for item in found.items if item[0] not in found.held]

    @property
    def held_back(self) -> Iterator[tuple[str, Place, str, Raw]]:
        """The tools that are held back: an id for a nod, the copy, the name and what the tool says now."""
        seen = set[str]()
        for place in self._places():
            known = place.catalog.known("tools")
            for name, raw in known.held.items() if known is not None else ():
                facts = (*key_of(place.server, place.project, name), digest_of(definition_of(raw)))
                one = f"d{hashlib.sha256(repr(facts).encode()).hexdigest()[:8]}"
                if one not in seen:
                    seen.add(one)
                    yield one, place, name, raw

    def pinned(self, place: Place, tool: str) -> str | None:
        """Return what a tool said of itself when it was pinned, where that was kept."""
        pin = self._pins.get(key_of(place.server, place.project, tool))
        return None if pin is None else pin.definition

    # -- one call --------------------------------------------------------------------------------

    async def _look(self, nod: Nod) -> None:
        """Find out what the tool is, then decide."""

        async def find(place: Place) -> Seen:
            try:
                found = await place.catalog.find(nod.tool)
            except McpdError:
                if place.slot.session is None:
                    raise
                return place, None  # it does not list its tools, and may have them all the same
            if found.descriptor is None and found.certain:
                raise place.unknown_tool(nod.tool, nod.call.client)
            return place, found.descriptor

        try:
            place, descriptor = await self._find(nod.server.name, nod.call.client, find)
        except McpdError as one:
            problem = one
            problem.may_have_run = False
            self._around.mover.batch(lambda: nod.call.on_failure(problem))
        else:
            self._around.mover.batch(lambda: self._decide(nod, place, descriptor))

    def _decide(self, nod: Nod, place: Place, descriptor: Raw | None) -> None:
        if nod.call.over:
            return
        nod.see(place, descriptor)
        pin = self._pins.get(nod.key)
        changed = pin is not None and nod.definition is not None and pin.digest != digest_of(nod.definition)
        nod.before = pin.definition if changed and pin is not None else None
        nod.has_changed = changed
        remembered = pin is not None and nod.definition is not None and nod.project in pin.remembered
        if self._is_granted(nod) or (not changed and (remembered or not self._needs(nod, descriptor))):
            self._let_go(nod)
        else:
            self._ask(nod)

    @staticmethod
    def _needs(nod: Nod, descriptor: Raw | None) -> bool:
        if nod.mode == "writes":
            return not (nod.server.trust_annotations and descriptor is not None and only_reads(descriptor))
        return nod.mode != "auto"

    def _is_granted(self, nod: Nod) -> bool:
        until = self._granted.pop(nod.subject, None)
        return until is not None and until > trio.current_time()

    def _ask(self, nod: Nod) -> None:
        keys = Counter(one.call.client.key for one in self.waiting.values())
        servers = Counter(one.server.name for one in self.waiting.values())
        if keys[nod.call.client.key] >= MAX_PER_CLIENT or servers[nod.server.name] >= MAX_PER_SERVER:
            why = f"too many calls wait for a nod already; server '{nod.server.name}'"
            nod.call.on_failure(
                Overloaded(
                    why, server=nod.server.name, hint="mcpd approvals",
                    retry_after_seconds=FULL_RETRY_SECONDS, may_have_run=False,
                )
            )  # fmt: skip
            return
        self._last += 1
        nod.asked(f"a{self._last}", self._seconds())
        nod.timer = self._around.timers.after(self._seconds(), partial(self._expire, nod))
        self.waiting[nod.id] = nod
        self._tell(nod, "asked")
        nod.tell_client()
        self.on_asked(nod)

    def _tell(self, nod: Nod, action: str) -> None:
        client = nod.call.client.key
        self._around.events.tell("approval", nod.server.name, id=nod.id, action=action, tool=nod.tool[:200], client=client)
        self._around.log.info(f"approval.{action}", upstream=nod.server.name, id=nod.id, tool=nod.tool[:200], client=client)

    def _let_go(self, nod: Nod) -> None:
        if nod.definition is not None:
            self._pins.put(nod.key, nod.definition, nod.redact.text)
        self._forget(nod)
        self._review(nod.has_changed)
        self._go(nod.call)

    def _review(self, changed: bool) -> None:
        for place in [*self._places()] if changed else ():
            place.catalog.review()

    def _expire(self, nod: Nod) -> None:
        self._tell(nod, "expired")
        now = trio.current_time()
        self._late = {one: late for one, late in self._late.items() if late[2] > now}
        while len(self._late) >= MAX_LATE:
            del self._late[next(iter(self._late))]
        self._late[nod.id] = (nod, nod.subject, now + LATE_SECONDS)
        why = f"the call of '{nod.tool[:200]}' of server '{nod.server.name}' got no nod within {nod.seconds:g} s"
        hint = f"mcpd approve {nod.id} in another terminal, and call again"
        self._forget(nod)
        nod.call.on_failure(ApprovalRequired(why, server=nod.server.name, hint=hint, may_have_run=False, id=nod.id))

    def _leave(self, nod: Nod) -> None:
        """Take note that a call is over that was held: it is not wanted any more, or cannot go."""
        if nod.id in self.waiting:
            self._tell(nod, "withdrawn")
        self._forget(nod)

    def _forget(self, nod: Nod) -> None:
        """Ask nobody any more. Idempotent."""
        self._held.pop(nod.call, None)
        self.waiting.pop(nod.id, None)
        nod.close()

    # -- the answers -----------------------------------------------------------------------------

    def find(self, name: str) -> Nod | None:
        """Return what waits under an id, or did until lately."""
        late = self._late.get(name)
        return self.waiting.get(name) or (None if late is None else late[0])

    def approve(self, name: str, *, remember: bool = False) -> Nod | None:
        """Let a call go on, or a definition be used that was held back; return the call, if it waited.

        Args:
            name: the id.
            remember: let the tool go without a nod from now on, for the clients of that project, as long as it is
                what it is.

        Raises:
            BadRequest: Nothing of that name waits.
            ApprovalRequired: The tool has become another one since it was shown.
        """
        nod = self.waiting.get(name)
        if nod is None:
            self._approve_other(name)
            return None
        if nod.looks_new():
            pin = self._pins.get(nod.key)
            nod.has_changed, nod.before = pin is not None, None if pin is None else pin.definition
            why = f"the definition of '{nod.tool[:200]}' has changed since {name} was asked"
            raise ApprovalRequired(why, server=nod.server.name, hint="look at it again: mcpd approvals", id=name)
        self._tell(nod, "approved")
        self._let_go(nod)
        if remember and nod.definition is not None:
            self._pins.remember(nod.key, nod.project)
        return nod

    def _approve_other(self, name: str) -> None:
        late = self._late.pop(name, None)
        if late is not None and late[2] > trio.current_time():
            self._granted[late[1]] = late[2]
            return
        for one, place, tool, raw in self.held_back:
            if one == name:
                self._pins.put(key_of(place.server, place.project, tool), definition_of(raw), redactor(place).text)
                self._around.events.tell("approval", place.name, id=name, action="approved", tool=tool[:200])
                self._review(changed=True)
                return
        raise _nothing(name)

    def deny(self, name: str, reason: str = "") -> None:
        """Refuse a call; its client is told why.

        Raises:
            BadRequest: Nothing of that name waits.
        """
        nod = self.waiting.get(name)
        if nod is None:
            if self._late.pop(name, None) is None and all(one != name for one, *_ in self.held_back):
                raise _nothing(name)
            return  # it stays what it is: not let through
        self._tell(nod, "denied")
        self._forget(nod)
        why = f"the call of '{nod.tool[:200]}' of server '{nod.server.name}' was denied"
        nod.call.on_failure(
            Denied(f"{why}: {reason[:500]}" if reason else why, server=nod.server.name, may_have_run=False)
        )


def _nothing(name: str) -> BadRequest:
    return BadRequest(f"nothing waits for a nod as '{name[:50]}'", hint="mcpd approvals")
