"""Stand-ins for what is outside: a pipe, a server at its other end, a caller, and the log.

Time is virtual in the tests that use these, so everything that takes time is a trio task.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import trio
from msgspec import Raw
from trio.testing import MockClock

from mcpd.config.expand import Launch
from mcpd.config.model import Server
from mcpd.errors import McpdError
from mcpd.mover import Mover
from mcpd.protocol.jsonrpc import Message
from mcpd.protocol.session import Session
from mcpd.timers import Timers
from mcpd.upstream.around import Surroundings
from mcpd.upstream.crowd import Crowd
from mcpd.upstream.exchange import Exchange
from mcpd.upstream.incarnation import Incarnation
from mcpd.upstream.observer import Observer
from mcpd.upstream.stdio import Owner, Ring
from mcpd.upstream.supervisor import Slot

# What takes this long in virtual time will not happen: no timeout of ours is longer.
NEVER_SECONDS = 10_000


class Request(Exchange):
    """A request that keeps its outcome: ("result" | "error" | "failure", what)."""

    def __init__(self, name: str = "t") -> None:
        super().__init__()
        self.name = name
        self.outcomes: list[tuple[str, Any]] = []
        self.progress: list[Any] = []
        self._done = trio.Event()

    def compose(self, session: Session, request_id: bytes) -> tuple[bytes, bytes]:
        return b'"tools/call"', json.dumps({"name": self.name}).encode()

    def on_result(self, result: Raw) -> None:
        self._settle("result", json.loads(bytes(result)))

    def on_error(self, error: Raw) -> None:
        self._settle("error", json.loads(bytes(error)))

    def on_failure(self, problem: McpdError) -> None:
        self._settle("failure", problem)

    def on_progress(self, params: Raw) -> None:
        self.progress.append(json.loads(bytes(params)))

    def _settle(self, kind: str, what: Any) -> None:
        self.outcomes.append((kind, what))
        self._done.set()

    @property
    def problem(self) -> McpdError:
        """The failure, which must be its only outcome."""
        ((kind, problem),) = self.outcomes
        assert kind == "failure", self.outcomes
        assert isinstance(problem, McpdError)
        return problem

    async def over(self) -> list[tuple[str, Any]]:
        """Wait for the outcome; return all there are, which must be one."""
        with trio.fail_after(NEVER_SECONDS):
            await self._done.wait()
        return self.outcomes


class Wire:
    """A transport that takes a message at once, or holds it while it is `stalled`."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.queued: list[bytes] = []
        self.stalled = False
        self.over = False

    @property
    def backlog_bytes(self) -> int:
        return sum(map(len, self.queued))

    @property
    def messages(self) -> list[dict[str, Any]]:
        """What was written, decoded."""
        return [json.loads(line) for line in self.written]

    def send(self, body: bytes) -> bytes:
        frame = body + b"\n"
        if self.stalled and not self.over:
            self.queued.append(frame)
        elif not self.over:
            self.write(frame)
        return frame

    def write(self, frame: bytes) -> None:
        self.written.append(frame)

    def unstall(self) -> None:
        """Write what was held."""
        self.stalled = False
        while self.queued:
            self.write(self.queued.pop(0))

    def untouched(self, frame: bytes) -> bool:
        return any(one is frame for one in self.queued)

    def withdraw(self, frame: bytes) -> bool:
        held = self.untouched(frame)
        self.queued = [one for one in self.queued if one is not frame]
        return held


# What a server does with a request: answer with a result, refuse with a code, nothing, or as it likes.
Reaction = Mapping[str, Any] | int | None | Callable[["FakeServer", dict[str, Any]], None]
Script = Mapping[str, Reaction]

INITIALIZED = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "fake"}}
DISCOVERED = {"supportedVersions": ["2026-07-28"], "capabilities": {}}
LEGACY: Script = {"server/discover": -32601, "initialize": INITIALIZED, "ping": {}, "tools/call": {"content": []}}
MODERN: Script = {"server/discover": DISCOVERED, "tools/call": {"content": []}}


def dies(server: FakeServer, message: dict[str, Any]) -> None:
    """Leave instead of an answer."""
    server.die()


def after(seconds: float, reaction: Mapping[str, Any] | int) -> Reaction:
    """Answer later."""

    def later(server: FakeServer, message: dict[str, Any]) -> None:
        server.timers.after(seconds, lambda: server.react(message, reaction))

    return later


