"""The `mcpd/*` methods: from a client's request to the broker, and back.

What can be answered at once is answered in the reader that got the bytes; what has to wait runs as a
task of its connection. Unknown fields are ignored, unknown methods are -32601.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import trio
from msgspec import Raw, Struct

from mcpd import __version__
from mcpd.broker.broker import Broker
from mcpd.broker.call import VIEW_BYTES, Request
from mcpd.broker.results import ResultStore
from mcpd.errors import BadRequest, Denied, McpdError
from mcpd.logs import Log, iso
from mcpd.protocol import bounding, jsonrpc

from . import rows
from .commands import Commands
from .connection import Connection, Hello, may_connect
from .events import EventParams, Watch
from .lists import ListParams, Lists
from .searching import Search, SearchParams
from .tail import LogParams, Tail

FEATURES = ("cli", "logs", "fetch", "progress", "cancel")

P = TypeVar("P")


class FetchParams(Struct):
    """`params` of mcpd/fetch."""

    handle: str
    offset: int | None = None
    max_bytes: int = VIEW_BYTES


class ServerParams(Struct):
    """`params` of methods about one server."""

    server: str


class ServersParams(Struct):
    """`params` of mcpd/servers."""

    all: bool = False


class CliParams(Struct):
    """`params` of mcpd/cli."""

    argv: list[str]
    cwd: str = "/"
    columns: int | None = None
    files: dict[str, str] = {}
    meta: dict[str, Raw] | None = msgspec.field(name="_meta", default=None)


class Nothing(Struct):
    """`params` of methods that take none."""


def _decoder(kind: type[P]) -> Callable[[bytes | Raw], P]:
    return msgspec.json.Decoder(kind).decode


_call_params = _decoder(Request)


def read_params(method: str, decode: Callable[[bytes | Raw], P], params: Raw) -> P:
    """Decode parameters.

    Raises:
        BadRequest: They do not fit; says where and what was expected.
    """
    try:
        return decode(params or b"{}")
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        raise BadRequest(f"{method}: {str(problem)[:1].lower()}{str(problem)[1:]}") from None


def checked(request: Request) -> Request:
    """Return a request whose values make sense.

    Raises:
        BadRequest: They do not.
    """
    arguments = request.arguments
    if bytes(memoryview(arguments)[:1]) != b"{":
        if bytes(arguments) != b"null":
            raise BadRequest("mcpd/call: arguments must be an object")
        request.arguments = Raw(b"{}")
    if request.timeout is not None and not request.timeout > 0:
        raise BadRequest("mcpd/call: timeout must be a number of seconds over 0")
    if request.max_bytes < 1:
        raise BadRequest("mcpd/call: max_bytes must be at least 1")
    return request


class Control:
    """Serves the methods for all connections.

    Args:
        broker: where calls go.
        store: the kept remainders.
        log: the daemon's log, and its last events.
        shutdown: begins the graceful stop.
        reload: reads the configuration again and puts it in force.
        started: the wall-clock time of the daemon's start.
        socket: the path of the socket.
    """

    def __init__(
        self,
        *,
        broker: Broker,
        store: ResultStore,
        log: Log,
        shutdown: Callable[[], None],
        reload: Callable[[], dict[str, list[str]]],
        started: float,
        socket: str,
    ) -> None:
        self._broker, self._store, self._log = broker, store, log
        self._shutdown, self._reload = shutdown, reload
        self._started, self._socket = started, socket
        self.connections: dict[int, Connection] = {}
        self.counters: Counter[str] = Counter()
        self._lists = Lists(broker)
        self._tail = Tail(broker, log)
        self._commands = Commands(broker, self._lists)
        kinds = {kind: _decoder(ListParams) for kind in ("tools", "prompts", "resources", "templates")}
        self._methods: dict[str, tuple[Callable[[bytes | Raw], Any], Callable[..., None]]] = {
            "mcpd/hello": (_decoder(Hello), self._hello),
            "mcpd/servers": (_decoder(ServersParams), self._servers),
            "mcpd/fetch": (_decoder(FetchParams), self._fetch),
            "mcpd/start": (_decoder(ServerParams), self._start),
            "mcpd/stop": (_decoder(ServerParams), self._stop),
            "mcpd/restart": (_decoder(ServerParams), self._restart),
            "mcpd/status": (_decoder(Nothing), self._status),
            "mcpd/reload": (_decoder(Nothing), self._do_reload),
            "mcpd/shutdown": (_decoder(Nothing), self._do_shutdown),
            "mcpd/logs": (_decoder(LogParams), self._logs),
            "mcpd/cli": (_decoder(CliParams), self._cli),
            "mcpd/events": (_decoder(EventParams), Watch(broker).handle),
            "mcpd/search": (_decoder(SearchParams), Search(broker).handle),
            "ping": (_decoder(Nothing), lambda connection, request_id, _: connection.answer(request_id, {})),
            **{f"mcpd/{kind}": (decode, self._lister(kind)) for kind, decode in kinds.items()},
        }

    # -- what connections hand over --------------------------------------------------------------

    def request(self, connection: Connection, request_id: bytes, message: jsonrpc.Request) -> None:
        """Handle one request.

        Raises:
            McpdError: It is refused.
        """
        if message.method == "mcpd/call":
            self._call(connection, request_id, message.params)
            return
        known = self._methods.get(message.method)
        if known is None:
            text, data = f"unknown method {message.method[:100]}", {"class": "unknown_method"}
            body = jsonrpc.error_body(jsonrpc.METHOD_NOT_FOUND, text, data)
            connection.send(jsonrpc.refusal(request_id, body))
            return
        decode, handle = known
        handle(connection, request_id, read_params(message.method, decode, message.params))

    def pause(self, connection: Connection) -> None:
        """Let no more calls of a connection go: it does not read."""
        self._broker.pause(connection.key)

    def resume(self, connection: Connection) -> None:
        """Let the calls of a connection go again."""
        self._broker.resume(connection.key)

    def left(self, connection: Connection) -> None:
        """Forget a connection."""
        self.connections.pop(connection.key, None)
        self._broker.forget(connection.key)
        for forget in connection.followers:
            forget()

    def crashed(self, connection: Connection, problem: BaseException) -> None:
        """Note a bug of ours."""
        self.counters["crashes"] += 1
        self._log.error("connection.crashed", connection=connection.key, problem=repr(problem), exc_info=problem)

    # -- calls -----------------------------------------------------------------------------------

    def _call(self, connection: Connection, request_id: bytes, params: Raw) -> None:
        call = self._broker.call(connection, request_id, checked(read_params("mcpd/call", _call_params, params)))
        if not call.over:
            connection.calls[request_id] = call

    def _fetch(self, connection: Connection, request_id: bytes, p: FetchParams) -> None:
        whole, following = self._store.get(p.handle, None, trio.current_time())
        page = bounding.page(whole, following if p.offset is None else p.offset, max(p.max_bytes, 1))
        self._store.turn(p.handle, whole.bytes if page.next_offset is None else page.next_offset)
        described: dict[str, object] = {"handle": p.handle}
        if whole.cut_from:
            described |= {"kept": whole.bytes, "of": whole.cut_from}
        connection.send(jsonrpc.answer(request_id, bounding.view(whole, page, described)))

    def _cli(self, connection: Connection, request_id: bytes, p: CliParams) -> None:
        connection.start(
            request_id, lambda: self._commands.run(connection, p.argv, p.columns, p.files, p.meta)
        )

    # -- servers ---------------------------------------------------------------------------------

    def _hello(self, connection: Connection, request_id: bytes, p: Hello) -> None:
        if p.version != 1:
            raise BadRequest(f"mcpd/hello: version {p.version} is not spoken here, only 1")
        connection.hello = p
        me = {"version": __version__, "pid": os.getpid()}
        connection.answer(request_id, {"version": 1, "daemon": me, "features": FEATURES})

    def _servers(self, connection: Connection, request_id: bytes, p: ServersParams) -> None:
        connection.answer(request_id, {"servers": rows.of_all(self._broker, everything=p.all)})

    def _start(self, connection: Connection, request_id: bytes, p: ServerParams) -> None:
        place = self._broker.resolve(p.server)

        async def work() -> dict[str, Any]:
            await place.slot.start()
            return rows.of(place)

        connection.start(request_id, work)

    def _stop(self, connection: Connection, request_id: bytes, p: ServerParams) -> None:
        place = self._broker.resolve(p.server)

        async def work() -> dict[str, Any]:
            await place.slot.stop()
            return rows.of(place)

        connection.start(request_id, work)

    def _restart(self, connection: Connection, request_id: bytes, p: ServerParams) -> None:
        place = self._broker.resolve(p.server)

        async def work() -> dict[str, Any]:
            await place.slot.stop()
            await place.slot.start()
            return rows.of(place)

        connection.start(request_id, work)

    def _lister(self, kind: str) -> Callable[[Connection, bytes, ListParams], None]:
        def handle(connection: Connection, request_id: bytes, p: ListParams) -> None:
            connection.start(request_id, lambda: self._lists.page(kind, p))

        return handle

    # -- the daemon ------------------------------------------------------------------------------

    def _status(self, connection: Connection, request_id: bytes, _: Nothing) -> None:
        config = self._broker.config
        daemon = {
            "pid": os.getpid(),
            "version": __version__,
            "started": iso(self._started),
            "uptime_seconds": round(time.time() - self._started, 1),
            "socket": self._socket,
            "config": config.file,
            "connections": len(self.connections),
            "rss_bytes": rows.rss_bytes(),
            "results": {"held_bytes": self._store.held_bytes, "dropped": self._store.dropped},
            "counters": dict(self.counters),
            "problems": [str(problem) for problem in config.problems],
        }
        connection.answer(request_id, {"daemon": daemon, "servers": rows.of_all(self._broker, everything=False)})

    def _do_reload(self, connection: Connection, request_id: bytes, _: Nothing) -> None:
        self._control_only(connection)
        connection.answer(request_id, self._reload())

    def _do_shutdown(self, connection: Connection, request_id: bytes, _: Nothing) -> None:
        self._control_only(connection)
        connection.answer(request_id, {})
        self._shutdown()

    def _control_only(self, connection: Connection) -> None:
        """Refuse what changes the daemon to anybody but its own user."""
        if connection.uid != os.getuid():
            raise Denied("only the daemon's own user may do this")

    def _logs(self, connection: Connection, request_id: bytes, p: LogParams) -> None:
        result = self._tail.lines(p)
        connection.answer(request_id, result)
        if p.follow:
            for forget in connection.followers:
                forget()  # it follows one thing at a time
            connection.followers[:] = [self._tail.follow(p, lambda line: connection.notify("mcpd/log", line))]


__all__ = ["Control", "McpdError", "may_connect"]
