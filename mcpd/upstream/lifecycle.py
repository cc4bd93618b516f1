"""The states of an upstream and how it moves between them; pure.

`stopped` and `failed` start again when somebody asks; `backoff` ends in a new start if somebody waits
for it, else in rest. `needs_auth` ends when somebody has signed in. `disabled` and `misconfigured` are set by the configuration and never left.
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """Where an upstream is in its life."""

    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    BACKOFF = "backoff"
    FAILED = "failed"
    NEEDS_AUTH = "needs_auth"
    DISABLED = "disabled"
    MISCONFIGURED = "misconfigured"


class Event(Enum):
    """What happens to an upstream."""

    START = "start"
    NEGOTIATED = "negotiated"
    LOST = "lost"
    STOP = "stop"
    EXITED = "exited"
    RETRY = "retry"
    RETIRE = "retire"
    REST = "rest"
    GIVE_UP = "give_up"
    WANTS_AUTH = "wants_auth"


S, E = State, Event
TRANSITIONS: dict[State, dict[Event, State]] = {
    S.STOPPED: {E.START: S.STARTING, E.STOP: S.STOPPED},
    S.STARTING: {E.NEGOTIATED: S.READY, E.LOST: S.BACKOFF, E.GIVE_UP: S.FAILED, E.STOP: S.STOPPING,
                 E.WANTS_AUTH: S.NEEDS_AUTH},
    S.READY: {E.LOST: S.BACKOFF, E.GIVE_UP: S.FAILED, E.STOP: S.STOPPING, E.RETIRE: S.STOPPED,
              E.WANTS_AUTH: S.NEEDS_AUTH},
    S.STOPPING: {E.EXITED: S.STOPPED, E.LOST: S.STOPPING, E.STOP: S.STOPPING},
    S.BACKOFF: {E.RETRY: S.STARTING, E.REST: S.STOPPED, E.GIVE_UP: S.FAILED, E.STOP: S.STOPPED},
    S.FAILED: {E.START: S.STARTING, E.STOP: S.STOPPED},
    S.NEEDS_AUTH: {E.START: S.STARTING, E.STOP: S.STOPPED},
    S.DISABLED: {},
    S.MISCONFIGURED: {},
}

BASE_SECONDS = 0.1
CAP_SECONDS = 30.0
# A run this long says that the trouble before it is over.
FORGIVEN_AFTER_SECONDS = 10.0
# More spawns than this within the window, and the upstream is left alone for a while.
MAX_SPAWNS = 5
WINDOW_SECONDS = 30.0
# How long a refusal or a spent budget is remembered.
FAILED_SECONDS = 30.0


class IllegalTransition(Exception):
    """An event came in a state that has no way on it: a bug of ours."""


def after(state: State, event: Event) -> State:
    """Return the state that follows.

    Raises:
        IllegalTransition: The table has no such way.
    """
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise IllegalTransition(f"{event.value} in state {state.value}") from None


def backoff_seconds(attempt: int, jitter: float) -> float:
    """Return how long to wait after the `attempt`-th failure in a row (1, 2, …).

    `jitter` is between 0 and 1; half of the delay is fixed, so that a crash loop never spins.
    """
    return float(min(CAP_SECONDS, BASE_SECONDS * 2 ** min(attempt - 1, 20)) * (0.5 + jitter / 2))


class Restarts:
    """When a lost upstream may start again, and when it is left alone; time comes in as an argument."""

    def __init__(self) -> None:
        self._failures = 0
        self._spawns: list[float] = []

    def spawned(self, now: float) -> None:
        """Count a spawn."""
        self._spawns.append(now)

    def forgive(self) -> None:
        """Forget the trouble: somebody started or stopped it explicitly, or it ran well."""
        self._failures = 0
        self._spawns.clear()

    def lost(self, now: float, ready_seconds: float | None, jitter: float) -> float | None:
        """Return how many seconds to wait before the next start; None: leave it alone.

        `ready_seconds` is how long the lost run was ready, None if it never was.
        """
        if ready_seconds is not None and ready_seconds >= FORGIVEN_AFTER_SECONDS:
            self.forgive()
        self._failures += 1
        self._spawns = [when for when in self._spawns if when > now - WINDOW_SECONDS]
        if len(self._spawns) >= MAX_SPAWNS:
            self._spawns.clear()
            return None
        return backoff_seconds(self._failures, jitter)
