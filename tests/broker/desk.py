"""A broker over one scripted server, and clients that keep what they are told."""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import Any

import trio
from msgspec import Raw

from mcpd.broker.broker import Broker
from mcpd.broker.call import Call, Parts, Request
from mcpd.broker.keeping import Shelf
from mcpd.broker.results import ResultStore
from mcpd.config.model import Config
from tests.upstream.fakes import NEVER_SECONDS, Script, World, server


class Client:
    """Keeps the outcomes of its calls: ("result" | "error", JSON), and their progress."""

    def __init__(self, desk: Desk, key: Hashable) -> None:
        self.key, self._desk = key, desk
        self.calls: list[Call] = []
        self.told: dict[Call, list[tuple[str, bytes]]] = {}
        self.progress: list[Any] = []
        self._changed = trio.Event()

    def call(self, tool: str = "t", arguments: str = "{}", **options: Any) -> Call:
        """Call a tool. Options: `timeout`, `max_bytes`, `meta`."""
        options["meta"] = {key: Raw(json.dumps(value).encode()) for key, value in options.get("meta", {}).items()}
        request = Request(server="fake", tool=tool, arguments=Raw(arguments.encode()), **options)
        self._desk.world.mover.batch(lambda: self.calls.append(self._desk.broker.call(self, b"1", request)))
        return self.calls[-1]

    # -- what a broker tells ---------------------------------------------------------------------

    def answered(self, call: Call, parts: Parts) -> None:
        self._note(call, "result", b"".join(parts))

    def refused(self, call: Call, error: bytes) -> None:
        self._note(call, "error", error)

    def progressed(self, call: Call, params: bytes) -> None:
        self.progress.append(json.loads(params))

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
        self.place = self.broker.places["fake"]
        self.slot, self.catalog = self.place.slot, self.place.catalog

    def client(self, key: Hashable = "client") -> Client:
        return Client(self, key)

    @property
    def outcomes(self) -> dict[str, int]:
        """How many calls ended in which way."""
        return dict(self.slot.outcomes)

    @property
    def places(self) -> tuple[int, int]:
        """How many calls have a place, and how many wait for one."""
        return self.place.admission.running, self.place.admission.queued
