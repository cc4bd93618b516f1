"""A small HTTP server whose every byte a test decides, and whoever a transport to it hands its messages to."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import trio
from trio.testing import MockClock

from mcpd.config.expand import Launch
from mcpd.config.model import Server
from mcpd.errors import AuthRequired, McpdError
from mcpd.mover import Mover
from mcpd.protocol import jsonrpc
from mcpd.timers import Timers
from mcpd.upstream.around import Surroundings
from mcpd.upstream.crowd import Crowd
from mcpd.upstream.http import HttpTransport, open_http

from tests.upstream.fakes import Memory, Notes

# What takes this long in virtual time will not happen; and this long in real time.
NEVER_SECONDS = 10_000
PATIENCE_SECONDS = 30


def patience() -> float:
    """How long a test waits for what will be."""
    return NEVER_SECONDS if isinstance(trio.lowlevel.current_clock(), MockClock) else PATIENCE_SECONDS


class Gone(Exception):
    """The other side has closed its connection."""


class Request:
    """One request, and the means to answer it."""

    def __init__(self, stream: trio.SocketStream, connection: int, nth: int, head: bytes, body: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        self.verb, self.path, _ = first.split(" ")
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self.body = body
        self.message: dict[str, Any] = json.loads(body) if body else {}
        self.connection, self.nth = connection, nth
        self.at = trio.current_time()
        self._stream = stream

    @property
    def method(self) -> str:
        """Of the message, with the verb where that is not POST: `GET`, or `tools/call`."""
        return str(self.message.get("method", "answer")) if self.verb == "POST" else self.verb

    async def send(self, data: bytes) -> None:
        try:
            await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise Gone from None

    async def head(self, status: int, kind: str | None, headers: Mapping[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} X", *([] if kind is None else [f"Content-Type: {kind}"])]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        await self.send("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def answer(
        self, status: int, body: bytes = b"", kind: str | None = "application/json", headers: Mapping[str, str] | None = None
    ) -> None:
        """Answer as a whole."""
        await self.head(status, kind, {"Content-Length": str(len(body)), **(headers or {})})
        await self.send(body)

    async def result(self, result: object = None, headers: Mapping[str, str] | None = None) -> None:
        """Answer with a result."""
        await self.answer(200, self.line(result), headers=headers)

    async def stream(self, headers: Mapping[str, str] | None = None) -> None:
        """Begin a stream."""
        await self.head(200, "text/event-stream", {"Transfer-Encoding": "chunked", **(headers or {})})

    async def chunk(self, data: bytes) -> None:
        """Send a part of a stream."""
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def event(self, message: object, event_id: str | None = None) -> None:
        """Send a message as an event."""
        first = b"" if event_id is None else b"id: %b\n" % event_id.encode()
        await self.chunk(first + b"data: " + json.dumps(message).encode() + b"\n\n")

    async def end(self) -> None:
        """End a stream."""
        await self.send(b"0\r\n\r\n")

    async def close(self) -> None:
        """Close the connection, whatever was promised."""
        await self._stream.aclose()
        raise Gone

    async def until_gone(self) -> None:
        """Wait until the other side has closed the connection."""
        while await self._stream.receive_some():
            pass
        raise Gone

    def line(self, result: object = None) -> bytes:
        """Return the message that answers with a result."""
        return json.dumps({"jsonrpc": "2.0", "id": self.message["id"], "result": {} if result is None else result}).encode()


Reaction = Callable[[Request], Awaitable[None]]


class Web:
    """A server that reacts to each request by its method; what it has no reaction to gets an empty result, or 202, or 405.

    Attributes:
        reactions: by `Request.method`.
        seen: all requests.
    """

    def __init__(self, **reactions: Reaction) -> None:
        self.reactions: dict[str, Reaction] = dict(reactions)
        self.seen: list[Request] = []
        self.url = ""
        self._connections = 0
        self._change = trio.Event()

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}/mcp"
        task_status.started()
        await trio.serve_listeners(self._serve, [listener])

    async def _serve(self, stream: trio.SocketStream) -> None:
        self._connections += 1
        number, nth, held = self._connections, 0, b""
        try:
            while True:
                while b"\r\n\r\n" not in held:
                    held += await self._more(stream)
                head, held = held.split(b"\r\n\r\n", 1)
                length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
                while len(held) < length:
                    held += await self._more(stream)
                nth += 1
                request = Request(stream, number, nth, head, held[:length])
                held = held[length:]
                self.seen.append(request)
                self._changed()
                await self.reactions.get(request.method, self.usual)(request)
        except (Gone, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            await trio.aclose_forcefully(stream)

    @staticmethod
    async def _more(stream: trio.SocketStream) -> bytes:
        if not (data := await stream.receive_some()):
            raise Gone
        return bytes(data)

    @staticmethod
    async def usual(request: Request) -> None:
        if request.verb == "POST":
            await (request.result() if "id" in request.message and "method" in request.message else request.answer(202, kind=None))
        else:
            await request.answer(405 if request.verb == "GET" else 200)

    def _changed(self) -> None:
        self._change.set()
        self._change = trio.Event()

    def got(self, method: str) -> list[Request]:
        """The requests of one method."""
        return [one for one in self.seen if one.method == method]

    async def until(self, method: str, count: int = 1) -> Request:
        """Wait for the so-manieth request of a method."""
        with trio.fail_after(patience()):
            while len(self.got(method)) < count:
                await self._change.wait()
        return self.got(method)[count - 1]


class Ears:
    """Keeps what a transport hands over: (`message` | `failed` | `forgotten` | `over`, id, what)."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, bytes, Any]] = []
        self._change = trio.Event()

    def _take(self, kind: str, request_id: bytes, what: object) -> None:
        self.heard.append((kind, request_id, what))
        self._change.set()
        self._change = trio.Event()

    def on_message(self, line: bytes, origin: bytes) -> None:
        assert b"\n" not in line
        try:
            message = json.loads(line)
        except ValueError:
            message = line
        self._take("message", origin, message)

    def on_failed(self, request_id: bytes, problem: McpdError) -> None:
        self._take("failed", request_id, problem)

    def on_forgotten(self, request_id: bytes) -> None:
        self._take("forgotten", request_id, None)

    def on_over(self) -> None:
        self._take("over", b"", None)

    async def until(self, count: int) -> list[tuple[str, bytes, Any]]:
        """Wait until so many things were heard; return them all."""
        with trio.fail_after(patience()):
            while len(self.heard) < count:
                await self._change.wait()
        return self.heard


