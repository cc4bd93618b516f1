"""What every slot shares: how bytes and time move, where to run, what to start, where to tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    def pid(self) -> int | None:
        """The leader's pid; None for a remote server."""

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


class Listener(Protocol):
    """Who takes what a remote server says: an incarnation."""

    def on_message(self, line: bytes, origin: bytes) -> None:
        """Take a message; `origin` is the id of the request over whose stream it came, empty for none."""

    def on_failed(self, request_id: bytes, problem: McpdError) -> None:
        """One request has failed; nothing else is wrong."""

    def on_forgotten(self, request_id: bytes) -> None:
        """The server does not know the session any more; it has not looked at this request."""

    def on_over(self) -> None:
        """The transport has ended."""


class Credentials(Protocol):
    """What a remote server is shown of who asks."""

    @property
    def secrets(self) -> frozenset[str]:
        """What must not be seen anywhere."""

    async def headers(self) -> Mapping[str, str]:
        """Return the headers of a request; a token that is about to expire is renewed first.

        Raises:
            AuthRequired: Somebody has to sign in.
        """

    async def renew(self, status: int, challenge: str, used: Mapping[str, str]) -> bool:
        """Try to get other ones after a 401 or a 403; whoever asks meanwhile shares the outcome.

        Args:
            status: of the answer.
            challenge: its WWW-Authenticate header.
            used: what the request was sent with.

        Returns:
            Whether there are others now than those that were used.

        Raises:
            AuthRequired: Somebody has to sign in; it says what was asked for.
        """


class Connect(Protocol):
    """Opens the transport to a remote server; nothing is sent yet."""

    async def __call__(self, around: Surroundings, owner: Listener, launch: Launch, server: Server) -> Transport:
        """Open; raises McpdError."""


async def no_remotes(around: Surroundings, owner: Listener, launch: Launch, server: Server) -> Transport:
    """Refuse: where only local servers can be started."""
    await trio.lowlevel.checkpoint()
    raise final(ServerUnavailable("remote servers cannot be reached from here"))


def declared(launch: Launch) -> frozenset[str]:
    """Return the secrets of an entry: where nothing else is shown to servers."""
    return launch.secrets


@dataclass(frozen=True)
class Surroundings:
    """What every slot shares.

    `nursery` is where the incarnations run; `launch` expands an entry into what to start, and raises
    McpdError; `jitter` gives a random number between 0 and 1; `spawn` starts a transport, `connect` opens
    one to a remote server; `secrets` are those of an entry and of what is shown to its server, now and lately;
    `crowd` lets only so many be busy with a start.
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
    connect: Connect = no_remotes
    secrets: Callable[[Launch], frozenset[str]] = declared
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
