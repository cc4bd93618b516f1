"""Ask an upstream for a whole list, page by page.

Spec: server/utilities/pagination of 2024-11-05 … 2026-07-28.
"""

from __future__ import annotations

from collections.abc import Callable

import trio
from msgspec import Raw

from mcpd.errors import ServerProtocol
from mcpd.protocol import jsonrpc
from mcpd.protocol import session as sessions
from mcpd.protocol.http_headers import vet
from mcpd.protocol.jsonrpc import ErrorView
from mcpd.protocol.paging import Walk
from mcpd.protocol.session import Session
from mcpd.upstream.exchange import Awaited
from mcpd.upstream.supervisor import Slot

from .listing import KINDS, Listing


async def ask(slot: Slot, method: str, params: bytes) -> Raw | ErrorView:
    """Send a request of our own; return the result or the upstream's error.

    A caller that is cancelled takes the request back, and the server is told.

    Args:
        slot: the upstream.
        method: without quotes.
        params: a JSON object; what the session asks for is added.

    Raises:
        McpdError: It failed on our side.
    """
    exchange = Awaited(method, lambda session: sessions.list_params(params, sessions.meta(session)), slot.wake)
    slot.submit(exchange)
    try:
        return await exchange.outcome()
    except trio.Cancelled:
        slot.give_up(exchange, "no longer needed")
        raise


def vetting(slot: Slot, kind: str, session: Session) -> Callable[[Raw], None] | None:
    """Return what an item of a list must bear; some tools must not be used over HTTP.

    Spec: 2026-07-28 server/tools, `x-mcp-header`.
    """
    return vet if kind == "tools" and slot.server.transport == "http" and session.modern else None


async def fetch(slot: Slot, kind: str, session: Session) -> Listing:
    """Walk all pages of one list.

    Returns:
        The list as far as the walk came, with `whole` filled and `items` still empty.

    Raises:
        McpdError: There is no list to be had.
    """
    names, limits, server = KINDS[kind], slot.server.limits, slot.server.name
    found = Listing(incarnation=session.incarnation)
    if kind != "tools" and not session.offers(names.capability):
        return found
    walk = Walk(names.member, limits.items, limits.pages, vet=vetting(slot, kind, session))
    until, public = float("inf"), True
    while (params := walk.request()) is not None:
        answer = await ask(slot, names.method, params)
        if isinstance(answer, ErrorView):
            if answer.code != jsonrpc.METHOD_NOT_FOUND or walk.items:
                raise ServerProtocol(f"server '{server}' refused {names.method}: {answer.message}", server=server)
            return found  # declared or not, it has none
        try:
            walk.accept(answer)
        except ServerProtocol as problem:
            problem.message = f"server '{server}': {problem.message}"
            problem.server = server
            raise
        # Every page has a clock of its own, and the list is as good as its oldest part.
        until = min(until, trio.current_time() + walk.hints.ttl_ms / 1000)
        public &= walk.hints.scope == "public"
    found.whole, found.set_aside, found.incomplete = walk.items, walk.set_aside, walk.incomplete
    found.fresh_until, found.cache_scope = until, "public" if public else "private"
    return found