class Keys:
    """Credentials that a test hands out: each renewal brings the next ones."""

    def __init__(self, *headers: Mapping[str, str]) -> None:
        self.given, self.secrets = list(headers) or [{}], frozenset[str]()
        self.renewals: list[tuple[int, str, dict[str, str]]] = []

    async def headers(self) -> Mapping[str, str]:
        await trio.lowlevel.checkpoint()
        return self.given[0]

    async def renew(self, status: int, challenge: str, used: Mapping[str, str]) -> bool:
        await trio.lowlevel.checkpoint()
        self.renewals.append((status, challenge, dict(used)))
        if len(self.given) == 1:
            error = "insufficient_scope" if status == 403 else "invalid_token"
            raise AuthRequired("sign in", hint="mcpd login far", error=error)
        del self.given[0]
        return True


class Far:
    """A transport to a web server, and what comes of it."""

    def __init__(self, web: Web, nursery: trio.Nursery, keys: Keys, **settings: Any) -> None:
        self.web, self.keys, self.ears = web, keys, Ears()
        self.server = Server(name="far", **{"url": web.url, **settings})
        self.log = Notes()
        self.mover = Mover()
        self.timers = Timers(self.mover.batch)
        nursery.start_soon(self.timers.run)
        self.around = Surroundings(
            mover=self.mover,
            timers=self.timers,
            nursery=nursery,
            launch=lambda server, project: self.launch,
            jitter=lambda: 0.0,
            log=self.log,
            eras=Memory(),
            crowd=Crowd(self.timers),
            spawn=None,  # type: ignore[arg-type]  # nothing is spawned here
        )
        self._last_id = 0
        self.transport: HttpTransport

    @property
    def launch(self) -> Launch:
        return Launch(url=self.server.url, secrets=frozenset({"hunter2secret"}))

    async def open(self) -> None:
        self.transport = await open_http(lambda *_: self.keys, self.around, self.ears, self.launch, self.server)

    def ask(self, method: str = "tools/call", params: object = None) -> bytes:
        """Send a request; return its id."""
        self._last_id += 1
        request_id = b"%d" % self._last_id
        name = json.dumps(method).encode()
        self.frame = self.transport.send(jsonrpc.request(request_id, name, json.dumps(params or {"name": "t"}).encode()))
        return request_id

    def tell(self, method: str, params: object = None) -> bytes:
        """Send a notification."""
        return self.transport.send(jsonrpc.notification(method, None if params is None else json.dumps(params).encode()))

    async def begin(self, revision: str = "2025-11-25") -> None:
        """Agree on a legacy session."""
        before = len(self.ears.heard)
        self.ask("initialize", {"protocolVersion": revision})
        await self.ears.until(before + 1)
        self.tell("notifications/initialized")
        await self.web.until("notifications/initialized")

    async def problem(self) -> McpdError:
        """Wait for the failure of a request; return what it failed with."""
        with trio.fail_after(patience()):
            count = 1
            while True:
                for what, _, problem in await self.ears.until(count):
                    if what == "failed":
                        assert isinstance(problem, McpdError)
                        return problem
                count = len(self.ears.heard) + 1


def modern(**more: object) -> dict[str, object]:
    """Return the params of a modern request."""
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    return {**more, "_meta": meta}


def initialized(revision: str = "2025-11-25", **headers: str) -> Reaction:
    """Return the reaction to `initialize` of a legacy server."""

    async def react(request: Request) -> None:
        await request.result({"protocolVersion": revision, "capabilities": {}, "serverInfo": {"name": "web"}}, headers)

    return react
