"""Which era a server speaks: one dialogue for each way in which servers are known to answer.

A dialogue is what the script does and what comes of it, step by step, then how it ends: with the
revision that is agreed on, or with an error.
"""

from __future__ import annotations

import json

import msgspec
import pytest
from msgspec import Raw

from mcpd.errors import McpdError, ServerProtocol, ServerUnavailable, VersionMismatch
from mcpd.protocol.jsonrpc import ErrorView
from mcpd.protocol.negotiate import Answer, Ask, Ended, Outcome, Refusal, Respawn, Silence, Step, Tell, negotiate
from mcpd.protocol.session import Session

# -- what is done --------------------------------------------------------------------------------

PROBE = ("server/discover", 10.0)
PROBE_AGAIN = ("server/discover", None)
OLD = ("initialize", None)
WAIT = (None, None)
CONFIRM, RESPAWN = Tell("notifications/initialized"), Respawn()

# -- what comes of it ----------------------------------------------------------------------------


def discover(*versions: str, **more: object) -> Answer:
    return Answer("server/discover", Raw(json.dumps({"supportedVersions": versions, **more}).encode()))


def initialized(version: str, **more: object) -> Answer:
    return Answer("initialize", Raw(json.dumps({"protocolVersion": version, **more}).encode()))


def answers(method: str, result: str) -> Answer:
    return Answer(method, Raw(result.encode()))


def refuses(method: str, code: int, message: str = "no", supported: list[str] | None = None) -> Refusal:
    data = b"" if supported is None else json.dumps({"supported": supported, "requested": "x"}).encode()
    return Refusal(method, ErrorView(code, message, Raw(data)))


NEW_ONLY, MODERN, NEWEST, OLDEST = "2027-01-01", "2026-07-28", "2025-11-25", "2024-11-05"
SILENCE, ENDED, NOTHING = Silence(), Ended(), None

Dialogue = list[tuple[object, Outcome]]
End = str | type[McpdError]


def row(
    name: str, *dialogue: tuple[object, Outcome], end: End, protocol: str = "auto", known_era: str | None = None
) -> object:
    return pytest.param(protocol, known_era, list(dialogue), end, id=name)


REFUSED = (PROBE, refuses("server/discover", -32601))
CONFIRMED = (CONFIRM, NOTHING)
OLD_WAY: Dialogue = [(OLD, initialized(NEWEST)), CONFIRMED]

