"""Streamable HTTP in front of a server on stdin and stdout, for tests: the conformance suite speaks HTTP only.

Legacy: a process for each session. Modern: one process for all, which sees them as one client. What is a
duty of HTTP (sessions, Host and Origin, the headers, status codes) is done here; all else is the server's.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import json
import os
import secrets
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import trio

from tests.conformance.child import Child, Json
from tests.conformance.legs import MISMATCH, VERSION, Session, Stateless, error, part
from tests.conformance.web import Exchange, serve_connection

LEGACY, MODERN = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"), "2026-07-28"
PARSE_ERROR, INVALID_REQUEST = -32700, -32600
LOCAL = ("localhost", "127.0.0.1", "::1")
# The parameter that the header Mcp-Name repeats.
NAMES = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
NAMES |= dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId")


class Program(NamedTuple):
    """How a server is started."""

    command: Sequence[str]
    env: Mapping[str, str]
    cwd: str


class Shim:
    """The HTTP server.

    Attributes:
        url: where it is.
        children: all processes that it has started.
    """

    def __init__(self, program: Program, nursery: trio.Nursery, log: Any) -> None:
        self.url = ""
        self.children: list[Child] = []
        self._program, self._nursery, self._log = program, nursery, log
        self._sessions: dict[str, Session] = {}
        self._stateless: Stateless | None = None
        self._starting = trio.Lock()

    @property
    def troubles(self) -> list[str]:
        """What processes did that no server may do."""
        return [child.trouble for child in self.children if child.trouble]

    def close(self) -> None:
        """Tell all processes to end."""
        for child in self.children:
            child.close()

    async def handle(self, exchange: Exchange) -> None:
        """Answer one HTTP request."""
        headers = exchange.request.headers
        if not is_local(headers.get("host", "")) or not is_local(urlsplit(headers.get("origin", "//localhost")).netloc):
            return await exchange.answer(403, error(None, INVALID_REQUEST, "not from this machine"))
        revision, session = headers.get("mcp-protocol-version"), headers.get("mcp-session-id")
        match exchange.request.method:
            case "POST":
                await self._post(exchange, revision, session)
            case "GET" | "DELETE" if revision == MODERN or session is None:
                await exchange.answer(405)
            case "GET" | "DELETE" if session not in self._sessions:
                await exchange.answer(404)
            case "GET":
                await self._sessions[str(session)].get(exchange)
            case "DELETE":
                self._sessions.pop(str(session)).child.close()
                await exchange.answer(200)
            case _:
                await exchange.answer(405)

    async def _post(self, exchange: Exchange, revision: str | None, session: str | None) -> None:
        try:
            message = json.loads(exchange.request.body)
        except ValueError:
            return await exchange.answer(400, error(None, PARSE_ERROR, "this is not JSON"))
        if not isinstance(message, dict):
            return await exchange.answer(400, error(None, INVALID_REQUEST, "this is no message"))
        bare = revision is None and VERSION not in part(message, "params", "_meta")
        if revision in LEGACY or bare or (session is not None and revision != MODERN):
            await self._post_legacy(exchange, message, session)
        else:
            await self._post_modern(exchange, message)

    async def _post_legacy(self, exchange: Exchange, message: Json, session: str | None) -> None:
        if session is None:
            if message.get("method") != "initialize":
                return await exchange.answer(400, error(message.get("id"), INVALID_REQUEST, "no session"))
            return await self._begin(exchange, message)
        if session not in self._sessions:
            return await exchange.answer(404, error(message.get("id"), INVALID_REQUEST, "no such session"))
        if "method" in message and "id" in message:
            await self._sessions[session].post(exchange, message)
        else:
            self._sessions[session].child.write(message)
            await exchange.answer(202)

    async def _begin(self, exchange: Exchange, message: Json) -> None:
        session, identity = Session(self._note()), secrets.token_hex(16)
        await self._start(session.child)
        self._sessions[identity] = session
        said = await session.post(exchange, message, {"Mcp-Session-Id": identity})
        if "result" not in said:
            self._sessions.pop(identity).child.close()

    async def _post_modern(self, exchange: Exchange, message: Json) -> None:
        wrong = mismatch(exchange.request.headers, message)
        if wrong:
            return await exchange.answer(400, error(message.get("id"), MISMATCH, wrong))
        async with self._starting:
            if self._stateless is None or self._stateless.child.has_ended:
                self._stateless = Stateless(self._note())
                await self._start(self._stateless.child)
        if "id" in message:
            await self._stateless.post(exchange, message)
        else:
            self._stateless.child.write(message)
            await exchange.answer(202)

    async def _start(self, child: Child) -> None:
        self.children.append(child)
        await self._nursery.start(child.run, *self._program)

    def _note(self) -> Any:
        number = len(self.children)
        return lambda way, line: print(f"{trio.current_time():.3f} {number} {way} {line}", file=self._log)


def is_local(host: str) -> bool:
    """Whether this is a name of this machine, with a port or without."""
    try:
        return urlsplit(f"//{host}").hostname in LOCAL
    except ValueError:
        return False


def mismatch(headers: Mapping[str, str], message: Json) -> str:
    """Return what the headers say that the message does not, if there is such a thing."""
    if "mcp-protocol-version" not in headers:
        return "there is no header MCP-Protocol-Version"
    told = part(message, "params", "_meta").get(VERSION)
    if told not in (None, headers["mcp-protocol-version"]):
        return "the header MCP-Protocol-Version and the message differ"
    if headers.get("mcp-method") != message.get("method"):
        return "the header Mcp-Method and the message differ"
    name = part(message, "params").get(NAMES.get(message.get("method", ""), ""))
    if name is not None and decoded(headers.get("mcp-name", "")) != name:
        return "the header Mcp-Name and the message differ"
    return ""


def decoded(value: str) -> str:
    """Return what a header means that may have been written in base64."""
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return value


@asynccontextmanager
async def open_shim(program: Program, log: Any, port: int = 0) -> AsyncIterator[Shim]:
    """Serve for as long as the block lasts; all processes have ended after it."""
    async with trio.open_nursery() as processes:
        shim = Shim(program, processes, log)
        async with trio.open_nursery() as connections:
            listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
            shim.url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/mcp"
            await connections.start(trio.serve_listeners, partial(serve_connection, shim.handle), listeners)
            try:
                yield shim
            finally:
                connections.cancel_scope.cancel()
        shim.close()


async def main(argv: list[str]) -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.shim", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("command", nargs="+")
    given = parser.parse_args(argv)
    async with open_shim(Program(given.command, os.environ, os.getcwd()), sys.stderr, given.port) as shim:
        print(shim.url, flush=True)
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main, sys.argv[1:])
