"""The demo server, driven over real pipes in both eras."""

import base64
import itertools
import json
import os
import signal
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

PROGRAM = str(Path(__file__).parents[1] / "mcpd" / "demo.py")
VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
MODERN = {VERSION: "2026-07-28", CAPABILITIES: {}}
TOOLS = ["echo", "add", "counter", "slow", "big", "fail", "image", "ask"]


class Client:
    """One demo process and the two ends of its pipes."""

    def __init__(self, *, meta=None, **popen):
        self._ids = itertools.count(1)
        self._meta = meta
        self.process = subprocess.Popen(
            [sys.executable, PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **popen
        )

    def write(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, method, params=None, **more):
        self.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params or {}, **more}).encode() + b"\n")

    def start(self, method, params=None, *, meta=None):
        """Send a request and return its id."""
        identity = next(self._ids)
        meta = {**(self._meta or {}), **(meta or {})}
        self.send(method, {**(params or {}), **({"_meta": meta} if meta else {})}, id=identity)
        return identity

    def read(self):
        return json.loads(self.process.stdout.readline())

    def request(self, method, params=None, **more):
        identity = self.start(method, params, **more)
        answer = self.read()
        assert answer["id"] == identity
        return answer

    def call(self, tool, arguments=None, **more):
        return self.request("tools/call", {"name": tool, "arguments": arguments or {}}, **more)["result"]

    def text(self, tool, arguments=None, **more):
        result = self.call(tool, arguments, **more)
        assert "isError" not in result
        return result["content"][0]["text"]

    def initialize(self, revision="2025-11-25", **capabilities):
        params = {
            "protocolVersion": revision,
            "capabilities": capabilities,
            "clientInfo": {"name": "t", "version": "1"},
        }
        result = self.request("initialize", params)["result"]
        self.send("notifications/initialized")
        return result

    def end(self):
        """Close stdin and return what else was said, and the exit status."""
        self.process.stdin.close()
        rest = self.process.stdout.read()
        assert self.process.stderr.read() == b""
        return [json.loads(line) for line in rest.splitlines()], self.process.wait()

    def close(self):
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if not pipe.closed:
                pipe.close()
        self.process.wait()


@pytest.fixture
def start():
    clients = []

    def start_client(**more):
        clients.append(Client(**more))
        return clients[-1]

    yield start_client
    for client in clients:
        client.close()


@pytest.fixture
def legacy(start):
    client = start()
    client.initialize()
    return client


@pytest.fixture
def modern(start):
    return start(meta=MODERN)


@pytest.fixture(params=["legacy", "modern"])
def client(request):
    """A client of either era."""
    return request.getfixturevalue(request.param)


# Eras


@pytest.mark.parametrize(
    ("asked", "agreed"),
    [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        (None, "2025-11-25"),
    ],
)
def test_initialize_agrees_on_the_asked_revision_or_the_newest_legacy_one(start, asked, agreed):
    result = start().initialize(asked)

    assert result["protocolVersion"] == agreed
    assert result["capabilities"] == {"tools": {}}
    assert result["serverInfo"]["name"] == "mcpd-demo"
    assert "resultType" not in result


def test_discover_says_all_that_a_modern_client_needs(modern):
    result = modern.request("server/discover")["result"]

    assert result["resultType"] == "complete"
    assert result["supportedVersions"] == ["2026-07-28"]
    assert result["capabilities"] == {"tools": {}}
    assert result["ttlMs"] > 0
    assert result["cacheScope"] == "public"
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "mcpd-demo"


def test_initialize_is_accepted_after_discover_and_twice(start):
    client = start()
    client.request("server/discover", meta=MODERN)

    assert client.initialize()["protocolVersion"] == "2025-11-25"
    assert client.initialize("2024-11-05")["protocolVersion"] == "2024-11-05"
    assert client.text("echo", {"text": "legacy"}) == "legacy"
    assert client.call("echo", {"text": "modern"}, meta=MODERN)["resultType"] == "complete"


def test_ping_is_answered_in_legacy_also_before_initialize_and_unknown_in_modern(start):
    client = start()

    assert client.request("ping")["result"] == {}
    assert client.request("ping", meta=MODERN)["error"]["code"] == -32601


