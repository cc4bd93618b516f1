"""Single tools, from servers that can be asked for them by name: `tools/search`.

The method is in no revision of MCP. Servers with very many tools declare it as `search_tool`; the request
names a tool, and the result has it in `tools`, or has not, and then there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import trio
from msgspec import Raw

from mcpd.errors import McpdError
from mcpd.protocol.jsonrpc import ErrorView
from mcpd.protocol.paging import Walk
from mcpd.protocol.session import Session
from mcpd.upstream.supervisor import Slot

from .walking import ask, vetting

SEARCH_SECONDS = 10.0
MAX_KEPT = 1000


class Found(NamedTuple):
    """What is known of one tool; `certain` tells "it has none of that name" from "who knows"."""

    descriptor: Raw | None
    certain: bool = True


class _Search:
    """One request on its way, for all who wait for it."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.found: Found | None = None


class Finder:
    """The tools that were asked for by name, each once per incarnation.

    Args:
        slot: the upstream.
        start: runs a task, so that no caller's leaving ends it for the others.
    """

    def __init__(self, slot: Slot, start: Callable[[Callable[[], object]], None]) -> None:
        self._slot, self._start = slot, start
        self._kept: dict[str, Raw] = {}
        self._searches: dict[str, _Search] = {}
        self._incarnation = 0
        self._refused = False

    def forget(self) -> None:
        """Forget all definitions: they may have changed."""
        self._kept.clear()
        self._searches.clear()  # who waits gets what was asked for, and nobody else does

    async def find(self, tool: str, session: Session) -> Found | None:
        """Return what the server says of a tool, or None if only its whole list can tell."""
        if session.incarnation != self._incarnation:
            self.forget()
            self._incarnation, self._refused = session.incarnation, False
        if self._refused or not session.searches_tools:
            return None
        if (kept := self._kept.get(tool)) is not None:
            return Found(kept)
        search = self._searches.get(tool)
        if search is None:
            search = self._searches[tool] = _Search()
            self._start(lambda: self._run(tool, search, session))
        await search.done.wait()
        return search.found

    async def _run(self, tool: str, search: _Search, session: Session) -> None:
        try:
            with trio.move_on_after(SEARCH_SECONDS):
                search.found = await self._ask(tool, session)
        except McpdError:
            pass  # whoever asks for the list now will hear of it
        finally:
            if self._searches.get(tool) is search:
                del self._searches[tool]
                self._keep(tool, search.found)
            search.done.set()

    async def _ask(self, tool: str, session: Session) -> Found | None:
        """Ask the server; None if it does not answer the question.

        Raises:
            McpdError: It answers nonsense, or not at all.
        """
        name = msgspec.json.encode(tool)
        incarnation = self._incarnation
        answer = await ask(self._slot, "tools/search", b'{"name":%b,"query":%b}' % (name, name))
        if isinstance(answer, ErrorView):
            if incarnation == self._incarnation:
                self._refused = True  # it does not have what it declares
            return None
        walk = Walk("tools", self._slot.server.limits.items, 1, vet=vetting(self._slot, "tools", session))
        walk.accept(answer)
        descriptor = dict(walk.items).get(tool)
        if descriptor is None and (walk.incomplete or walk.set_aside):
            return None
        return Found(descriptor)

    def _keep(self, tool: str, found: Found | None) -> None:
        if found is None or found.descriptor is None:
            return
        self._kept[tool] = found.descriptor
        if len(self._kept) > MAX_KEPT:
            del self._kept[next(iter(self._kept))]
