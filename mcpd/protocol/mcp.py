"""The few fields of MCP that a broker reads; everything else passes through as bytes.

Spec: 2024-11-05 … 2025-11-25 basic/lifecycle, 2026-07-28 basic (per-request `_meta`, server/discover).
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from .jsonrpc import ABSENT

MODERN = ("2026-07-28",)
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")

META_VERSION = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
META_CLIENT = "io.modelcontextprotocol/clientInfo"
META_LOG_LEVEL = "io.modelcontextprotocol/logLevel"
META_SERVER = "io.modelcontextprotocol/serverInfo"

UNSUPPORTED_VERSION = -32022


class InitializeResult(Struct):
    """The answer to `initialize`."""

    protocolVersion: str
    capabilities: Raw = Raw(b"{}")
    serverInfo: Raw = ABSENT
    instructions: Any = None


class DiscoverResult(Struct):
    """The answer to `server/discover`."""

    supportedVersions: list[str]
    capabilities: Raw = Raw(b"{}")
    instructions: Any = None
    meta: dict[str, Raw] = msgspec.field(name="_meta", default_factory=dict)


class VersionData(Struct):
    """`data` of an UnsupportedProtocolVersion error."""

    supported: list[str] = []


class Progress(Struct):
    """`params` of `notifications/progress`; the rest of them is passed on as it came."""

    progressToken: Raw = ABSENT
