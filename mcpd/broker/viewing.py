"""The part of a result that a client of the socket gets, and what is said of it in `_meta["mcpd/view"]`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec
import trio
from msgspec import Raw

from mcpd.protocol import bounding, splicing

if TYPE_CHECKING:
    from .call import Call
    from .parties import Parts, Place


def parts(call: Call, result: Raw, head: splicing.Head, place: Place) -> Parts:
    """Return a result cut to what its client wants to see, as JSON in parts; the rest is kept under a handle.

    Raises:
        ServerProtocol: It is malformed.
    """
    request = call.request
    shape = request.shape
    if shape is None or not bounding.needs_cut(result, request.max_bytes):
        size = len(result)
        view = b'{"incarnation":%d,"bytes":%d,"shown":%d,"truncated":false}' % (call.incarnation, size, size)
        if call.unasked:
            view = b'%b,"unasked":%b}' % (view[:-1], msgspec.json.encode(call.unasked))
        whole = splicing.with_meta(result, b"mcpd/view", view, head)
        return (whole,) if isinstance(whole, bytes) else tuple(whole)
    return (_cut(call, bounding.split(result, shape), place),)


def _cut(call: Call, whole: bounding.Whole, place: Place) -> bytes:
    described: dict[str, object] = {"incarnation": call.incarnation}
    if call.unasked:
        described["unasked"] = call.unasked
    if whole.bytes > (limit := place.slot.server.limits.result_bytes):
        described["bytes"] = whole.bytes
        whole = bounding.shortened(whole, limit)
        described["kept"] = whole.bytes
    page = bounding.page(whole, 0, call.request.max_bytes)
    if page.shown < whole.bytes:
        now, token, following = trio.current_time(), os.urandom(12).hex(), page.next_offset
        turned = whole.bytes if following is None else following
        described["handle"] = place.store.put(whole, None, now, token, turned)
    return bounding.view(whole, page, described)


def progress(params: Raw, token: bytes) -> bytes | None:
    """Return the `params` of a progress notification with the client's own token; None if they are no object."""
    try:
        members = msgspec.json.decode(params, type=dict[str, Raw])
    except (msgspec.MsgspecError, RecursionError):
        return None
    members["progressToken"] = Raw(token)
    return msgspec.json.encode(members)
