"""As much of an HTTP/1.1 server as the shim needs: requests with a body, JSON answers, event streams."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import trio

MAX_HEAD = 65_536
CHUNK = 65_536


@dataclass(frozen=True)
class Request:
    """What a client has sent; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Gone(Exception):
    """The client has closed its connection, or speaks no HTTP."""


class Reader:
    """The requests of one connection, and its end, which is seen while an answer is made, too."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream, self._data, self._ended = stream, b"", False

    async def next(self) -> Request:
        """Return the next request.

        Raises:
            Gone: There is none.
        """
        while b"\r\n\r\n" not in self._data:
            await self._more()
        head, _, self._data = self._data.partition(b"\r\n\r\n")
        first, *rest = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ", 2)
        pairs = (line.partition(":")[::2] for line in rest)
        headers = {name.strip().lower(): value.strip() for name, value in pairs}
        length = int(headers.get("content-length", 0))
        while len(self._data) < length:
            await self._more()
        body, self._data = self._data[:length], self._data[length:]
        return Request(method, path, headers, body)

    async def watch(self, scope: trio.CancelScope) -> None:
        """Cancel what is done for a client that goes away."""
        try:
            while True:
                await self._more()
        except Gone:
            scope.cancel()

    async def _more(self) -> None:
        try:
            data = await self._stream.receive_some(CHUNK)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            data = b""
        if not data or self._ended or len(self._data) > MAX_HEAD + (64 << 20):
            self._ended = True
            raise Gone
        self._data += data


class Exchange:
    """A request, and the way back to the client."""

    def __init__(self, request: Request, stream: trio.SocketStream) -> None:
        self.request = request
        self._stream = stream
        self.is_open = False  # as an event stream

    async def answer(self, status: int, body: object = None, headers: Mapping[str, str] | None = None) -> None:
        """Send a whole response; the body is JSON, None for none."""
        data = b"" if body is None else json.dumps(body, ensure_ascii=False).encode()
        kind = {"Content-Type": "application/json"} if data else {}
        await self._head(status, {**kind, "Content-Length": str(len(data)), **(headers or {})}, data)

    async def open(self, headers: Mapping[str, str] | None = None) -> None:
        """Begin an event stream."""
        self.is_open = True
        shape = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "Transfer-Encoding": "chunked"}
        await self._head(200, {**shape, **(headers or {})})

    async def event(self, message: object) -> None:
        """Send a message on the event stream."""
        await self._chunk(f"event: message\ndata: {json.dumps(message, ensure_ascii=False)}\n\n".encode())

    async def end(self) -> None:
        """End the event stream."""
        await self._chunk(b"")

    async def _head(self, status: int, headers: Mapping[str, str], data: bytes = b"") -> None:
        lines = (f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *(f"{key}: {headers[key]}" for key in headers))
        await self._stream.send_all("\r\n".join((*lines, "", "")).encode("latin-1") + data)

    async def _chunk(self, data: bytes) -> None:
        await self._stream.send_all(b"%x\r\n%s\r\n" % (len(data), data))


Handler = Callable[[Exchange], Awaitable[Any]]


async def serve_connection(handler: Handler, stream: trio.SocketStream) -> None:
    """Answer the requests of one connection; the handler is cancelled when the client goes away."""
    reader = Reader(stream)
    try:
        async with stream:
            while True:
                exchange = Exchange(await reader.next(), stream)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(reader.watch, nursery.cancel_scope)
                    await handler(exchange)
                    nursery.cancel_scope.cancel()
    except (Gone, trio.BrokenResourceError):
        pass
