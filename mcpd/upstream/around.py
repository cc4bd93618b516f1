"""What every slot shares: how bytes and time move, where to run, what to start, where to tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import trio

from mcpd.config.expand import Launch
from mcpd.config.model import Server
from mcpd.errors import McpdError, ServerUnavailable, final
from mcpd.events import Events
from mcpd.mover import Mover
from mcpd.timers import Timers

from . import channel
from .crowd import Crowd
from .eras import Memory
from .stdio import Owner, Ring


class Log(Protocol):
    """Where events go: `noun.past_verb` and facts."""

    def info(self, event: str, **facts: Any) -> None:
        """Note what happened."""

    def warning(self, event: str, **facts: Any) -> None:
        """Note what an administrator may want to look at."""


class Run(Protocol):
    """What is logged of an incarnation."""

    number: int
    server: Server


class Transport(channel.Transport, Protocol):
    """One process and its pipes, as an incarnation uses it; `StdioTransport` says what each does."""

    over: bool
    problem: Exception | None

    @property
    def pid(self) -> int:
        """The leader's pid."""

    def kill(self) -> None:
        """End the process now."""

    async def exits_within(self, seconds: float) -> bool:
        """Say whether the leader exits within that time."""

    async def end(self, eof_seconds: float, term_seconds: float) -> str | None:
        """Leave nothing of it; say how it ended."""


class Spawn(Protocol):
    """Starts a process and its transport."""

    async def __call__(
        self, mover: Mover, timers: Timers, owner: Owner, ring: Ring, launch: Launch, max_bytes: int, framing: str
    ) -> Transport:
        """Start; raises ServerUnavailable."""


@dataclass(frozen=True)
class Surroundings:
    """What every slot shares.

    `nursery` is where the incarnations run; `launch` expands an entry into what to start, and raises
    McpdError; `jitter` gives a random number between 0 and 1; `spawn` starts a transport; `crowd` lets
    only so many be busy with it.
    """

    mover: Mover
    timers: Timers
    nursery: trio.Nursery
    launch: Callable[[Server, str | None], Launch]
    jitter: Callable[[], float]
    log: Log
    eras: Memory
    spawn: Spawn
    crowd: Crowd
    # Get the name of a server, the project of its copy, and a line of its stderr.
    followers: set[Callable[[str, str | None, str], None]] = field(default_factory=set)
    events: Events = field(default_factory=Events)

    def expanded(self, server: Server, project: str | None = None) -> Launch:
        """Return what to start, for a project's folder if it is one's.

        Raises:
            McpdError: It cannot be started as it is; looking again and again would not change that.
        """
        try:
            return self.launch(server, project)
        except McpdError as problem:
            problem.may_have_run = False
            if isinstance(problem, ServerUnavailable):
                problem.message = f"server '{server.name}' could not be started: {problem.message}"
            raise final(problem) from None

    def note(self, event: str, run: Run, **facts: object) -> None:
        """Log what happened to an incarnation."""
        tell = self.log.info if event == "ready" else self.log.warning
        tell(f"upstream.{event}", upstream=run.server.name, incarnation=run.number, **facts)
