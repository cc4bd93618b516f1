"""The same server in every revision below one daemon, clients that can be asked, and what the servers heard."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.integration.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.integration.world import World

RECORDER = str(Path(__file__).parent / "recorder.py")
SERVER = str(Path(__file__).parent / "sdk_server.py")

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
# What an entry's `protocol` is, and the revision that it means.
PINNED = {"legacy": LEGACY[-1], **{date: date for date in LEGACY}, "modern": MODERN}
EVERYTHING = "everything"
# A legacy one that each client has for itself.
ALONE = "alone"
PATIENCE_SECONDS = 15.0

# What the SDK's server has from the beginning, and the member that names an item.
LISTS = {
    "tools": ("tools/list", "name", ["echo", "measure", "fail", "refuse", "capabilities"]),
    "prompts": ("prompts/list", "name", ["greeting", "interview", "farewell"]),
    "resources": ("resources/list", "uri", ["note://first", "note://second", "note://asked"]),
    "templates": ("resources/templates/list", "uriTemplate", ["note://{name}", "draft://{name}", "letter://{name}"]),
}
# What it asks, and what it wants to have back with the answer.
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
STATE = '{"état": "☂", "n": 1.0} '

CAN_ALL: Mapping[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
ACCEPTED = {"action": "accept", "content": {"name": "Ann"}}
DECLINED = {"action": "decline"}
CANCELLED = {"action": "cancel"}
OPENED = {"action": "accept"}
SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "something"}, "model": "a-model"}
ROOTS = {"roots": [{"uri": "file:///a%20folder", "name": "a folder"}]}


class Asked(Wire):
    """A client that can be asked."""

    def expect(self, method: str, *, before: int | None = None) -> dict[str, Any]:
        """Return the next request or notification of that method, and wait for it if need be.

        It has to come before the answer to the request `before`, if that is given.
        """
        found = next((note for note in self.notes if note["method"] == method), None)
        while found is None:
            message = self.read()
            if "method" not in message:
                assert message["id"] != before, f"no {method}, but {message}"
                self.early.append(message)
            elif message["method"] == method:
                return message
            else:
                self.notes.append(message)
        self.notes.remove(found)
        return found

    def reply(self, question: Mapping[str, Any], result: object) -> None:
        """Answer what was asked."""
        self.write(json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": result}).encode() + b"\n")


class Host(Asked):
    """A client that has said who it is."""

    def __init__(self, path: str, *, project: str, can: Mapping[str, Any] = CAN_ALL) -> None:
        super().__init__(path)
        self.sock.settimeout(PATIENCE_SECONDS)
        client = {"name": "eras", "version": "1", "pid": 0}
        self.ask("mcpd/hello", {"version": 1, "client": client, "project": project, "capabilities": can})

    def seen(self, method: str) -> list[dict[str, Any]]:
        """Return the parameters of all that came of that method, up to now."""
        self.ask("ping")
        return [note["params"] for note in self.notes if note["method"] == method]

    def asked(self) -> list[str]:
        """Return the methods of the questions that are open."""
        self.ask("ping")
        return [note["method"] for note in self.notes if "id" in note]

    def question(self, server: str, tool: str, method: str, arguments: object = None) -> tuple[int, dict[str, Any]]:
        """Call a tool that asks; return the id of the call, and the question."""
        call = self.send_call(tool, arguments, server=server)
        question = self.expect(method, before=call)
        assert question["id"].startswith("s"), question
        assert question["params"]["_meta"]["mcpd/server"] == server
        return call, question

    def call(self, server: str, tool: str, **arguments: object) -> str:
        """Return the text that a tool gives back."""
        return self.text(tool, arguments, server=server)


@dataclass
class Record:
    """What one server has heard and said so far, message by message."""

    path: str

    def heard(self, method: str | None = None) -> list[dict[str, Any]]:
        """Return the messages that the server got, of one method or all."""
        return [each for each in _read(f"{self.path}.heard") if method in (None, each.get("method"))]

    def said(self, method: str | None = None) -> list[dict[str, Any]]:
        """Return the messages that the server wrote."""
        return [each for each in _read(f"{self.path}.said") if method in (None, each.get("method"))]

    def calls(self, tool: str) -> list[dict[str, Any]]:
        """Return the tools/call requests for one tool."""
        return [each for each in self.heard("tools/call") if each["params"]["name"] == tool]

    def knows(self, text: str) -> bool:
        """Whether the server has heard a text, anywhere."""
        return any(text in json.dumps(each, ensure_ascii=False) for each in self.heard())


@dataclass
class Eras:
    """The daemon with its servers; all clients are of one project."""

    world: World
    records: dict[str, Record] = field(default_factory=dict)

    @property
    def project(self) -> str:
        """The folder that all clients work on."""
        return str(self.world.path / "project")

    def host(self, can: Mapping[str, Any] = CAN_ALL) -> Host:
        """Return a new connection of a client with these capabilities."""
        return Host(self.world.socket, project=self.project, can=can)

    def entry(self, name: str, *command: str, **more: object) -> dict[str, object]:
        """Return the entry of a server whose messages are recorded under its name."""
        self.records[name] = Record(str(self.world.path / name))
        recorded = ["-I", "-S", RECORDER, self.records[name].path, *command]
        return {"command": sys.executable, "args": recorded, "timeout": {"start_seconds": 120}, **more}


def _read(path: str) -> list[dict[str, Any]]:
    data = Path(path).read_bytes()
    # The last line may still be on its way.
    return [json.loads(line) for line in data.splitlines(keepends=True) if line.endswith(b"\n")]
