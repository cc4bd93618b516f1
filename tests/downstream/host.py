"""An MCP host at the socket, in virtual time: a real connection over scripted servers."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import trio

from mcpd.broker.results import ResultStore
from mcpd.downstream.connection import Connection
from mcpd.downstream.control import Control
from tests.downstream.hall import Hall
from tests.upstream.fakes import FakeServer, Script

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
}
_keys = count(1)


class Host:
    """A connected host.

    Attributes:
        notes: what came and was no answer, in order: notifications and requests.
    """

    def __init__(self, hall: Hall, **hello: Any) -> None:
        ours, self.sock = socket.socketpair()
        self.sock.setblocking(False)
        self._hall, self._ids, self._buffer = hall, count(1), b""
        self._answers: dict[str, dict[str, Any]] = {}
        self.notes: list[dict[str, Any]] = []
        log: Any = hall.log
        control = Control(
            broker=hall.broker, mover=hall.mover, timers=hall.timers, store=ResultStore(), log=log,
            shutdown=lambda: None, reload=dict, started=0.0, socket="/s",
        )  # fmt: skip
        self.connection = Connection(next(_keys), ours, hall.mover, control, hall.nursery)
        self.send("mcpd/hello", {"server": "one", "project": "/p", **hello}, id="hello")

    def close(self) -> None:
        """Leave."""
        self._hall.mover.batch(self.connection.close)
        self.sock.close()

    # -- saying ----------------------------------------------------------------------------------

    def line(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._hall.mover.batch(lambda: self.connection._on_bytes(data))

    def send(self, method: str, params: Any = None, **more: Any) -> Any:
        """Send a request and return its id."""
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params, **more}
        self.line(json.dumps(message).encode() + b"\n")
        return message["id"]

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        self.line(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode() + b"\n")

    def respond(self, request_id: str, result: Any) -> None:
        """Answer a request of the daemon."""
        self.line(json.dumps({"jsonrpc": "2.0", "id": request_id, "result": result}).encode() + b"\n")

    def end_input(self) -> None:
        """Send no more."""
        self._hall.mover.batch(lambda: self.connection._on_end(False))

    def modern(self, method: str, params: Mapping[str, Any] | None = None, meta: Any = None, **more: Any) -> Any:
        """Send a request with the metadata of 2026-07-28."""
        return self.send(method, {**(params or {}), "_meta": META | (meta or {})}, **more)

    # -- hearing ---------------------------------------------------------------------------------

    def look(self) -> None:
        """Take in what has come so far."""
        with contextlib.suppress(BlockingIOError):
            while data := self.sock.recv(1 << 20):
                self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "method" in message:
                self.notes.append(message)
            else:
                self._answers[json.dumps(message["id"])] = message

    async def answer(self, request_id: Any, *, seconds: float = 10_000) -> dict[str, Any]:
        """Return the answer to a request, whole."""
        pause_seconds = 0.01
        with trio.fail_after(seconds):
            while True:
                self.look()
                if (found := self._answers.pop(json.dumps(request_id), None)) is not None:
                    return found
                await trio.sleep(pause_seconds)
                pause_seconds = min(pause_seconds * 1.2, 5.0)

    async def result(self, request_id: Any) -> Any:
        """Return the result of a request."""
        answer = await self.answer(request_id)
        assert "result" in answer, answer
        return answer["result"]

    async def error(self, request_id: Any) -> Any:
        """Return the error that a request got."""
        answer = await self.answer(request_id)
        assert "error" in answer, answer
        return answer["error"]

    async def note(self, method: str) -> dict[str, Any]:
        """Return the next notification or request of that method; it is taken."""
        with trio.fail_after(10_000):
            while True:
                self.look()
                for note in self.notes:
                    if note["method"] == method:
                        self.notes.remove(note)
                        return note
                await trio.sleep(0.01)

    def has_answer(self, request_id: Any) -> bool:
        """Whether a request has been answered."""
        self.look()
        return json.dumps(request_id) in self._answers

    async def initialize(self, version: str = "2025-11-25", **capabilities: Any) -> Any:
        """Open a legacy session; return the result."""
        params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "h", "version": "1"}}
        result = await self.result(self.send("initialize", params))
        self.notify("notifications/initialized")
        return result


@contextlib.contextmanager
def hosts(hall: Hall, *hellos: Mapping[str, Any]) -> Iterator[list[Host]]:
    """Connect a host for each hello; all leave at the end."""
    found = [Host(hall, **hello) for hello in hellos or [{}]]
    try:
        yield found
    finally:
        for host in found:
            host.close()


FORM = {"message": "sure?", "requestedSchema": {"type": "object", "properties": {}}}


def asks_then(result: Mapping[str, Any], *, times: int = 1) -> Any:
    """React to a call of a legacy server: ask so many questions one after the other, then answer."""
    waiting: dict[str, dict[str, Any]] = {}

    def on_call(server: FakeServer, message: dict[str, Any]) -> None:
        waiting["call"] = message
        ask(server, 1)

    def ask(server: FakeServer, number: int) -> None:
        seen = len(server.answers)
        server.say({"jsonrpc": "2.0", "id": f"q{number}", "method": "elicitation/create", "params": FORM})

        def look() -> None:
            if len(server.answers) == seen:
                server.timers.after(0.01, look)
            elif number < times:
                ask(server, number + 1)
            else:
                server.react(waiting["call"], result)

        server.timers.after(0.01, look)

    return on_call


def scripted(base: Script, **more: Any) -> Script:
    """Return a script with other reactions; `tools_call` stands for tools/call."""
    return {**base, **{name.replace("_", "/", 1): reaction for name, reaction in more.items()}}
