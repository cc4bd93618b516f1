"""The lists of several servers for one connection, without waiting for those that are slow.

What is at hand is taken, fresh or not. For all servers that have nothing at hand there is one short wait;
after that they go on starting, and the client hears of their lists when these are there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import trio

from mcpd.broker.broker import Broker
from mcpd.broker.listing import Listing
from mcpd.broker.parties import Guest
from mcpd.broker.place import Place
from mcpd.errors import McpdError


@dataclass
class Gathered:
    """How it went; the lists themselves are in the catalogs. See `Shown`."""

    ttl_ms: int = 0
    is_public: bool = False
    pending: list[str] = field(default_factory=list)
    problems: list[dict[str, Any]] = field(default_factory=list)


class Gathering:
    """The servers that one connection sees as one.

    Attributes:
        unheard: kinds of list whose changes are nothing to the client.

    Args:
        broker: has them.
        names: which, in this order; None for all that are enabled, in the order of the configuration.
    """

    def __init__(self, broker: Broker, names: Sequence[str] | None) -> None:
        self._broker = broker
        self._names = None if names is None else list(dict.fromkeys(names))
        self._waited, self.unheard = set[str](), set[str]()

    @property
    def asked(self) -> list[str]:
        """The names of the servers that are wanted, whether there are such or not."""
        return list(self._broker.upstreams) if self._names is None else self._names

    @property
    def servers(self) -> list[str]:
        """The names of those that there are."""
        return [name for name in self.asked if name in self._broker.upstreams]

    def has(self, name: str) -> bool:
        """Whether a server is one of them, and there."""
        return name in self._broker.upstreams and (self._names is None or name in self._names)

    def places(self, guest: Guest) -> list[Place]:
        """Return the copies that are a client's, in order."""
        return [self._broker.resolve(name, guest.seeker) for name in self.servers]

    def why_none(self) -> McpdError | None:
        """Return why not one of the servers that are wanted is there; None if one is, or none is wanted."""
        if self.servers or not (self._names or self._broker.config.unusable):
            return None
        return self._broker.why_not(self.asked[0] if self._names else "")

    async def gather(self, kind: str, guest: Guest) -> Gathered:
        """Bring the lists of all servers up to date, as far as that can be had soon."""
        await self._note(kind, guest)
        answers: dict[str, tuple[Listing, bool]] = {}
        problems: dict[str, McpdError] = {}

        async def ask(name: str) -> None:
            try:
                answers[name] = await self._broker.at(name, guest, lambda place: place.catalog.listing(kind))
            except McpdError as problem:
                problems[name] = problem
                await trio.lowlevel.checkpoint()  # near names were looked for, and others have calls going

        slow = []
        for name in self.asked:
            if await self._answers_at_once(kind, name, guest):
                await ask(name)
            else:
                slow.append(name)
        await self._wait(slow, ask, guest)
        await trio.lowlevel.checkpoint_if_cancelled()  # for who has left meanwhile nothing goes on
        late = [name for name in slow if name not in answers and name not in problems]
        for name in late:
            self._go_on(kind, name, guest)
        self._waited = (self._waited | set(late)) - answers.keys() - problems.keys()
        return self._joined(answers, late, problems)

    async def _note(self, kind: str, guest: Guest) -> None:
        """Let the client hear when lists are others, of servers, too, that are not there yet."""
        await trio.lowlevel.checkpoint_if_cancelled()  # who has left meanwhile must not be noted
        for name in () if kind in self.unheard else (None,) if self._names is None else self._names:
            self._broker.audience.listed(guest, name, kind)

    async def _answers_at_once(self, kind: str, name: str, guest: Guest) -> bool:
        try:
            upstream = self._broker.upstream(name)
        except McpdError:
            return True  # with that
        place = upstream.place_for(guest.seeker)
        return upstream.settled(place) and await place.catalog.at_hand(kind)

    async def _wait(self, slow: list[str], ask: Any, guest: Guest) -> None:
        """Ask the slow ones, all at once and for a moment; for the start of one that moment is given once."""
        patient = [name for name in slow if name not in self._waited or self._runs(name, guest)]
        seconds = self._broker.config.daemon.fast_start_ms / 1000
        if not patient or not seconds:
            return
        with trio.move_on_after(seconds):
            async with trio.open_nursery() as nursery:
                for name in patient:
                    nursery.start_soon(ask, name)

    def _runs(self, name: str, guest: Guest) -> bool:
        upstream = self._broker.upstreams.get(name)
        return upstream is not None and upstream.place_for(guest.seeker).slot.session is not None

    def _joined(
        self, answers: dict[str, tuple[Listing, bool]], late: list[str], problems: dict[str, McpdError]
    ) -> Gathered:
        now = trio.current_time()
        left = [0 if stale else listing.ttl_ms_left(now) for listing, stale in answers.values()]
        return Gathered(
            ttl_ms=0 if late or problems else min(left, default=0),
            is_public=bool(answers) and all(listing.cache_scope == "public" for listing, _ in answers.values()),
            pending=late,
            problems=[problems[name].to_error() for name in self.asked if name in problems],
        )

    # -- those that take longer ------------------------------------------------------------------

    def _go_on(self, kind: str, name: str, guest: Guest) -> None:
        """Let a server go on starting and listing, for a client that has been told that it does."""

        async def work(place: Place) -> None:
            place.catalog.promise(kind)  # it may be another copy than it seemed to be
            await place.catalog.listing(kind)

        with contextlib.suppress(McpdError):
            self._broker.resolve(name, guest.seeker).catalog.promise(kind)
        self._broker.errands.begin(guest.key, (kind, name), lambda: self._broker.at(name, guest, work))
