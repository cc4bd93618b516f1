"""The composition root: builds everything, nests the nurseries in the order of shutdown, and stops it.

    root: signals, timers, mover, heartbeat      an exception here ends the daemon
    └─ upstreams: one task per incarnation        leave last
       └─ requests: what has to wait              end with their connections

A stop is an event, never a cancellation: the door is shut, what is in flight drains, servers go down
their ladders in parallel, clients are told. A second signal kills instead of waiting.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import os
import random
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

import trio

from mcpd.broker.broker import Broker
from mcpd.broker.pins import Pins
from mcpd.broker.results import ResultStore
from mcpd.broker.shelf import Shelf
from mcpd.config.expand import Launch, launch
from mcpd.config.load import load
from mcpd.config.model import Config, Server
from mcpd.config.secrets import Secrets
from mcpd.config.state import state_folder
from mcpd.downstream.control import Control
from mcpd.downstream.events import tell_reload
from mcpd.downstream.listener import Listener
from mcpd.downstream.place import CannotListen, Place, PlaceLost, announce, unannounce
from mcpd.logs import Log
from mcpd.mover import Mover
from mcpd.timers import Timers
from mcpd.upstream.around import Surroundings
from mcpd.upstream.crowd import Crowd
from mcpd.upstream.eras import EraFile
from mcpd.upstream.guard import Guard
from mcpd.upstream.remotes import Remotes
from mcpd.upstream.stdio import open_stdio

HEARTBEAT_SECONDS = 5.0
# Whoever started the daemon waits for an answer, and loading takes a tenth of its start.
LOG_SECONDS = 0.5
# Needed now and then, and not to be had any more when descriptors have run out.
LATER = (
    "base64", "difflib", "json", "mcpd.broker.ranking", "shlex", "tomllib", "unicodedata", "urllib.parse",
)  # fmt: skip
# The last answers are small, and their readers are local.
FLUSH_SECONDS = 1.0


# The numbers of this place and this daemon in the marks of its processes, and a guardian that runs already.
EarlyGuardian = tuple[int, int, tuple[int, socket.socket] | None]


class Daemon:
    """One daemon, from the lock it was given to the last process it ended."""

    def __init__(self, config: Config, config_option: str | None, place: Place, log: Log, guardian: EarlyGuardian) -> None:
        self._config, self._config_option = config, config_option
        self._place, self._log, self._guardian = place, log, guardian
        self._stopping = trio.Event()
        self._signals = 0
        self._idle_since = 0.0

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Serve until told to stop; `on_ready` is called when the socket listens."""
        self._mover = Mover()
        self._timers = Timers(self._mover.batch)
        self._store = ResultStore()
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async with trio.open_nursery() as root:
                root.start_soon(self._mover.run)
                root.start_soon(self._timers.run)
                root.start_soon(self._obey, signals)
                async with trio.open_nursery() as upstreams, trio.open_nursery() as requests:
                    self._build(upstreams, requests)
                    root.start_soon(self._heartbeat)
                    self._open_door(on_ready)
                    root.start_soon(self._open_log)
                    await self._stopping.wait()
                    await self._stop()
                    requests.cancel_scope.cancel()
                root.cancel_scope.cancel()
        self._mover.close()

    def _build(self, upstreams: trio.Nursery, requests: trio.Nursery) -> None:
        scope, instance, early = self._guardian
        self._guard = Guard(self._mover, self._timers, self._log, scope, instance, early)
        self._remotes = Remotes(os.path.join(state_folder(), "credentials"), self._guard, upstreams)
        around = Surroundings(
            mover=self._mover,
            timers=self._timers,
            nursery=upstreams,
            launch=functools.partial(_launch, Secrets(os.environ)),
            jitter=random.random,
            log=self._log,
            eras=EraFile(os.path.join(state_folder(), "eras.json")),
            crowd=Crowd(self._timers),
            spawn=functools.partial(open_stdio, self._guard),
            connect=self._remotes.connect,
            secrets=self._remotes.secrets,
        )
        self._shelf = Shelf(os.path.join(state_folder(), "catalogs"), self._timers, upstreams.start_soon)
        pins = Pins(os.path.join(state_folder(), "pins.json"))
        self._broker = Broker(self._config, around, self._store, self._shelf, pins)
        self._control = Control(
            broker=self._broker,
            mover=self._mover,
            timers=self._timers,
            store=self._store,
            log=self._log,
            shutdown=self._shutdown,
            reload=self._reload,
            started=time.time(),
            socket=self._place.path,
        )
        self._listener = Listener(self._mover, self._timers, self._control, requests, self._log)

    def _open_door(self, on_ready: Callable[[], None]) -> None:
        self._listener.open(self._place.listen())
        announce(self._place.path, os.environ)
        self._idle_since = trio.current_time()
        self._log.info(
            "daemon.ready", pid=os.getpid(), socket=self._place.path, config=self._config.file,
            servers=len(self._config.servers),
        )  # fmt: skip
        for problem in self._config.problems:
            self._log.warning("config.problem", problem=str(problem))
        on_ready()
        gc.collect()
        gc.freeze()  # what is alive now lives as long as the daemon
        self._broker.prewarm()

    # -- the stop --------------------------------------------------------------------------------

    def _shutdown(self) -> None:
        self._mover.leave = True
        self._stopping.set()

    async def _stop(self) -> None:
        """Shut the door, drain, end all servers, and let the last answers out."""
        self._log.info("daemon.stopping", connections=len(self._control.connections))
        self._listener.close()
        self._remotes.close()
        self._mover.batch(self._broker.close)
        await self._broker.closed()
        with trio.move_on_after(FLUSH_SECONDS):
            await self._listener.flushed()
        self._mover.batch(self._listener.drop_all)
        await self._guard.aclose()
        self._shelf.close()
        self._place.leave()
        unannounce(os.environ)
        self._log.info("daemon.stopped")

    async def _obey(self, signals: Any) -> None:
        async for number in signals:
            if number == signal.SIGHUP:
                self._reload()
                continue
            self._signals += 1
            if self._signals > 1:
                self._log.warning("daemon.hurried")
                self._broker.kill()
            self._shutdown()

    def _reload(self) -> dict[str, list[str]]:
        config = load(self._config_option, os.environ)
        outcome = self._broker.reload(config)
        if not config.unusable:
            self._config = config
        self._log.info("config.reloaded", **outcome)
        tell_reload(self._broker, outcome)
        return outcome

    async def _open_log(self) -> None:
        """Load the library that writes the log once the first clients have been served."""
        loaded = False
        while not loaded:
            await trio.sleep(LOG_SECONDS)
            with contextlib.suppress(OSError):  # servers have all descriptors for now
                self._log.open()
                for name in LATER:
                    importlib.import_module(name)
                loaded = True

    # -- now and then ----------------------------------------------------------------------------

    async def _heartbeat(self) -> None:
        while True:
            await trio.sleep(HEARTBEAT_SECONDS)
            self._mover.batch(self._tidy)

    def _tidy(self) -> None:
        now = trio.current_time()
        self._keep_place()
        self._store.expire(now)
        self._listener.drop_stalled(now)
        self._broker.events.catch_up()
        self._control.counters["log_lines_lost"] = self._log.lost
        if self._control.connections or any(place.slot.in_flight for place in self._broker.places):
            self._idle_since = now
        limit = self._config.daemon.idle_exit_seconds
        if limit > 0 and now - self._idle_since >= limit:
            self._shutdown()

    def _keep_place(self) -> None:
        """Listen again if somebody removed the socket; go if the whole folder is gone, as after a logout."""
        if self._stopping.is_set() or self._place.stands():
            return
        try:
            sock = self._place.listen_again()
        except PlaceLost as problem:
            self._log.warning("socket.lost", problem=str(problem))
            self._shutdown()
        except CannotListen as problem:  # the next heartbeat tries again
            self._log.warning("socket.missing", problem=str(problem))
        else:
            self._log.warning("socket.replaced", socket=self._place.path)
            self._listener.close()
            self._listener.open(sock)
            self._place.drop_old()


def _launch(secrets: Secrets, server: Server, project: str | None) -> Launch:
    """Return how to start a server now; see `expand.launch`."""
    return launch(server, os.environ, project, secrets.get)


def tell_ready(fd: int | None) -> None:
    """Tell whoever waits at the other end of a pipe that the socket listens."""
    if fd is not None:
        with contextlib.suppress(OSError):  # it may have stopped waiting
            os.write(fd, b"ready\n")
        os.close(fd)
