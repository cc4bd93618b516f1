"""What MCP clients send wrong on the socket: whoever does it is told, and everybody else is served meanwhile."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.wire import Wire, text_of
from tests.integration.world import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.world import World

PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
UNSUPPORTED_VERSION = -32022
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
MODERN = "2026-07-28"
VERSION, CAPABILITIES = (f"io.modelcontextprotocol/{key}" for key in ("protocolVersion", "clientCapabilities"))
META = {VERSION: MODERN, CAPABILITIES: {}, "io.modelcontextprotocol/clientInfo": {"name": "wire", "version": "1"}}
ERAS = ("legacy", "modern")
MEBIBYTE = 1 << 20


class Bystander:
    """A client that calls a tool all the time, and keeps what was not as it should be."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._over = threading.Event()
        self.served = 0
        self.problems: list[object] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._over.wait(0.002):
                self.call()
            self.call()
        except (AssertionError, OSError) as problem:
            self.problems.append(problem)

    def call(self) -> None:
        """Call, and note an answer that is not the right one."""
        said = f"word {self.served}"
        answer = self._wire.wait(self._wire.send("tools/call", echo(said)))
        if answer.get("result", {}).get("content") != [{"type": "text", "text": said}]:
            self.problems.append(answer)
        self.served += 1

    def leave(self) -> None:
        """Stop; all must have been well."""
        self._over.set()
        self._thread.join()
        assert self.problems == []
        assert self.served
        assert self._wire.notes == []


@pytest.fixture(autouse=True)
def bystander(shared_world: World) -> Iterator[Bystander]:
    """Somebody else, who notices nothing of all this."""
    with shared_world.connect() as connection:
        open_session(hello(connection))
        other = Bystander(connection)
        try:
            yield other
        finally:
            other.leave()
        assert connection.ask("mcpd/status")["daemon"]["counters"].get("crashes", 0) == 0
        assert connection.row()["incarnation"] == 1


@pytest.fixture
def host(wire: Wire) -> Wire:
    """A client that is shown one server and has not said anything of MCP yet."""
    return hello(wire)


def hello(wire: Wire) -> Wire:
    wire.ask("mcpd/hello", {"version": 1, "server": "demo"})
    return wire


def open_session(wire: Wire, revision: str = LEGACY[0]) -> Wire:
    """Open a legacy session."""
    result = wire.ask("initialize", opening(revision))
    assert result["protocolVersion"] == revision
    assert result["capabilities"]["tools"] is not None
    wire.notify("notifications/initialized", {})
    return wire


def opening(revision: str) -> dict[str, object]:
    return {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "wire", "version": "1"}}


def enter(host: Wire, era: str) -> Wire:
    """Let a client be of an era: a modern one needs no session."""
    return open_session(host) if era == "legacy" else host


def of(era: str, **params: object) -> dict[str, object]:
    """Return parameters of a request of an era."""
    return {**params, "_meta": META} if era == "modern" else params


def echo(said: str) -> dict[str, Any]:
    return {"name": "echo", "arguments": {"text": said}}


def slow(seconds: float) -> dict[str, Any]:
    return {"name": "slow", "arguments": {"seconds": seconds}}


def serves(wire: Wire, era: str = "legacy") -> None:
    """Check that a client is served."""
    assert text_of(wire.ask("tools/call", of(era, **echo("still here")))) == "still here"


def lines(*messages: object) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def request(identity: object, method: str, params: object = None) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": identity, "method": method, **({} if params is None else {"params": params})}


def error_of(message: dict[str, Any]) -> tuple[object, int]:
    assert message["error"]["message"]
    return message["id"], message["error"]["code"]


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


# -- cancelling --------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
def test_a_cancel_that_comes_before_its_request_cancels_nothing(host: Wire, era: str) -> None:
    enter(host, era)

    host.notify("notifications/cancelled", of(era, requestId=77))
    host.write(lines(request(77, "tools/call", of(era, **echo("hi")))))

    assert text_of(host.wait(77)["result"]) == "hi"


@pytest.mark.parametrize("era", ERAS)
def test_a_cancel_of_what_there_is_not_is_nothing(host: Wire, era: str) -> None:
    enter(host, era)
    pending = host.send("tools/call", of(era, **slow(0.2)), id="mine")

    for identity in (99, "99", None, {}, [], True, "s1", 1.5, "", "x" * 5000):
        host.notify("notifications/cancelled", {"requestId": identity})
    for params in ({}, None, [], "mine", 7):
        host.notify("notifications/cancelled", params)

    assert text_of(host.wait(pending)["result"]) == "slept 0.2 seconds"


@pytest.mark.parametrize("era", ERAS)
def test_what_is_cancelled_is_not_answered_and_its_id_is_free_again(host: Wire, era: str) -> None:
    enter(host, era)
    host.write(lines(request(5, "tools/call", of(era, **slow(30)))))

    host.notify("notifications/cancelled", of(era, requestId=5))
    host.notify("notifications/cancelled", of(era, requestId=5))
    host.write(lines(request(5, "tools/call", of(era, **echo("again")))))

    assert text_of(host.read()["result"]) == "again"


def test_a_cancel_of_another_client_s_request_does_nothing(host: Wire, shared_world: World) -> None:
    open_session(host)
    host.write(lines(request(5, "tools/call", slow(0.3))))
    with shared_world.connect() as other:
        open_session(hello(other))
        other.notify("notifications/cancelled", {"requestId": 5})
        serves(other)

    assert text_of(host.wait(5)["result"]) == "slept 0.3 seconds"


