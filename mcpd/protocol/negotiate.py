"""Which era and revision an upstream speaks: a script of questions, without I/O.

The driver sends what is asked, waits as long as is said, and sends the outcome back in. Spec:
2026-07-28 basic/transports/stdio "era detection" and 2025-11-25 basic/lifecycle. What real servers
do beyond the specification (silence, any error code, leaving on the probe, answering late) is a row
each in `tests/protocol/test_negotiate.py`.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import msgspec
from msgspec import Raw

from mcpd.errors import ServerProtocol, ServerUnavailable, VersionMismatch

from . import mcp
from .jsonrpc import METHOD_NOT_FOUND, ErrorView
from .session import CLIENT_INFO, Session, stamp

DISCOVER = "server/discover"
INITIALIZE = "initialize"
INITIALIZED = "notifications/initialized"


@dataclass(frozen=True)
class Ask:
    """Send a request (unless `method` is None), then wait for the first outcome of any sent so far.

    `patience_seconds` None means: as long as the start may take.
    """

    method: str | None
    params: bytes = b"{}"
    patience_seconds: float | None = None


@dataclass(frozen=True)
class Tell:
    """Send a notification; nothing is waited for."""

    method: str


@dataclass(frozen=True)
class Respawn:
    """End this process and start another one; what was asked so far is forgotten."""


@dataclass(frozen=True)
class Answer:
    """A request was answered with a result."""

    method: str
    result: Raw


@dataclass(frozen=True)
class Refusal:
    """A request was answered with an error."""

    method: str
    error: ErrorView


@dataclass(frozen=True)
class Silence:
    """Nothing came within the patience."""


@dataclass(frozen=True)
class Ended:
    """The process ended or closed its output before it answered."""


# What a modern server says to initialize, which it does not have.
_NO_INITIALIZE = (mcp.UNSUPPORTED_VERSION, METHOD_NOT_FOUND)

Step = Ask | Tell | Respawn
Outcome = Answer | Refusal | Silence | Ended | None
Script = Generator[Step, Outcome, Session]


def negotiate(
    protocol: str, known_era: str | None, patience_seconds: float, capabilities: bytes = b"{}"
) -> Script:
    """Yield what to do, return the agreement.

    Args:
        protocol: the setting: auto, modern, legacy, or a revision's date.
        known_era: what this identity turned out to be last time.
        patience_seconds: how long silence after the probe may last before it counts as an answer.
        capabilities: what a legacy session offers to be asked (JSON).

    Raises:
        VersionMismatch: There is no revision that both sides speak.
        ServerUnavailable: `initialize` was refused.
        ServerProtocol: The answer is not one.
    """
    if protocol in mcp.LEGACY:
        return (yield from _initialize(protocol, capabilities))
    if protocol == "legacy" or (protocol == "auto" and known_era == "legacy"):
        return (yield from _initialize(mcp.LEGACY[0], capabilities, may_be_modern=protocol == "auto"))
    outcome = yield _probe(patience_seconds)
    if isinstance(outcome, Refusal) and set(_offered(outcome) or ()) & set(mcp.MODERN):
        # It refuses a revision that it names itself; it is asked once more with that one, as the specification says.
        outcome = yield _probe(patience_seconds)
    if isinstance(outcome, Ended):
        if protocol == "auto":
            # Some servers leave when the first request is not `initialize`; that is an answer, too.
            yield Respawn()
            return (yield from _initialize(mcp.LEGACY[0], capabilities))
        raise ServerUnavailable("it ended when it was asked what it speaks")
    if isinstance(outcome, Silence):
        return (yield from _after_silence(protocol, capabilities))
    session = _modern(outcome)
    if session is not None:
        return session
    if protocol != "auto":
        raise VersionMismatch(f"the server does not speak {mcp.MODERN[0]}, which its entry demands")
    _must_overlap(outcome)
    return (yield from _initialize(mcp.LEGACY[0], capabilities))


def _probe(patience_seconds: float | None) -> Ask:
    return Ask(DISCOVER, b'{"_meta":{%b}}' % stamp(mcp.MODERN[0]), patience_seconds)


def _modern(outcome: Outcome) -> Session | None:
    """Return the agreement if this is a modern server's answer to the probe."""
    if not isinstance(outcome, Answer) or outcome.method != DISCOVER:
        return None
    try:
        found = msgspec.json.decode(outcome.result, type=mcp.DiscoverResult)
    except (msgspec.MsgspecError, RecursionError):
        return None  # a legacy server that answers anything with something
    for revision in mcp.MODERN:
        if revision in found.supportedVersions:
            return Session(
                revision,
                "modern",
                _capabilities(found.capabilities),
                found.meta.get(mcp.META_SERVER, Raw(b"{}")),
                _text(found.instructions),
            )
    return None


