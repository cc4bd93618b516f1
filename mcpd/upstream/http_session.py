"""What a transport has learned of its server, and the headers that follow from it.

A legacy session has an id and a revision, both from the answer to `initialize`. A modern server has
neither: every request says all there is, and says some of it twice, in its body and in its headers.

Spec: 2025-11-25 and 2026-07-28 basic/transports, "Streamable HTTP".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from mcpd import __version__
from mcpd.errors import ServerProtocol
from mcpd.protocol import http_headers, jsonrpc, mcp
from mcpd.protocol.http_headers import Described, Param
from mcpd.protocol.jsonrpc import ABSENT, Message, NotJsonRpc

BOTH = "application/json, text/event-stream"
STREAM = "text/event-stream"
SESSION_ID = "Mcp-Session-Id"
VERSION = "MCP-Protocol-Version"
# The first revision whose sessions say it in a header.
FIRST_SAID = "2025-06-18"
# Tools whose arguments are mirrored; more than that no list of ours has.
MAX_MIRRORING = 10_000

DEFAULTS = {"User-Agent": f"mcpd/{__version__}", "Accept-Encoding": "gzip"}
# What is not the user's to say: it belongs to the protocol, or to how messages are put on the wire.
_OURS = frozenset({
    "accept", "content-type", "content-length", "transfer-encoding", "connection", "last-event-id", "mcp-session-id",
    "mcp-protocol-version", "mcp-method", "mcp-name",
})  # fmt: skip
_VISIBLE = re.compile(r"[!-~]{1,4096}").fullmatch


class _Meta(Struct):
    version: str | None = msgspec.field(name=mcp.META_VERSION, default=None)


class _Params(Struct):
    name: Any = None
    uri: Any = None
    taskId: Any = None
    arguments: Raw = ABSENT
    meta: _Meta | None = msgspec.field(name="_meta", default=None)


class _Tools(Struct):
    tools: list[Described] = []


_params = msgspec.json.Decoder(_Params).decode


class HttpSession:
    """The session with one server.

    Attributes:
        id: of a legacy session, if it has one.
        revision: of a legacy session, once `initialize` was answered; None before, and for a modern server.
        forgotten: the server does not know the session any more.
    """

    def __init__(self) -> None:
        self.id: str | None = None
        self.revision: str | None = None
        self.forgotten = False
        self._mirroring: dict[str, tuple[Param, ...]] = {}

    # -- what is sent ----------------------------------------------------------------------------

    def headers(self, message: Message) -> dict[str, str]:
        """Return the headers of the protocol for a POST of this message."""
        found = {"Accept": BOTH, "Content-Type": "application/json"}
        if message.method == "initialize":
            return found
        if self.revision is not None:
            found.update(self.legacy_headers())
        elif message.method and message.params:
            found.update(self._modern_headers(message.method, message.params))
        return found

    def legacy_headers(self) -> dict[str, str]:
        """Return what every request of a legacy session carries."""
        found = {}
        if self.id is not None:
            found[SESSION_ID] = self.id
        if self.revision is not None and self.revision >= FIRST_SAID:
            found[VERSION] = self.revision
        return found

    def _modern_headers(self, method: str, raw: Raw) -> dict[str, str]:
        """Say in headers what the body says. A client's own `params` may be odd: the server will say so."""
        try:
            params = _params(raw)
        except (msgspec.MsgspecError, RecursionError):
            return {}
        if params.meta is None or params.meta.version is None:
            return {}
        found = {VERSION: http_headers.encode(params.meta.version), "Mcp-Method": http_headers.encode(method)}
        if (member := http_headers.NAMED_BY.get(method)) is not None:
            name = getattr(params, member)
            if isinstance(name, str):
                found["Mcp-Name"] = http_headers.encode(name)
                if method == "tools/call" and (mirrored := self._mirroring.get(name)):
                    found.update(http_headers.mirrored(mirrored, params.arguments))
        return found

    # -- what is learned -------------------------------------------------------------------------

    def learn(self, method: str, line: bytes, headers: Mapping[str, str]) -> None:
        """Learn from the answer to a request of ours; the names of the headers are in lower case."""
        if method == "initialize":
            self._begin(line, headers)
        elif method in ("tools/list", "tools/search") and self.revision is None:
            self._learn_tools(line)

    def _begin(self, line: bytes, headers: Mapping[str, str]) -> None:
        try:
            agreed = msgspec.json.decode(jsonrpc.decode(line).result, type=mcp.InitializeResult)
        except (NotJsonRpc, msgspec.MsgspecError, RecursionError):
            return  # a refusal, or no answer: whoever asked finds that out
        self.revision = agreed.protocolVersion
        session_id = headers.get(SESSION_ID.lower(), "")
        self.id = session_id if _VISIBLE(session_id) else None

    def _learn_tools(self, line: bytes) -> None:
        """Note which arguments of which tools are mirrored; a tool whose schema is invalid mirrors nothing."""
        if not self._mirroring and http_headers.ANNOTATION.encode() not in line:
            return
        try:
            tools = msgspec.json.decode(jsonrpc.decode(line).result, type=_Tools).tools
        except (NotJsonRpc, msgspec.MsgspecError, RecursionError):
            return
        for tool in tools:
            try:
                params = http_headers.params_of(tool.inputSchema)
            except ServerProtocol:
                params = ()
            if params and len(self._mirroring) < MAX_MIRRORING:
                self._mirroring[tool.name] = params
            else:
                self._mirroring.pop(tool.name, None)


def combined(credentials: Mapping[str, str], protocol: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a request: those of the user win over our defaults, but never over the protocol's."""
    found = dict(DEFAULTS)
    names = {name.lower(): name for name in found}
    for name, value in credentials.items():
        lower = name.lower()
        if lower in _OURS or lower.startswith("mcp-param-"):
            continue
        found.pop(names.get(lower, ""), None)
        names[lower] = name
        found[name] = value
    found.update(protocol)
    return found
