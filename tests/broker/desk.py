"""A broker over one scripted server, and clients that keep what they are told."""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import Any

import trio
from msgspec import Raw

from mcpd.broker.asking import Question
from mcpd.broker.broker import Broker
from mcpd.broker.call import Call
from mcpd.broker.keeping import Shelf
from mcpd.broker.parties import Parts, Plain
from mcpd.broker.requests import Request, ToolRequest
from mcpd.broker.results import ResultStore
from mcpd.broker.scopes import Seeker
from mcpd.config.model import Config, Limits
from mcpd.protocol.capabilities import NOTHING, Capabilities
from tests.upstream.fakes import NEVER_SECONDS, Script, World, server


class Client(Plain):
    """Keeps the outcomes of its calls: ("result" | "error", JSON), and their progress."""

    def __init__(self, desk: Desk, key: Hashable) -> None:
        self.key, self._desk = key, desk
        self.seeker = Seeker(key)
        self.capabilities, self.capabilities_json = NOTHING, b"{}"
        self.log_level: str | None = None
        self.questions: list[Question] = []
        self.withdrawn: list[Question] = []
        self.notices: list[tuple[str, Any]] = []
        self.calls: list[Call] = []
        self.told: dict[Call, list[tuple[str, bytes]]] = {}
        self.progress: list[Any] = []
        self._changed = trio.Event()

    def call(self, tool: str = "t", arguments: str = "{}", **options: Any) -> Call:
        """Call a tool. Options: `timeout`, `max_bytes`, `meta`."""
        options["meta"] = {key: Raw(json.dumps(value).encode()) for key, value in options.get("meta", {}).items()}
        return self.send(ToolRequest(server="fake", tool=tool, arguments=Raw(arguments.encode()), **options))

    def able(self, **capabilities: bool) -> Client:
        """Declare what it can be asked."""
        self.capabilities = Capabilities(**capabilities)
        self.capabilities_json = self.capabilities.to_json()
        return self

    def send(self, request: Request) -> Call:
        """Send any request."""
        self._desk.world.mover.batch(lambda: self.calls.append(self._desk.broker.call(self, b"1", request)))
        return self.calls[-1]

    # -- what a broker tells ---------------------------------------------------------------------

    def answered(self, call: Call, parts: Parts) -> None:
        self._note(call, "result", b"".join(parts))

    def refused(self, call: Call, error: bytes) -> None:
        self._note(call, "error", error)

    def progressed(self, call: Call, params: bytes) -> None:
        self.progress.append(json.loads(params))

    def notified(self, method: str, params: bytes) -> None:
        self.notices.append((method, json.loads(params)))

    def ask(self, question: Question) -> None:
        self.questions.append(question)
        self._changed.set()
        self._changed = trio.Event()

    def withdraw(self, question: Question, reason: str) -> None:
        self.withdrawn.append(question)

    async def question(self) -> Question:
        """Wait for a question that has not been taken yet; take it."""
        with trio.fail_after(NEVER_SECONDS):
            await trio.lowlevel.checkpoint()
            while not self.questions:
                await self._changed.wait()
        return self.questions.pop(0)

    def _note(self, call: Call, kind: str, body: bytes) -> None:
        self.told.setdefault(call, []).append((kind, body))
        self._changed.set()
        self._changed = trio.Event()

    # -- what a test asks ------------------------------------------------------------------------

    async def body(self, call: Call) -> bytes:
        """Wait for the outcome of a call, which must be one; return its bytes."""
        with trio.fail_after(NEVER_SECONDS):
            await trio.lowlevel.checkpoint()
            while call not in self.told:
                await self._changed.wait()
        ((_, body),) = self.told[call]
        return body

    async def outcome(self, call: Call) -> Any:
        """Wait for the outcome of a call, decoded."""
        return json.loads(await self.body(call))

    async def error(self, call: Call) -> dict[str, Any]:
        """Wait for the error of a call: its `data`, and its code and message."""
        error = await self.outcome(call)
        assert self.told[call][0][0] == "error", error
        return {"code": error["code"], "message": error["message"], **error.get("data", {})}


class Desk:
    """The broker and what is around it."""

    def __init__(
        self, world: World, *scripts: Script | Exception, shelf: Shelf | None = None, **settings: Any
    ) -> None:
        self.world, self.store = world, ResultStore()
        world.scripts = list(scripts) or world.scripts
        entry = server(**settings)
        self.broker = Broker(Config(path="config.toml", servers={"fake": entry}), world.around, self.store, shelf)
        self.upstream = self.broker.upstreams["fake"]
        self.place = self.upstream.place_for(Seeker("client"))
        self.slot, self.catalog = self.place.slot, self.place.catalog

    def client(self, key: Hashable = "client", project: str | None = None) -> Client:
        client = Client(self, key)
        client.seeker = Seeker(key, project)
        return client

    @staticmethod
    def limits(**settings: Any) -> Limits:
        """Return limits of an entry."""
        return Limits(**settings)

    @property
    def outcomes(self) -> dict[str, int]:
        """How many calls ended in which way."""
        return dict(self.slot.outcomes)

    @property
    def places(self) -> tuple[int, int]:
        """How many calls have a place, and how many wait for one."""
        return self.place.admission.running, self.place.admission.queued
