"""What a client can be asked by a server: elicitation, sampling, roots.

Spec: client capabilities of 2024-11-05 … 2025-11-25 (`initialize`) and 2026-07-28 (`_meta` of each
request). An empty `elicitation` means forms, in every revision that has it.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from . import mcp, rawjson
from .jsonrpc import ABSENT

ELICITATION_FROM, MODES_FROM = "2025-06-18", "2025-11-25"
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

    def to_json(self, revision: str = mcp.LEGACY[0]) -> bytes:
        """Return the ClientCapabilities object in the words of a revision.

        Forms alone are `{}`, which every revision that has them reads as that.
        """
        members: dict[str, object] = {}
        knows_modes = revision >= MODES_FROM
        if (self.form or (self.url and knows_modes)) and revision >= ELICITATION_FROM:
            modes: dict[str, object] = {"form": {}} if self.form else {}
            members["elicitation"] = {**modes, "url": {}} if self.url and knows_modes else {}
        if self.sampling:
            flags = {"tools": self.sampling_tools, "context": self.sampling_context}
            members["sampling"] = {name: {} for name, is_set in flags.items() if is_set and knows_modes}
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
    form: Raw = ABSENT
    url: Raw = ABSENT


class _Sampling(Struct):
    tools: Raw = ABSENT
    context: Raw = ABSENT


class _Declared(Struct):
    elicitation: Raw = ABSENT
    sampling: Raw = ABSENT
    roots: Raw = ABSENT


def read(raw: Raw | bytes) -> Capabilities:
    """Return what a ClientCapabilities object says; what is malformed declares nothing."""
    try:
        found = msgspec.json.decode(raw or b"{}", type=_Declared)
        asks = msgspec.json.decode(found.elicitation, type=_Elicitation) if _is_set(found.elicitation) else None
        samples = msgspec.json.decode(found.sampling, type=_Sampling) if _is_set(found.sampling) else None
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return NOTHING
    return Capabilities(
        form=asks is not None and (_is_set(asks.form) or not _is_set(asks.url)),
        url=asks is not None and _is_set(asks.url),
        sampling=samples is not None,
        sampling_tools=samples is not None and _is_set(samples.tools),
        sampling_context=samples is not None and _is_set(samples.context),
        roots=_is_set(found.roots),
    )


def _is_set(member: Raw) -> bool:
    return bytes(member) not in (b"", b"null")


class _Asked(Struct):
    mode: Raw = ABSENT
    tools: Raw = ABSENT


def mode_of(params: Raw) -> str:
    """Return the mode of an elicitation; a missing one is `form`."""
    try:
        return rawjson.string(msgspec.json.decode(params, type=_Asked).mode) or "form"
    except (msgspec.MsgspecError, RecursionError):
        return "form"


def _wants_tools(params: Raw) -> bool:
    try:
        return _is_set(msgspec.json.decode(params, type=_Asked).tools)
    except (msgspec.MsgspecError, RecursionError):
        return False
