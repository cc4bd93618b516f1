"""A server that is reached by Streamable HTTP, in both eras, and takes as little as Python can.

    python -I -S http_server.py

It writes its port, and ends with its stdin. `/json` answers with JSON, `/sse` with a stream of one event.
`GET /seen` tells how many connections have brought a message so far.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
from typing import Any

ABOUT = {"capabilities": {"tools": {}}, "serverInfo": {"name": "bench", "version": "1"}}
ECHO = {
    "name": "echo",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}
FOR_A_WHILE = {"resultType": "complete", "ttlMs": 3_600_000, "cacheScope": "private"}
SESSION = b"Mcp-Session-Id: the-only-one\r\n"


class Connection:
    """One client's connection; requests come one after another."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock, self._data, self._counted = sock, b"", False

    def close(self) -> None:
        """Close it."""
        self._sock.close()

    def serve(self, server: Server) -> bool:
        """Read once, and answer what is whole by then; say whether there may be more."""
        try:
            chunk = self._sock.recv(1 << 16)
        except ConnectionError:
            return False
        self._data += chunk
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            head, size = self._data[:end], 0
            # Names of fields are in any case; no value here may contain this one.
            at = head.lower().find(b"\r\ncontent-length:")
            if at >= 0:
                size = int(head[at + 17 :].split(b"\r\n", 1)[0])
            if len(self._data) < end + 4 + size:
                break
            body, self._data = self._data[end + 4 : end + 4 + size], self._data[end + 4 + size :]
            method, path = head.split(b" ", 2)[:2]
            if method == b"POST" and not self._counted:
                self._counted = True
                server.seen += 1
            self._sock.sendall(server.answer(method, path, body))
        return bool(chunk)


class Server:
    """All connections, in one thread.

    Attributes:
        seen: how many connections have brought a message.
    """

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port, self.seen = self._listening.getsockname()[1], 0
        self._poll, self._connections = select.epoll(), dict[int, Connection]()

    def run(self, until: int) -> None:
        """Serve until that descriptor can be read."""
        for fd in (until, self._listening.fileno()):
            self._poll.register(fd, select.EPOLLIN)
        while True:
            for fd, _ in self._poll.poll():
                if fd == until:
                    return
                if fd == self._listening.fileno():
                    sock, _ = self._listening.accept()
                    self._connections[sock.fileno()] = Connection(sock)
                    self._poll.register(sock.fileno(), select.EPOLLIN)
                elif not self._connections[fd].serve(self):
                    # What is closed leaves the poll by itself.
                    self._connections.pop(fd).close()

    def answer(self, method: bytes, path: bytes, body: bytes) -> bytes:
        """Return the whole answer to a request."""
        if path == b"/seen":
            return _whole(b"200 OK", b"application/json", b"%d" % self.seen)
        if method != b"POST":
            return _whole(b"200 OK" if method == b"DELETE" else b"405 Method Not Allowed")
        message = json.loads(body)
        if "id" not in message:
            return _whole(b"202 Accepted")
        said = json.dumps({"jsonrpc": "2.0", "id": message["id"], **_outcome(message)}, separators=(",", ":")).encode()
        session = SESSION if message["method"] == "initialize" else b""
        if path == b"/sse":
            return _whole(b"200 OK", b"text/event-stream", b"event: message\ndata: %b\n\n" % said, session)
        return _whole(b"200 OK", b"application/json", said, session)


def _outcome(message: dict[str, Any]) -> dict[str, Any]:
    method, params = message["method"], message.get("params", {})
    if method == "tools/call":
        result: dict[str, Any] = {"content": [{"type": "text", "text": params["arguments"]["text"]}], "isError": False}
        return {"result": {"resultType": "complete", **result}}
    if method == "tools/list":
        return {"result": {"tools": [ECHO], **FOR_A_WHILE}}
    if method == "server/discover":
        return {"result": {"supportedVersions": ["2026-07-28"], **ABOUT, **FOR_A_WHILE}}
    if method == "initialize":
        return {"result": {"protocolVersion": params["protocolVersion"], **ABOUT}}
    if method == "ping":
        return {"result": {}}
    return {"error": {"code": -32601, "message": f"there is no {method}"}}


def _whole(status: bytes, kind: bytes = b"", body: bytes = b"", more: bytes = b"") -> bytes:
    of_kind = b"Content-Type: %b\r\n" % kind if kind else b""
    return b"HTTP/1.1 %b\r\n%b%bContent-Length: %d\r\n\r\n%b" % (status, of_kind, more, len(body), body)


if __name__ == "__main__":
    server = Server()
    os.write(1, b"%d\n" % server.port)
    server.run(sys.stdin.fileno())