def test_a_legacy_request_before_initialize_is_refused(start):
    assert start().request("tools/list")["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({VERSION: "2099-01-01", CAPABILITIES: {}}, -32022),
        ({VERSION: "2026-07-28"}, -32602),
        ({CAPABILITIES: {}}, -32602),
        ({VERSION: 1, CAPABILITIES: {}}, -32602),
        (None, -32602),
    ],
)
def test_discover_with_wrong_metadata_is_refused(start, meta, code):
    error = start().request("server/discover", meta=meta)["error"]

    assert error["code"] == code
    if code == -32022:
        assert error["data"] == {"supported": ["2026-07-28"], "requested": "2099-01-01"}


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "resources/list", "subscriptions/listen"])
def test_what_the_modern_era_does_not_have_is_an_unknown_method(modern, method):
    assert modern.request(method)["error"]["code"] == -32601


# Lists


def test_both_eras_list_the_same_tools_and_the_modern_one_says_how_long(start):
    old, new = start(), start(meta=MODERN)
    old.initialize()

    old_result, new_result = (client.request("tools/list")["result"] for client in (old, new))

    assert old_result.keys() == {"tools"}
    assert new_result["tools"] == old_result["tools"]
    assert new_result.keys() == {"resultType", "tools", "ttlMs", "cacheScope", "_meta"}
    assert [tool["name"] for tool in old_result["tools"]] == TOOLS


def test_every_tool_and_argument_is_described(modern):
    for tool in modern.request("tools/list")["result"]["tools"]:
        assert tool["title"]
        assert len(tool["description"]) > 15
        assert tool["annotations"].keys() == {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
        schema = tool["inputSchema"]
        assert schema["type"] == "object"
        for name, argument in schema["properties"].items():
            assert argument["description"]
            assert ("default" in argument) != (name in schema["required"])


# Tools


@pytest.mark.parametrize("text", ["", "hello", "zwei\nZeilen\u2028🙂\x00", "\ud800"])
def test_echo_gives_back_any_text(client, text):
    assert client.text("echo", {"text": text}) == text


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        (2, 3, "5"),
        (2**70, 1, "1180591620717411303425"),
        (-(2**53) - 1, 0, "-9007199254740993"),
        (1.0, 2, "3"),
        (1.5, 2, "3.5"),
        (1e300, 1e300, "2e+300"),
    ],
)
def test_add_is_exact_for_integers_and_plain_for_the_rest(client, a, b, text):
    result = client.call("add", {"a": a, "b": b})

    assert result["content"] == [{"type": "text", "text": text}]
    assert result["structuredContent"] == {"sum": json.loads(text)}
    assert type(result["structuredContent"]["sum"]) is type(json.loads(text))


@pytest.mark.parametrize(
    ("a", "b"), [("1e308", "1e308"), ("1e999", "-1e999"), ("1" + "0" * 400, "0.5"), ("9" * 4300, "1")]
)
def test_a_sum_that_json_cannot_carry_is_an_error_result(modern, a, b):
    meta = json.dumps(MODERN)
    request = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"add","arguments":{{"a":{a},"b":{b}}},"_meta":{meta}}}}}\n'

    modern.write(request.encode())

    assert modern.read()["result"]["isError"] is True


def test_counter_counts_per_process_across_eras(start):
    first, second = start(), start()
    first.initialize()

    assert [first.text("counter"), first.text("counter", meta=MODERN), first.text("counter")] == ["1", "2", "3"]
    assert second.text("counter", meta=MODERN) == "1"


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 1000, 200_000])
def test_big_is_numbered_lines_of_64_characters_cut_at_n(client, n):
    text = client.text("big", {"n": n})

    assert len(text) == n
    lines = text.splitlines(keepends=True)
    assert [line[:11] for line in lines[:-1]] == [f"{index:010d} " for index in range(len(lines) - 1)]
    assert {len(line) for line in lines[:-1]} <= {64}


def test_fail_says_is_error_with_the_given_message(client):
    result = client.call("fail", {"message": "as asked"})

    assert (result["isError"], result["content"][0]["text"]) == (True, "as asked")
    assert client.call("fail")["isError"] is True


def test_image_is_a_whole_png(client):
    block = client.call("image")["content"][0]
    data = base64.b64decode(block["data"], validate=True)

    assert (block["type"], block["mimeType"]) == ("image", "image/png")
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    at, chunks = 8, {}
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length]) == (zlib.crc32(kind + body),)
        chunks[kind] = body
        at += 12 + length
    width, height, *form = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (width, height, form) == (64, 64, [8, 2, 0, 0, 0])
    assert len(zlib.decompress(chunks[b"IDAT"])) == height * (1 + 3 * width)
    assert list(chunks)[-1] == b"IEND"


