"""Look one level into the JSON of an upstream's answer, and say clearly what is wrong with it.

Everything below that level stays the bytes that came: numbers, escapes and the order of members
survive. What cannot be read becomes a `ServerProtocol` that names the part and what came instead.
"""

from __future__ import annotations

import codecs
from typing import ClassVar, TypeVar

import msgspec
from msgspec import Raw, Struct

from mcpd.errors import ServerProtocol

T = TypeVar("T")

_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_ARRAY = msgspec.json.Decoder(list[Raw])
_STRING = msgspec.json.Decoder(str)

_KINDS = {b"{": "an object", b"[": "an array", b'"': "a string", b"t": "true", b"f": "false", b"n": "null"}
# A line of 64 MiB that says [0,0,0,…] would take gigabytes as a list; no honest answer has so many parts.
MAX_PARTS = 50_000
# One look at a message of 64 MiB must not need four times that for its text.
UTF8_STEP_BYTES = 1 << 16


def members(value: bytes | Raw, what: str) -> dict[str, Raw]:
    """Return the members of an object; `what` names it in the error.

    Raises:
        ServerProtocol: It is no object, or no JSON, or has over `MAX_PARTS` members.
    """
    if len(value) > MAX_PARTS and bytes(value).count(b":") > MAX_PARTS:
        _count_members(value, what)
    return decode(_OBJECT, value, what, "an object")


def elements(value: bytes | Raw, what: str) -> list[Raw]:
    """Return the elements of an array; `what` names it in the error.

    Raises:
        ServerProtocol: It is no array, or no JSON, or has over `MAX_PARTS` elements.
    """
    if len(value) > MAX_PARTS and bytes(value).count(b",") >= MAX_PARTS:
        _count_elements(value, what)
    return decode(_ARRAY, value, what, "an array")


def string(value: bytes | Raw) -> str | None:
    """Return the text of a JSON string, or None for any other value and for an absent one.

    Raises:
        ServerProtocol: The string is no UTF-8.
    """
    return decode(_STRING, value, "the value", "a string") if kind(value) == "a string" else None


def kind(value: bytes | Raw) -> str:
    """Return what a JSON value is, with its article, for an error message."""
    start = bytes(memoryview(value)[:64]).lstrip()[:1]
    return _KINDS.get(start, "a number") if start else "nothing"


def decode(decoder: msgspec.json.Decoder[T], value: bytes | Raw, what: str, wanted: str) -> T:
    """Decode with a decoder that looks no deeper than one level.

    Args:
        decoder: it must accept whatever is inside, so that only the outer type can be wrong.
        value: the JSON.
        what: its name in an error.
        wanted: the type that the decoder reads, in an error.

    Raises:
        ServerProtocol: The value is of another type, or no JSON.
    """
    try:
        return decoder.decode(value)
    except msgspec.ValidationError:
        raise ServerProtocol(f"{what} is {kind(value)}, not {wanted}") from None
    except (msgspec.DecodeError, ValueError) as problem:
        raise not_json(_reason(str(problem), value)) from None
    except RecursionError:
        raise not_json("it is nested too deeply") from None


def require_utf8(value: bytes | Raw) -> None:
    """Check the text of an answer that is passed on undecoded.

    msgspec does not look into what it hands out as `Raw`, and one stray byte makes the whole line
    unreadable to the client that gets it.

    Raises:
        ServerProtocol: It is no UTF-8; the message names the place.
    """
    view = memoryview(value)
    position, size = 0, len(view)
    while position < size:
        end = min(position + UTF8_STEP_BYTES, size)
        try:
            position += codecs.utf_8_decode(view[position:end], "strict", end == size)[1]
        except UnicodeDecodeError as problem:
            raise not_json(f"byte {position + problem.start} is no UTF-8") from None


def not_json(reason: str) -> ServerProtocol:
    """Return the error for an answer that is broken as JSON."""
    return ServerProtocol(f"the answer is not valid JSON: {reason}")


def _count_members(value: bytes | Raw, what: str) -> None:
    """Go through an object that has very many colons, and stop where it has too many members."""
    counted = _Counted(what)
    decoder = msgspec.json.Decoder(dict[_Name, Raw], dec_hook=lambda _, name: counted.one_more(_Name(name)))
    decode(decoder, value, what, "an object")


def _count_elements(value: bytes | Raw, what: str) -> None:
    """Go through an array that has very many commas, and stop where it has too many elements.

    So large an array has to be one of objects.
    """
    _Element.counted = _Counted(what)
    try:
        _ELEMENTS.decode(value)
    except msgspec.ValidationError as problem:
        if kind(value) == "an array":
            raise ServerProtocol(f"{what} is very long and not all objects: {problem}") from None
    except (msgspec.DecodeError, RecursionError):
        pass  # and so it is for the decoder that comes next


class _Counted:
    """Counts the parts of one value while msgspec goes through it."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._count = 0

    def one_more(self, part: T) -> T:
        self._count += 1
        if self._count > MAX_PARTS:
            raise ServerProtocol(f"{self._what} has more than {MAX_PARTS} parts")
        return part


class _Name:
    """A member's name; a type of our own, so that msgspec hands over each as it comes."""

    def __init__(self, name: str) -> None:
        self.name = name


class _Element(Struct, gc=False):
    counted: ClassVar[_Counted]

    def __post_init__(self) -> None:
        self.counted.one_more(self)


_ELEMENTS = msgspec.json.Decoder(list[_Element])


def _reason(problem: str, value: bytes | Raw) -> str:
    # msgspec calls half of a surrogate pair truncated data, which sends people looking elsewhere.
    if "truncated" in problem and b"\\ud" in bytes(value).lower():
        return "a string has half of a surrogate pair, or the end is missing"
    reason = problem.removeprefix("JSON is malformed: ")
    return reason[:1].lower() + reason[1:]
