"""What is said about a tool that an upstream does not have, or that its entry denies."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import msgspec
import trio
from msgspec import Raw

from mcpd.errors import Denied, McpdError, UnknownTool
from mcpd.protocol import capabilities, jsonrpc
from mcpd.upstream.around import Surroundings
from mcpd.upstream.supervisor import Slot

from .asking import Asked
from .call import Call
from .catalog import Catalog
from .requests import ToolRequest

# What servers say to a call of a tool that they do not have.
_NO_SUCH_TOOL = (jsonrpc.INVALID_PARAMS, jsonrpc.METHOD_NOT_FOUND)
# An error must not be held back for long to be explained better.
EXPLAIN_SECONDS = 2.0


class Explaining:
    """The better errors of one upstream."""

    def __init__(self, catalog: Catalog, slot: Slot, around: Surroundings) -> None:
        self.catalog, self.name, self._slot, self._around = catalog, slot.server.name, slot, around

    def refusal(self, call: Call, error: Raw) -> bytes | None:
        """Return a better error than the upstream's for a tool that it does not have."""
        listing = self.catalog.tools
        if not isinstance(call.request, ToolRequest) or listing is None:
            return None
        if call.what in listing.names or jsonrpc.read_error(error).code not in _NO_SUCH_TOOL:
            return None
        return msgspec.json.encode(self.unknown_tool(call.what, call.client).to_error())

    def explains(self, call: Call, error: Raw) -> bool:
        """Whether the list has to be fetched first to say what an error means; the call hears of it then."""
        if not isinstance(call.request, ToolRequest) or self.catalog.tools is not None:
            return False
        if jsonrpc.read_error(error).code not in _NO_SUCH_TOOL:
            return False
        self._around.mover.leave = True
        self._around.nursery.start_soon(self._explain, call, error)
        return True

    async def _explain(self, call: Call, error: Raw) -> None:
        with trio.move_on_after(EXPLAIN_SECONDS):
            await trio.lowlevel.checkpoint()
            with contextlib.suppress(McpdError):
                await self.catalog.listing("tools")
        self._around.mover.batch(lambda: call.refused(error, self.refusal(call, error)))

    def denied(self, tool: str) -> Denied:
        """Return the error for a tool that the entry denies."""
        why = f"tool '{tool[:200]}' of server '{self.name}' is denied by its entry"
        return Denied(why, server=self.name, may_have_run=False)

    def _may_ask_less(self, client: Asked | None) -> str:
        """Return what to do if the running copy may not ask what this client could be asked: it may hide tools then."""
        one = self._slot.current
        if one is None or client is None or one.session is None or one.session.modern:
            return ""
        if not client.capabilities.form or capabilities.read(one.offered).form:
            return ""
        return f"it was started by a client that nobody can ask, and may hide such tools: mcpd restart {self.name}"

    def unknown_tool(self, tool: str, client: Asked | None = None) -> UnknownTool:
        """Return the error for a tool that is not listed, with the names that are near."""
        listing, name = self.catalog.known("tools"), self.name
        if listing is not None and tool in listing.held:
            why = f"tool '{tool[:200]}' of server '{name}' is held back: its definition has changed since it was let through"
            return UnknownTool(why, server=name, hint="see what has changed: mcpd approvals", may_have_run=False)
        near = nearest(tool, [] if listing is None else listing.names)
        if why := self._may_ask_less(client):
            return UnknownTool(f"server '{name}' has no tool '{tool[:200]}'", server=name, hint=why, may_have_run=False, near=near)
        return UnknownTool(
            f"server '{name}' has no tool '{tool[:200]}'",
            server=name,
            hint=f"did you mean {', '.join(near)}?" if near else f"mcpd tools {name}",
            may_have_run=False,
            near=near,
        )


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """Return up to three names that may have been meant."""
    from difflib import get_close_matches

    return get_close_matches(word, list(known), 3, 0.5)
