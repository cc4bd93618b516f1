"""Questions of servers for clients of any revision, and what comes back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from mcpd.errors import ServerProtocol
from mcpd.protocol import mcp
from mcpd.protocol.shaping import answer_to_legacy, input_required, question

ELICIT, SAMPLE = "elicitation/create", "sampling/createMessage"
OLDER = ("2025-06-18", "2025-03-26", "2024-11-05")
TEXT = b'{"type":"text","text":"\\u0061"}'
INFO = Raw(b'{"name":"s","version":"1.0"}')


def plain(value: Raw | bytes) -> Any:
    return json.loads(bytes(value))


def form(properties: bytes, more: bytes = b"") -> Raw:
    return Raw(b'{"message":"\\u0061","requestedSchema":{"type":"object","properties":{%b}%b}}' % (properties, more))


def asked(params: Raw) -> Any:
    """What a client of 2025-06-18 is asked for."""
    return plain(question(ELICIT, params, revision="2025-06-18"))["requestedSchema"]


@pytest.mark.parametrize("method", [ELICIT, SAMPLE, "roots/list", "x/y"])
def test_a_client_of_2025_11_25_is_asked_as_the_server_asks(method: str) -> None:
    params = Raw(
        b'{ "mode":"form","tools":[],"messages":[{"content":[%b]}],"requestedSchema":{"properties":{"a":{"type":"array"}}}}'
        % TEXT
    )

    assert question(method, params, revision="2025-11-25", elicitation_id="e1") is params


@pytest.mark.parametrize("revision", OLDER)
@pytest.mark.parametrize("method", ["roots/list", "x/y"])
def test_other_questions_are_the_same_everywhere(method: str, revision: str) -> None:
    for raw in (b"", b'{"mode":"form","tools":[]}'):
        params = Raw(raw)
        assert question(method, params, revision=revision) is params


@pytest.mark.parametrize("mode", [b'"form"', b"null", b'"other"'])
def test_a_form_loses_its_mode_below_2025_11_25(mode: bytes) -> None:
    params = Raw(b'{"mode":%b,"message":"\\u0061","requestedSchema":{"type":"object", "properties":{}},"x":1.0}' % mode)

    assert bytes(question(ELICIT, params, revision="2025-06-18")) == (
        b'{"message":"\\u0061","requestedSchema":{"type":"object", "properties":{}},"x":1.0}'
    )


@pytest.mark.parametrize(
    "field",
    [
        b'{"type":"string","format":"email","default":"a@b"}',
        b'{"type":"integer","minimum":1.0,"default":7}',
        b'{"type":"boolean","default":true}',
        b'{"type":"string","enum":["a"],"enumNames":["A"]}',
        b'{"type":"string","enum":["a"],"oneOf":[{"const":"a","title":"A"}]}',
        b'{"type":"string","oneOf":[]}',
        b'{"type":"string","oneOf":[{"pattern":"a"}]}',
        b'{"type":"string","oneOf":7}',
        b'{"type":"number","oneOf":[{"const":"a","title":"A"}]}',
        b'{"type":7}',
        b"{}",
        b"true",
    ],
)
def test_a_field_that_2025_06_18_takes_is_the_same_object(field: bytes) -> None:
    params = form(b'"a": %b' % field)

    assert question(ELICIT, params, revision="2025-06-18") is params


def test_a_choice_with_titles_is_given_in_both_ways() -> None:
    field = b'"type":"string","oneOf":[{"const":"#f00","title":"Red"},{"const":"#0f0"}],"default":"#f00"'

    done = question(ELICIT, form(b'"a":{%b},"b":{"type":"number", "minimum":1.0}' % field), revision="2025-06-18")

    assert bytes(done) == bytes(
        form(b'"a":{%b,"enum":["#f00","#0f0"],"enumNames":["Red","#0f0"]},"b":{"type":"number", "minimum":1.0}' % field)
    )


def test_a_choice_of_several_is_left_out_where_it_may_be() -> None:
    several = b'"many":{"type":"array","items":{"type":"string","enum":["a"]}}'
    one = b'"one":{"type":"string"}'

    assert asked(form(several + b"," + one, b',"required":["one"]'))["properties"] == {"one": {"type": "string"}}
    assert asked(form(several))["properties"] == {}
    needed = form(several + b"," + one, b',"required":["many"]')
    assert question(ELICIT, needed, revision="2025-06-18") is needed


@pytest.mark.parametrize(
    "params",
    [
        b'{"message":"m"}',
        b'{"requestedSchema":7}',
        b'{"requestedSchema":{}}',
        b'{"requestedSchema":{"properties":[]}}',
        b'{"requestedSchema":{"properties":{"a":{"type":"string"}},"required":"a"}}',
        b'{"mode":"url","url":"https://a","message":"m"}',
    ],
)
def test_what_is_no_form_is_the_same_object(params: bytes) -> None:
    raw = Raw(params)

    assert question(ELICIT, raw, revision="2025-06-18") is raw


@pytest.mark.parametrize("params", [b"[]", b"null", b'"x"'])
def test_parameters_that_are_no_object_are_an_error_of_the_server(params: bytes) -> None:
    for method in (ELICIT, SAMPLE):
        with pytest.raises(ServerProtocol, match="not an object"):
            question(method, Raw(params), revision="2025-06-18")


def test_a_visit_gets_an_id_where_clients_want_one() -> None:
    params = Raw(b'{"mode":"url","message":"m","url":"https://a", "x":1.0}')

    assert bytes(question(ELICIT, params, revision="2025-11-25", elicitation_id="e1")) == (
        b'{"mode":"url","message":"m","url":"https://a","x":1.0,"elicitationId":"e1"}'
    )
    assert question(ELICIT, params, revision="2025-11-25") is params
    named = Raw(b'{"mode":"url","message":"m","url":"https://a","elicitationId":"theirs"}')
    assert question(ELICIT, named, revision="2025-11-25", elicitation_id="e1") is named


@pytest.mark.parametrize("revision", OLDER)
def test_sampling_without_tools_is_the_same_object(revision: str) -> None:
    params = Raw(b'{"messages":[ {"role":"user","content":%b},{"role":"user"},7],"maxTokens":5}' % TEXT)

    assert question(SAMPLE, params, revision=revision) is params


@pytest.mark.parametrize("revision", OLDER)
def test_sampling_loses_its_tools_below_2025_11_25(revision: str) -> None:
    params = Raw(b'{"messages":[ {"content": %b}],"tools":[{}],"maxTokens":5.0,"toolChoice":{}}' % TEXT)

    assert (
        bytes(question(SAMPLE, params, revision=revision)) == b'{"messages":[ {"content": %b}],"maxTokens":5.0}' % TEXT
    )


@pytest.mark.parametrize("tools", [b'"tools":[]', b'"toolChoice":{}'])
def test_each_of_them_goes_alone(tools: bytes) -> None:
    params = Raw(b'{"messages":[],%b}' % tools)

    assert bytes(question(SAMPLE, params, revision="2025-06-18")) == b'{"messages":[]}'


@pytest.mark.parametrize("revision", OLDER)
def test_a_message_of_several_blocks_becomes_several_messages(revision: str) -> None:
    image = b'{"type":"image","data":"","mimeType":"image/png"}'
    message = b'{"role":"user","content":%b,"x":1.0}'
    params = Raw(b'{"messages":[%b,%b],"maxTokens":5}' % (message % (b"[%b,%b]" % (TEXT, image)), message % TEXT))

    assert bytes(question(SAMPLE, params, revision=revision)) == (
        b'{"messages":[%b,%b,%b],"maxTokens":5}' % (message % TEXT, message % image, message % TEXT)
    )


def test_a_message_of_one_block_in_a_list_becomes_that_block() -> None:
    params = Raw(b'{"messages":[{"role":"user","content":[%b]}]}' % TEXT)

    assert (
        bytes(question(SAMPLE, params, revision="2025-06-18")) == b'{"messages":[{"role":"user","content":%b}]}' % TEXT
    )


def test_a_message_without_blocks_stays() -> None:
    params = Raw(b'{"messages":[{"role":"user","content":[]}]}')

    assert question(SAMPLE, params, revision="2025-06-18") is params


def test_audio_is_text_where_there_is_none() -> None:
    params = Raw(b'{"messages":[{"role":"user","content":{"type":"audio","data":"AAAA","mimeType":"audio/wav"}}]}')

    done = plain(question(SAMPLE, params, revision="2024-11-05"))

    assert done["messages"][0]["content"]["text"].startswith("[audio, audio/wav, 3 bytes")
    assert question(SAMPLE, params, revision="2025-03-26") is params


@pytest.mark.parametrize("revision", OLDER)
def test_a_sampled_message_is_one_block_for_an_older_server(revision: str) -> None:
    answer = Raw(b'{"role":"assistant","content":[ %b ],"model":"m","x":1.0}' % TEXT)

    assert bytes(answer_to_legacy(SAMPLE, answer, revision=revision)) == (
        b'{"role":"assistant","content":%b,"model":"m","x":1.0}' % TEXT
    )
    assert answer_to_legacy(SAMPLE, answer, revision="2025-11-25") is answer


@pytest.mark.parametrize(
    "answer",
    [
        b'{"content":%b}' % TEXT,
        b'{"content":[%b,%b]}' % (TEXT, TEXT),
        b'{"content":[]}',
        b"{}",
        b"7",
        b'{"action":"accept"}',
    ],
)
def test_other_answers_are_the_same_object(answer: bytes) -> None:
    raw = Raw(answer)

    for method in (SAMPLE, ELICIT, "roots/list"):
        assert answer_to_legacy(method, raw, revision="2025-06-18") is raw


def test_a_modern_client_is_asked_in_a_result() -> None:
    requests = {"a": (ELICIT, b'{"message": "m", "n":1.0}'), 'b"': ("roots/list", b"")}

    done = input_required(requests, "state é", INFO)

    assert b'{"message": "m", "n":1.0}' in done
    assert plain(done) == {
        "resultType": "input_required",
        "inputRequests": {
            "a": {"method": ELICIT, "params": {"message": "m", "n": 1.0}},
            'b"': {"method": "roots/list"},
        },
        "requestState": "state é",
        "_meta": {mcp.META_SERVER: plain(INFO)},
    }


def test_what_is_not_asked_is_not_in_the_result() -> None:
    assert plain(input_required({}, "", Raw(b""))) == {"resultType": "input_required", "requestState": ""}
    assert plain(input_required({"a": ("roots/list", b"{}")}, None, Raw(b""))) == {
        "resultType": "input_required",
        "inputRequests": {"a": {"method": "roots/list", "params": {}}},
    }
