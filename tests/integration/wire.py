"""A client that says exactly what it is told to: lines of JSON, or anything else, over the socket."""

from __future__ import annotations

import json
import socket
from itertools import count
from typing import Any

PATIENCE_SECONDS = 30.0


class Wire:
    """One connection.

    Attributes:
        notes: notifications that came while something else was waited for.
        early: answers that came while another one was waited for.
        sock: to do what no proper client does.
    """

    def __init__(self, path: str) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE_SECONDS)
        self.sock.connect(path)
        self.notes: list[dict[str, Any]] = []
        self._file = self.sock.makefile("rb")
        self._ids = count(1)
        self.early: list[dict[str, Any]] = []

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave without a word."""
        self._file.close()
        self.sock.close()

    # -- saying ----------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.sock.sendall(data)

    def send(self, method: str, params: object = None, **more: object) -> Any:
        """Send a request and return its id; `id=…` chooses one."""
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params or {}, **more}
        self.write(json.dumps(message).encode() + b"\n")
        return message["id"]

    def notify(self, method: str, params: object) -> None:
        """Send a notification."""
        self.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode() + b"\n")

    def send_call(self, tool: str, arguments: object = None, *, server: str = "demo", **more: Any) -> Any:
        """Send a tool call and return its id; `id=…` chooses one, the rest are parameters."""
        chosen = {"id": more.pop("id")} if "id" in more else {}
        return self.send("mcpd/call", {"server": server, "tool": tool, "arguments": arguments or {}, **more}, **chosen)

    # -- hearing ---------------------------------------------------------------------------------

    def read(self) -> dict[str, Any]:
        """Return the next line, whatever it is."""
        line = self._file.readline()
        assert line.endswith(b"\n"), f"the connection ended with {line!r}"
        message: dict[str, Any] = json.loads(line)
        return message

    def wait(self, identity: object) -> dict[str, Any]:
        """Return the answer to one request; other answers wait for their turn."""
        for message in self.early:
            if message["id"] == identity:
                self.early.remove(message)
                return message
        while True:
            message = self.read()
            if "method" in message:
                self.notes.append(message)
            elif message["id"] == identity:
                return message
            else:
                self.early.append(message)

    def has_ended(self) -> bool:
        """Wait for the end; what else came is an error."""
        try:
            return self._file.readline() == b""
        except ConnectionResetError:
            # The other side closed and has not read all that was sent.
            return True

    # -- both ------------------------------------------------------------------------------------

    def ask(self, method: str, params: object = None, **more: object) -> Any:
        """Return the result of a request."""
        answer = self.wait(self.send(method, params, **more))
        assert "result" in answer, answer
        return answer["result"]

    def fail(self, method: str, params: object = None, **more: object) -> dict[str, Any]:
        """Return the error of a request."""
        answer = self.wait(self.send(method, params, **more))
        assert "error" in answer, answer
        error: dict[str, Any] = answer["error"]
        return error

    def text(self, tool: str, arguments: object = None, **more: Any) -> str:
        """Return the text of a tool's result."""
        answer = self.wait(self.send_call(tool, arguments, **more))
        assert "result" in answer, answer
        return text_of(answer["result"])

    def row(self, server: str = "demo") -> dict[str, Any]:
        """Return the row of one server."""
        rows: list[dict[str, Any]] = self.ask("mcpd/servers", {"all": True})["servers"]
        return next(row for row in rows if row["name"] == server)


def text_of(result: dict[str, Any]) -> str:
    """Return the texts of a result."""
    return "".join(item["text"] for item in result["content"] if item["type"] == "text")
