"""Worlds with chatty servers: their entries, what they have received, and how a client is asked by them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.integration.wire import Wire, text_of
from tests.integration.world import until

if TYPE_CHECKING:
    from tests.integration.world import World

Json = dict[str, Any]

SERVER = str(Path(__file__).with_name("chatty_server.py"))
ERAS = ("legacy", "modern")
FORMS: Json = {"elicitation": {"form": {}}}
PROTOCOL_KEYS = "io.modelcontextprotocol/"


def entry(world: World, era: str, *how: str, ledger: str = "s", **more: object) -> Json:
    """Return the entry of a chatty server that all clients share, unless `more` says otherwise."""
    args = ["-E", "-S", SERVER, f"{world.path}/{ledger}.jsonl", era, *how]
    return {"command": sys.executable, "args": args, "scope": "user", **more}


# -- what the server knows -------------------------------------------------------------------------


def lines(world: World, ledger: str = "s") -> list[Json]:
    """Return the ledger of the servers that share it."""
    path = world.path / f"{ledger}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def received(world: World, method: str | None = None, ledger: str = "s") -> list[Json]:
    """Return the messages that came to the servers, in their order; of one method, or all."""
    found = [line["got"] for line in lines(world, ledger) if "got" in line]
    return [message for message in found if method in (None, message.get("method"))]


def started(world: World, ledger: str = "s") -> list[int]:
    """Return the processes that were started."""
    return [line["pid"] for line in lines(world, ledger) if "start" in line]


def calls(world: World, tool: str, ledger: str = "s") -> list[Json]:
    """Return the calls of one tool as they came to the servers."""
    return [call for call in received(world, "tools/call", ledger) if call["params"]["name"] == tool]


def cancelled(world: World, ledger: str = "s") -> list[object]:
    """Return the ids of the requests that the servers were told to give up."""
    return [note["params"]["requestId"] for note in received(world, "notifications/cancelled", ledger)]


def reached(world: World, tool: str, times: int = 1, ledger: str = "s") -> None:
    """Wait until calls of a tool have come to the servers."""
    until(lambda: len(calls(world, tool, ledger)) >= times, seen=lambda: received(world, ledger=ledger))


# -- clients that can be asked -----------------------------------------------------------------------


def hello(wire: Wire, capabilities: Json | None = None, project: object = None) -> Wire:
    """Introduce a client, and return it."""
    params: Json = {"version": 1, "client": {"name": "test"}}
    if capabilities is not None:
        params["capabilities"] = capabilities
    if project is not None:
        params["project"] = str(project)
    wire.ask("mcpd/hello", params)
    return wire


def questions(wire: Wire) -> list[Json]:
    """Return what a client was asked while it waited for something else."""
    return [note for note in wire.notes if "id" in note]


def question(wire: Wire) -> Json:
    """Wait for the next question of the daemon, and take it."""
    while not (asked := questions(wire)):
        message = wire.read()
        (wire.notes if "method" in message else wire.early).append(message)
    wire.notes.remove(asked[0])
    return asked[0]


def note(wire: Wire, method: str) -> Json:
    """Wait for a notification, and return its parameters."""
    while not (found := [one for one in wire.notes if one["method"] == method]):
        message = wire.read()
        (wire.notes if "method" in message else wire.early).append(message)
    wire.notes.remove(found[0])
    params: Json = found[0]["params"]
    return params


def reply(wire: Wire, asked: Json, **members: object) -> None:
    """Answer a question of the daemon, with `result=…` or `error=…`."""
    wire.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **members}).encode() + b"\n")


def accept(wire: Wire, asked: Json, answer: str) -> None:
    """Fill a form in."""
    reply(wire, asked, result={"action": "accept", "content": {"answer": answer}})


def silence(wire: Wire) -> None:
    """Wait until the daemon has handled all that this client has sent; what it had to say until then is in `notes`."""
    wire.ask("ping")


def where(wire: Wire, server: str = "s") -> Json:
    """Return folder, process and environment of the server that serves a client."""
    found: Json = json.loads(wire.text("where", server=server))
    return found


def ask(wire: Wire, text: str, **more: object) -> object:
    """Call the tool that asks."""
    return wire.send_call("ask", {"question": text, **more}, server="s")


def text(wire: Wire, call: object) -> str:
    """Return what became of a question."""
    answer = wire.wait(call)
    assert "result" in answer, answer
    return text_of(answer["result"])


def was_not_asked(*wires: Wire) -> None:
    """Check that none of these clients was asked anything so far."""
    for wire in wires:
        silence(wire)
        assert questions(wire) == []
