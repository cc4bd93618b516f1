"""What was agreed with an upstream, and how a request for it is written.

Spec: 2026-07-28 basic, "Per-request metadata": every request carries revision, capabilities and
client in `_meta`. A legacy session says these once, in `initialize`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from mcpd import __version__

from . import mcp

CLIENT_INFO = b'{"name":"mcpd","version":"%b"}' % __version__.encode()

Era = Literal["modern", "legacy"]


class Session(Struct, frozen=True):
    """An agreement with one incarnation of an upstream."""

    revision: str
    era: Era
    capabilities: Mapping[str, Raw] = {}
    server_info: Raw = Raw(b"{}")
    instructions: str | None = None
    incarnation: int = 0

    @property
    def modern(self) -> bool:
        """Whether requests are stamped one by one."""
        return self.era == "modern"

    def offers(self, feature: str) -> bool:
        """Whether the upstream declared a capability such as `tools`."""
        return feature in self.capabilities

    def declares(self, feature: str, flag: str) -> bool:
        """Whether a capability carries a flag, such as `listChanged` of `tools`."""
        return self._declared(feature, flag) is True

    @property
    def searches_tools(self) -> bool:
        """Whether single tools can be asked for by name, with `tools/search`.

        The extension is in no revision; servers declare it as true or as an object, at either place.
        """
        found = (self._declared(feature, "search_tool") for feature in ("tools", "experimental"))
        return any(flag is True or isinstance(flag, dict) for flag in found)

    def _declared(self, feature: str, flag: str) -> object:
        try:
            return msgspec.json.decode(self.capabilities[feature]).get(flag)
        except (KeyError, AttributeError, msgspec.MsgspecError, RecursionError):
            return None


def stamp(revision: str, capabilities: bytes = b"{}") -> bytes:
    """Return the members of `_meta` that every modern request carries, as JSON without braces."""
    return b'"%b":"%b","%b":%b,"%b":%b' % (
        mcp.META_VERSION.encode(),
        revision.encode(),
        mcp.META_CAPABILITIES.encode(),
        capabilities,
        mcp.META_CLIENT.encode(),
        CLIENT_INFO,
    )


_STAMPS = {revision: stamp(revision) for revision in mcp.MODERN}
_BARE: dict[str, bytes] = {revision: b"{%b}" % members for revision, members in _STAMPS.items()}


def meta(
    session: Session,
    token: bytes | None = None,
    extra: Mapping[str, Raw] | None = None,
    capabilities: bytes = b"{}",
    level: str | None = None,
) -> bytes | None:
    """Return the `_meta` object of a request as JSON, or None where it needs none.

    Args:
        session: the agreement with the upstream.
        token: the progress token to ask with (JSON), already ours.
        extra: what the client sent; its progress token and protocol keys never pass.
        capabilities: what the client can be asked (JSON); a legacy session has said it once for all.
        level: from which level on the client wants the log of this request; legacy sessions say it otherwise.
    """
    if token is None and not extra and level is None and capabilities == b"{}":
        return _BARE.get(session.revision)
    parts = []
    if session.modern:
        plain = capabilities == b"{}"
        parts.append(_STAMPS[session.revision] if plain else stamp(session.revision, capabilities))
        if level is not None:
            parts.append(b'"%b":"%b"' % (mcp.META_LOG_LEVEL.encode(), level.encode()))
    if token is not None:
        parts.append(b'"progressToken":%b' % token)
    for key, value in (extra or {}).items():
        if key != "progressToken" and not key.startswith("io.modelcontextprotocol/"):
            parts.append(b"%b:%b" % (msgspec.json.encode(key), bytes(value)))
    return b"{%b}" % b",".join(parts) if parts else None


def list_params(params: bytes, meta_json: bytes | None, more: bytes = b"") -> bytes:
    """Return the `params` of a request: its own object, with `_meta` where it is needed.

    `more` are further members, each with a comma in front.
    """
    if meta_json is None and not more:
        return params
    members = more if meta_json is None else b'%b,"_meta":%b' % (more, meta_json)
    return b"%b%b}" % (params[:-1], members) if len(params) > 2 else b"{%b}" % members[1:]
