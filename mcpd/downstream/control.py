"""The `mcpd/*` methods: from a client's request to the broker, and back.

What can be answered at once is answered in the reader that got the bytes; what has to wait runs as a
task of its connection. Unknown fields are ignored, unknown methods are -32601.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Raw, Struct

from mcpd import __version__
from mcpd.broker.broker import Broker
from mcpd.broker.results import ResultStore
from mcpd.errors import BadRequest, Denied
from mcpd.logs import Log, iso
from mcpd.mover import Mover
from mcpd.protocol import jsonrpc
from mcpd.timers import Timers

from . import rows
from .calls import METHODS, Calls, FetchParams
from .commands import CliParams, Commands
from .connection import Connection
from .events import EventParams, Watch
from .lists import ListParams, Lists
from .nods import ApprovalsParams, ApproveParams, DenyParams, Nods
from .params import decoder, read_params
from .searching import Search, SearchParams
from .steering import Steering
from .tail import LogParams, Tail
from .visitor import Hello
from .why import Why, WhyParams
from .wishes import LevelParams, SubscribeParams, Wishes

if TYPE_CHECKING:
    from .face import Faces

FEATURES = (
    "cli", "logs", "fetch", "progress", "cancel", "resources", "prompts", "questions",
    "search", "events", "why", "subscriptions", "log_level", "mcp", "approvals",
)  # fmt: skip

class ServerParams(Struct):
    """`params` of methods about one server."""

    server: str


class ServersParams(Struct):
    """`params` of mcpd/servers."""

    all: bool = False


class Nothing(Struct):
    """`params` of methods that take none."""


class Control:
    """Serves the methods for all connections.

    Args:
        broker: where calls go.
        mover: runs batches.
        timers: for what has a time limit.
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
        mover: Mover,
        timers: Timers,
        store: ResultStore,
        log: Log,
        shutdown: Callable[[], None],
        reload: Callable[[], dict[str, list[str]]],
        started: float,
        socket: str,
    ) -> None:
        self._broker, self._store, self._log = broker, store, log
        self._shutdown, self._reload = shutdown, reload
        self._begun, self._socket = started, socket
        self.connections: dict[int, Connection] = {}
        self.counters: Counter[str] = Counter()
        self._lists, self._calls = Lists(broker), Calls(broker, store)
        self._tail, self._steering = Tail(broker, log), Steering(broker)
        self._commands = Commands(broker, self._lists)
        self._mover, self._timers = mover, timers
        self._faces: Faces | None = None
        wishes, nods = Wishes(broker), Nods(broker, self.connections)
        kinds = {kind: decoder(ListParams) for kind in ("tools", "prompts", "resources", "templates")}
        self._methods: dict[str, tuple[Callable[[bytes | Raw], Any], Callable[..., None]]] = {
            "mcpd/hello": (decoder(Hello), self._hello),
            "mcpd/servers": (decoder(ServersParams), self._servers),
            "mcpd/fetch": (decoder(FetchParams), self._calls.fetch),
            "mcpd/start": (decoder(ServerParams), self._start),
            "mcpd/stop": (decoder(ServerParams), self._stop),
            "mcpd/restart": (decoder(ServerParams), self._restart),
            "mcpd/status": (decoder(Nothing), self._status),
            "mcpd/reload": (decoder(Nothing), self._do_reload),
            "mcpd/shutdown": (decoder(Nothing), self._do_shutdown),
            "mcpd/logs": (decoder(LogParams), self._logs),
            "mcpd/cli": (decoder(CliParams), self._cli),
            **{method: (decoder(kind), self._calls.sender(method)) for method, kind in METHODS.items()},
            "mcpd/events": (decoder(EventParams), Watch(broker).handle),
            "mcpd/subscribe": (decoder(SubscribeParams), wishes.subscribe),
            "mcpd/unsubscribe": (decoder(SubscribeParams), wishes.unsubscribe),
            "mcpd/log_level": (decoder(LevelParams), wishes.log_level),
            "mcpd/approvals": (decoder(ApprovalsParams), nods.show),
            "mcpd/approve": (decoder(ApproveParams), nods.approve),
            "mcpd/deny": (decoder(DenyParams), nods.deny),
            "mcpd/why": (decoder(WhyParams), Why(broker).handle),
            "mcpd/search": (decoder(SearchParams), Search(broker).handle),
            **{f"mcpd/{kind}": (decode, self._lister(kind)) for kind, decode in kinds.items()},
        }

    # -- what connections hand over --------------------------------------------------------------

    def request(self, connection: Connection, request_id: bytes, message: jsonrpc.Request) -> None:
        """Handle one request.

        Raises:
            McpdError: It is refused.
        """
        if message.method == "mcpd/call":
            self._calls.call(connection, request_id, message.params)
            return
        known = self._methods.get(message.method)
        if known is None and not message.method.startswith("mcpd/"):
            self._speak(connection, request_id, message)
            return
        if known is None:
            text, data = f"unknown method {message.method[:100]}", {"class": "unknown_method"}
            body = jsonrpc.error_body(jsonrpc.METHOD_NOT_FOUND, text, data)
            connection.send(jsonrpc.refusal(request_id, body))
            return
        decode, handle = known
        handle(connection, request_id, read_params(message.method, decode, message.params))

    def _speak(self, connection: Connection, request_id: bytes, message: jsonrpc.Request) -> None:
        """Handle a request of MCP itself; what that needs is loaded when the first one comes."""
        if self._faces is None:
            from .face import Faces
            from .sources import Sources

            shown = Sources(self._broker, self._lists, self._tail, self._steering)
            self._faces = Faces(self._broker, self._mover, self._timers, shown.of)
        self._faces.request(connection, request_id, message)

    def pause(self, connection: Connection) -> None:
        """Let no more calls of a connection go: it does not read."""
        self._broker.pause(connection.key)

    def resume(self, connection: Connection) -> None:
        """Let the calls of a connection go again."""
        self._broker.resume(connection.key)

    def turned(self, connection: Connection) -> None:
        """Forget what a connection had with the project that it has turned away from."""
        self._broker.turn(connection)

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

    def _cli(self, connection: Connection, request_id: bytes, p: CliParams) -> None:
        connection.start(request_id, lambda: self._commands.run(connection, p))

    # -- servers ---------------------------------------------------------------------------------

    def _hello(self, connection: Connection, request_id: bytes, p: Hello) -> None:
        if p.version != 1:
            raise BadRequest(f"mcpd/hello: version {p.version} is not spoken here, only 1")
        connection.greet(p)
        me = {"version": __version__, "pid": os.getpid()}
        connection.answer(request_id, {"version": 1, "daemon": me, "features": FEATURES})

    def _servers(self, connection: Connection, request_id: bytes, p: ServersParams) -> None:
        connection.answer(request_id, {"servers": rows.of_all(self._broker, everything=p.all)})

    def _start(self, connection: Connection, request_id: bytes, p: ServerParams) -> None:
        self._broker.upstream(p.server)  # an unknown name is refused at once

        async def work() -> dict[str, Any]:
            return rows.of(await self._steering.start(p.server, connection))

        connection.start(request_id, work)

    def _stop(self, connection: Connection, request_id: bytes, p: ServerParams) -> None:
        self._broker.upstream(p.server)

        async def work() -> dict[str, Any]:
            place, copies = await self._steering.stop(p.server)
            return {**rows.of(place), "copies": copies}

        connection.start(request_id, work)

    def _restart(self, connection: Connection, request_id: bytes, p: ServerParams) -> None:
        self._broker.upstream(p.server)

        async def work() -> dict[str, Any]:
            return rows.of(await self._steering.restart(p.server, connection))

        connection.start(request_id, work)

    def _lister(self, kind: str) -> Callable[[Connection, bytes, ListParams], None]:
        def handle(connection: Connection, request_id: bytes, p: ListParams) -> None:
            connection.start(request_id, lambda: self._lists.page(kind, p, connection))

        return handle

    # -- the daemon ------------------------------------------------------------------------------

    def _status(self, connection: Connection, request_id: bytes, _: Nothing) -> None:
        config = self._broker.config
        daemon = {
            "pid": os.getpid(),
            "version": __version__,
            "started": iso(self._begun),
            "uptime_seconds": round(time.time() - self._begun, 1),
            "socket": self._socket,
            "config": config.file,
            "connections": len(self.connections),
            "rss_bytes": rows.rss_bytes(),
            "results": {"held_bytes": self._store.held_bytes, "dropped": self._store.dropped},
            "counters": dict(self.counters),
            "problems": [*map(str, config.problems), *filter(None, [self._broker.approvals.problem])],
            **({"approvals": waiting} if (waiting := len(self._broker.approvals.waiting)) else {}),
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
        if connection.visitor.uid != os.getuid():
            raise Denied("only the daemon's own user may do this")

    def _logs(self, connection: Connection, request_id: bytes, p: LogParams) -> None:
        result = self._tail.lines(p)
        connection.answer(request_id, result)
        if p.follow:
            for forget in connection.followers:
                forget()  # it follows one thing at a time
            connection.followers[:] = [self._tail.follow(p, lambda line: connection.notify("mcpd/log", line))]
