"""`structuredContent`: whether a text of the same result says it already, so that it is not shown twice.

What a revision lets it be is between the server and whoever reads it: it is passed on as it came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from . import rawjson
from .jsonrpc import ABSENT

if TYPE_CHECKING:
    from collections.abc import Sequence

# A number that is no integer stays its literal, so that none is rounded and 1.0 is not 1.
_VALUE = msgspec.json.Decoder(float_hook=Raw)


def repeats(content: Raw, structured: Raw) -> bool:
    """Whether the structured content is the content blocks once more, as servers give that have nothing else to say."""
    return rawjson.elements(content, "the blocks") != [] and canonical(content) in {canonical(structured), canonical(_only_value(structured))} - {None}


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