def test_an_initialize_that_is_cancelled_is_answered_or_forgotten(host: Wire) -> None:
    host.write(lines(request(1, "initialize", opening("2025-11-25"))))
    host.notify("notifications/cancelled", {"requestId": 1})

    identity = host.send("tools/list", id="next")

    assert host.wait(identity)["result"]["tools"]


# -- much, and little --------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
def test_ten_megabytes_of_arguments_go_through_and_come_back(host: Wire, era: str) -> None:
    enter(host, era)
    said = "ü" * (5 * MEBIBYTE)

    assert text_of(host.ask("tools/call", of(era, **echo(said)))) == said
    serves(host, era)


def test_hundreds_of_requests_in_one_write_are_all_served(host: Wire) -> None:
    open_session(host)

    host.write(lines(*(request(number, "tools/call", echo(f"word {number}")) for number in range(250))))

    for number in range(250):
        assert text_of(host.wait(number)["result"]) == f"word {number}"


def test_of_thousands_of_requests_in_one_write_each_is_served_or_told_that_it_was_not(host: Wire) -> None:
    open_session(host)

    host.write(lines(*(request(number, "tools/call", slow(0)) for number in range(6000))))

    answers = [host.wait(number) for number in range(6000)]
    refused = [one["error"]["data"] for one in answers if "error" in one]
    assert {(data["class"], data["may_have_run"]) for data in refused} <= {("overloaded", False)}
    assert all(text_of(one["result"]) == "slept 0 seconds" for one in answers if "result" in one)
    assert len(refused) < 6000
    serves(host)


@pytest.mark.parametrize("era", ERAS)
def test_a_client_that_closes_its_half_gets_what_it_has_asked_for_and_then_the_end(host: Wire, era: str) -> None:
    enter(host, era)
    for number, params in enumerate((slow(0.3), echo("hi"), slow(0.2))):
        host.write(lines(request(number, "tools/call", of(era, **params))))
    host.write(lines(request("list", "tools/list", of(era))))

    host.sock.shutdown(socket.SHUT_WR)

    assert [text_of(host.wait(number)["result"]) for number in range(3)] == ["slept 0.3 seconds", "hi", "slept 0.2 seconds"]
    assert host.wait("list")["result"]["tools"]
    assert host.has_ended()


def test_everything_in_one_write_and_then_the_end_is_answered(host: Wire) -> None:
    host.write(
        lines(
            request(1, "initialize", opening("2025-11-25")),
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            request(2, "tools/list"),
            request(3, "tools/call", echo("hi")),
        )
    )
    host.sock.shutdown(socket.SHUT_WR)

    assert host.wait(1)["result"]["serverInfo"]
    assert host.wait(2)["result"]["tools"]
    assert text_of(host.wait(3)["result"]) == "hi"
    assert host.has_ended()


def test_a_listen_keeps_no_half_closed_connection_open(host: Wire) -> None:
    host.send("subscriptions/listen", of("modern", notifications={"toolsListChanged": True}))
    assert host.read()["method"] == "notifications/subscriptions/acknowledged"
    pending = host.send("tools/call", of("modern", **slow(0.2)))

    host.sock.shutdown(socket.SHUT_WR)

    assert text_of(host.wait(pending)["result"]) == "slept 0.2 seconds"
    with suppress(AssertionError):  # an answer to the listen may come before the end
        host.read()
    assert host.has_ended()


def test_a_client_that_is_to_be_asked_and_has_closed_its_half_is_asked_nothing(host: Wire) -> None:
    host.ask("initialize", {**opening("2025-11-25"), "capabilities": {"elicitation": {}}})
    pending = host.send("tools/call", {"name": "ask", "arguments": {"question": "who?"}})

    host.sock.shutdown(socket.SHUT_WR)

    answer = host.wait(pending)
    assert "error" in answer or answer["result"]["isError"] or text_of(answer["result"])
    assert host.has_ended()


@pytest.mark.parametrize("era", ERAS)
def test_a_client_that_never_reads_is_served_no_more_than_fits_and_nobody_waits_for_it(
    host: Wire, shared_world: World, bystander: Bystander, era: str
) -> None:
    enter(host, era)
    before = until(lambda: shared_world.status()["daemon"])
    host.sock.settimeout(1.0)

    big = lines(request(1, "tools/call", of(era, name="big", arguments={"n": MEBIBYTE})))
    with suppress(TimeoutError):
        for number in range(400):
            host.write(big.replace(b'"id": 1,', b'"id": %d,' % number, 1))
    seen = bystander.served
    until(lambda: bystander.served > seen + 20)

    held = shared_world.status()["daemon"]["rss_bytes"] - before["rss_bytes"]
    assert held < 200 * MEBIBYTE
    host.close()
    until(lambda: shared_world.status()["daemon"]["connections"] <= before["connections"])


def test_clients_that_leave_in_the_middle_of_things_are_forgotten(shared_world: World) -> None:
    before = shared_world.status()["daemon"]["connections"]
    for era in ERAS * 5:
        with shared_world.connect() as rude:
            hello(rude)
            rude.send("initialize", opening("2025-11-25"))
            rude.send("subscriptions/listen", of("modern", notifications={"toolsListChanged": True}))
            for number in range(20):
                rude.send("tools/call", of(era, **slow(30)), id=f"c{number}")

    until(lambda: shared_world.status()["daemon"]["connections"] <= before)
    until(lambda: shared_world.row("demo")["in_flight"] + shared_world.row("demo")["queued"] <= 1)


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
