"""How a server presents itself: the answers to `initialize` and `server/discover`.

Spec: lifecycle of 2024-11-05 … 2025-11-25; 2026-07-28 "Discovery".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from mcpd.protocol import mcp, rawjson
from mcpd.protocol.jsonrpc import ABSENT

from .lists import cache_hints

if TYPE_CHECKING:
    from collections.abc import Mapping

COMPLETIONS_FROM = "2025-03-26"
UI = "io.modelcontextprotocol/ui"

_LISTS = ("tools", "prompts", "resources")
_PLAIN = ("logging", "completions", "experimental")
_NO = ("nothing", "null", "false")


def negotiated(requested: object) -> str:
    """Return the revision that answers the `protocolVersion` of an `initialize`.

    The same, if it has a handshake and is known; else the newest that has one. Anything else,
    a modern revision too, is not refused: the client decides whether it can speak what is offered.
    """
    return requested if isinstance(requested, str) and requested in mcp.LEGACY else mcp.LEGACY[0]


def capabilities(declared: Mapping[str, Raw], *, revision: str) -> bytes:
    """Return the ServerCapabilities for a client of `revision`, from what the server has declared to us.

    * `tools`, `prompts`, `resources`: `listChanged` is true, as changes are noticed for servers that say nothing.
    * `logging`, `experimental`, and `completions` where the revision has that: as declared.
    * `extensions`: to modern clients, and of them only those that need nothing of a broker but to pass bytes on.
    * Nothing else: `tasks` and what is unknown would promise methods that are not relayed.

    The server's own era makes no difference: what only one era has (subscribing, levels of logging) is
    translated by whoever relays it. A member that is null or false is not declared; one that is
    no object otherwise (`true`) is declared without details.
    """
    shown: dict[str, Raw] = {}
    for name, value in declared.items():
        if rawjson.kind(value) in _NO:
            continue
        details = value if rawjson.kind(value) == "an object" else Raw(b"{}")
        if name in _LISTS:
            members = rawjson.members(details, f"the capability `{name}`")
            shown[name] = Raw(msgspec.json.encode(members | {"listChanged": Raw(b"true")}))
        elif name in _PLAIN and (name != "completions" or revision >= COMPLETIONS_FROM):
            shown[name] = details
        elif name == "extensions" and revision in mcp.MODERN:
            ui = rawjson.members(details, "`extensions`").get(UI, ABSENT)
            if rawjson.kind(ui) == "an object":
                shown[name] = Raw(msgspec.json.encode({UI: ui}))
    return msgspec.json.encode(shown)


def initialize_result(card_info: Raw, capabilities: bytes, instructions: str | None, revision: str) -> bytes:
    """Return the answer to `initialize`.

    The Implementation object is passed on whole: the schemas of all revisions are open, so `title` (from 2025-06-18),
    `icons`, `websiteUrl` and `description` (from 2025-11-25) are ignored where they are not known. Only what every
    revision wants, a name and a version, is added if it is missing.
    """
    parts = [
        b'{"protocolVersion":%b' % msgspec.json.encode(revision),
        b'"capabilities":' + capabilities,
        b'"serverInfo":%b' % _implementation(card_info),
    ]
    return b",".join(parts + _instructions(instructions)) + b"}"


def discover_result(
    card_info: Raw, capabilities: bytes, instructions: str | None, *, ttl_ms: int, is_public: bool
) -> bytes:
    """Return the answer to `server/discover`: modern revisions only, as the others begin with `initialize`."""
    parts = [
        b'{"resultType":"complete"',
        b'"supportedVersions":' + msgspec.json.encode(mcp.MODERN),
        b'"capabilities":' + capabilities,
        *_instructions(instructions),
        cache_hints(ttl_ms, is_public=is_public),
    ]
    if card_info:
        parts.append(b'"_meta":{"%b":%b}' % (mcp.META_SERVER.encode(), _implementation(card_info)))
    return b",".join(parts) + b"}"


def _instructions(instructions: str | None) -> list[bytes]:
    return [] if instructions is None else [b'"instructions":' + msgspec.json.encode(instructions)]


def _implementation(info: Raw) -> Raw:
    """Return an Implementation object with name and version; the same one if it has both."""
    members = rawjson.members(info, "`serverInfo`") if rawjson.kind(info) == "an object" else {}
    missing = {
        name: Raw(default)
        for name, default in (("name", b'"unnamed"'), ("version", b'"0"'))
        if rawjson.kind(members.get(name, ABSENT)) != "a string"
    }
    return Raw(msgspec.json.encode(members | missing)) if missing else info
