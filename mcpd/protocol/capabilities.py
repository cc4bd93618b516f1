"""What a client can be asked by a server: elicitation, sampling, roots.

Spec: client capabilities of 2024-11-05 … 2025-11-25 (`initialize`) and 2026-07-28 (`_meta` of each
request). An empty `elicitation` means forms, in every revision that has it.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from . import rawjson

ELICIT, SAMPLE, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"


class Capabilities(Struct, frozen=True):
    """What somebody can be asked. What is not known here is not passed on: it could not be relayed."""

    form: bool = False
    url: bool = False
    sampling: bool = False
    sampling_tools: bool = False
    sampling_context: bool = False
    roots: bool = False

    def __or__(self, other: Capabilities) -> Capabilities:
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        return Capabilities(*(mine or theirs for mine, theirs in pairs))

    def to_json(self) -> bytes:
        """Return the ClientCapabilities object; forms alone are `{}`, which every revision reads as that."""
        members: dict[str, object] = {}
        if self.form or self.url:
            modes: dict[str, object] = {"form": {}} if self.form else {}
            members["elicitation"] = {**modes, "url": {}} if self.url else {}
        if self.sampling:
            flags = {"tools": self.sampling_tools, "context": self.sampling_context}
            members["sampling"] = {name: {} for name, is_set in flags.items() if is_set}
        if self.roots:
            members["roots"] = {}
        return msgspec.json.encode(members)

    def can(self, method: str, params: Raw) -> bool:
        """Whether a request of a server can be put to who declared this."""
        match method:
            case "elicitation/create":
                return self.url if mode_of(params) == "url" else self.form
            case "sampling/createMessage":
                return self.sampling and (self.sampling_tools or not _wants_tools(params))
            case "roots/list":
                return self.roots
        return False

    def names(self, method: str) -> bool:
        """Whether anything of the kind was declared, so that a server may ask at all."""
        match method:
            case "elicitation/create":
                return self.form or self.url
            case "sampling/createMessage":
                return self.sampling
            case "roots/list":
                return self.roots
        return False


NOTHING = Capabilities()


class _Elicitation(Struct):
    form: Raw | None = None
    url: Raw | None = None


class _Sampling(Struct):
    tools: Raw | None = None
    context: Raw | None = None


class _Declared(Struct):
    elicitation: Raw | None = None
    sampling: Raw | None = None
    roots: Raw | None = None


def read(raw: Raw | bytes | None) -> Capabilities:
    """Return what a ClientCapabilities object says; what is malformed declares nothing."""
    if not raw:
        return NOTHING
    try:
        found = msgspec.json.decode(raw, type=_Declared)
        asks = found.elicitation and msgspec.json.decode(found.elicitation, type=_Elicitation | None)
        samples = found.sampling and msgspec.json.decode(found.sampling, type=_Sampling | None)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return NOTHING
    return Capabilities(
        form=bool(asks and (asks.form is not None or asks.url is None)),
        url=bool(asks and asks.url is not None),
        sampling=bool(samples),
        sampling_tools=bool(samples and samples.tools is not None),
        sampling_context=bool(samples and samples.context is not None),
        roots=bool(found.roots and bytes(found.roots) != b"null"),
    )


class _Asked(Struct):
    mode: Raw = Raw(b"")
    tools: Raw = Raw(b"")


def mode_of(params: Raw) -> str:
    """Return the mode of an elicitation; a missing one is `form`."""
    try:
        return rawjson.string(msgspec.json.decode(params, type=_Asked).mode) or "form"
    except (msgspec.MsgspecError, RecursionError):
        return "form"


def _wants_tools(params: Raw) -> bool:
    try:
        return bytes(msgspec.json.decode(params, type=_Asked).tools) not in (b"", b"null")
    except (msgspec.MsgspecError, RecursionError):
        return False
