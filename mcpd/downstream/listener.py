"""Accepts clients: only the daemon's own user and root, at most so many, and never in a spin."""

from __future__ import annotations

import errno
import resource
import socket
from itertools import count
from typing import Any

import msgspec
import trio

from mcpd.errors import McpdError, Overloaded
from mcpd.mover import Mover
from mcpd.protocol import jsonrpc
from mcpd.timers import Timers

from .connection import Connection
from .control import Control
from .visitor import may_connect, peer_of

MAX_CONNECTIONS = 1024
# Descriptors that clients are never given: servers are started, files read and modules loaded with them.
KEPT_DESCRIPTORS = 24
# Without descriptors there is nothing to do but wait for some.
EMPTY_HANDED_SECONDS = 0.1
# Of half lines that all clients together may have us hold.
MAX_BUFFERED_BYTES = 256 * 1024 * 1024

_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)


class Listener:
    """The door."""

    def __init__(self, mover: Mover, timers: Timers, control: Control, nursery: trio.Nursery, log: Any) -> None:
        self._mover, self._timers, self._control = mover, timers, control
        self._nursery, self._log = nursery, log
        self._sock: socket.socket | None = None
        self._keys = count(1)

    def open(self, sock: socket.socket) -> None:
        """Accept on a listening socket, which stays its owner's to close."""
        self._sock = sock
        self._mover.listen(sock.fileno(), self._accept)

    def close(self) -> None:
        """Accept no more. Idempotent."""
        if self._sock is not None:
            self._mover.forget(self._sock.fileno())
            self._sock = None

    def _accept(self, _: int) -> None:
        while self._sock is not None:
            try:
                sock = self._sock.accept()[0]
            except BlockingIOError:
                return
            except OSError as problem:
                self._accept_failed(problem)
                return
            self._admit(sock)

    def _accept_failed(self, problem: OSError) -> None:
        self._control.counters["accept_failures"] += 1
        if problem.errno not in _FULL or self._sock is None:
            return  # that client has left again
        sock = self._sock
        self._mover.forget(sock.fileno())

        def again() -> None:
            if self._sock is sock:
                self._mover.listen(sock.fileno(), self._accept)

        self._timers.after(EMPTY_HANDED_SECONDS, again)

    def _admit(self, sock: socket.socket) -> None:
        if not may_connect(peer_of(sock)[1]):
            self._control.counters["foreign_users"] += 1
            sock.close()
            return
        count = len(self._control.connections)
        if count >= MAX_CONNECTIONS or sock.fileno() >= _descriptors() - KEPT_DESCRIPTORS:
            self._control.counters["too_many_connections"] += 1
            _turn_away(sock, Overloaded(f"there are {count} connections already", retry_after_seconds=1.0))
            return
        key = next(self._keys)
        self._control.connections[key] = Connection(key, sock, self._mover, self._control, self._nursery)

    def drop_stalled(self, now: float) -> None:
        """Close clients that do not read, and the greediest of those that never finish a line."""
        connections = list(self._control.connections.values())
        for one in connections:
            if one.stalled(now):
                self._control.counters["slow_readers"] += 1
                self._log.warning("connection.stalled", connection=one.key, pid=one.visitor.pid)
                one.close()
        if sum(one.buffered for one in connections) > MAX_BUFFERED_BYTES:
            self._control.counters["half_lines"] += 1
            max(connections, key=lambda one: one.buffered).close()

    async def flushed(self) -> None:
        """Wait until every client has read what it was told."""
        for one in list(self._control.connections.values()):
            await one.flushed()

    def drop_all(self) -> None:
        """Close every connection."""
        for one in list(self._control.connections.values()):
            one.close()


def _descriptors() -> int:
    """Return how many descriptors there can be; the lowest free one is always taken next."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else 1 << 30


def _turn_away(sock: socket.socket, problem: McpdError) -> None:
    sock.setblocking(False)
    try:
        sock.send(jsonrpc.refusal(b"null", msgspec.json.encode(problem.to_error())) + b"\n")
    except OSError:
        pass
    finally:
        sock.close()
