"""`mcpd/why`: which copy of a server a client gets, field by field, and what would give it another one."""

from __future__ import annotations

import os
from hashlib import blake2b
from typing import Any

from msgspec import Struct

from mcpd.broker.broker import Broker
from mcpd.broker.place import Place
from mcpd.broker.upstream import Upstream
from mcpd.config.model import Server
from mcpd.protocol import capabilities

from . import rows
from .connection import Connection

# A digest that is shown must not help anybody to guess what went into it.
_SALT = os.urandom(16)
SHOWN_BYTES = 6


class WhyParams(Struct):
    """`params` of mcpd/why."""

    server: str


class Why:
    """Answers mcpd/why."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def handle(self, connection: Connection, request_id: bytes, p: WhyParams) -> None:
        """Answer one request; nothing is started for it.

        Raises:
            McpdError: there is no such server.
        """
        upstream = self._broker.upstream(p.server)
        place = upstream.place_for(connection.seeker)
        said = connection.visitor.hello
        source = "the client says so" if said is not None and said.project else f"of the client's process {connection.visitor.pid}"
        connection.answer(request_id, {
            "server": p.server,
            "scope": place.scope.kind,
            "because": _because(upstream, alone=connection.seeker.alone),
            "identity": _digest(place),
            "fields": _fields(place, source if connection.seeker.project else "the client works in no project"),
            "copies": [rows.of(one) for one in upstream.places.values()],
        })  # fmt: skip


def _because(upstream: Upstream, *, alone: bool) -> str:
    """Return why the server is shared as it is."""
    server = upstream.server
    if alone:
        return "the client wants a copy of its own"
    if server.scope != "auto":
        return f'its entry says scope = "{server.scope}"'
    match upstream.kind:
        case "auto":
            return "the first start finds out whether it keeps a state; until then all wait at one copy"
        case "user" if server.transport == "http":
            return "it is remote: it keeps no state of a connection"
        case "user":
            return "it is modern: it keeps no state of a connection"
        case _ if upstream.names_project:
            return "its entry names ${project}"
    return "it is a legacy server: its working folder, roots and state belong to one project"


def _fields(place: Place, source: str) -> list[dict[str, Any]]:
    server, current = place.server, place.slot.current
    fields: list[dict[str, Any]] = [
        _field("name", server.name, "another entry"),
        _field("scope", place.scope.kind, "scope in its entry, or a client that asks for its own copy"),
        _field("project", place.project or "", f"another project's folder ({source})", place.scope.kind == "project"),
        _field("command" if server.transport == "stdio" else "url", server.target, "what its entry says, expanded"),
        *(_of_remote(server) if server.transport == "http" else _of_program(place)),
    ]
    if current is not None and current.session is not None:
        session = current.session
        fields.append(_field("protocol", f"{session.revision} ({session.era})", "another era is another sharing"))
        if not session.modern:
            asks = ", ".join(name for name, method in _ASKS.items() if capabilities.read(current.offered).names(method))
            fields.append(_field("may ask for", asks or "nothing", "", splits=False))
    return fields


def _of_program(place: Place) -> list[dict[str, Any]]:
    server = place.server
    names = (*server.env, *server.env_pass)
    return [
        _field("cwd", _cwd(place), "another folder"),
        *(_field(f"env.{name}", _is_set(server, name), "another value") for name in names),
    ]


def _of_remote(server: Server) -> list[dict[str, Any]]:
    fields = [_field(f"headers.{name}", "(a value)", "another value") for name in server.headers]
    if server.bearer_env is not None:
        fields.append(_field("bearer_env", server.bearer_env, "another value of it"))
    if server.headers_helper:
        fields.append(_field("headers_helper", "(a command)", "another command"))
    return fields


_ASKS = {"elicitation": capabilities.ELICIT, "sampling": capabilities.SAMPLE, "roots": capabilities.ROOTS}


def _field(name: str, value: str, other: str, splits: bool = True) -> dict[str, Any]:
    return {"field": name, "value": value, **({"splits": other} if splits and other else {})}


def _cwd(place: Place) -> str:
    if place.server.cwd is not None:
        return place.server.cwd
    return place.project or "~"


def _is_set(server: Server, name: str) -> str:
    return "(from the entry)" if name in server.env else "(from the daemon's environment)"


def _digest(place: Place) -> str | None:
    """Return a short name for all that makes the copy what it is; equal ones share a process."""
    identity = place.identity()
    if identity is None:
        return None
    parts = f"{identity} {place.scope.kind} {place.scope.key}".encode()
    return blake2b(parts, key=_SALT, digest_size=SHOWN_BYTES).hexdigest()