class FakeServer(Wire):
    """A server that follows a script; what it does not know it leaves unanswered.

    Attributes:
        spawned_at: when.
        ends_in_seconds: how long it takes to leave when it is told to.
        lingers_seconds: how long its process outlives its output when it dies.
        ended: it has left, and its process with it.
    """

    def __init__(self, world: World, owner: Owner, ring: Ring, script: Script, cwd: str = "/") -> None:
        super().__init__()
        self.cwd = cwd
        self.problem: Exception | None = None
        self.pid = 1000 + len(world.servers)
        self.owner, self.ring, self.script = owner, ring, script
        self.timers, self._mover = world.timers, world.mover
        self.spawned_at = trio.current_time()
        self.ends_in_seconds = world.ends_in_seconds
        self.lingers_seconds = world.lingers_seconds
        self.patience: list[tuple[float, float]] = []
        self._exited = trio.Event()
        self._inbox, self._outbox = trio.open_memory_channel[dict[str, Any]](math.inf)
        world.nursery.start_soon(self._serve)

    @property
    def calls(self) -> list[str]:
        """The names in the tools/call requests that it got."""
        return [one["params"]["name"] for one in self.messages if one.get("method") == "tools/call"]

    @property
    def methods(self) -> list[str]:
        """The methods of all that it got."""
        return [one["method"] for one in self.messages if "method" in one]

    @property
    def answers(self) -> list[dict[str, Any]]:
        """What it was answered to its own requests."""
        return [one for one in self.messages if "method" not in one]

    def got(self, method: str) -> list[Any]:
        """The parameters of each request or notification of that method that it got."""
        return [one.get("params") for one in self.messages if one.get("method") == method]

    def write(self, frame: bytes) -> None:
        super().write(frame)
        self._inbox.send_nowait(json.loads(frame))

    async def _serve(self) -> None:
        async for message in self._outbox:
            if not self.over and "id" in message and "method" in message:
                self.react(message, self.script.get(message["method"]))

    def react(self, message: dict[str, Any], reaction: Reaction) -> None:
        """Do what a script says."""
        if callable(reaction):
            reaction(self, message)
        elif isinstance(reaction, int):
            self.say({"jsonrpc": "2.0", "id": message["id"], "error": {"code": reaction, "message": "no"}})
        elif reaction is not None:
            self.say({"jsonrpc": "2.0", "id": message["id"], "result": reaction})

    def say(self, message: Mapping[str, Any]) -> None:
        """Write one message."""
        self.say_line(json.dumps(message).encode())

    def say_line(self, line: bytes) -> None:
        """Write one line."""
        if not self.over:
            self._mover.batch(lambda: self.owner.on_line(line))

    def die(self) -> None:
        """Close the output; the process follows."""
        if not self.over:
            self.over = True
            self.timers.after(self.lingers_seconds, self._exited.set)
            self._mover.batch(self.owner.on_over)

    # -- the rest of a transport -----------------------------------------------------------------

    def kill(self) -> None:
        self.lingers_seconds = 0.0
        self.die()

    @property
    def ended(self) -> bool:
        return self._exited.is_set()

    async def exits_within(self, seconds: float) -> bool:
        with trio.move_on_after(seconds):
            await self._exited.wait()
        return self.ended

    async def end(self, eof_seconds: float, term_seconds: float) -> str | None:
        self.patience.append((eof_seconds, term_seconds))
        with trio.CancelScope(shield=True):
            await trio.sleep(0 if self.ended else self.ends_in_seconds)
        self.over = True
        self._exited.set()
        return "exit status 0"


class Listener(Observer):
    """Keeps the methods of what a slot is notified."""

    def __init__(self, heard: list[str | None]) -> None:
        self.heard = heard

    def on_notification(self, incarnation: Incarnation, message: Message) -> None:
        self.heard.append(message.method)


class Notes:
    """A log that keeps the events."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def info(self, event: str, **facts: Any) -> None:
        self.events.append(event)

    warning = info


class Memory:
    """Remembers eras by name."""

    def __init__(self) -> None:
        self.eras: dict[str, str] = {}

    def get(self, server: Server) -> str | None:
        return self.eras.get(server.name)

    def put(self, server: Server, era: str) -> None:
        self.eras[server.name] = era


class World:
    """What surrounds a slot, with servers that follow scripts.

    Attributes:
        scripts: one for each spawn, in order; the last one goes for all that follow. An error is raised.
        servers: all that were spawned.
        no_launch: what the expansion of the entry raises, if it does.
        ends_in_seconds, lingers_seconds: of the servers to come, see `FakeServer`.
    """

    def __init__(self, nursery: trio.Nursery, *scripts: Script | Exception) -> None:
        assert isinstance(trio.lowlevel.current_clock(), MockClock), "the test has to ask for autojump_clock"
        self.nursery, self.scripts = nursery, list(scripts) or list[Script | Exception]([LEGACY])
        self.servers: list[FakeServer] = []
        self.spawns = 0
        self.no_launch: McpdError | None = None
        self.ends_in_seconds = self.lingers_seconds = 0.0
        self.mover = Mover()
        self.timers = Timers(self.mover.batch)
        self.log, self.memory = Notes(), Memory()
        self.around = Surroundings(
            mover=self.mover,
            timers=self.timers,
            nursery=nursery,
            launch=self._launch,
            jitter=lambda: 1.0,
            log=self.log,
            eras=self.memory,
            spawn=self._spawn,
            crowd=Crowd(self.timers),
        )
        nursery.start_soon(self.timers.run)

    def slot(self, *scripts: Script | Exception, **settings: Any) -> Slot:
        """Return a slot whose servers follow these scripts, if any are given."""
        self.scripts = list(scripts) or self.scripts
        return Slot(server(**settings), self.around)

    def _launch(self, server: Server, project: str | None) -> Launch:
        if self.no_launch is not None:
            raise self.no_launch
        return Launch(argv=("/fake",), env={}, cwd=server.cwd or project or "/", secrets=frozenset())

    async def _spawn(
        self, mover: Mover, timers: Timers, owner: Owner, ring: Ring, launch: Launch, max_bytes: int, framing: str
    ) -> FakeServer:
        script = self.scripts[min(self.spawns, len(self.scripts) - 1)]
        self.spawns += 1
        if isinstance(script, Exception):
            raise script
        self.servers.append(FakeServer(self, owner, ring, script, launch.cwd))
        return self.servers[-1]


def server(**settings: Any) -> Server:
    return Server(name="fake", command="/fake", **settings)


def submit(slot: Slot, *names: str) -> list[Request]:
    """Submit a request of each name."""
    requests = [Request(name) for name in names]
    for request in requests:
        slot.submit(request)
    return requests


async def failure(slot: Slot) -> McpdError:
    """Submit a request and return what it fails with."""
    (request,) = submit(slot, "t")
    await request.over()
    return request.problem
