"""`structuredContent`: what a revision lets it be, and whether a text says the same.

Spec: 2025-06-18 and 2025-11-25, server/tools, "Structured Content": a JSON object; 2026-07-28: any JSON
value. Before 2025-06-18 there was none, and who sends it anyway means what came later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from mcpd.errors import ServerProtocol

from . import rawjson
from .jsonrpc import ABSENT

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def says(texts: Sequence[str], structured: Raw) -> bool:
    """Whether texts say all that the structured content does, so that showing both would be showing it twice.

    One of them is the same JSON, however laid out. Or it is an object of a single member, as servers wrap
    a value that is no object, and they are its value: the one text, or in a list one by one.
    """
    if not texts:
        return False
    value = _only_value(structured)
    wanted = {canonical(structured), canonical(value)} - {None}
    plain = rawjson.string(value)
    if any(text == plain or canonical(text.encode()) in wanted for text in texts):
        return True
    if rawjson.kind(value) != "an array":
        return False
    values = rawjson.elements(value, "a list")
    return len(texts) == len(values) and all(map(_is, texts, values))


def _only_value(structured: Raw) -> Raw:
    """Return the value of an object's only member; empty for anything else."""
    values = list(rawjson.members(structured, "it").values()) if rawjson.kind(structured) == "an object" else []
    return values[0] if len(values) == 1 else ABSENT


def _is(text: str, value: Raw) -> bool:
    return text == rawjson.string(value) or canonical(text.encode()) == canonical(value) is not None


def canonical(value: bytes | Raw) -> bytes | None:
    """Return a spelling that two JSON values share exactly if they are deep-equal; None for what is no JSON.

    White space, the order of members and escapes do not matter. Integers of any size are compared
    exactly, other numbers by their literals, and true is not 1.
    """
    try:
        return msgspec.json.encode(_VALUE.decode(value), order="deterministic")
    except (msgspec.MsgspecError, UnicodeError, ValueError, RecursionError):
        return None
