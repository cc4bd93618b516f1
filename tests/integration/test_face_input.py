"""What MCP clients send wrong on the socket, batches, handshakes, methods and ids: the sender is told, nobody else notices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.host import (
    ERAS,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LEGACY,
    META,
    MODERN,
    PARSE_ERROR,
    UNKNOWN_METHOD,
    echo,
    enter,
    error_of,
    hello,
    lines,
    of,
    open_session,
    opening,
    request,
    serves,
    slow,
)
from tests.integration.wire import Wire, text_of

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.usefixtures("bystander")


# -- batches -----------------------------------------------------------------------------------------


def test_a_batch_is_taken_one_by_one_where_the_revision_has_them(host: Wire) -> None:
    open_session(host, "2025-03-26")

    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}
    host.write(lines([request(1, "ping"), cancelled, request("b", "tools/call", echo("hi")), request(2, "tools/list")]))

    assert host.wait(1)["result"] == {}
    assert text_of(host.wait("b")["result"]) == "hi"
    assert host.wait(2)["result"]["tools"]


def test_what_is_wrong_in_a_batch_costs_the_others_nothing(host: Wire) -> None:
    open_session(host, "2025-03-26")

    host.write(lines([7, request(1, "nothing/such"), None, [request(9, "ping")], {}, request(2, "ping")]))

    refused = [host.read() for _ in range(6)]
    assert [error_of(one) for one in refused if "error" in one and one["id"] is None] == [(None, INVALID_REQUEST)] * 4
    assert [error_of(one) for one in refused if one["id"] == 1] == [(1, UNKNOWN_METHOD)]
    assert [one["result"] for one in refused if one["id"] == 2] == [{}]


@pytest.mark.parametrize("batch", [b"[]", b"[ ]", b"[" + b"{}," * 200_000 + b"{}]"], ids=["empty", "blank", "huge"])
def test_a_batch_of_nothing_or_of_too_much_is_refused_as_a_whole(host: Wire, batch: bytes) -> None:
    open_session(host, "2025-03-26")

    host.write(batch + b"\n")

    assert error_of(host.read()) == (None, INVALID_REQUEST)
    serves(host)


@pytest.mark.parametrize("batch", [b"[", b"[{},", b'[{"jsonrpc":"2.0","id":1,"method":"ping"}', b"[{}]]", b"[{} {}]"])
def test_a_batch_that_is_no_json_is_refused_as_a_whole(host: Wire, batch: bytes) -> None:
    open_session(host, "2025-03-26")

    host.write(batch + b"\n")

    assert host.read()["error"]["code"] == PARSE_ERROR
    serves(host)


@pytest.mark.parametrize("revision", [one for one in LEGACY if one != "2025-03-26"])
def test_other_sessions_have_no_batches(host: Wire, revision: str) -> None:
    open_session(host, revision)

    host.write(lines([request(1, "ping")]))

    assert error_of(host.read()) == (None, INVALID_REQUEST)
    serves(host)


def test_a_client_without_a_session_has_no_batches(host: Wire) -> None:
    host.write(lines([request(1, "tools/list", {"_meta": META})], [request(1, "initialize", opening("2025-03-26"))]))

    assert [error_of(host.read()) for _ in range(2)] == [(None, INVALID_REQUEST)] * 2
    serves(host, "modern")
    host.write(lines([request(1, "tools/list", {"_meta": META})]))
    assert error_of(host.read()) == (None, INVALID_REQUEST)
    serves(open_session(host))


# -- handshakes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/list", {}),
        ("prompts/list", {}),
        ("resources/list", {}),
        ("resources/templates/list", {}),
        ("tools/call", echo("too early")),
        ("prompts/get", {"name": "x"}),
        ("resources/read", {"uri": "x:y"}),
        ("resources/subscribe", {"uri": "x:y"}),
        ("logging/setLevel", {"level": "info"}),
        ("completion/complete", {}),
    ],
)
def test_what_comes_before_initialize_is_refused_at_once_and_initialize_works_after_it(
    host: Wire, method: str, params: object
) -> None:
    error = host.fail(method, params)

    assert error["code"] == INVALID_PARAMS
    assert "initialize" in error["message"]
    serves(open_session(host))


def test_a_ping_needs_no_session(host: Wire) -> None:
    assert host.ask("ping") == {}
    serves(open_session(host))


def test_a_client_without_a_word_before_it_can_initialize(wire: Wire) -> None:
    assert wire.ask("initialize", opening("2025-06-18"))["protocolVersion"] == "2025-06-18"


def test_requests_may_follow_initialize_without_waiting_for_its_answer(host: Wire) -> None:
    host.write(
        lines(
            request(1, "initialize", opening("2025-06-18")),
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            request(2, "tools/list"),
            request(3, "tools/call", echo("hi")),
        )
    )

    assert host.wait(1)["result"]["protocolVersion"] == "2025-06-18"
    assert host.wait(2)["result"]["tools"]
    assert text_of(host.wait(3)["result"]) == "hi"


def test_a_second_initialize_opens_another_session_and_costs_nothing_that_is_in_flight(host: Wire) -> None:
    open_session(host, "2024-11-05")
    pending = host.send("tools/call", slow(0.3))

    open_session(host, "2025-11-25")

    assert text_of(host.wait(pending)["result"]) == "slept 0.3 seconds"
    serves(host)
    open_session(host, "2025-03-26")
    host.write(lines([request("b", "ping")]))
    assert host.read() == {"jsonrpc": "2.0", "id": "b", "result": {}}


def test_initialize_is_taken_after_discover_and_the_other_way_round(host: Wire) -> None:
    assert host.ask("server/discover", of("modern"))["supportedVersions"] == [MODERN]
    serves(open_session(host))
    assert host.ask("server/discover", of("modern"))["supportedVersions"] == [MODERN]
    serves(host)
    serves(host, "modern")


@pytest.mark.parametrize(
    "params",
    [
        {},
        None,
        {"protocolVersion": None},
        {"protocolVersion": 7},
        {"protocolVersion": {}},
        {"protocolVersion": ""},
        {"protocolVersion": "1999-01-01"},
        {"protocolVersion": "2099-01-01"},
        {"protocolVersion": MODERN},
        {"protocolVersion": "2025-11-25", "capabilities": 7},
        {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": [], "sampling": None, "roots": "x"}},
        {"protocolVersion": "2025-11-25", "clientInfo": None},
    ],
)
def test_an_initialize_that_is_odd_is_answered_with_the_newest_revision(host: Wire, params: object) -> None:
    host.write(lines(request(1, "initialize", params)))

    assert host.wait(1)["result"]["protocolVersion"] == LEGACY[0]
    serves(host)


@pytest.mark.parametrize("params", [[], [1], "text", 7, True])
def test_an_initialize_that_cannot_be_read_is_refused_and_a_proper_one_works_after_it(host: Wire, params: object) -> None:
    host.write(lines(request(1, "initialize", params)))

    assert error_of(host.read()) == (1, INVALID_PARAMS)
    serves(open_session(host))


def test_a_server_that_does_not_exist_fails_initialize_and_nothing_else(wire: Wire) -> None:
    wire.ask("mcpd/hello", {"version": 1, "server": "dmo"})

    error = wire.fail("initialize", opening("2025-11-25"))

    assert "there is no server 'dmo'" in error["message"]
    assert "demo" in error["message"]
    assert wire.fail("server/discover", of("modern"))["message"] == error["message"]
    hello(wire)
    serves(open_session(wire))


# -- methods and ids ---------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("method", ["nothing/such", "", "tools", "TOOLS/LIST", "tools/list ", "x" * 100_000, "rpc.x", "é"])
def test_an_unknown_method_is_refused(host: Wire, era: str, method: str) -> None:
    enter(host, era)

    error = host.fail(method, of(era))

    assert error["code"] in (UNKNOWN_METHOD, INVALID_REQUEST)
    assert len(error["message"]) < 300
    serves(host, era)


@pytest.mark.parametrize(
    "method", ["ping", "initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"]
)
def test_what_only_legacy_revisions_have_is_unknown_in_a_modern_request(host: Wire, method: str) -> None:
    assert host.fail(method, of("modern", level="info", uri="x:y"))["code"] == UNKNOWN_METHOD
    open_session(host)
    assert host.fail(method, of("modern", level="info", uri="x:y"))["code"] == UNKNOWN_METHOD
    serves(host)


@pytest.mark.parametrize("method", ["server/discover", "subscriptions/listen"])
def test_what_only_the_modern_revision_has_is_unknown_in_a_session(host: Wire, method: str) -> None:
    assert open_session(host).fail(method, {"notifications": {}})["code"] == UNKNOWN_METHOD
    serves(host)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("method", ["nothing/such", "notifications/nothing", "tools/call", "initialize", "notifications/initialized"])
def test_no_notification_is_answered(host: Wire, era: str, method: str) -> None:
    enter(host, era)

    for params in (of(era), None, [], "text", 7):
        host.notify(method, params)

    identity = host.send("tools/list", of(era))
    assert host.read()["id"] == identity


IDS = [0, 7, -1, 2**53 + 1, 10**40, 1.5, "", "7", "ü", "a\"b\\c", "\u2028", "e0d8-4b", "mcpd-bridge-1", "s1", "x" * 900]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("identity", IDS)
def test_an_id_of_any_kind_comes_back_as_it_was_sent(host: Wire, era: str, identity: object) -> None:
    enter(host, era)
    for method, params in (("tools/call", echo("hi")), ("tools/list", {}), ("nothing/such", {})):
        host.write(lines(request(identity, method, of(era, **params))))

        answer = host.read()

        assert answer["id"] == identity
        assert type(answer["id"]) is type(identity)


def test_a_number_and_the_same_digits_as_a_text_are_two_ids(host: Wire) -> None:
    open_session(host)

    host.write(lines(request(7, "tools/call", slow(0.2)), request("7", "tools/call", echo("text"))))

    first, second = host.read(), host.read()
    assert (first["id"], text_of(first["result"])) == ("7", "text")
    assert (second["id"], text_of(second["result"])) == (7, "slept 0.2 seconds")


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("identity", [None, True, {}, {"a": 1}, [], [1], "x" * 5000])
def test_what_can_be_no_id_is_refused_without_one(host: Wire, era: str, identity: object) -> None:
    enter(host, era)

    host.write(lines(request(identity, "tools/list", of(era))))

    assert error_of(host.read()) == (None, INVALID_REQUEST)
    serves(host, era)


@pytest.mark.parametrize("era", ERAS)
def test_an_id_in_use_is_refused_and_its_first_request_goes_on(host: Wire, era: str) -> None:
    enter(host, era)

    host.write(lines(request(5, "tools/call", of(era, **slow(0.2))), request(5, "tools/list", of(era))))

    assert error_of(host.read()) == (5, INVALID_REQUEST)
    assert text_of(host.read()["result"]) == "slept 0.2 seconds"
