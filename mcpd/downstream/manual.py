"""What mcpd's own server says of itself: its tools, resources and instructions."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

DEFAULT_LINES, MAX_LINES = 50, 1000

INSTRUCTIONS = (
    "mcpd runs the MCP servers of this user and shares each of them among all clients. Here is how they are doing, "
    "what they have written to stderr, and a way to restart one that misbehaves. Their own tools are not called here. "
    "A server that is stopped is no problem: it starts by itself when one of its tools is called."
)

STATES = "stopped (starts when it is called), starting, ready, stopping, backoff (soon started again), failed, disabled or misconfigured"
SERVERS, SERVER, LOG = "mcpd://servers", "mcpd://servers/", "mcpd://logs/"

_READS = {"readOnlyHint": True, "openWorldHint": False}
_NAME = {"type": "string", "description": "The name of a server, as list_servers gives it."}
_ROW = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "state": {"type": "string", "description": f"One of {STATES}."},
        "scope": {"type": "string", "description": "Who shares this copy: user, project or client; auto if not known yet."},
        "project": {"type": "string", "description": "The project that this copy works in."},
        "tools": {"type": "integer", "description": "How many tools it has, if that is known."},
        "reason": {"type": "string", "description": "Why it does not run."},
        "hint": {"type": "string"},
    },
    "required": ["name", "state"],
}


def _tool(
    name: str,
    title: str,
    description: str,
    inputs: dict[str, Any],
    annotations: dict[str, Any],
    *,
    required: tuple[str, ...] = (),
    output: dict[str, Any] | None = None,
) -> Raw:
    schema: dict[str, Any] = {"type": "object", "properties": inputs, "additionalProperties": False}
    if required:
        schema["required"] = required
    more = {} if output is None else {"outputSchema": output}
    return Raw(
        msgspec.json.encode({
            "name": name, "title": title, "description": description,
            "inputSchema": schema, **more, "annotations": {"title": title, **annotations},
        })
    )  # fmt: skip


def _object(**properties: object) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


TOOLS = [
    _tool(
        "list_servers",
        "List servers",
        "Lists the MCP servers that mcpd runs, one entry for each running copy: its name, its state, how many tools it "
        f"has, and why it does not run if it does not. A state is {STATES}.",
        {"all": {"type": "boolean", "default": False, "description": "Also those that are disabled."}},
        _READS,
        output=_object(servers={"type": "array", "items": _ROW}),
    ),
    _tool(
        "server_status",
        "Show a server",
        "Shows everything about one server, for each of its copies: state, process, protocol, clients, calls and how they "
        "ended, and the reason if it does not run. The copy that this client gets comes first.",
        {"server": _NAME},
        _READS,
        required=("server",),
        output=_object(
            name={"type": "string"},
            copies={
                "type": "array",
                "items": {**_ROW, "properties": {**_ROW["properties"], "yours": {"type": "boolean"}}},  # type: ignore[dict-item]
            },
        ),
    ),
    _tool(
        "server_logs",
        "Read logs",
        "Returns the last lines that a server has written to stderr and what mcpd has noted about it, oldest first, as "
        "plain text: time, server, stream (stderr or daemon), line. Without a server: of all of them, and of mcpd itself.",
        {
            "server": _NAME,
            "lines": {
                "type": "integer", "minimum": 1, "maximum": MAX_LINES, "default": DEFAULT_LINES,
                "description": "How many lines at most.",
            },
        },
        _READS,
    ),
    _tool(
        "restart_server",
        "Restart a server",
        "Stops a server and starts it again, or starts one that is stopped or has failed; returns its state when it is "
        "ready, or why it could not be started. It is shared: all its clients lose what it holds in memory, and their "
        "calls that do not end within a few seconds fail.",
        {"server": _NAME},
        {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": False},
        required=("server",),
        output=_ROW,
    ),
]  # fmt: skip

RESOURCES = [
    Raw(msgspec.json.encode({
        "uri": SERVERS, "name": "servers", "title": "Servers", "mimeType": "application/json",
        "description": "All configured servers and their states, as list_servers gives them.",
    })),
]  # fmt: skip

TEMPLATES = [
    Raw(msgspec.json.encode({
        "uriTemplate": f"{SERVER}{{name}}", "name": "server", "title": "One server", "mimeType": "application/json",
        "description": "Everything about one server, as server_status gives it.",
    })),
    Raw(msgspec.json.encode({
        "uriTemplate": f"{LOG}{{name}}", "name": "log", "title": "The log of a server", "mimeType": "text/plain",
        "description": f"The last {DEFAULT_LINES} lines of one server, as server_logs gives them.",
    })),
]  # fmt: skip