ROWS = [
    # -- the probe is answered
    row("modern", (PROBE, discover(MODERN)), end=MODERN),
    row("modern among others", (PROBE, discover(NEW_ONLY, MODERN, NEWEST)), end=MODERN),
    *[
        row(f"{code} to the probe", (PROBE, refuses("server/discover", code)), *OLD_WAY, end=NEWEST)
        for code in (-32601, -32602, -32600, -32603, -32700, -32000, 0, 404)
    ],
    row(
        "discover lists only older revisions",
        (PROBE, discover("2025-06-18", OLDEST)),
        (OLD, initialized("2025-06-18")),
        CONFIRMED,
        end="2025-06-18",
    ),
    row("discover lists only newer ones", (PROBE, discover(NEW_ONLY)), end=VersionMismatch),
    row("discover lists nothing", (PROBE, discover()), *OLD_WAY, end=NEWEST),
    *[
        row(f"discover answers {what[:40]}", (PROBE, answers("server/discover", what)), *OLD_WAY, end=NEWEST)
        for what in ("{}", "null", '{"tools":[]}', '{"supportedVersions":"2026-07-28"}', "[" * 5000)
    ],
    row(
        "-32022 with eras mixed",
        (PROBE, refuses("server/discover", -32022, supported=[NEW_ONLY, NEWEST])),
        *OLD_WAY,
        end=NEWEST,
    ),
    row(
        "-32022 without a revision of ours",
        (PROBE, refuses("server/discover", -32022, supported=[NEW_ONLY])),
        end=VersionMismatch,
    ),
    row(
        "-32022 to a first request of a revision that it names is asked once more",
        (PROBE, refuses("server/discover", -32022, supported=[MODERN])),
        (PROBE, discover(MODERN)),
        end=MODERN,
    ),
    row(
        "-32022 twice with our revision only",
        (PROBE, refuses("server/discover", -32022, supported=[MODERN])),
        (PROBE, refuses("server/discover", -32022, supported=[MODERN])),
        end=VersionMismatch,
    ),
    row(
        "-32022 twice with our revision among older ones",
        (PROBE, refuses("server/discover", -32022, supported=[MODERN, NEWEST])),
        (PROBE, refuses("server/discover", -32022, supported=[MODERN, NEWEST])),
        *OLD_WAY,
        end=NEWEST,
    ),
    row("-32022 without a list", (PROBE, refuses("server/discover", -32022)), *OLD_WAY, end=NEWEST),
    # -- silence
    row("silence, then initialize", (PROBE, SILENCE), *OLD_WAY, end=NEWEST),
    row("a late discover wins", (PROBE, SILENCE), (OLD, discover(MODERN)), end=MODERN),
    row(
        "a late refusal of the probe decides nothing",
        (PROBE, SILENCE),
        (OLD, refuses("server/discover", -32601)),
        (WAIT, initialized(NEWEST)),
        CONFIRMED,
        end=NEWEST,
    ),
    row(
        "a late discover without a revision of ours decides nothing",
        (PROBE, SILENCE),
        (OLD, discover(NEWEST)),
        (WAIT, initialized(NEWEST)),
        CONFIRMED,
        end=NEWEST,
    ),
    *[
        row(
            f"silence, then {code} to initialize means modern",
            (PROBE, SILENCE),
            (OLD, refuses("initialize", code)),
            (PROBE_AGAIN, discover(MODERN)),
            end=MODERN,
        )
        # A modern server has no `initialize`: the specification lets it say either.
        for code in (-32022, -32601)
    ],
    row(
        "silence, then both are refused",
        (PROBE, SILENCE),
        (OLD, refuses("server/discover", -32601)),
        (WAIT, refuses("initialize", -32000)),
        end=ServerUnavailable,
    ),
    # -- it leaves
    row("it leaves on the probe", (PROBE, ENDED), (RESPAWN, NOTHING), *OLD_WAY, end=NEWEST),
    row(
        "it leaves on the probe after a long start",
        (PROBE, SILENCE),
        (OLD, ENDED),
        (RESPAWN, NOTHING),
        *OLD_WAY,
        end=NEWEST,
    ),
    row(
        "it leaves on the probe and refuses initialize",
        (PROBE, ENDED),
        (RESPAWN, NOTHING),
        (OLD, refuses("initialize", -32000)),
        end=ServerUnavailable,
    ),
    row("it leaves twice", (PROBE, ENDED), (RESPAWN, NOTHING), (OLD, ENDED), end=ServerUnavailable),
    row("it leaves on initialize", REFUSED, (OLD, ENDED), end=ServerUnavailable),
    # -- the answer to initialize
    *[
        row(f"it answers {older}", REFUSED, (OLD, initialized(older)), CONFIRMED, end=older)
        for older in ("2025-06-18", "2025-03-26", OLDEST)
    ],
    *[
        row(f"it answers {unknown!r}", REFUSED, (OLD, initialized(unknown)), end=VersionMismatch)
        for unknown in ("1.0", "2024-10-07", NEW_ONLY, MODERN, "")
    ],
    *[
        row(f"initialize answers {what}", REFUSED, (OLD, answers("initialize", what)), end=ServerProtocol)
        for what in ("{}", "null", '"ok"', '{"protocolVersion":1}')
    ],
    row("it refuses both", REFUSED, (OLD, refuses("initialize", -32602)), end=ServerUnavailable),
    # -- the setting
    row("a date is not probed", (OLD, initialized(OLDEST)), CONFIRMED, end=OLDEST, protocol=OLDEST),
    row("a date, a lower one comes", (OLD, initialized(OLDEST)), CONFIRMED, end=OLDEST, protocol=NEWEST),
    row(
        "a date, and -32022",
        (OLD, refuses("initialize", -32022, supported=[MODERN])),
        end=VersionMismatch,
        protocol=NEWEST,
    ),
    row("legacy is not probed", *OLD_WAY, end=NEWEST, protocol="legacy"),
    row("legacy, and -32022", (OLD, refuses("initialize", -32022)), end=ServerUnavailable, protocol="legacy"),
    row("modern by its date", (PROBE, discover(MODERN)), end=MODERN, protocol=MODERN),
    row("modern", (PROBE, discover(MODERN)), end=MODERN, protocol="modern"),
    row("modern, but it is not", REFUSED, end=VersionMismatch, protocol="modern"),
    row("modern, but it lists others", (PROBE, discover(NEWEST)), end=VersionMismatch, protocol="modern"),
    row("modern, and late", (PROBE, SILENCE), (WAIT, discover(MODERN)), end=MODERN, protocol="modern"),
    row(
        "modern, and late to say no",
        (PROBE, SILENCE),
        (WAIT, refuses("server/discover", -32601)),
        end=VersionMismatch,
        protocol="modern",
    ),
    row("modern, and it leaves", (PROBE, ENDED), end=ServerUnavailable, protocol="modern"),
    row("modern, remembered as legacy", (PROBE, discover(MODERN)), end=MODERN, protocol="modern", known_era="legacy"),
    # -- the memory
    row("remembered as legacy", *OLD_WAY, end=NEWEST, known_era="legacy"),
    *[
        row(
            f"remembered as legacy, but {code} to initialize",
            (OLD, refuses("initialize", code)),
            (PROBE_AGAIN, discover(MODERN)),
            end=MODERN,
            known_era="legacy",
        )
        for code in (-32022, -32601)
    ],
    row(
        "remembered as legacy, and refused for another reason",
        (OLD, refuses("initialize", -32000)),
        end=ServerUnavailable,
        known_era="legacy",
    ),
    row("remembered as legacy, and it leaves", (OLD, ENDED), end=ServerUnavailable, known_era="legacy"),
]


