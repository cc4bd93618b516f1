"""Who is at the other end of a connection: as the kernel says, and as it says itself."""

from __future__ import annotations

import os
import re
import socket
import struct
from typing import Any, Literal

import msgspec
from msgspec import Raw

from mcpd.broker.scopes import Seeker
from mcpd.errors import BadRequest
from mcpd.protocol.budgets import MIN_BYTES

from . import projects


class Hello(msgspec.Struct):
    """`params` of mcpd/hello; `scope` may be `client`: it wants copies of its own.

    The rest is about the face, which is what the methods of MCP show over this connection: one `server` as it
    is, or several `servers` as one (all, if none are named), in a `mode` and with `names` of a style.
    Descriptors keep to a budget (see `Budget`) where there is one. `first_question` is the number of the first request to this client; `resumed` says that it goes on from
    an earlier daemon and does not know what has happened in between.
    """

    version: int = 1
    client: dict[str, Any] = {}
    project: str | None = None
    scope: str | None = None
    capabilities: Raw = Raw(b"")
    server: str | None = None
    servers: list[str] | None = None
    mode: Literal["direct", "search", "auto"] = "direct"
    separator: str = "-"
    names: Literal["short", "mcp"] = "short"
    description_bytes: int | None = None
    schema_bytes: int | None = None
    first_question: int = 1
    resumed: bool = False


class Visitor:
    """One client.

    Attributes:
        pid, uid: of the process that connected.
        hello: what it has said about itself last.
        known: which copies are its own, once somebody has asked.
    """

    def __init__(self, key: int, sock: socket.socket) -> None:
        self.key = key
        self.pid, self.uid = peer_of(sock)
        self.hello: Hello | None = None
        self.known: Seeker | None = None

    @property
    def seeker(self) -> Seeker:
        """Which copy of an upstream is its own; the project is looked up when that is first asked."""
        if self.known is None:
            said = self.hello or Hello()
            project = projects.of_process(self.pid) if said.project is None else os.path.realpath(said.project)
            self.known = Seeker(self.key, project, said.scope == "client")
        return self.known

    def greet(self, hello: Hello, *, is_bound: bool) -> bool:
        """Take what it says about itself; return whether it has turned to another project.

        `is_bound`: it has asked for something already, which belongs to the project that it is in so far.

        Raises:
            BadRequest: It makes no sense.
        """
        if hello.project is not None and (not hello.project.startswith("/") or "\0" in hello.project):
            raise BadRequest("mcpd/hello: project must be an absolute folder")
        if hello.scope not in (None, "client"):
            raise BadRequest("mcpd/hello: scope can only be narrowed, to client")
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,8}", hello.separator):
            raise BadRequest("mcpd/hello: separator is one to eight letters, digits, - and _")
        if any(limit is not None and limit < MIN_BYTES for limit in (hello.description_bytes, hello.schema_bytes)):
            raise BadRequest(f"mcpd/hello: descriptions and schemas cannot be shorter than {MIN_BYTES} bytes")
        before = self.seeker if is_bound else self.known
        self.hello, self.known = hello, None
        return before is not None and not before.is_at(self.seeker)


def peer_of(sock: socket.socket) -> tuple[int, int]:
    """Return pid and uid of who connected, as the kernel noted them then."""
    pid, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid


def may_connect(uid: int) -> bool:
    """Whether a user may talk to this daemon: its own, and root."""
    return uid in (os.getuid(), 0)