@pytest.mark.parametrize("name", ["nope", "say", "__init__", None, 5, []])
def test_an_unknown_tool_is_a_protocol_error(client, name):
    assert client.request("tools/call", {"name": name})["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("echo", {}, "argument 'text' is missing"),
        ("echo", {"text": 5}, "argument 'text' must be text"),
        ("echo", {"text": "a", "txet": "b"}, "unknown argument 'txet'"),
        ("counter", {"": 1}, "unknown argument ''"),
        ("add", {"a": 1}, "argument 'b' is missing"),
        ("add", {"a": True, "b": 1}, "argument 'a' must be a number"),
        ("add", {"a": "1", "b": 1}, "argument 'a' must be a number"),
        ("slow", {"seconds": -1}, "argument 'seconds' must be from 0 to 86400"),
        ("slow", {"seconds": 0, "steps": 0}, "argument 'steps' must be from 1 to 10000"),
        ("big", {"n": 1.5}, "argument 'n' must be a whole number"),
        ("big", {"n": None}, "argument 'n' must be a whole number"),
        ("fail", {"message": 1}, "argument 'message' must be text"),
        ("ask", {"question": []}, "argument 'question' must be text"),
        ("echo", ["text"], "arguments must be an object"),
    ],
)
def test_a_bad_argument_is_an_error_result_that_names_it(client, tool, arguments, says):
    result = client.request("tools/call", {"name": tool, "arguments": arguments})["result"]

    assert result["isError"] is True
    assert says in result["content"][0]["text"]


def test_a_whole_number_may_be_written_as_a_float(client):
    assert len(client.text("big", {"n": 10.0})) == 10


# Time


def test_slow_reports_each_step_and_then_answers(client):
    identity = client.start(
        "tools/call", {"name": "slow", "arguments": {"seconds": 0.03, "steps": 3}}, meta={"progressToken": "t"}
    )

    messages = [client.read() for _ in range(4)]

    assert [message.get("method") for message in messages] == ["notifications/progress"] * 3 + [None]
    assert [message["params"] for message in messages[:3]] == [
        {"progressToken": "t", "progress": step, "total": 3, "message": f"step {step} of 3"} for step in (1, 2, 3)
    ]
    assert messages[3]["id"] == identity
    assert messages[3]["result"]["content"][0]["text"] == "slept 0.03 seconds"


def test_slow_is_silent_without_a_token_and_works_with_the_token_zero(client):
    assert client.text("slow", {"seconds": 0}) == "slept 0 seconds"

    client.start("tools/call", {"name": "slow", "arguments": {"seconds": 0, "steps": 1}}, meta={"progressToken": 0})
    assert client.read()["params"]["progressToken"] == 0
    assert "result" in client.read()


def test_other_calls_go_on_while_one_is_slow(client):
    slow = client.start("tools/call", {"name": "slow", "arguments": {"seconds": 3600}})

    assert client.text("echo", {"text": "meanwhile"}) == "meanwhile"
    client.send("notifications/cancelled", {"requestId": slow})
    assert client.text("echo", {"text": "after"}) == "after"
    assert client.end() == ([], 0)


def test_a_cancelled_call_is_not_answered_and_its_neighbour_is(client):
    first = client.start("tools/call", {"name": "slow", "arguments": {"seconds": 0.2, "steps": 1}})
    second = client.start("tools/call", {"name": "slow", "arguments": {"seconds": 0.2, "steps": 1}})

    client.send("notifications/cancelled", {"requestId": first, "reason": "no longer needed"})

    rest, status = client.end()
    assert [message["id"] for message in rest] == [second]
    assert status == 0


# Questions


def test_legacy_asks_by_a_request_and_gives_back_the_answer(start):
    client = start()
    client.initialize(elicitation={})
    identity = client.start("tools/call", {"name": "ask", "arguments": {"question": "Name?"}})

    question = client.read()
    assert question["method"] == "elicitation/create"
    assert question["params"]["message"] == "Name?"
    assert question["params"]["requestedSchema"]["properties"]["answer"]["type"] == "string"
    assert client.text("echo", {"text": "meanwhile"}) == "meanwhile"
    client.write(
        json.dumps(
            {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"answer": "Ann"}}}
        ).encode()
        + b"\n"
    )

    answer = client.read()
    assert answer["id"] == identity
    assert answer["result"] == {"content": [{"type": "text", "text": "Ann"}]}


