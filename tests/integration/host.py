"""MCP clients on the socket, in all revisions, and one that must not notice what the others do."""

from __future__ import annotations

import json
import threading
from typing import Any

from tests.integration.wire import Wire, text_of

PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
UNSUPPORTED_VERSION = -32022
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
MODERN = "2026-07-28"
VERSION, CAPABILITIES = (f"io.modelcontextprotocol/{key}" for key in ("protocolVersion", "clientCapabilities"))
META = {VERSION: MODERN, CAPABILITIES: {}, "io.modelcontextprotocol/clientInfo": {"name": "wire", "version": "1"}}
ERAS = ("legacy", "modern")
MEBIBYTE = 1 << 20


class Bystander:
    """A client that calls a tool all the time, and keeps what was not as it should be."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._over = threading.Event()
        self.served = 0
        self.problems: list[object] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._over.wait(0.002):
                self.call()
            self.call()
        except (AssertionError, OSError) as problem:
            self.problems.append(problem)

    def call(self) -> None:
        """Call, and note an answer that is not the right one."""
        said = f"word {self.served}"
        answer = self._wire.wait(self._wire.send("tools/call", echo(said)))
        if answer.get("result", {}).get("content") != [{"type": "text", "text": said}]:
            self.problems.append(answer)
        self.served += 1

    def leave(self) -> None:
        """Stop; all must have been well."""
        self._over.set()
        self._thread.join()
        assert self.problems == []
        assert self.served
        assert self._wire.notes == []


def hello(wire: Wire) -> Wire:
    wire.ask("mcpd/hello", {"version": 1, "server": "demo"})
    return wire


def open_session(wire: Wire, revision: str = LEGACY[0]) -> Wire:
    """Open a legacy session."""
    result = wire.ask("initialize", opening(revision))
    assert result["protocolVersion"] == revision
    assert result["capabilities"]["tools"] is not None
    wire.notify("notifications/initialized", {})
    return wire


def opening(revision: str) -> dict[str, object]:
    return {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "wire", "version": "1"}}


def enter(host: Wire, era: str) -> Wire:
    """Let a client be of an era: a modern one needs no session."""
    return open_session(host) if era == "legacy" else host


def of(era: str, **params: object) -> dict[str, object]:
    """Return parameters of a request of an era."""
    return {**params, "_meta": META} if era == "modern" else params


def echo(said: str) -> dict[str, Any]:
    return {"name": "echo", "arguments": {"text": said}}


def slow(seconds: float) -> dict[str, Any]:
    return {"name": "slow", "arguments": {"seconds": seconds}}


def serves(wire: Wire, era: str = "legacy") -> None:
    """Check that a client is served."""
    assert text_of(wire.ask("tools/call", of(era, **echo("still here")))) == "still here"


def lines(*messages: object) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def request(identity: object, method: str, params: object = None) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": identity, "method": method, **({} if params is None else {"params": params})}


def error_of(message: dict[str, Any]) -> tuple[object, int]:
    assert message["error"]["message"]
    return message["id"], message["error"]["code"]
