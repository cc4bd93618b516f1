"""Servers with lists, and what a test asks of the catalog over one of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from mcpd.broker.catalog import Listing
from mcpd.errors import McpdError
from tests.broker.desk import Desk
from tests.upstream.fakes import INITIALIZED, LEGACY, FakeServer, Reaction, Script, World

TELLS = {**INITIALIZED, "capabilities": {"tools": {"listChanged": True}, "resources": {"listChanged": True}}}


def tools(*names: str, **more: Any) -> dict[str, Any]:
    """Return the result of tools/list."""
    return {"tools": [{"name": name, "inputSchema": {}} for name in names], **more}


def lists(*answers: Mapping[str, Any] | int | Reaction, initialize: Mapping[str, Any] = TELLS) -> Script:
    """Return the script of a server that answers tools/list with these in turn, and then with the last."""
    left = list(answers)

    def answer(server: FakeServer, message: dict[str, Any]) -> None:
        server.react(message, left.pop(0) if len(left) > 1 else left[0])

    return {**LEGACY, "initialize": initialize, "tools/list": answer}


async def names(desk: Desk, kind: str = "tools", *, fresh: bool = False) -> tuple[list[str], bool]:
    """Return the names on a list, and whether it is stale."""
    listing, stale = await desk.catalog.listing(kind, fresh=fresh)
    return [name for name, _ in listing.items], stale


async def problem(desk: Desk, kind: str = "tools") -> McpdError:
    """Return why a list cannot be had."""
    with pytest.raises(McpdError) as caught:
        await desk.catalog.listing(kind)
    return caught.value


def known(desk: Desk) -> Listing:
    listing = desk.catalog.known("tools")
    assert listing is not None
    return listing


def walks(world: World, method: str = "tools/list") -> int:
    return sum(one.methods.count(method) for one in world.servers)


def changed(world: World, kind: str = "tools") -> None:
    world.servers[-1].say({"jsonrpc": "2.0", "method": f"notifications/{kind}/list_changed"})
