"""The state of one upstream: moved in one place, and whoever waits for a change is woken."""

from __future__ import annotations

from collections import Counter

import trio

from mcpd.config.model import Server
from mcpd.errors import McpdError

from . import lifecycle
from .around import Surroundings
from .idle import Idle
from .lifecycle import Event, State
from .observer import Observer
from .retry import Retry


class Machine:
    """What a slot knows of itself.

    Attributes:
        server: its entry.
        project: the folder that its server works in, if it is one's.
        state: moved by `_fire` only.
        problem: why it is not ready, if it should be.
        since: when the state was last moved.
        events: where what happens is told.
        idle: notes when it is used.
        outcomes: of all calls: done, failed, not_sent, unknown.
        dropped: what came and belonged to nobody, by kind.
        observer: learns what becomes of it.
    """

    def __init__(self, server: Server, around: Surroundings, project: str | None) -> None:
        self.server, self.project, self._around, self.events = server, project, around, around.events
        self.observer = Observer()
        self.state = State.STOPPED
        self.problem: McpdError | None = None
        self.since = trio.current_time()
        self.idle = Idle(around, server.timeout.idle_seconds, self._is_busy, self._rest)
        self.outcomes, self.dropped = Counter[str](), Counter[str]()
        self._retry = Retry(around.timers, around.jitter)
        self._changed = trio.Event()

    def _is_busy(self) -> bool:
        """Whether it is at work for somebody."""
        raise NotImplementedError

    def _rest(self) -> None:
        """Stop because nobody uses it."""
        raise NotImplementedError

    # -- the one mover ---------------------------------------------------------------------------

    def _fire(self, event: Event) -> None:
        """Move the state; wake whoever waits for a change."""
        self.state = lifecycle.after(self.state, event)
        self.since = trio.current_time()
        self.idle.rest()
        self._retry.rest()
        self.observer.on_state()
        self._signal()

    def wake(self) -> None:
        """Let a task run that was woken in a batch."""
        self._around.mover.leave = True

    def _signal(self) -> None:
        self.wake()
        self._changed.set()
        self._changed = trio.Event()
