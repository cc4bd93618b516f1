"""What MCP clients put into their requests that makes no sense: the sender is told, nobody else notices."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.host import (
    CAPABILITIES,
    ERAS,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    META,
    MODERN,
    UNSUPPORTED_VERSION,
    VERSION,
    echo,
    enter,
    error_of,
    lines,
    of,
    open_session,
    request,
    serves,
    slow,
)
from tests.integration.wire import Wire, text_of

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.usefixtures("bystander")


# -- parameters --------------------------------------------------------------------------------------


NEEDS_NOTHING = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "ping")
NEEDS_SOMETHING = (
    "tools/call", "prompts/get", "resources/read", "completion/complete",
    "logging/setLevel", "resources/subscribe", "resources/unsubscribe",
)  # fmt: skip


@pytest.mark.parametrize("params", [[], [1], "text", "", 7, True])
@pytest.mark.parametrize("method", NEEDS_NOTHING + NEEDS_SOMETHING)
def test_parameters_that_are_no_object_are_refused(host: Wire, method: str, params: object) -> None:
    open_session(host)

    host.write(lines(request(1, method, params)))

    assert error_of(host.read()) == (1, INVALID_PARAMS)
    serves(host)


@pytest.mark.parametrize("params", ["", ',"params":null', ',"params":{}', ',"params":{"_meta":null,"cursor":null,"x":[1]}'])
@pytest.mark.parametrize("method", NEEDS_NOTHING + NEEDS_SOMETHING)
def test_parameters_may_be_absent_or_null_where_none_are_needed(host: Wire, method: str, params: str) -> None:
    open_session(host)

    host.write(f'{{"jsonrpc":"2.0","id":1,"method":"{method}"{params}}}\n'.encode())

    answer = host.read()
    if method in NEEDS_NOTHING:
        assert "result" in answer
    else:
        assert error_of(answer) == (1, INVALID_PARAMS)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("more", [{}, {"arguments": None}, {"arguments": {}}])
def test_arguments_may_be_absent_or_null(host: Wire, era: str, more: dict[str, object]) -> None:
    enter(host, era)

    assert text_of(host.ask("tools/call", of(era, name="counter", **more))).isdigit()


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("arguments", [[], [1], "text", 7, False])
def test_arguments_that_are_no_object_are_refused(host: Wire, era: str, arguments: object) -> None:
    enter(host, era)

    assert host.fail("tools/call", of(era, name="echo", arguments=arguments))["code"] == INVALID_PARAMS
    serves(host, era)


@pytest.mark.parametrize("era", ERAS)
def test_an_unknown_tool_is_refused_with_a_near_name(host: Wire, era: str) -> None:
    enter(host, era)

    error = host.fail("tools/call", of(era, name="ecko", arguments={}))

    assert error["code"] == INVALID_PARAMS
    assert "echo" in error["message"]


@pytest.mark.parametrize("cursor", ["", "x", 7, {}, "bnVsbA=="])
@pytest.mark.parametrize("era", ERAS)
def test_a_cursor_that_nobody_gave_is_refused(host: Wire, era: str, cursor: object) -> None:
    enter(host, era)

    assert host.fail("tools/list", of(era, cursor=cursor))["code"] == INVALID_PARAMS
    serves(host, era)


def test_a_meta_of_null_belongs_to_the_session(host: Wire) -> None:
    open_session(host)

    assert text_of(host.ask("tools/call", {**echo("hi"), "_meta": None})) == "hi"


@pytest.mark.parametrize("meta", [[], "text", 7, True])
def test_a_meta_that_is_no_object_is_refused(host: Wire, meta: object) -> None:
    open_session(host)

    assert host.fail("tools/call", {**echo("hi"), "_meta": meta})["code"] == INVALID_PARAMS
    serves(host)


@pytest.mark.parametrize("token", [0, "", "x" * 5000, 1.5, None, {}, [1], True])
@pytest.mark.parametrize("era", ERAS)
def test_a_progress_token_of_any_kind_costs_no_call(host: Wire, era: str, token: object) -> None:
    enter(host, era)
    meta = {**(META if era == "modern" else {}), "progressToken": token}

    answer = host.wait(host.send("tools/call", {**slow(0.05), "_meta": meta}))

    assert text_of(answer["result"]) == "slept 0.05 seconds"
    for note in host.notes:
        assert (note["method"], note["params"]["progressToken"]) == ("notifications/progress", token)


@pytest.mark.parametrize("level", ["loud", "INFO", "", None, 7, {}, ["info"]])
def test_a_log_level_that_does_not_exist_is_refused(host: Wire, level: object) -> None:
    open_session(host)

    error = host.fail("logging/setLevel", {"level": level})

    assert error["code"] == INVALID_PARAMS
    assert "level" in error["message"]
    assert host.ask("logging/setLevel", {"level": "error"}) == {}


@pytest.mark.parametrize("level", ["loud", 7, None, {}])
def test_a_modern_request_with_a_log_level_that_does_not_exist_is_told_or_served(host: Wire, level: object) -> None:
    meta = {**META, "io.modelcontextprotocol/logLevel": level}

    answer = host.wait(host.send("tools/call", {**echo("hi"), "_meta": meta}))

    assert "result" in answer or answer["error"]["code"] == INVALID_PARAMS
    serves(host, "modern")


# -- the metadata of a modern request ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("meta", "named"),
    [
        ({VERSION: MODERN}, CAPABILITIES),
        ({CAPABILITIES: {}}, VERSION),
        ({VERSION: None, CAPABILITIES: {}}, VERSION),
        ({VERSION: 7, CAPABILITIES: {}}, VERSION),
        ({VERSION: MODERN, CAPABILITIES: None}, CAPABILITIES),
        ({VERSION: MODERN, CAPABILITIES: []}, CAPABILITIES),
        ({VERSION: MODERN, CAPABILITIES: "all"}, CAPABILITIES),
    ],
)
@pytest.mark.parametrize("method", ["server/discover", "tools/list", "tools/call", "subscriptions/listen", "nothing/such"])
def test_half_the_metadata_of_a_modern_request_is_refused_and_what_is_missing_named(
    host: Wire, method: str, meta: object, named: str
) -> None:
    error = host.fail(method, {**echo("hi"), "_meta": meta})

    assert error["code"] == INVALID_PARAMS
    assert named in error["message"]
    serves(host, "modern")


@pytest.mark.parametrize("version", ["2099-01-01", "2025-11-25", "DRAFT-2026-v1", "", "x" * 100_000])
@pytest.mark.parametrize("session", [False, True])
def test_a_modern_request_of_another_revision_is_told_which_there_are(host: Wire, version: str, session: bool) -> None:
    if session:
        open_session(host)

    error = host.fail("tools/list", {"_meta": {**META, VERSION: version}})

    assert error["code"] == UNSUPPORTED_VERSION
    assert error["data"]["supported"] == [MODERN]
    assert version.startswith(error["data"]["requested"])
    assert len(json.dumps(error)) < 1000
    serves(host, "modern")


@pytest.mark.parametrize("wanted", [None, [], "all", 7])
def test_a_listen_that_says_nothing_of_what_it_wants_is_refused_or_hears_nothing(host: Wire, wanted: object) -> None:
    identity = host.send("subscriptions/listen", of("modern", notifications=wanted))

    answer = host.read()

    if "error" in answer:
        assert error_of(answer) == (identity, INVALID_PARAMS)
    else:
        assert answer["method"] == "notifications/subscriptions/acknowledged"
        assert answer["params"]["notifications"] == {}
    serves(host, "modern")


@pytest.mark.parametrize(
    "wanted",
    [
        {"toolsListChanged": "yes", "promptsListChanged": 1, "resourcesListChanged": None},
        {"resourceSubscriptions": "x:y"},
        {"resourceSubscriptions": [7, None]},
        {"nothing": True},
    ],
)
def test_what_a_listen_wants_that_makes_no_sense_is_not_acknowledged(host: Wire, wanted: dict[str, object]) -> None:
    host.send("subscriptions/listen", of("modern", notifications=wanted))

    told = host.read()["params"]["notifications"]

    assert {key: value for key, value in told.items() if value} == {}
    serves(host, "modern")


@pytest.mark.parametrize("state", ["mcpd-parked-", "mcpd-parked-" + "0" * 32, "mcpd-parked-\ud800", 7, {}, "x" * 100_000])
def test_a_state_that_nobody_gave_resumes_no_call(host: Wire, state: object) -> None:
    params = of("modern", **echo("hi"), requestState=state, inputResponses={"a": {}})

    answer = host.wait(host.send("tools/call", params))

    assert "error" in answer or text_of(answer["result"]) == "hi"
    assert answer.get("error", {}).get("code") != INTERNAL_ERROR
    serves(host, "modern")


# -- anything at all ---------------------------------------------------------------------------------


METHODS = (*NEEDS_NOTHING, *NEEDS_SOMETHING, "initialize", "server/discover", "subscriptions/listen")
KEYS = (
    "name", "uri", "arguments", "cursor", "ref", "argument", "context", "level", "notifications", "protocolVersion",
    "capabilities", "inputResponses", "requestState", "clientInfo",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, -1, 10**30, 1.5, "", "\u0000", "\ud800", "x" * 5000, [], [[]], {}, {"a": {}}, "echo", "../x",
    {"type": "ref/prompt", "name": "x"}, {"type": "ref/resource", "uri": "x:{y}"}, {"elicitation": {"form": 7}},
)  # fmt: skip


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("method", METHODS)
def test_no_parameters_make_the_daemon_stumble(host: Wire, era: str, method: str) -> None:
    open_session(host)
    whole = of(era, name="echo", arguments={"text": "x"}, uri="x:y", level="error", ref={"type": "ref/prompt", "name": "x"})
    ids = [host.send(method, {**whole, key: value}) for key in KEYS for value in VALUES]
    if method == "subscriptions/listen" and era == "modern":
        for identity in ids:
            host.notify("notifications/cancelled", {"requestId": identity})
        ids = []

    answers = [host.wait(identity) for identity in ids]

    assert [one for one in answers if one.get("error", {}).get("code") == INTERNAL_ERROR] == []
    open_session(host)
    serves(host, era)


@pytest.mark.parametrize("key", [VERSION, CAPABILITIES, "io.modelcontextprotocol/clientInfo", "io.modelcontextprotocol/logLevel", "progressToken", "traceparent"])  # fmt: skip
def test_no_metadata_makes_the_daemon_stumble(host: Wire, key: str) -> None:
    ids = [
        host.send(method, {**echo("hi"), "_meta": {**META, key: value}})
        for method in ("tools/call", "tools/list", "server/discover")
        for value in VALUES
    ]

    answers = [host.wait(identity) for identity in ids]

    assert [one for one in answers if one.get("error", {}).get("code") == INTERNAL_ERROR] == []
    serves(host, "modern")


SHOWN = ({}, {"servers": ["demo"], "names": "mcp"}, {"mode": "search"}, {"mode": "auto"}, {"server": "mcpd"})


@pytest.mark.parametrize("shown", SHOWN)
def test_whatever_is_shown_nothing_makes_the_daemon_stumble(wire: Wire, shown: dict[str, object]) -> None:
    wire.ask("mcpd/hello", {"version": 1, **shown})
    open_session(wire)
    words = {"query": "echo", "name": "demo-echo", "tool": "demo-echo", "arguments": {"text": "x"}, "server": "demo", "limit": 3}
    given = [{**words, key: value} for key in words for value in VALUES] + [*VALUES]
    names = ("x", "demo-echo", "mcp__demo__echo", "search_tools", "describe_tool", "call_tool", "server_status", "server_logs")
    asked = [("tools/call", {"name": name, "arguments": arguments}) for name in names for arguments in given]
    asked += [(method, {key: value}) for method in NEEDS_NOTHING + NEEDS_SOMETHING for key in KEYS for value in VALUES]

    for begin in range(0, len(asked), 200):  # more of them would be refused as too many
        ids = [wire.send(method, params) for method, params in asked[begin : begin + 200]]
        answers = [wire.wait(identity) for identity in ids]
        assert [one for one in answers if one.get("error", {}).get("code") == INTERNAL_ERROR] == []

    open_session(wire)
    assert wire.ask("tools/list")["tools"]
