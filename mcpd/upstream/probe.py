"""The question whether a server that let a call run out is still there.

Spec: `ping` in the legacy revisions, `server/discover` in 2026-07-28, which has no ping. Any answer,
an error too, says yes.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Raw

from mcpd.errors import McpdError
from mcpd.protocol import session as sessions
from mcpd.protocol.session import Session
from mcpd.timers import Timers

from .around import Surroundings
from .channel import Exchange
from .incarnation import Incarnation

PROBE_SECONDS = 5.0


class Probe(Exchange):
    """One probe; `on_silence` is called if nothing comes in time."""

    __slots__ = ("_on_end", "_on_silence", "_timer")

    def __init__(self, timers: Timers, on_end: Callable[[], None], on_silence: Callable[[], None]) -> None:
        super().__init__()
        self._on_end, self._on_silence = on_end, on_silence
        self._timer = timers.after(PROBE_SECONDS, self._silent)

    def compose(self, session: Session, request_id: bytes) -> tuple[bytes, bytes]:
        """Ask what the era has for it."""
        method = b'"server/discover"' if session.modern else b'"ping"'
        return method, sessions.list_params(b"{}", sessions.meta(session))

    def on_result(self, result: Raw) -> None:
        """It lives."""
        self._over()

    def on_error(self, error: Raw) -> None:
        """It lives, and does not know the method."""
        self._over()

    def on_failure(self, problem: McpdError) -> None:
        """It ended, and that is handled elsewhere."""
        self._over()

    def _over(self) -> None:
        self._timer.cancel()
        self._on_end()

    def _silent(self) -> None:
        self._on_end()
        self._on_silence()


def suspect(one: Incarnation, around: Surroundings, retire: Callable[[Incarnation], None]) -> None:
    """Find out whether a server that let a call run out is still there; retire it if not.

    `on_timeout` of its entry may say to retire it without asking, or to keep it whatever happens.
    """
    how, session = one.server.on_timeout, one.session
    if how == "retire":
        retire(one)
    elif how == "probe" and one.probe is None and session is not None:

        def over() -> None:
            one.channel.forget(probe)
            one.probe = None

        one.probe = probe = Probe(around.timers, over, lambda: retire(one))
        one.channel.request(probe, session)
