"""A broker over several scripted servers, told apart by name, and a client that asks it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
import trio

from mcpd.broker.broker import Broker
from mcpd.broker.parties import Plain
from mcpd.broker.place import Place
from mcpd.broker.results import ResultStore
from mcpd.broker.scopes import Seeker
from mcpd.config.expand import Launch
from mcpd.config.model import Config, Server
from mcpd.protocol.capabilities import NOTHING
from tests.upstream.fakes import FakeServer, Script, World


class Hall(World):
    """What surrounds the slots of several servers.

    Attributes:
        broker: over all of them.
        by_name: the script of each server.
        latest: the last run of each.
        secrets: what the servers to come are given that nobody may see.
    """

    def __init__(self, nursery: trio.Nursery, by_name: Mapping[str, Script | Exception], **settings: Any) -> None:
        super().__init__(nursery)
        self.by_name, self.settings = dict(by_name), settings
        self.latest: dict[str, FakeServer] = {}
        self.secrets = frozenset[str]()
        self.broker = Broker(self.config(*by_name), self.around, ResultStore())

    def config(self, *names: str, **changed: Mapping[str, Any]) -> Config:
        """Return a configuration of these servers; `changed` are settings of some of them."""
        servers = {
            name: Server(name=name, command="/fake", **{**self.settings, **changed.get(name, {})}) for name in names
        }
        return Config(path="config.toml", servers=servers)

    def place(self, name: str) -> Place:
        """The copy that the tests' client gets."""
        return self.broker.resolve(name, Seeker("line"))

    def _launch(self, server: Server, project: str | None) -> Launch:
        return Launch(argv=(server.name,), env={}, cwd="/", secrets=self.secrets)

    async def _spawn(self, mover: Any, timers: Any, owner: Any, ring: Any, launch: Launch, *rest: Any) -> FakeServer:
        script = self.by_name[launch.argv[0]]
        self.spawns += 1
        if isinstance(script, Exception):
            raise script
        self.servers.append(FakeServer(self, owner, ring, script))
        self.latest[launch.argv[0]] = self.servers[-1]
        return self.servers[-1]


class Line(Plain):
    """A client: what it is told, decoded.

    Attributes:
        has_room: whether it reads.
        notes: the notifications it was sent, as (method, params).
    """

    def __init__(self) -> None:
        self.has_room, self.key, self.seeker = True, "line", Seeker("line")
        self.capabilities, self.log_level = NOTHING, None
        self.notes: list[tuple[str, Any]] = []
        self.results: list[Any] = []
        self.followers: list[Callable[[], None]] = []
        self._work: Callable[[], Awaitable[object]] | None = None

    def start(self, request_id: bytes, work: Callable[[], Awaitable[object]]) -> None:
        self._work = work

    def answer(self, request_id: bytes, result: object) -> None:
        self.results.append(decoded(result))

    def notify(self, method: str, params: object) -> None:
        assert self.has_room
        self.notes.append((method, decoded(params)))

    def notified(self, method: str, params: bytes) -> None:
        """A list has changed; nothing of this client's concern."""

    def wake(self) -> None:
        """A task has to run."""

    async def result(self) -> Any:
        """Do the work that was started, and return its result."""
        assert self._work is not None
        return decoded(await self._work())


def decoded(value: object) -> Any:
    return json.loads(msgspec.json.encode(value))