@pytest.mark.parametrize(
    ("reply", "text", "is_error"),
    [
        ({"result": {"action": "decline"}}, "no answer: decline", False),
        ({"result": {"action": "cancel"}}, "no answer: cancel", False),
        ({"result": {"action": "accept", "content": {"answer": 5}}}, "no answer that fits the form", True),
        ({"result": {"action": "accept"}}, "no answer that fits the form", True),
        ({"error": {"code": -1, "message": "no"}}, "no answer that fits the form", True),
    ],
)
def test_other_replies_than_an_answer_end_the_call_too(start, reply, text, is_error):
    client = start()
    client.initialize(elicitation={"form": {}})
    client.start("tools/call", {"name": "ask"})

    client.write(json.dumps({"jsonrpc": "2.0", "id": client.read()["id"], **reply}).encode() + b"\n")

    result = client.read()["result"]
    assert (result["content"][0]["text"], result.get("isError", False)) == (text, is_error)


def test_a_cancelled_question_is_taken_back_and_a_late_reply_ignored(start):
    client = start()
    client.initialize(elicitation={})
    identity = client.start("tools/call", {"name": "ask"})
    question = client.read()

    client.send("notifications/cancelled", {"requestId": identity})

    taken_back = client.read()
    assert taken_back["method"] == "notifications/cancelled"
    assert taken_back["params"] == {"requestId": question["id"]}
    client.write(json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}}).encode() + b"\n")
    assert client.text("echo", {"text": "after"}) == "after"


@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {"url": {}}}, {"elicitation": None}, {"sampling": {}}])
def test_a_client_that_shows_no_forms_is_told_that_nobody_can_be_asked(start, capabilities):
    old, new = start(), start(meta={VERSION: "2026-07-28", CAPABILITIES: capabilities})
    old.initialize(**capabilities)

    for client in (old, new):
        result = client.call("ask")
        assert result["isError"] is True
        assert "nobody to ask" in result["content"][0]["text"]


def test_modern_asks_by_its_result_and_takes_the_answer_with_the_repeated_call(start):
    client = start(meta={VERSION: "2026-07-28", CAPABILITIES: {"elicitation": {"form": {}}}})
    call = {"name": "ask", "arguments": {"question": "Name?"}}

    asked = client.request("tools/call", call)["result"]
    assert asked["resultType"] == "input_required"
    question = asked["inputRequests"]["answer"]
    assert question["method"] == "elicitation/create"
    assert question["params"]["mode"] == "form"
    assert question["params"]["message"] == "Name?"
    reply = {
        "inputResponses": {"answer": {"action": "accept", "content": {"answer": "Ann"}}},
        "requestState": asked["requestState"],
    }

    answered = client.request("tools/call", call | reply)["result"]

    assert answered["resultType"] == "complete"
    assert answered["content"] == [{"type": "text", "text": "Ann"}]


def test_modern_asks_again_where_the_answer_is_missing_and_refuses_the_state_of_another_question(start):
    client = start(meta={VERSION: "2026-07-28", CAPABILITIES: {"elicitation": {}}})
    state = client.call("ask")["requestState"]
    reply = {"inputResponses": {"answer": {"action": "decline"}}, "requestState": state}

    again = client.request("tools/call", {"name": "ask", "inputResponses": {"else": {}}, "requestState": state})
    other = client.request("tools/call", {"name": "ask", "arguments": {"question": "Other?"}, **reply})

    assert again["result"]["resultType"] == "input_required"
    assert other["error"]["code"] == -32602


# Lines and ends


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


def test_a_stdout_that_does_not_block_gets_everything(start):
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    program = subprocess.Popen([sys.executable, PROGRAM], stdin=subprocess.PIPE, stdout=write_end)
    os.close(write_end)
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "big", "arguments": {"n": 500_000}, "_meta": MODERN},
    }

    with program.stdin as stdin:
        stdin.write(json.dumps(call).encode())
    with open(read_end, "rb") as stdout:
        answer = json.loads(stdout.read())

    assert len(answer["result"]["content"][0]["text"]) == 500_000
    assert program.wait() == 0


def test_it_runs_isolated_without_anything_else_of_the_package(tmp_path):
    alone = tmp_path / "server.py"
    alone.write_bytes(Path(PROGRAM).read_bytes())
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'

    done = subprocess.run(
        [sys.executable, "-I", "-S", str(alone)], input=ping, capture_output=True, check=True, env={}, cwd="/"
    )

    assert json.loads(done.stdout)["result"] == {}


def test_it_takes_no_options():
    done = subprocess.run([sys.executable, PROGRAM, "--port", "1"], capture_output=True, check=False, text=True)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: mcpd demo-server")
