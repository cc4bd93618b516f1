"""Odd lines, the end of input, signals, and streams that nobody reads."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
MODERN = {VERSION: "2026-07-28", CAPABILITIES: {}}


@pytest.mark.parametrize("line", [b"garbage", b"{", b"\xff\xfe", b'{"id":' + b"1" * 5000 + b"}", b"[" * 100_000])
def test_a_line_that_is_no_json_gets_a_parse_error_and_the_server_lives(client, line):
    client.write(line + b"\n")

    error = client.read()
    assert (error["id"], error["error"]["code"]) == (None, -32700)
    assert client.text("echo", {"text": "alive"}) == "alive"


@pytest.mark.parametrize(
    "line",
    [
        b"5",
        b"[]",
        b"{}",
        b'{"id":1}',
        b'{"method":"ping","id":null}',
        b'{"method":"ping","id":true}',
        b'{"method":5,"id":1}',
        b'["x"]',
    ],
)
def test_json_that_is_no_message_gets_an_invalid_request(client, line):
    client.write(line + b"\n")

    assert client.read()["error"]["code"] == -32600
    assert client.text("echo", {"text": "alive"}) == "alive"


def test_parameters_that_are_no_object_are_refused(legacy):
    legacy.write(b'{"jsonrpc":"2.0","id":"x","method":"tools/list","params":[1]}\n')

    answer = legacy.read()
    assert (answer["id"], answer["error"]["code"]) == ("x", -32602)


def test_blank_lines_unknown_notifications_and_stray_answers_are_ignored(client):
    client.write(
        b'\n\r\n  \n{"jsonrpc":"2.0","method":"notifications/nope"}\n{"jsonrpc":"2.0","id":"s1","result":{}}\n'
    )

    assert client.text("echo", {"text": "alive"}) == "alive"


def test_a_batch_is_answered_one_by_one(start):
    client = start()
    client.initialize("2025-03-26")

    client.write(b'[{"jsonrpc":"2.0","id":"a","method":"ping"},{"jsonrpc":"2.0","id":"b","method":"ping"}]\n')

    assert [client.read()["id"], client.read()["id"]] == ["a", "b"]


def test_a_long_line_in_many_pieces_and_a_last_line_without_its_end_are_read(legacy):
    text = "x" * 3_000_000

    assert legacy.text("echo", {"text": text}) == text
    legacy.write(b'{"jsonrpc":"2.0","id":"last","method":"ping"}')
    assert legacy.end() == ([{"jsonrpc": "2.0", "id": "last", "result": {}}], 0)


def test_at_the_end_of_input_what_is_in_flight_is_finished(client):
    identity = client.start("tools/call", {"name": "slow", "arguments": {"seconds": 0.05}})

    rest, status = client.end()

    assert [message["id"] for message in rest] == [identity]
    assert status == 0


def test_at_the_end_of_input_a_call_that_would_take_long_is_given_up(client):
    client.start("tools/call", {"name": "slow", "arguments": {"seconds": 3600}})

    assert client.end() == ([], 0)


def test_at_the_end_of_input_an_open_question_is_given_up(start):
    client = start()
    client.initialize(elicitation={})
    client.start("tools/call", {"name": "ask"})
    client.read()

    assert client.end() == ([], 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once_and_silently(client, number):
    client.start("tools/call", {"name": "slow", "arguments": {"seconds": 3600}})
    client.text("echo", {"text": "it has begun"})

    client.process.send_signal(number)

    assert client.process.wait() == -number
    assert client.process.stderr.read() == b""


def test_a_closed_stdout_is_survived_until_the_end_of_input(client):
    client.text("echo", {"text": "alive"})
    client.process.stdout.close()
    client.start("tools/call", {"name": "big", "arguments": {"n": 1_000_000}})
    client.start("tools/call", {"name": "echo", "arguments": {"text": "nobody hears"}})

    client.process.stdin.close()

    assert client.process.wait() == 0
    assert client.process.stderr.read() == b""


def test_a_stdout_that_does_not_block_gets_everything(program):
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    process = subprocess.Popen([sys.executable, program], stdin=subprocess.PIPE, stdout=write_end)
    os.close(write_end)
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "big", "arguments": {"n": 500_000}, "_meta": MODERN},
    }

    with process.stdin as stdin:
        stdin.write(json.dumps(call).encode())
    with open(read_end, "rb") as stdout:
        answer = json.loads(stdout.read())

    assert len(answer["result"]["content"][0]["text"]) == 500_000
    assert process.wait() == 0


def test_it_runs_isolated_without_anything_else_of_the_package(program, tmp_path):
    alone = tmp_path / "server.py"
    alone.write_bytes(Path(program).read_bytes())
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'

    done = subprocess.run(
        [sys.executable, "-I", "-S", str(alone)], input=ping, capture_output=True, check=True, env={}, cwd="/"
    )

    assert json.loads(done.stdout)["result"] == {}


def test_it_takes_no_options(program):
    done = subprocess.run([sys.executable, program, "--port", "1"], capture_output=True, check=False, text=True)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: mcpd demo-server")