def seen(step: Step) -> object:
    return (step.method, step.patience_seconds) if isinstance(step, Ask) else step


def play(protocol: str, known_era: str | None, dialogue: Dialogue) -> Session:
    """Go through a dialogue; return the agreement."""
    script, outcome = negotiate(protocol, known_era, 10.0), None
    for expected, following in dialogue:
        assert seen(script.send(outcome)) == expected
        outcome = following
    with pytest.raises(StopIteration) as caught:
        raise AssertionError(f"it goes on with {script.send(outcome)}")
    session: Session = caught.value.value
    return session


@pytest.mark.parametrize(("protocol", "known_era", "dialogue", "end"), ROWS)
def test_each_way_of_answering_leads_to_its_end(
    protocol: str, known_era: str | None, dialogue: Dialogue, end: End
) -> None:
    if isinstance(end, str):
        session = play(protocol, known_era, dialogue)
        assert (session.revision, session.era) == (end, "modern" if end == MODERN else "legacy")
    else:
        with pytest.raises(end):
            play(protocol, known_era, dialogue)


# -- what is sent --------------------------------------------------------------------------------


def test_the_probe_is_a_complete_modern_request() -> None:
    step = next(negotiate("auto", None, 10.0))

    assert isinstance(step, Ask)
    assert json.loads(step.params) == {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "mcpd", "version": "0.1.0"},
        }
    }


@pytest.mark.parametrize(("protocol", "offered"), [("legacy", "2025-11-25"), ("2025-03-26", "2025-03-26")])
def test_initialize_offers_the_newest_legacy_revision_or_the_one_that_is_set(protocol: str, offered: str) -> None:
    step = next(negotiate(protocol, None, 10.0))

    assert isinstance(step, Ask)
    assert json.loads(step.params) == {
        "protocolVersion": offered,
        "capabilities": {},
        "clientInfo": {"name": "mcpd", "version": "0.1.0"},
    }


# -- what is agreed ------------------------------------------------------------------------------


def test_a_modern_agreement_keeps_what_the_server_said_of_itself() -> None:
    meta = {"io.modelcontextprotocol/serverInfo": {"name": "s"}}
    answer = discover(MODERN, capabilities={"tools": {"listChanged": True}}, instructions="be kind", _meta=meta)

    session = play("auto", None, [(PROBE, answer)])

    assert session.declares("tools", "listChanged")
    assert session.instructions == "be kind"
    assert msgspec.json.decode(session.server_info) == {"name": "s"}


def test_a_legacy_agreement_keeps_what_the_server_said_of_itself() -> None:
    said = {"capabilities": {"tools": {}, "prompts": None}, "serverInfo": {"name": "s"}, "instructions": 7}

    session = play("legacy", None, [(OLD, initialized(NEWEST, **said)), CONFIRMED])

    assert (session.offers("tools"), session.offers("prompts"), session.offers("resources")) == (True, False, False)
    assert session.instructions is None
    assert msgspec.json.decode(session.server_info) == {"name": "s"}


@pytest.mark.parametrize("capabilities", [None, [], "all", 1])
def test_capabilities_that_are_none_are_read_as_none(capabilities: object) -> None:
    session = play("legacy", None, [(OLD, initialized(NEWEST, capabilities=capabilities)), CONFIRMED])

    assert dict(session.capabilities) == {}


# -- what is told --------------------------------------------------------------------------------


def why(protocol: str, dialogue: Dialogue) -> str:
    with pytest.raises(McpdError) as caught:
        play(protocol, None, dialogue)
    return caught.value.message


def test_a_refusal_of_initialize_is_told_with_the_servers_reason() -> None:
    refused = refuses("initialize", -32602, "no API key is set")

    assert why("legacy", [(OLD, refused)]) == "it refused initialize: no API key is set (code -32602)"


def test_a_refusal_without_a_reason_says_so() -> None:
    assert "no reason given" in why("legacy", [(OLD, refuses("initialize", -32000, ""))])


def test_a_refusal_of_the_second_probe_does_not_hide_why_initialize_was_refused() -> None:
    dialogue: Dialogue = [
        (PROBE, SILENCE),
        (OLD, refuses("initialize", -32022, "use 2027-01-01", supported=[NEW_ONLY])),
        (PROBE_AGAIN, refuses("server/discover", -32601, "method not found")),
    ]

    assert "the server speaks 2027-01-01" in why("auto", dialogue)


@pytest.mark.parametrize(
    ("dialogue", "theirs"),
    [
        ([(PROBE, discover(NEW_ONLY, "2028-01-01"))], "2027-01-01, 2028-01-01"),
        ([(PROBE, refuses("server/discover", -32022, supported=[NEW_ONLY]))], "2027-01-01"),
        ([(PROBE, refuses("server/discover", -32601)), (OLD, initialized(NEW_ONLY))], "2027-01-01"),
    ],
)
def test_a_mismatch_names_the_revisions_of_both_sides(dialogue: Dialogue, theirs: str) -> None:
    told = why("auto", dialogue)

    assert theirs in told
    assert "2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05" in told
