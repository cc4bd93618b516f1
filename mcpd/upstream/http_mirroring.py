"""Learn which arguments of a tool are mirrored in headers, when a server has refused a call for want of them.

Nobody needs to have listed the tools before a call, and a list may have changed since. The refused call
has not run.

Spec: 2026-07-28 basic/transports/streamable-http, "Custom headers from tool parameters": after a
HeaderMismatch the list is fetched again, and the call repeated.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from mcpd.errors import McpdError, ServerProtocol
from mcpd.protocol import evidence, jsonrpc
from mcpd.protocol.jsonrpc import Message, NotJsonRpc
from mcpd.protocol.paging import Walk
from mcpd.protocol.sse import Decoder

from .http_failures import Refusal, essence
from .http_lines import answers, messages, one_line
from .http_reply import Reply, body_of
from .http_session import STREAM
from .http_talk import Talk

# No id of anybody's who asks through us.
OWN_ID = b'"mcpd-tools"'


class _Stamped(Struct):
    meta: Raw = msgspec.field(name="_meta", default=Raw(b"{}"))


def is_mismatch(method: str, refusal: Refusal) -> bool:
    """Whether a call was refused because its headers do not say what they should."""
    return method == "tools/call" and evidence.code_in(refusal.body) == evidence.HEADER_MISMATCH


async def learned(talk: Talk, call: Message) -> bool:
    """Fetch the list of tools; return whether a call would have other headers now."""
    before = talk.session.headers(call)
    limits = talk.server.limits
    walk = Walk("tools", limits.items, limits.pages)
    try:
        meta = msgspec.json.decode(call.params, type=_Stamped).meta
        while (params := walk.request()) is not None:
            stamped = b'%b%b"_meta":%b}' % (params[:-1], b"," if len(params) > 2 else b"", bytes(meta))
            page = await _page(talk, jsonrpc.request(OWN_ID, b'"tools/list"', stamped))
            if page is None:
                break
            talk.session.learn("tools/list", page, {})
            walk.accept(jsonrpc.decode(page).result)
    except (McpdError, NotJsonRpc, msgspec.MsgspecError):
        pass  # what was learned until then may be enough
    return talk.session.headers(call) != before


async def _page(talk: Talk, body: bytes) -> bytes | None:
    """Ask for one page; return the message that answers, if one does."""
    reply = await talk.open("POST", talk.session.headers(jsonrpc.decode(body)), body)
    if isinstance(reply, Refusal):
        return None
    limit = talk.server.limits.message_bytes
    async with reply:
        if essence(reply.content_type) == STREAM:
            return await _from_stream(reply, limit)
        line = one_line(await body_of(reply, limit))
        return line if answers(line, OWN_ID) else None


async def _from_stream(reply: Reply, limit: int) -> bytes | None:
    decoder = Decoder(limit)
    async for piece in reply.pieces():
        for line in messages(decoder.feed(piece)):
            if answers(line, OWN_ID):
                return line
    raise ServerProtocol("the stream ended without the list")
