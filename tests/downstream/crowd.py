"""Scripted servers that have things, and a client that sees them as one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from msgspec import Raw

from mcpd.downstream.aggregate import Aggregate
from mcpd.downstream.facade import Facade
from mcpd.downstream.shown import Shown
from tests.broker.desk import Client
from tests.downstream.hall import Hall
from tests.upstream.fakes import INITIALIZED, LEGACY, Script

ALL = {"tools": {"listChanged": True}, "prompts": {}, "resources": {}}


def named(*names: str, **more: Any) -> list[dict[str, Any]]:
    """Return descriptors of tools or prompts with these names."""
    return [{"name": name, "inputSchema": {}, **more} for name in names]


def at(*uris: str) -> list[dict[str, Any]]:
    """Return descriptors of resources with these uris."""
    return [{"uri": uri, "name": uri.upper()} for uri in uris]


def having(*tools: str | dict[str, Any], **lists: Any) -> Script:
    """Return the script of a server with these tools, by name or whole; `prompts`, `resources`, `templates` are lists."""
    whole = [tool if isinstance(tool, dict) else named(tool)[0] for tool in tools]
    return {
        **LEGACY,
        "initialize": {**INITIALIZED, "capabilities": lists.get("capabilities", ALL), **lists.get("says", {})},
        "tools/list": {"tools": whole},
        "prompts/list": {"prompts": lists.get("prompts", [])},
        "resources/list": {"resources": lists.get("resources", [])},
        "resources/templates/list": {"resourceTemplates": [{"uriTemplate": t, "name": t} for t in lists.get("templates", [])]},
    }


def client(hall: Hall, key: str = "line") -> Client:
    return Client(hall, key)  # type: ignore[arg-type]  # it looks at nothing of it


async def shown(source: Aggregate | Facade, who: Client, kind: str = "tools") -> Shown:
    return await source.listing(kind, who)


def items(found: Shown) -> list[dict[str, Any]]:
    return [json.loads(bytes(raw)) for raw in found.items]


def names(found: Shown) -> list[str]:
    return [item.get("name") or "" for item in items(found)]


def changed(hall: Hall, name: str, script: Script, kind: str = "tools") -> None:
    """Give a server other things, and let it say so."""
    hall.latest[name].script = script
    hall.latest[name].say({"jsonrpc": "2.0", "method": f"notifications/{kind}/list_changed"})


def raw(value: object) -> Raw:
    return Raw(json.dumps(value).encode())


def heard(who: Client) -> Iterable[str]:
    """Return the lists that a client has heard of, as `server kind`."""
    return [f"{params['_meta']['mcpd/server']} {method.split('/')[1]}" for method, params in who.notices]
