"""Results of servers of any era, for clients of any revision."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from mcpd.errors import ServerProtocol
from mcpd.protocol import mcp
from mcpd.protocol.shaping import Kind, to_legacy, to_modern
from mcpd.protocol.shaping.blocks import DEEP_BYTES

KINDS: tuple[Kind, ...] = ("call", "read", "prompt", "complete")
SERVER = b'"io.modelcontextprotocol/serverInfo"'
INFO = Raw(b'{"name":"s","version":"1.0"}')
TEXT = b'{"type":"text","text":"hi"}'
LINK = b'{"type":"resource_link","name":"log","uri":"file:///a","mimeType":"text/plain"}'
AUDIO = b'{"type":"audio","data":"AAAA","mimeType":"audio/wav"}'

# Values that every decoder which builds Python objects would change.
EXACT = '{"n": 123456789012345678901234567890 , "f":1.0, "e":1E400,"s":"\\u0061\\/é😀", "a":[ ],"d":-0.0}'.encode()
MEMBERS: dict[Kind, bytes] = {
    "call": b'"content":[%b],"isError":true,"structuredContent":%b' % (TEXT, EXACT),
    "read": b'"contents":[{"uri":"a:b","text":"\\u0061"}]',
    "prompt": b'"messages":[{"role":"user","content":%b}],"description":null' % TEXT,
    "complete": b'"completion":{"values":["a"],"total":1.0}',
}


def plain(value: Raw | bytes) -> Any:
    return json.loads(bytes(value))


def members(result: Raw | bytes) -> dict[str, bytes]:
    return {name: bytes(value) for name, value in msgspec.json.decode(result, type=dict[str, Raw]).items()}


def call(content: bytes, more: bytes = b"") -> Raw:
    return Raw(b'{"content":[%b]%b}' % (content, more))


@pytest.mark.parametrize("revision", mcp.LEGACY)
@pytest.mark.parametrize("kind", KINDS)
def test_a_legacy_result_is_the_same_object_for_a_legacy_client(kind: Kind, revision: str) -> None:
    plain = {**MEMBERS, "call": b'"content":[%b], "isError":true' % TEXT}[kind]
    result = Raw(b' {%b , "x-more" : %b, "_meta":{"com.example/a":1.0}} ' % (plain, EXACT))

    assert to_legacy(result, kind, revision) is result


@pytest.mark.parametrize("revision", ["2025-11-25", "2025-06-18"])
def test_a_structured_object_stays_for_revisions_that_have_it(revision: str) -> None:
    result = Raw(b"{%b}" % MEMBERS["call"])

    assert to_legacy(result, "call", revision) is result


@pytest.mark.parametrize("revision", mcp.LEGACY)
@pytest.mark.parametrize("kind", KINDS)
def test_what_the_modern_era_added_goes(kind: Kind, revision: str) -> None:
    plain = {**MEMBERS, "call": b'"content":[%b],"isError":true' % TEXT}[kind]
    result = Raw(
        b'{"resultType":"complete","ttlMs":5,%b,"cacheScope":"public","x":%b,"_meta":{%b:{"name":"s"},"com.example/a":1.0}}'
        % (plain, EXACT, SERVER)
    )

    assert members(to_legacy(result, kind, revision)) == {
        **members(b"{%b}" % plain),
        "x": EXACT,
        "_meta": b'{"com.example/a":1.0}',
    }


@pytest.mark.parametrize("name", ["resultType", "ttlMs", "cacheScope"])
def test_each_of_them_goes_alone(name: str) -> None:
    result = Raw(b'{"content":[],"%b":"x"}' % name.encode())

    assert bytes(to_legacy(result, "call", "2025-11-25")) == b'{"content":[]}'


def test_a_meta_that_held_nothing_but_the_server_goes_with_it() -> None:
    result = Raw(b'{"content":[],"_meta":{%b:{"name":"s"}}}' % SERVER)

    assert bytes(to_legacy(result, "call", "2025-11-25")) == b'{"content":[]}'


@pytest.mark.parametrize("meta", [b"null", b"{}", b'"x"', b"7", b"[1]", b'{"com.example/serverInfo":{}}'])
def test_any_other_meta_stays_as_it_came(meta: bytes) -> None:
    result = Raw(b'{"content":[],"_meta":%b}' % meta)

    assert to_legacy(result, "call", "2025-11-25") is result


@pytest.mark.parametrize("revision", mcp.LEGACY)
@pytest.mark.parametrize(
    ("value", "content", "expected"),
    [
        # No text says it: one more block does.
        (b"[1.0, 2]", b"", [{"type": "text", "text": "[1.0, 2]"}]),
        (b'"x"', TEXT, ["same", {"type": "text", "text": '"x"'}]),
        (b"12345678901234567890123", b"", [{"type": "text", "text": "12345678901234567890123"}]),
        (b"true", b"", [{"type": "text", "text": "true"}]),
        ('["é"]'.encode(), b"", [{"type": "text", "text": '["é"]'}]),
        # A text says it already: the very same, laid out in another way, or the text itself.
        (b"[1.0, 2]", b'{"type":"text","text":"[1.0, 2]"}', ["same"]),
        (b"[1.0,2]", b'{"type":"text","text":"[\\n  1.0,\\n  2\\n]"}', ["same"]),
        (b'"x"', b'{"type":"text","text":"x"}', ["same"]),
        (b"7", b'{"type":"image","data":"","mimeType":"image/png"},{"type":"text","text":"7"}', ["same", "same"]),
        # Nearly the same is not the same.
        (b"[1.0]", b'{"type":"text","text":"[1]"}', ["same", {"type": "text", "text": "[1.0]"}]),
        # A null says nothing, unless nothing else is there.
        (b"null", TEXT, ["same"]),
        (b"null", b"", [{"type": "text", "text": "null"}]),
    ],
)
def test_what_is_no_object_is_said_in_text(revision: str, value: bytes, content: bytes, expected: list[Any]) -> None:
    result = call(content, b',"structuredContent":%b,"isError":false' % value)
    before = plain(result)["content"]

    after = plain(to_legacy(result, "call", revision))

    assert after == {
        "content": [before[at] if block == "same" else block for at, block in enumerate(expected)],
        "isError": False,
    }


@pytest.mark.parametrize("revision", ["2025-03-26", "2024-11-05"])
@pytest.mark.parametrize(
    ("value", "content", "is_said"),
    [
        (b'{"a":1.0}', TEXT, False),
        (b'{"a":1.0}', b'{"type":"text","text":"{\\"a\\": 1.0}"}', True),
        (b'{"result":"hi"}', TEXT, True),
        (b'{"result":["hi","hi"]}', TEXT + b"," + TEXT, True),
        (b'{"content":[%b]}' % TEXT, TEXT, True),
        (b'{"a":"b"}', b'{"type":"image","data":"","mimeType":"image/png"}', False),
        (b'{"a":"b"}', b"7,null,[]", False),
    ],
)
def test_an_object_is_said_in_text_where_there_is_no_structured_content(
    revision: str, value: bytes, content: bytes, is_said: bool
) -> None:
    result = call(content, b',"structuredContent":%b' % value)
    blocks = [bytes(block) for block in msgspec.json.decode(members(result)["content"], type=list[Raw])]
    added = [] if is_said else [msgspec.json.encode({"type": "text", "text": value.decode()})]

    after = members(to_legacy(result, "call", revision))

    assert after == {"content": b"[%b]" % b",".join(blocks + added)}


@pytest.mark.parametrize("content", [b"", b'"content":null,'])
def test_a_result_without_content_gets_some(content: bytes) -> None:
    result = Raw(b'{%b"structuredContent":[1]}' % content)

    assert plain(to_legacy(result, "call", "2025-11-25")) == {"content": [{"type": "text", "text": "[1]"}]}


def test_what_is_too_long_to_compare_is_said_by_the_same_text_only() -> None:
    word = b'"%b"' % (b"x" * (3 * DEEP_BYTES // 4))
    short, long = b"[%b]" % word, b"[%b%b]" % (b" " * (DEEP_BYTES // 2), word)

    def texts(text: bytes, value: bytes) -> list[bytes]:
        block = msgspec.json.encode({"type": "text", "text": text.decode()})
        done = to_legacy(call(block, b',"structuredContent":%b' % value), "call", "2025-11-25")
        return [block["text"].encode() for block in plain(done)["content"]]

    assert texts(long, long) == [long]
    assert texts(short, b"[ %b]" % word) == [short]
    assert texts(short, long) == [short, long]
    assert texts(long, short) == [long, short]


@pytest.mark.parametrize("kind", ["read", "prompt", "complete"])
def test_only_calls_have_structured_content(kind: Kind) -> None:
    result = Raw(b'{%b,"structuredContent":[1]}' % MEMBERS[kind])

    assert to_legacy(result, kind, "2025-06-18") is result


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (LINK, "log: file:///a"),
        (b'{"type":"resource_link","uri":"file:///a"}', "file:///a"),
        (b'{"type":"resource_link","name":"log"}', "log"),
        (b'{"type":"resource_link","title":"The log","uri":"file:///a"}', "The log: file:///a"),
        (b'{"type":"resource\\u005flink","name":"log","uri":"file:///a"}', "log: file:///a"),
    ],
)
def test_a_link_becomes_text_below_2025_06_18(block: bytes, text: str) -> None:
    expected = msgspec.json.encode({"type": "text", "text": text})

    for revision in ("2025-03-26", "2024-11-05"):
        assert members(to_legacy(call(TEXT + b"," + block), "call", revision)) == {
            "content": b"[%b,%b]" % (TEXT, expected)
        }
        prompt = Raw(b'{"messages":[{"content":%b,"role":"user","x":1.0}]}' % block)
        assert bytes(to_legacy(prompt, "prompt", revision)) == (
            b'{"messages":[{"content":%b,"role":"user","x":1.0}]}' % expected
        )
    for revision in ("2025-06-18", "2025-11-25"):
        result = call(block)
        assert to_legacy(result, "call", revision) is result


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (AUDIO, "[audio, audio/wav, 3 bytes: this client's revision of MCP has no audio]"),
        (
            b'{"type":"audio","data":"AA==","mimeType":1}',
            "[audio, 1 bytes: this client's revision of MCP has no audio]",
        ),
        (b'{"type":"audio","data":"A\\/A="}', "[audio, 2 bytes: this client's revision of MCP has no audio]"),
        (b'{"type":"audio"}', "[audio: this client's revision of MCP has no audio]"),
    ],
)
def test_audio_becomes_text_for_2024_11_05(block: bytes, text: str) -> None:
    expected = {"type": "text", "text": text}

    assert plain(to_legacy(call(block), "call", "2024-11-05")) == {"content": [expected]}
    prompt = Raw(b'{"messages":[{"role":"user","content":%b}]}' % block)
    assert plain(to_legacy(prompt, "prompt", "2024-11-05")) == {"messages": [{"role": "user", "content": expected}]}
    for revision in ("2025-03-26", "2025-06-18", "2025-11-25"):
        for result, kind in ((call(block), "call"), (prompt, "prompt")):
            assert to_legacy(result, kind, revision) is result  # type: ignore[arg-type]


def test_a_block_that_becomes_text_keeps_its_annotations() -> None:
    kept = b'"annotations":{"priority":1.0 },"_meta":{"com.example/a":  1}'
    result = call(b'{"type":"resource_link","name":"a","uri":"b:c",%b}' % kept)

    assert bytes(to_legacy(result, "call", "2025-03-26")) == (
        b'{"content":[{"type":"text","text":"a: b:c",%b}]}' % kept
    )


@pytest.mark.parametrize(
    "block",
    [
        TEXT,
        b'{"type":"image","data":"AA==","mimeType":"image/png"}',
        b'{"type":"resource","resource":{"uri":"a:b","text":"\\u0061"}}',
        b'{"type":"hologram","data":1.0}',
        b'{"type":"resource_link","uri":7}',
        b'{"type":7}',
        b"{}",
        b'"text"',
        b"null",
    ],
)
def test_every_other_block_is_the_same_object(block: bytes) -> None:
    for result, kind in (
        (call(block), "call"),
        (Raw(b'{"messages":[{"role":"user","content":%b},7]}' % block), "prompt"),
    ):
        assert to_legacy(result, kind, "2024-11-05") is result  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["read", "complete"])
def test_only_calls_and_prompts_have_blocks(kind: Kind) -> None:
    result = Raw(b'{"content":[%b],"messages":[{"role":"user","content":%b}]}' % (LINK, LINK))

    assert to_legacy(result, kind, "2024-11-05") is result


@pytest.mark.parametrize("messages", [b"", b"null", b"7", b"{}"])
def test_a_prompt_without_messages_stays_as_it_came(messages: bytes) -> None:
    result = Raw(b'{"messages":%b}' % messages if messages else b"{}")

    assert to_legacy(result, "prompt", "2024-11-05") is result


@pytest.mark.parametrize("result", [b"[]", b"null", b'"x"', b"7", b"true"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_result_that_is_no_object_is_an_error_of_the_server(result: bytes, kind: Kind) -> None:
    with pytest.raises(ServerProtocol, match=r"the result is .*, not an object"):
        to_legacy(Raw(result), kind, "2025-11-25")
    with pytest.raises(ServerProtocol, match=r"the result is .*, not an object"):
        to_modern(Raw(result), kind, INFO)


def test_content_that_is_no_array_is_an_error_only_where_it_is_looked_into() -> None:
    result = Raw(b'{"content":"hi"}')

    assert to_legacy(result, "call", "2025-06-18") is result
    with pytest.raises(ServerProtocol, match="`content` of the result is a string, not an array"):
        to_legacy(result, "call", "2025-03-26")
    with pytest.raises(ServerProtocol, match="`content` of the result is a string, not an array"):
        to_legacy(Raw(b'{"content":"hi","structuredContent":[]}'), "call", "2025-06-18")


def test_structured_content_that_is_no_utf8_cannot_be_said() -> None:
    with pytest.raises(ServerProtocol, match="no UTF-8"):
        to_legacy(Raw(b'{"content":[],"structuredContent":["\xff"]}'), "call", "2025-11-25")


def test_a_modern_result_is_the_same_object_for_a_modern_client() -> None:
    hints = b'"resultType":"complete","ttlMs":0,"cacheScope":"private"'
    for kind in KINDS:
        result = Raw(b'{ %b,%b,"_meta":{%b:{"name":"other"}}}' % (hints, MEMBERS[kind], SERVER))
        assert to_modern(result, kind, INFO) is result


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_modern_client_must_get_is_added(kind: Kind) -> None:
    hints = {"ttlMs": b"0", "cacheScope": b'"private"'} if kind == "read" else {}
    result = Raw(b'{%b, "x": %b,"_meta":{"com.example/a":1.0}}' % (MEMBERS[kind], EXACT))

    assert members(to_modern(result, kind, INFO)) == {
        **members(result),
        "resultType": b'"complete"',
        **hints,
        "_meta": b'{"com.example/a":1.0,%b:%b}' % (SERVER, bytes(INFO)),
    }


def test_what_is_there_already_stays() -> None:
    result = Raw(b'{"resultType":"x/other","ttlMs":5.0,"cacheScope":"public","contents":[]}')

    assert to_modern(result, "read", Raw(b"")) is result
    assert members(to_modern(Raw(b'{"ttlMs":7,"contents":[]}'), "read", Raw(b""))) == {
        "ttlMs": b"7",
        "contents": b"[]",
        "resultType": b'"complete"',
        "cacheScope": b'"private"',
    }


def test_a_question_is_nothing_that_could_be_kept() -> None:
    result = Raw(b'{"resultType":"input_required","requestState":"s"}')

    assert to_modern(result, "read", Raw(b"")) is result


def test_nulls_are_missing() -> None:
    result = Raw(b'{"resultType":null,"ttlMs":null,"cacheScope":null,"_meta":null}')

    assert members(to_modern(result, "read", INFO)) == {
        "resultType": b'"complete"',
        "ttlMs": b"0",
        "cacheScope": b'"private"',
        "_meta": b"{%b:%b}" % (SERVER, bytes(INFO)),
    }


@pytest.mark.parametrize("meta", [b'"x"', b"7", b"[1]"])
def test_a_meta_that_is_no_object_gets_no_member(meta: bytes) -> None:
    result = Raw(b'{"resultType":"complete","content":[],"_meta":%b}' % meta)

    assert to_modern(result, "call", INFO) is result


def test_any_structured_content_is_right_for_a_modern_client() -> None:
    for value in (b"null", b"[]", b'"x"', b"1.0"):
        after = to_modern(call(b"", b',"structuredContent":%b' % value), "call", Raw(b""))
        assert members(after)["structuredContent"] == value


def test_there_and_back_is_where_it_was() -> None:
    for kind in KINDS:
        result = Raw(b'{%b,"_meta":{"com.example/a":1.0}}' % MEMBERS[kind])
        assert members(to_legacy(to_modern(result, kind, INFO), kind, "2025-11-25")) == members(result)


def test_a_huge_text_is_passed_on() -> None:
    text = b'{"type":"text","text":"%b"}' % (b'x\\n,:\\"' * 1_500_000)
    legacy, modern = call(text), call(text, b',"resultType":"complete"')

    assert to_legacy(legacy, "call", "2024-11-05") is legacy
    assert to_modern(modern, "call", Raw(b"")) is modern
    assert bytes(to_legacy(modern, "call", "2024-11-05")) == bytes(legacy)
    assert bytes(to_modern(legacy, "call", Raw(b""))) == bytes(modern)


SPELLED = st.recursive(
    st.sampled_from(
        [
            b"null",
            b"1.0",
            b"-0",
            b"1E+2",
            b"123456789012345678901234567890",
            b'"\\u0041\\/"',
            '"é"'.encode(),
            b'""',
            b"{ }",
        ]
    ),
    lambda inner: st.builds(
        lambda one, gap: b"[" + gap + one + gap + b"]", inner, st.sampled_from([b"", b" ", b"\r\n\t"])
    ),
    max_leaves=4,
)
NAMES = st.sampled_from([b"x", b"isError", b"annotations", b"nextCursor", b"com.example/a", "é".encode()])


@given(
    others=st.dictionaries(NAMES, SPELLED),
    kind=st.sampled_from(KINDS),
    revision=st.sampled_from(mcp.LEGACY),
    modern=st.booleans(),
)
def test_every_other_member_keeps_its_bytes(
    others: dict[bytes, bytes], kind: Kind, revision: str, modern: bool
) -> None:
    kept = b",".join(b'"%b" : %b ' % item for item in others.items())
    added = b'"resultType":"complete"' if modern else b""
    result = Raw(b"{" + b", ".join(filter(None, (added, kept))) + b"}")
    expected = {name.decode(): value for name, value in others.items()}

    legacy = to_legacy(result, kind, revision)
    now_modern = members(to_modern(result, kind, INFO))

    assert members(legacy) == expected
    assert (legacy is result) is not modern
    assert {name: now_modern[name] for name in expected} == expected
