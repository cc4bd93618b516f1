"""The question whether a server that let a call run out is still there.

Spec: `ping` in the legacy revisions, `server/discover` in 2026-07-28, which has no ping. Any answer,
an error too, says yes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Raw

from mcpd.errors import ConnectFailed, HttpFailed, McpdError
from mcpd.protocol import session as sessions
from mcpd.protocol.session import Session
from mcpd.timers import Timers

from .around import Surroundings
from .exchange import Exchange
from .incarnation import Incarnation

PROBE_SECONDS = 5.0
# A live server answers in a millisecond; after this its callers go to a fresh one.
DOUBT_SECONDS = 0.25


class Owner(Protocol):
    """Who keeps the incarnations."""

    def trust(self, one: Incarnation) -> None:
        """It has answered: send it what waits."""

    def doubt(self, one: Incarnation) -> None:
        """It has been silent for a moment: whoever waits goes to a fresh one."""

    def retire(self, one: Incarnation) -> None:
        """It is silent: end it."""


class Probe(Exchange):
    """One probe; `on_silence` is called if nothing comes in time."""

    __slots__ = ("_on_end", "_on_silence", "_timer", "answered")

    def __init__(self, timers: Timers, on_end: Callable[[], None], on_silence: Callable[[], None]) -> None:
        super().__init__()
        self._on_end, self._on_silence = on_end, on_silence
        self.answered = False
        self._timer = timers.after(PROBE_SECONDS, self._silent)

    def compose(self, session: Session, request_id: bytes) -> tuple[bytes, bytes]:
        """Ask what the era has for it."""
        method = b'"server/discover"' if session.modern else b'"ping"'
        return method, sessions.list_params(b"{}", sessions.meta(session))

    def on_result(self, result: Raw) -> None:
        """It lives."""
        self.answered = True
        self._over()

    def on_error(self, error: Raw) -> None:
        """It lives, and does not know the method."""
        self.answered = True
        self._over()

    def on_failure(self, problem: McpdError) -> None:
        """It ended, and that is handled elsewhere; or it is remote, and what it said is no answer."""
        self._over()
        if isinstance(problem, HttpFailed | ConnectFailed):
            self._on_silence()

    def _over(self) -> None:
        self._timer.cancel()
        self._on_end()

    def _silent(self) -> None:
        self._on_end()
        self._on_silence()


def suspect(one: Incarnation, around: Surroundings, owner: Owner) -> None:
    """Find out whether a server that let a call run out is still there.

    Until it answers it gets no new requests; when it has been silent for a moment they need not wait for
    it any more, and when it stays silent it is retired. `on_timeout` of its entry may say to retire it
    without asking, or to keep it whatever happens.
    """
    how, session = one.server.on_timeout, one.session
    if how == "retire":
        owner.retire(one)
    elif how == "probe" and one.probe is None and session is not None and one.open:

        def over() -> None:
            doubt.cancel()
            one.channel.forget(probe)
            one.probe, one.doubtful = None, False
            if one.open is False and probe.answered:
                owner.trust(one)

        def doubts() -> None:
            one.doubtful = True
            owner.doubt(one)

        one.suspend()
        one.probe = probe = Probe(around.timers, over, lambda: owner.retire(one))
        doubt = around.timers.after(DOUBT_SECONDS, doubts)
        one.channel.request(probe, session)
