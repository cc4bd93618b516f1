"""The envelope of JSON-RPC: what is read of a line, and what is written."""

from __future__ import annotations

import pytest
from msgspec import Raw

from mcpd.protocol import jsonrpc
from mcpd.protocol.jsonrpc import ABSENT, NotJsonRpc

# -- reading a line ------------------------------------------------------------------------------


def test_the_bodies_stay_the_bytes_that_came() -> None:
    line = rb'{"jsonrpc":"2.0", "id" : 7 ,"result": {"b":1.50,"a":"\u00e9", "b":[ ]} }' + b"\n"

    message = jsonrpc.decode(line)

    assert bytes(message.id) == b"7"
    assert bytes(message.result) == rb'{"b":1.50,"a":"\u00e9", "b":[ ]}'


def test_an_id_keeps_its_type() -> None:
    assert bytes(jsonrpc.decode(b'{"id":"1","method":"ping"}').id) == b'"1"'
    assert bytes(jsonrpc.decode(b'{"id":1,"method":"ping"}').id) == b"1"


def test_members_that_are_missing_are_empty() -> None:
    message = jsonrpc.decode(b"{}")

    assert [bytes(raw) for raw in (message.id, message.params, message.result, message.error)] == [b""] * 4
    assert message.method == ""


def test_a_member_that_is_null_is_not_missing() -> None:
    assert bytes(jsonrpc.decode(b'{"id":null,"result":null}').result) == b"null"


@pytest.mark.parametrize("version", [b"", b'"jsonrpc":"1.0",', b'"jsonrpc":2,', b'"jsonrpc":null,'])
def test_a_wrong_version_is_forgiven(version: bytes) -> None:
    message = jsonrpc.decode(b'{%b"id":1,"result":{}}' % version)

    assert bytes(message.result) == b"{}"


def test_unknown_members_are_left_alone() -> None:
    assert jsonrpc.decode(b'{"method":"x","level":"info","time":{"a":[1]}}').method == "x"


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"   ",
        b"Server is listening on port 80",
        b"42",
        b"null",
        b'"text"',
        b"[]",
        b'[{"jsonrpc":"2.0","id":1,"result":{}}]',
        b'{"jsonrpc":"2.0","id":1,"result":{}',
        b'{"jsonrpc":"2.0","id":1,"result":{}}}',
        b'{"id":1}{"id":2}',
        b'{"method":7}',
        b'{"id":1,"result":{"a":NaN}}',
        b'{"id":1,"method":"\xff"}',
    ],
)
def test_what_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(NotJsonRpc) as caught:
        jsonrpc.decode(line)

    assert str(caught.value)


def test_a_message_that_is_nested_too_deeply_is_refused_not_fatal() -> None:
    with pytest.raises(NotJsonRpc):
        jsonrpc.decode(b'{"id":1,"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}")


# -- the id of what cannot be read ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b'{"jsonrpc":"2.0","id":12,"result":{"text":"cut o', b"12"),
        (b'{"jsonrpc":"2.0", "id" : 12 ,"result":{', b"12"),
        (b'{"id":12}', b"12"),
        (b'{"result":{"a":NaN},"jsonrpc":"2.0","id":12}', b"12"),
        (b'{"result":{"a":"' + b"x" * 5000 + b'\xff"},"jsonrpc":"2.0","id":12}', b"12"),
        (b'{"result":{"a":"' + b"x" * 5000 + b'","id":7, "b":"' + b"x" * 5000 + b'"}', None),
        (b'{"result":{"text":"it said \\"id\\":7, and more', None),
        (b'{"jsonrpc":"2.0","id":"12","result":{', None),
        (b'{"jsonrpc":"2.0","id":true,"result":{', None),
        (b'{"jsonrpc":"2.0","id":1.5,"result":{', None),
        (b'{"jsonrpc":"2.0","id":-1,"result":{', None),
        (b'{"jsonrpc":"2.0","id":1', None),
        (b'{"jsonrpc":"2.0","id":1111111111111111111111,"result":{', None),
        (b"no json at all", None),
        (b"", None),
    ],
)
def test_the_id_of_a_broken_line_is_found_at_its_ends_only(line: bytes, found: bytes | None) -> None:
    assert jsonrpc.guess_id(line) == found
    assert jsonrpc.guess_id(bytearray(line)) == found


@pytest.mark.parametrize(
    "line",
    [
        b'{"result":{"structuredContent":{"id":7,"text":"cut o',
        b'{"jsonrpc":"2.0","result":{"items":[{"id":7,"a":NaN}]},"id":"x"}',
        b'{"result":{"a":"' + b"x" * 5000 + b'","structuredContent":{"id":7,"b":"cut o',
    ],
)
def test_an_id_inside_the_result_is_not_taken_for_that_of_the_answer(line: bytes) -> None:
    assert jsonrpc.guess_id(line) is None


# -- writing -------------------------------------------------------------------------------------


def test_a_request_is_one_line_in_the_usual_order() -> None:
    line = jsonrpc.request(b"7", b'"tools/list"', b'{"cursor":"x"}')

    assert line == b'{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":"x"}}'


def test_a_notification_has_params_only_if_there_are_any() -> None:
    assert jsonrpc.notification("notifications/initialized") == (
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
    )
    assert jsonrpc.notification('a"b', b"{}") == b'{"jsonrpc":"2.0","method":"a\\"b","params":{}}'


def test_an_answer_repeats_the_id_as_it_came() -> None:
    assert jsonrpc.answer(b'"s1"', b"{}") == b'{"jsonrpc":"2.0","id":"s1","result":{}}'
    assert jsonrpc.refusal(b"1", b'{"code":1,"message":""}') == (
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}'
    )


def test_an_error_has_data_only_if_there_is_some() -> None:
    assert jsonrpc.error_body(-32601, "no “x”") == '{"code":-32601,"message":"no “x”"}'.encode()
    assert jsonrpc.error_body(1, "m", {"class": "c"}) == b'{"code":1,"message":"m","data":{"class":"c"}}'


# -- reading an error ----------------------------------------------------------------------------


def test_an_error_is_read() -> None:
    found = jsonrpc.read_error(Raw(b'{"code":-32022,"message":"no","data":{"supported":["x"]},"more":1}'))

    assert (found.code, found.message, bytes(found.data)) == (-32022, "no", b'{"supported":["x"]}')


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (b'"it broke"', "it broke"),
        (b"null", "null"),
        (b"[1]", "[1]"),
        (b'{"code":"ENOENT","message":"no"}', '{"code":"ENOENT","message":"no"}'),
        (b'"\xff"', "�"),
        (b'"' + b"x" * 5000 + b'"', "x" * 999),
    ],
)
def test_an_error_of_another_shape_is_shown_as_it_is_but_not_at_any_length(error: bytes, message: str) -> None:
    found = jsonrpc.read_error(Raw(error))

    assert (found.code, found.message) == (-32603, message)


def test_an_error_without_members_has_the_code_of_an_internal_one() -> None:
    found = jsonrpc.read_error(Raw(b"{}"))

    assert (found.code, found.message, found.data) == (-32603, "", ABSENT)
