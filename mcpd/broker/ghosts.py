"""Calls that were given up while their server had them: what it says in their name may still be on its way.

A cancellation and a question of the server can cross on the pipe. Until the server has surely read the
cancellation, the client that gave the call up counts as one that it works for: a question could be for
him, and so it is nobody else's. What says so is an answer to something that was sent behind the
cancellation, or the call's own late answer. A server that goes on all the same is known by an answer after
that, or by a question that no call can have caused; what it is told to give up haunts it for longer.

Spec: cancellation of all revisions: a receiver need not heed it, and what it sends meanwhile is stray.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import trio
from msgspec import Raw

from mcpd.errors import McpdError
from mcpd.protocol import session as sessions
from mcpd.protocol.session import Session
from mcpd.timers import Timers
from mcpd.upstream.exchange import Exchange
from mcpd.upstream.incarnation import Incarnation

# The answer that frees a ghost may overtake a question that its tool asks, since it takes the cancellation, or
# the answer to the question before, a moment after it has read it: so it is asked twice, one after the other.
FENCES = 2
# How long a call counts that was told to stop and may not have: whoever waits in its lane still gets his turn.
HEEDLESS_SECONDS = 20.0
# An answer that was being written while the cancellation was read comes sooner.
LATE_SECONDS = 1.0
# An answer that is later than this proves nothing any more.
MAX_PASSED = 256


class Fence(Exchange):
    """Asks whether the server lives, behind a cancellation: any answer says that it has read both."""

    lasting = True
    __slots__ = ("_passed",)

    def __init__(self, passed: Callable[[], None]) -> None:
        super().__init__()
        self._passed = passed

    def compose(self, session: Session, request_id: bytes) -> tuple[bytes, bytes]:
        """Ask what the era has for it."""
        method = b'"server/discover"' if session.modern else b'"ping"'
        return method, sessions.list_params(b"{}", sessions.meta(session))

    def on_result(self, result: Raw) -> None:
        """It has read what came before."""
        self._passed()

    def on_error(self, error: Raw) -> None:
        """It has, too."""
        self._passed()

    def on_failure(self, problem: McpdError) -> None:
        """Its incarnation has ended, and that is told otherwise."""


class _Ghost:
    """One call that was given up."""

    def __init__(self, one: Incarnation, exchange: Exchange, key: Hashable, gone: Callable[[], None]) -> None:
        self.one, self.exchange, self.request_id, self.key, self.gone = one, exchange, exchange.id, key, gone
        self.fences = FENCES


class Ghosts:
    """Those of one place."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._ghosts: dict[tuple[int, bytes], _Ghost] = {}
        self._heedless: set[int] = set()
        # Those whose server has read that they were given up, and when it said so.
        self._passed: dict[tuple[int, bytes], float] = {}

    def add(self, one: Incarnation, exchange: Exchange, key: Hashable, gone: Callable[[], None]) -> None:
        """Note a call of a client that was given up just now; `gone` is called when it is surely over."""
        session = one.session
        if session is None:
            gone()
            return
        name = (one.number, exchange.id)
        self._ghosts[name] = _Ghost(one, exchange, key, gone)
        one.channel.on_late = lambda request_id: self._answered(one, request_id)
        self._fence(one, name)
        self._timers.after(HEEDLESS_SECONDS, lambda: self._end(name))

    def _fence(self, one: Incarnation, name: tuple[int, bytes]) -> None:
        if one.session is not None:
            one.channel.request(Fence(lambda: self._read(name)), one.session)

    def holds(self, exchange: Exchange) -> bool:
        """Whether a call still haunts its server."""
        return any(ghost.exchange is exchange for ghost in self._ghosts.values())

    def keys(self, one: Incarnation) -> set[Hashable]:
        """Return the clients that an incarnation may still work for although they gave up."""
        return {ghost.key for ghost in self._ghosts.values() if ghost.one is one}

    def on_end(self, one: Incarnation) -> None:
        """Forget those of an incarnation that is gone."""
        self._heedless.discard(one.number)
        self._passed = {name: when for name, when in self._passed.items() if name[0] != one.number}
        for name in [name for name, ghost in self._ghosts.items() if ghost.one is one]:
            self._end(name)

    def _read(self, name: tuple[int, bytes]) -> None:
        """The server has read the cancellation, and by that heeds it, if it is one that does."""
        ghost = self._ghosts.get(name)
        if ghost is None:
            return
        ghost.fences -= 1
        if ghost.fences > 0:
            self._fence(ghost.one, name)
        elif name[0] in self._heedless:
            self._timers.after(HEEDLESS_SECONDS, lambda: self._end(name))
        else:
            self._passed[name] = trio.current_time()
            while len(self._passed) > MAX_PASSED:
                del self._passed[next(iter(self._passed))]
            self._end(name)

    def asks(self, one: Incarnation) -> None:
        """Take note of a question that may be a ghost's, and is answered here now: the tool may ask on then."""
        for ghost in self._ghosts.values():
            if ghost.one is one:
                ghost.fences = FENCES + 1  # the one that is under way was sent before the answer

    def doubt(self, one: Incarnation) -> None:
        """Take note of a question that no call in flight can have caused: one that was given up may have."""
        now = trio.current_time()
        if any(name[0] == one.number and now - when < HEEDLESS_SECONDS for name, when in self._passed.items()):
            self._heedless.add(one.number)

    def _answered(self, one: Incarnation, request_id: bytes) -> None:
        """A late answer has come: that call is over. It may have crossed the cancellation, unless that was read."""
        name = (one.number, request_id)
        when = self._passed.pop(name, None)
        if when is not None and trio.current_time() - when > LATE_SECONDS:
            self._heedless.add(one.number)
        self._end(name)

    def _end(self, name: tuple[int, bytes]) -> None:
        ghost = self._ghosts.pop(name, None)
        if ghost is not None:
            ghost.gone()