def _offered(outcome: Outcome) -> list[str] | None:
    """Return the revisions that the server named, if it named any."""
    try:
        if isinstance(outcome, Answer) and outcome.method == DISCOVER:
            return msgspec.json.decode(outcome.result, type=mcp.DiscoverResult).supportedVersions
        if isinstance(outcome, Refusal) and outcome.error.code == mcp.UNSUPPORTED_VERSION:
            return msgspec.json.decode(outcome.error.data, type=mcp.VersionData).supported
    except (msgspec.MsgspecError, RecursionError):
        pass
    return None


def _must_overlap(outcome: Outcome) -> None:
    offered = _offered(outcome)
    if offered and not set(offered) & set(mcp.LEGACY):
        known = ", ".join((*mcp.MODERN, *mcp.LEGACY))
        raise VersionMismatch(f"the server speaks {', '.join(offered)}; mcpd speaks the revisions {known}")


def _after_silence(protocol: str, capabilities: bytes) -> Script:
    """Ask the old question on the same pipe, and take whichever answer comes first."""
    if protocol != "auto":
        outcome = yield Ask(None)
        if session := _modern(outcome):
            return session
        raise VersionMismatch(f"the server does not speak {mcp.MODERN[0]}, which its entry demands")
    return (yield from _initialize(mcp.LEGACY[0], capabilities, probed=True))


def _initialize(revision: str, capabilities: bytes, *, may_be_modern: bool = False, probed: bool = False) -> Script:
    """Do the legacy handshake.

    `probed`: a probe is still open, its late answer wins. `may_be_modern`: the era was remembered and
    may have changed. In both cases a refusal that a modern server gives leads to the probe.
    """
    offer = b'{"protocolVersion":"%b","capabilities":%b,"clientInfo":%b}' % (
        revision.encode(), capabilities, CLIENT_INFO,
    )  # fmt: skip
    outcome = yield Ask(INITIALIZE, offer)
    while not isinstance(outcome, Ended | Silence) and _of(outcome) == DISCOVER:
        if session := _modern(outcome):
            return session
        outcome = yield Ask(None)
    if isinstance(outcome, Ended) and probed:
        yield Respawn()  # slow to start, and then it left because of the probe
        return (yield from _initialize(revision, capabilities))
    if isinstance(outcome, Refusal):
        if outcome.error.code in _NO_INITIALIZE and (probed or may_be_modern):
            again = yield _probe(None)
            if session := _modern(again):
                return session
        raise _refused(outcome)
    if isinstance(outcome, Answer):
        session = _legacy(outcome.result)
        yield Tell(INITIALIZED)
        return session
    raise ServerUnavailable("it ended before it answered initialize")


def _of(outcome: Outcome) -> str | None:
    return outcome.method if isinstance(outcome, Answer | Refusal) else None


def _refused(outcome: Outcome) -> ServerUnavailable | VersionMismatch:
    if not isinstance(outcome, Refusal):
        return ServerUnavailable("the server answers neither initialize nor server/discover")
    offered = _offered(outcome)
    if offered is not None:
        known = ", ".join((*mcp.MODERN, *mcp.LEGACY))
        return VersionMismatch(f"the server speaks {', '.join(offered)}; mcpd speaks the revisions {known}")
    reason = outcome.error.message or "no reason given"
    return ServerUnavailable(f"it refused initialize: {reason} (code {outcome.error.code})")


def _legacy(result: Raw) -> Session:
    try:
        found = msgspec.json.decode(result, type=mcp.InitializeResult)
    except (msgspec.MsgspecError, RecursionError) as problem:
        raise ServerProtocol(f"its answer to initialize is malformed: {problem}") from None
    if found.protocolVersion not in mcp.LEGACY:
        raise VersionMismatch(
            f"the server answers protocol version {found.protocolVersion[:40]}; "
            f"mcpd speaks the revisions {', '.join(mcp.LEGACY)}"
        )
    return Session(
        found.protocolVersion,
        "legacy",
        _capabilities(found.capabilities),
        found.serverInfo or Raw(b"{}"),
        _text(found.instructions),
    )


def _capabilities(raw: Raw) -> dict[str, Raw]:
    try:
        return {k: v for k, v in msgspec.json.decode(raw, type=dict[str, Raw]).items() if bytes(v) != b"null"}
    except (msgspec.MsgspecError, RecursionError):
        return {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
