"""The tools of the demo server give the same in both eras."""

import base64
import json
import struct
import zlib

import pytest

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
MODERN = {VERSION: "2026-07-28", CAPABILITIES: {}}


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
