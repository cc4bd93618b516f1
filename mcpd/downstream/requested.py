"""What an MCP client asks: the `params` of its requests, and which era they are of.

Everything is taken as it comes; what a method needs of it is looked at when it is needed.

Spec: 2026-07-28 basic, "Per-request metadata"; a request without it belongs to a legacy session.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from mcpd.errors import BadRequest
from mcpd.protocol import capabilities, mcp, rawjson
from mcpd.protocol.capabilities import Capabilities
from mcpd.protocol.jsonrpc import ABSENT

_NULLS = (b"", b"null")


class Params(Struct, dict=True):
    """The members of `params` that a face looks at; absent ones are empty."""

    meta: Raw = msgspec.field(name="_meta", default=ABSENT)
    name: Raw = ABSENT
    uri: Raw = ABSENT
    arguments: Raw = ABSENT
    cursor: Raw = ABSENT
    ref: Raw = ABSENT
    argument: Raw = ABSENT
    context: Raw = ABSENT
    level: Raw = ABSENT
    notifications: Raw = ABSENT
    protocolVersion: Raw = ABSENT
    declared: Raw = msgspec.field(name="capabilities", default=ABSENT)
    responses: Raw = msgspec.field(name="inputResponses", default=ABSENT)
    state: Raw = msgspec.field(name="requestState", default=ABSENT)

    @cached_property
    def members(self) -> dict[str, Raw]:
        """The members of `_meta`.

        Raises:
            BadRequest: It is no object.
        """
        if bytes(self.meta) in _NULLS:
            return {}
        try:
            return msgspec.json.decode(self.meta, type=dict[str, Raw])
        except (msgspec.MsgspecError, RecursionError):
            raise BadRequest("_meta must be an object") from None

    @property
    def is_modern(self) -> bool:
        """Whether the request says what it is by itself.

        Raises:
            BadRequest: It says a part only.
            UnknownVersion: It is of a revision that is not spoken here.
        """
        members = self.members
        version = members.get(mcp.META_VERSION)
        if version is None and mcp.META_CAPABILITIES not in members:
            return False
        for key in (mcp.META_VERSION, mcp.META_CAPABILITIES):
            if key not in members:
                raise BadRequest(f"_meta needs {key}")
        said = rawjson.string(members[mcp.META_VERSION])
        if said is None:
            raise BadRequest(f"{mcp.META_VERSION} must be a string")
        if said not in mcp.MODERN:
            raise UnknownVersion(said)
        if rawjson.kind(members[mcp.META_CAPABILITIES]) != "an object":
            raise BadRequest(f"{mcp.META_CAPABILITIES} must be an object")
        return True

    @cached_property
    def capabilities(self) -> Capabilities:
        """What the client can be asked while this request lasts."""
        return capabilities.read(self.members.get(mcp.META_CAPABILITIES, ABSENT))

    @property
    def log_level(self) -> str | None:
        """From which level on it wants the log of this request."""
        return rawjson.string(self.members.get(mcp.META_LOG_LEVEL, ABSENT))

    @property
    def inputs(self) -> bytes:
        """What a modern server wants back, as JSON members with a comma in front of each."""
        found = b""
        if self.responses:
            found += b',"inputResponses":%b' % bytes(self.responses)
        if self.state:
            found += b',"requestState":%b' % bytes(self.state)
        return found

    def text(self, member: str) -> str:
        """Return a member that has to be a string.

        Raises:
            BadRequest: It is none.
        """
        found = rawjson.string(getattr(self, member))
        if found is None:
            raise BadRequest(f"{member} must be a string")
        return found

    def object(self, member: str) -> Raw:
        """Return a member that is an object, `{}` if it is absent or null.

        Raises:
            BadRequest: It is something else.
        """
        found: Raw = getattr(self, member)
        if bytes(memoryview(found)[:4]) in _NULLS:
            return Raw(b"{}")
        if bytes(memoryview(found)[:1]) != b"{":
            raise BadRequest(f"{member} must be an object")
        return found


class Ask(NamedTuple):
    """One request: its id as the client wrote it, its method, what is in it, and whose rules it goes by."""

    id: bytes
    method: str
    params: Params
    is_modern: bool


class UnknownVersion(Exception):
    """A request is of a revision that is not spoken here. Spec: UnsupportedProtocolVersion."""

    def __init__(self, requested: str) -> None:
        super().__init__(f"protocol version {requested[:50]} is not spoken here")
        self.data = {"supported": list(mcp.MODERN), "requested": requested[:50]}


_read = msgspec.json.Decoder(Params).decode


def read(params: Raw) -> Params:
    """Decode the `params` of a request.

    Raises:
        BadRequest: They are no object.
    """
    if bytes(memoryview(params)[:4]) in _NULLS:
        return Params()
    try:
        return _read(params)
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        raise BadRequest(f"params: {problem}") from None
