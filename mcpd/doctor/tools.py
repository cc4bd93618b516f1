"""The tools of a server: what a host would drop of them, or trip over. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mcpd.doctor.check import Check

MAX_SCHEMA_CHARS = 64 * 1024
SHOWN = 5
_PLAIN = re.compile(r"[A-Za-z0-9_-]+").fullmatch


def _grok(server: str, tool: str) -> bool:
    return "__" in server or "__" in tool or tool.startswith("_") or not tool.isascii() or "." in tool or "/" in tool


# Which host drops a tool, or refuses the whole request for it; by what `mcpd install` calls it.
DROPS = {
    "claude-code": lambda server, tool: len(f"mcp__{server}__{tool}") > 64 or not _PLAIN(tool),
    "cursor": lambda server, tool: len(f"{server}{tool}") > 60,
    "gemini": lambda server, tool: len(f"mcp_{server}_{tool}") > 63,
    "grok": _grok,
}


def examine(server: str, tools: Sequence[Mapping[str, Any]]) -> Iterator[Check]:
    """Look at the descriptors of one server's tools."""
    names = [str(tool.get("name", "")) for tool in tools]
    for host, drops in DROPS.items():
        if dropped := [name for name in names if drops(server, name)]:
            hint = f"the aggregate renames tools: mcpd install {host} --aggregate"
            yield Check("tool names", "warn", f"{host} drops {_some(dropped)}", hint, server)
    quirks: dict[str, list[str]] = {}
    for name, tool in zip(names, tools, strict=True):
        for quirk in _quirks(tool):
            quirks.setdefault(quirk, []).append(name)
    for quirk, those in quirks.items():
        yield Check("schemas", "warn", f"{quirk}: {_some(those)}", "some models refuse such a tool; tell its author", server)


def _quirks(tool: Mapping[str, Any]) -> Iterator[str]:
    if tool.get("descriptorOmitted"):
        yield "the definition is over 64 KiB"
        return
    schema = tool.get("inputSchema")
    if not isinstance(schema, dict):
        return
    if schema.get("type") != "object":
        yield "the schema's root is no object"
    if {"anyOf", "oneOf", "allOf"} & schema.keys():
        yield "the schema's root has anyOf, oneOf or allOf"
    if any(not ref.startswith("#") for ref in _references(schema)):
        yield "the schema refers to something outside of itself"


def _references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(ref := value.get("$ref"), str):
            yield ref
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _references(item)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
