"""`structuredContent`: what a revision lets it be, and whether a text says the same.

Spec: 2025-06-18 and 2025-11-25, server/tools, "Structured Content": a JSON object; 2026-07-28: any JSON
value. Before 2025-06-18 there was none, and who sends it anyway means what came later.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from mcpd.errors import ServerProtocol

from . import rawjson

# The first revision that lets it be any JSON value; revisions are dates and compare as text.
ANY_JSON_FROM = "2026-07-28"

# A number that is no integer stays its literal, so that none is rounded and 1.0 is not 1.
_VALUE = msgspec.json.Decoder(float_hook=Raw)


def check_structured(structured: Raw, revision: str) -> None:
    """Check the structured content of a result; the bytes are not touched.

    Args:
        structured: its JSON; empty where the result has none.
        revision: what was agreed with the server.

    Raises:
        ServerProtocol: It is no object, and has to be one.
    """
    if structured and revision < ANY_JSON_FROM and (kind := rawjson.kind(structured)) != "an object":
        raise ServerProtocol(f"`structuredContent` of the result is {kind}, and must be an object in {revision}")


def canonical(value: bytes | Raw) -> bytes | None:
    """Return a spelling that two JSON values share exactly if they are deep-equal; None for what is no JSON.

    White space, the order of members and escapes do not matter. Integers of any size are compared
    exactly, other numbers by their literals, and true is not 1.
    """
    try:
        return msgspec.json.encode(_VALUE.decode(value), order="deterministic")
    except (msgspec.MsgspecError, UnicodeError, ValueError, RecursionError):
        return None
