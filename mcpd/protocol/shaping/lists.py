"""Lists, and the items in them, for a client of any revision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Raw, Struct

from mcpd.protocol import mcp, rawjson
from mcpd.protocol.jsonrpc import ABSENT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ListKind = Literal["tools", "prompts", "resources", "templates"]

STRUCTURED_FROM = "2025-06-18"


class _Tool(Struct, gc=False):
    output: Raw = msgspec.field(name="outputSchema", default=ABSENT)


class _Schema(Struct, gc=False):
    type: Raw = ABSENT


_TOOL = msgspec.json.Decoder(_Tool)
_SCHEMA = msgspec.json.Decoder(_Schema)


def descriptor(kind: ListKind, raw: Raw, revision: str) -> Raw:
    """Return one item of a list as a client of `revision` may get it; mostly the same object.

    The schemas of all revisions are open: what a revision does not know (`title`, `icons`, `annotations`, `size`,
    `execution`, `_meta`) is ignored there, and stays. `inputSchema` is `type: object` in all of them, and a
    server that breaks this breaks it for every client. So one thing is left, the `outputSchema` of a tool:

    * up to 2025-11-25 its root must be `type: object`. Any other is taken out, as a client that is strict would
      refuse the tool, often with the whole list, and its results lose the `structuredContent` that is no object.
    * before 2025-06-18 there is none. It would do no harm by itself, but it promises a `structuredContent`
      that results for such a client do not have, and clients built on a newer SDK hold the server to it.

    Raises:
        ServerProtocol: It is no object.
    """
    if kind != "tools" or revision in mcp.MODERN:
        return raw
    output = rawjson.decode(_TOOL, raw, "the tool", "an object").output
    if not output or (revision >= STRUCTURED_FROM and _is_object(output)):
        return raw
    members = rawjson.members(raw, "the tool")
    del members["outputSchema"]
    return Raw(msgspec.json.encode(members))


def _is_object(schema: Raw) -> bool:
    if rawjson.kind(schema) != "an object":
        return False
    return rawjson.string(rawjson.decode(_SCHEMA, schema, "the schema", "an object").type) == "object"


def list_result(
    member: str,
    items: Sequence[Raw],
    *,
    modern: bool,
    ttl_ms: int,
    is_public: bool,
    server_info: Raw,
    meta: Mapping[str, object] | None = None,
) -> bytes:
    """Return the JSON of a whole list, on one page.

    Args:
        member: `tools`, `prompts`, `resources` or `resourceTemplates`.
        items: descriptors, as the client may get them.
        modern: whether the client is; the next three are for such a client alone.
        ttl_ms: how long the list is good.
        is_public: whether it may be shown to anybody.
        server_info: whose list it is; may be empty.
        meta: members of `_meta`, for clients of both eras.
    """
    said = dict(meta or {})
    hints = b""
    if modern:
        hints = b',"resultType":"complete",' + cache_hints(ttl_ms, is_public=is_public)
        if server_info:
            said = {mcp.META_SERVER: server_info} | said
    if said:
        hints += b',"_meta":' + msgspec.json.encode(said)
    return b'{"%b":[%b]%b}' % (member.encode(), b",".join(items), hints)


def cache_hints(ttl_ms: int, *, is_public: bool) -> bytes:
    """Return the two members that say how long, and for whom, a result may be kept."""
    return b'"ttlMs":%d,"cacheScope":"%b"' % (max(ttl_ms, 0), b"public" if is_public else b"private")
