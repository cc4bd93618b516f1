"""One `subscriptions/listen` for all that is wanted, replaced without a gap when that changes.

A filter cannot be edited: another listen is opened, and the one before it is closed when the new one is
acknowledged. For a moment both may bring the same event; it is told once. What an open listen brings is
told at once. What comes late on a replaced one waits: either the newer one brings it too, or has brought
it already, or it is told when the moment is over.

A listen that ends is opened again after a pause that grows; one that is refused is not.

Spec: 2026-07-28 basic/patterns/subscriptions.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Protocol

import msgspec
import trio
from msgspec import Raw

from mcpd.errors import McpdError
from mcpd.protocol import jsonrpc
from mcpd.protocol import session as sessions
from mcpd.protocol.session import Session
from mcpd.timers import Timer, Timers
from mcpd.upstream.exchange import Exchange

from .asked import Refused, Run

# Before a listen that has ended is opened again: doubled each time, up to the second.
PAUSE_SECONDS = 5.0
MAX_PAUSE_SECONDS = 60.0
# One that was open for so long ended for a reason of its own.
FORGIVEN_SECONDS = 60.0
# A server that does not acknowledge will not tell anything.
ACKNOWLEDGED_SECONDS = 30.0
# What a replaced listen had sent when it was closed has come by then.
GRACE_SECONDS = 1.0
# Filters that change faster than that lose the oldest.
MAX_REPLACED = 16
# What waits for its twin is kept whole up to this size.
MAX_HELD_BYTES = 4096


class Host(Protocol):
    """What is listened for, and who is told. A key is a uri, or the kind of a list."""

    def wanted(self) -> frozenset[str]:
        """Return what is to be listened for."""

    def filter(self, keys: frozenset[str]) -> object:
        """Return the `notifications` of a listen for these keys, to be encoded."""

    def honoured(self, acknowledged: Raw) -> frozenset[str]:
        """Return the keys in the `notifications` of an acknowledgement."""

    def agreed(self, keys: frozenset[str]) -> None:
        """These are listened for now."""

    def refused(self, keys: frozenset[str], problem: McpdError | None) -> None:
        """These are not, and why if the server has said that. Those that were before stay wanted."""

    def missed(self, keys: frozenset[str]) -> None:
        """These are listened for again; what has happened meanwhile nobody knows."""

    def tell(self, key: str, params: bytes | None) -> None:
        """Tell of an event; its params, if they are at hand."""


class Listen(Exchange):
    """One request, and what it brings.

    Attributes:
        wanted, honoured: the keys that were asked for, and those of them that the server tells of.
        told: once it is replaced: the keys that were told of since.
        held: once it is replaced: what it has brought since, by key.
    """

    __slots__ = ("_filter", "_listening", "held", "honoured", "opened_at", "told", "wanted")

    lasting = True

    def __init__(self, listening: Listening, wanted: frozenset[str], notifications: object) -> None:
        super().__init__()
        self._listening, self._filter = listening, msgspec.json.encode({"notifications": notifications})
        self.wanted, self.honoured = wanted, frozenset[str]()
        self.told, self.held = set[str](), dict[str, bytes | None]()
        self.opened_at = 0.0

    def compose(self, session: Session, request_id: bytes) -> tuple[bytes, bytes]:
        """Ask for the filter."""
        return b'"subscriptions/listen"', sessions.list_params(self._filter, sessions.meta(session))

    def on_result(self, result: Raw) -> None:
        """The server has closed it."""
        self._listening.ended(self)

    def on_error(self, error: Raw) -> None:
        """The server does not want it."""
        self._listening.on_refused(self, Refused(error))

    def on_failure(self, problem: McpdError) -> None:
        """The incarnation has ended, or the answer was none."""
        self._listening.on_failed(self, problem)


class Listening:
    """The listens of one kind on the incarnations of a slot.

    Args:
        timers: for pauses.
        counts: where what was refused or has ended is counted.
        host: what is wanted.
        across: whether what was missed between two incarnations matters.

    Attributes:
        problem: why it is tried no more on this incarnation.
    """

    def __init__(self, timers: Timers, counts: Counter[str], host: Host, *, across: bool) -> None:
        self._timers, self._counts, self._host, self._across = timers, counts, host, across
        self._one: Run | None = None
        self._open: Listen | None = None
        self._next: Listen | None = None
        self._replaced: dict[bytes, Listen] = {}
        self._missed = frozenset[str]()
        self._timer: Timer | None = None  # of the next one: until it is acknowledged, or may be opened
        self._tries = 0
        self.problem: McpdError | None = None

    # -- what is wanted --------------------------------------------------------------------------

    def begin(self, one: Run | None) -> None:
        """Go on with another incarnation, or with none."""
        self._note_missed()
        if not self._across:
            self._missed = frozenset()
        self._rest()
        self._one, self._open, self._next, self.problem, self._tries = one, None, None, None, 0
        self._replaced.clear()
        self.look()

    @property
    def heard(self) -> frozenset[str]:
        """The keys that the server tells of now."""
        return self._open.honoured if self._open is not None and self._usable else frozenset()

    @property
    def _usable(self) -> bool:
        return self._one is not None and not self._one.stopping

    def miss(self, keys: frozenset[str]) -> None:
        """Note that what happens to these until they are listened for nobody hears."""
        self._missed |= keys

    def look(self) -> None:
        """Open, replace or close as what is wanted asks for, unless that is under way. Idempotent."""
        if self._next is not None or self._timer is not None or not self._usable:
            return
        wanted, now = self._host.wanted(), self._open
        if not wanted:
            self._open = None
            if now is not None:
                self._close(now)
        elif self.problem is not None:
            self._host.refused(wanted - self.heard, self.problem)
        elif now is not None and wanted in (now.wanted, now.honoured):
            self._say(now)
        else:
            self._ask(wanted)

    def _ask(self, wanted: frozenset[str]) -> None:
        if self._one is None or self._one.session is None:
            return
        self._next = one = Listen(self, wanted, self._host.filter(wanted))
        self._timer = self._timers.after(ACKNOWLEDGED_SECONDS, partial(self._give_up, one))
        self._one.channel.request(one, self._one.session)

    def _say(self, listen: Listen) -> None:
        self._host.agreed(listen.honoured)
        if left := listen.wanted - listen.honoured:
            self._host.refused(left, None)

    def _give_up(self, listen: Listen) -> None:
        self._close(listen)
        self.ended(listen)

    def _close(self, listen: Listen) -> None:
        if self._one is not None:
            self._one.channel.give_up(listen, "no longer needed")

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- what becomes of a listen ----------------------------------------------------------------

    def find(self, subscription: bytes) -> Listen | None:
        """Return the listen that a notification belongs to, by the id that it carries as JSON."""
        for one in (self._open, self._next):
            if one is not None and one.id == subscription:
                return one
        return self._replaced.get(subscription)

    def acknowledged(self, listen: Listen, notifications: Raw) -> None:
        """Use a new listen, and close the one before it."""
        if listen is not self._next:
            return
        self._rest()
        before, self._open, self._next = self._open, listen, None
        listen.honoured = self._host.honoured(notifications) & listen.wanted
        listen.opened_at = trio.current_time()
        if before is not None:
            self._close(before)
            self._replaced[before.id] = before
            self._timers.after(GRACE_SECONDS, partial(self._finish, before))
            if len(self._replaced) > MAX_REPLACED:
                self._finish(next(iter(self._replaced.values())))
        missed, self._missed = self._missed & listen.honoured, frozenset()
        self._say(listen)
        if missed:
            self._host.missed(missed)
        self.look()

    def ended(self, listen: Listen) -> None:
        """Note that the server has closed a listen; another one is opened, but not at once."""
        if self._one is not None:
            self._one.channel.forget(listen)
        if listen.id in self._replaced:
            self._finish(listen)
            return
        if not self._drop(listen):
            return
        self._counts["listen_ended"] += 1
        if self._next is None and self._usable:
            pause = min(PAUSE_SECONDS * 2**self._tries, MAX_PAUSE_SECONDS)
            self._tries = min(self._tries + 1, 8)
            self._rest()
            self._timer = self._timers.after(pause, self._again)

    def _again(self) -> None:
        self._timer = None
        self.look()

    def _drop(self, listen: Listen) -> bool:
        if listen is self._next:
            self._rest()
            self._next = None
        elif listen is self._open:
            self._note_missed()
            self._open = None
            if trio.current_time() - listen.opened_at >= FORGIVEN_SECONDS:
                self._tries = 0
        else:
            return False
        return True

    def _note_missed(self) -> None:
        if self._open is not None:
            self._missed |= self._open.honoured

    def on_refused(self, listen: Listen, problem: Refused) -> None:
        """Try no more, unless others want something else; what is open stays open."""
        if listen is not self._next:
            self.ended(listen)
            return
        self._counts["listen_refused"] += 1
        self._drop(listen)
        self._host.refused(listen.wanted - self.heard, problem)
        if problem.view.code == jsonrpc.METHOD_NOT_FOUND or (self._host.wanted() - self.heard) & listen.wanted:
            self.problem = problem
        if self._host.wanted() - self.heard:
            self.look()

    def on_failed(self, listen: Listen, problem: McpdError) -> None:
        """End silently with the incarnation; an answer that was none ends the listen only."""
        if self._usable and self._one is not None and self._one.open:
            self.ended(listen)
        elif self._drop(listen):
            self._rest()
            problem.may_have_run = None
            self._host.refused(self._host.wanted(), problem)

    # -- what it brings --------------------------------------------------------------------------

    def brings(self, listen: Listen, key: str, params: Raw) -> bool:
        """Take an event that a listen has brought.

        Returns:
            Whether it is to be told now: it is not when a newer listen brings it, too.
        """
        if listen.id in self._replaced:
            if key not in listen.told:
                listen.held[key] = bytes(params) if len(params) <= MAX_HELD_BYTES else None
            return False
        self._told(key)
        return True

    def _told(self, key: str) -> None:
        """Whatever a replaced listen brings of a key was sent before what is told now."""
        for one in self._replaced.values():
            one.told.add(key)
            one.held.pop(key, None)

    def _finish(self, listen: Listen) -> None:
        """Expect nothing more of a replaced listen, and tell what nobody else has brought."""
        if self._replaced.get(listen.id) is not listen:
            return
        del self._replaced[listen.id]
        for key, params in listen.held.items():
            self._told(key)
            self._host.tell(key, params)
