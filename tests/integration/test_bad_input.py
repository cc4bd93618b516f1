"""What clients send wrong: whoever does it is told, and everybody else is served meanwhile."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.integration.wire import Wire
    from tests.integration.world import World

PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD, INTERNAL_ERROR = -32700, -32600, -32601, -32603
MAX_LINE_BYTES = 64 << 20
CHUNK = b"x" * (4 << 20)
CALL = b'{"jsonrpc":"2.0","id":%b,"method":"mcpd/call","params":{"server":"demo","tool":"echo","arguments":%b}}\n'


def line(**message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"


def error_of(message: dict[str, Any]) -> tuple[object, int]:
    return message["id"], message["error"]["code"]


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\n",
        b"{\n",
        b'{"jsonrpc":"2.0","id":1,"method":"ping"\n',
        b"\x00\x01\x02\xff\xfe\n",
        b'{"jsonrpc":"2.0","id":1,"method":"p\xffng"}\n',
        b"[" * 100_000 + b"]" * 100_000 + b"\n",
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001 + b"\n",
        b'{"id":1} {"id":2}\n',
        b"\xef\xbb\xbf{}\n",
    ],
    ids=["http", "brace", "cut", "binary", "not-utf-8", "deep-array", "deep-params", "two-in-a-line", "bom"],
)
def test_a_line_that_cannot_be_read_is_answered_and_the_next_one_served(
    garbage: bytes, wire: Wire, neighbour: Wire
) -> None:
    wire.write(garbage)

    answer = wire.read()
    assert answer["error"]["code"] in (PARSE_ERROR, INVALID_REQUEST, 3)
    assert answer["error"]["message"]
    assert wire.text("echo", {"text": "still here"}) == "still here"


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (line(jsonrpc="2.0", id=1), INVALID_REQUEST),
        (line(jsonrpc="2.0", id=1, method=7), PARSE_ERROR),
        (line(jsonrpc="2.0", id=True, method="ping"), INVALID_REQUEST),
        (line(jsonrpc="2.0", id=None, method="ping"), INVALID_REQUEST),
        (line(jsonrpc="2.0", id={"a": 1}, method="ping"), INVALID_REQUEST),
        (line(jsonrpc="2.0", id=[1], method="ping"), INVALID_REQUEST),
        (line(jsonrpc="2.0", id="x" * 5000, method="ping"), INVALID_REQUEST),
        (b"[]\n", INVALID_REQUEST),
        (b'"ping"\n', PARSE_ERROR),
        (b"7\n", PARSE_ERROR),
        (b"null\n", PARSE_ERROR),
    ],
)
def test_what_is_json_but_no_request_is_refused(wrong: bytes, code: int, wire: Wire, neighbour: Wire) -> None:
    wire.write(wrong)

    answer = wire.read()

    assert answer["error"]["code"] == code
    assert wire.ask("ping") == {}


@pytest.mark.parametrize("identity", [0, -1, 2**53, 10**40, "", 'a"b\\c', "é😀", "1"])
def test_an_id_comes_back_as_it_was_sent(identity: object, wire: Wire) -> None:
    wire.write(line(jsonrpc="2.0", id=identity, method="ping"))

    assert wire.read() == {"jsonrpc": "2.0", "id": identity, "result": {}}


def test_an_unknown_method_is_named(wire: Wire, neighbour: Wire) -> None:
    error = wire.fail("mcpd/frobnicate")

    assert error["code"] == UNKNOWN_METHOD
    assert "mcpd/frobnicate" in error["message"]


def test_a_notification_is_never_answered(wire: Wire) -> None:
    wire.notify("mcpd/frobnicate", {})
    wire.notify("notifications/cancelled", {"requestId": 99})
    wire.notify("notifications/cancelled", [1])
    wire.write(line(jsonrpc="2.0", id="s1", result={}))

    assert wire.ask("ping") == {}


def test_a_blank_line_is_nothing(wire: Wire) -> None:
    wire.write(b"\n\r\n  \n")

    assert wire.ask("ping") == {}


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"server": "demo"},
        {"server": 7, "tool": "echo"},
        {"server": "demo", "tool": "echo", "arguments": [1]},
        {"server": "demo", "tool": "echo", "arguments": "text"},
        {"server": "demo", "tool": "echo", "timeout": 0},
        {"server": "demo", "tool": "echo", "timeout": -1},
        {"server": "demo", "tool": "echo", "timeout": "1"},
        {"server": "demo", "tool": "echo", "max_bytes": 0},
        [1, 2],
    ],
)
def test_parameters_that_do_not_fit_are_a_bad_request(params: object, wire: Wire) -> None:
    error = wire.fail("mcpd/call", params)

    assert (error["code"], error["data"]["class"]) == (3, "bad_request")
    assert error["message"].startswith("mcpd/call: ")


def test_unknown_fields_are_ignored(wire: Wire) -> None:
    params = {"server": "demo", "tool": "echo", "arguments": {"text": "hi"}, "later": {"than": "us"}}

    assert wire.ask("mcpd/call", params, extra=[1])["content"] == [{"type": "text", "text": "hi"}]


def test_an_id_that_is_still_in_flight_is_refused_and_its_first_use_goes_on(wire: Wire, neighbour: Wire) -> None:
    wire.send_call("slow", {"seconds": 0.3}, id=7)
    wire.send_call("echo", {"text": "not me"}, id=7)

    assert error_of(wire.read()) == (7, INVALID_REQUEST)
    assert wire.read()["result"]["content"][0]["text"] == "slept 0.3 seconds"
    assert wire.text("echo", {"text": "free again"}, id=7) == "free again"


def test_deeply_nested_arguments_harm_nobody(wire: Wire, neighbour: Wire) -> None:
    depth = 100_000
    wire.write(CALL % (b"1", b'{"text":' + b"[" * depth + b"]" * depth + b"}"))

    answer = wire.read()

    assert answer["id"] == 1
    assert "error" in answer or answer["result"]["isError"]
    assert neighbour.row()["incarnation"] == 1


def test_a_lone_surrogate_comes_back_or_is_refused(wire: Wire, neighbour: Wire) -> None:
    wire.write(CALL % (b"1", rb'{"text":"\ud800"}'))

    answer = wire.read()

    assert answer["id"] == 1
    assert "error" in answer or answer["result"]["content"][0]["text"] == "\ud800"
    assert neighbour.row()["incarnation"] == 1


def test_half_a_line_waits_for_its_other_half(wire: Wire, neighbour: Wire) -> None:
    request = CALL % (b"1", b'{"text":"hi"}')
    for half in (request[:20], request[20:21], request[21:-1]):
        wire.write(half)
        assert neighbour.text("echo", {"text": "meanwhile"}) == "meanwhile"

    wire.write(request[-1:])

    assert wire.read()["result"]["content"][0]["text"] == "hi"


def test_a_client_that_leaves_in_the_middle_of_a_line_is_forgotten(shared_world: World, neighbour: Wire) -> None:
    with shared_world.connect() as rude:
        rude.write(CALL[:50])

    with shared_world.connect() as reset:
        for number in range(100):
            reset.send("mcpd/status", id=number)

    assert neighbour.ask("ping") == {}


@pytest.mark.parametrize("identity", [5, "five"])
def test_a_line_of_a_hundred_mebibytes_costs_its_sender_the_connection(
    identity: object, wire: Wire, neighbour: Wire
) -> None:
    wire.write(line(jsonrpc="2.0", id=identity, method="mcpd/call", params="")[:-3])
    sent = 0
    try:
        while sent < 100 << 20:
            wire.write(CHUNK)
            sent += len(CHUNK)
            assert neighbour.ask("ping") == {}
    except (BrokenPipeError, ConnectionResetError):
        assert sent >= MAX_LINE_BYTES - len(CHUNK)

    answer = wire.read()
    assert (answer["id"], answer["error"]["code"], answer["error"]["data"]["class"]) == (identity, 14, "too_large")
    assert str(MAX_LINE_BYTES) in answer["error"]["message"]
    assert wire.has_ended()


def test_noise_is_survived(shared_world: World, neighbour: Wire) -> None:
    for _ in range(20):
        with shared_world.connect() as noisy:
            noisy.write(os.urandom(20_000))

    assert shared_world.status()["daemon"]["counters"].get("crashes", 0) == 0


METHODS = (
    "hello", "servers", "tools", "prompts", "resources", "templates", "call", "fetch",
    "start", "stop", "status", "logs", "events", "cli", "search", "read",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    10**30,
    1.5,
    "",
    "\u0000",
    "x" * 5000,
    [],
    [[]],
    {},
    {"a": {}},
    "demo",
    "../x",
)
KEYS = (
    "server",
    "tool",
    "arguments",
    "handle",
    "offset",
    "max_bytes",
    "limit",
    "name",
    "argv",
    "version",
    "tail",
    "_meta",
)


@pytest.mark.parametrize("method", METHODS)
def test_no_parameters_make_the_daemon_stumble(method: str, wire: Wire, neighbour: Wire) -> None:
    filled = {"server": "demo", "tool": "echo", "arguments": {}, "handle": "r0", "argv": ["tools"], "cwd": "/"}
    ids = [wire.send(f"mcpd/{method}", {**filled, key: value}) for key in KEYS for value in VALUES]

    answers = [wire.wait(identity) for identity in ids]

    assert [answer for answer in answers if answer.get("error", {}).get("code") == INTERNAL_ERROR] == []
    assert neighbour.ask("mcpd/status")["daemon"]["counters"].get("crashes", 0) == 0
