from __future__ import annotations

import json

import pytest

from mcpd_client import connection as module
from mcpd_client.connection import ClientConnection, RawJSON
from mcpd_client.errors import ConnectionLost, RemoteProtocolError, RequestFailed


def test_a_request_is_one_line_and_gets_its_reply() -> None:
    connection = ClientConnection()

    request_id, data = connection.start("mcpd/call", {"server": "demo", "text": "é\n"})

    assert data == ('{"jsonrpc":"2.0","id":1,"method":"mcpd/call","params":{"server":"demo","text":"é\\n"}}\n'.encode())
    assert connection.take_reply(request_id) is None
    connection.receive_data(b'{"jsonrpc":"2.0","id":1,"result":{"ok":true}}\n')
    reply = connection.take_reply(request_id)
    assert reply is not None
    assert reply.result == {"ok": True}


def test_bytes_may_come_one_at_a_time() -> None:
    connection = ClientConnection()
    first, _ = connection.start("a")
    second, _ = connection.start("b")

    for byte in b'{"jsonrpc":"2.0","id":2,"result":"\xc3\xa9"}\n\n{"jsonrpc":"2.0","id":1,"result":1}\r\n':
        connection.receive_data(bytes([byte]))

    replies = [connection.take_reply(first), connection.take_reply(second)]
    assert [reply.result for reply in replies if reply] == [1, "é"]


def test_a_result_keeps_its_text_with_numbers_of_any_size() -> None:
    connection = ClientConnection()
    request_id, _ = connection.start("a")
    text = '{"z":123456789012345678901234567890,"a":1.0,"r":[1e400,0.10000000000000000001],"result":"\\u00e9"}'

    connection.receive_data(f'{{"jsonrpc":"2.0","id":1,"result":{text}}}\n'.encode())

    reply = connection.take_reply(request_id)
    assert reply is not None
    assert reply.result_text() == text


@pytest.mark.parametrize(
    "line",
    [
        '{"id":1,"jsonrpc":"2.0","result":{"a":12345678901234567890}}',
        '{ "jsonrpc": "2.0", "result": {"a": 12345678901234567890}, "id": 1 }',
    ],
)
def test_a_result_in_another_order_is_encoded_anew(line: str) -> None:
    connection = ClientConnection()
    request_id, _ = connection.start("a")

    connection.receive_data(line.encode() + b"\n")

    reply = connection.take_reply(request_id)
    assert reply is not None
    assert reply.result_text() == '{"a":12345678901234567890}'


def test_an_error_is_raised_with_all_it_says() -> None:
    connection = ClientConnection()
    request_id, _ = connection.start("a")
    data = {"class": "auth_required", "server": "github", "hint": "mcpd login github"}

    connection.receive_data(
        json.dumps({"jsonrpc": "2.0", "id": 1, "error": {"code": 15, "message": "m", "data": data}}).encode() + b"\n"
    )

    with pytest.raises(RequestFailed) as caught:
        connection.take_reply(request_id)
    error = caught.value
    assert (error.code, error.kind, error.message, error.server) == (15, "auth_required", "m", "github")
    assert (error.hint, error.data, error.exit_code) == ("mcpd login github", data, 3)


def test_a_request_of_the_daemon_is_no_reply_even_with_our_id() -> None:
    connection = ClientConnection()
    request_id, _ = connection.start("a")

    connection.receive_data(b'{"jsonrpc":"2.0","id":1,"method":"roots/list"}\n')

    assert connection.take_reply(request_id) is None
    assert [message["method"] for message in connection.take_incoming()] == ["roots/list"]
    assert connection.take_incoming() == []
    assert connection.respond("s1", {"roots": []}) == b'{"jsonrpc":"2.0","id":"s1","result":{"roots":[]}}\n'


def test_an_abandoned_request_is_cancelled_and_its_late_reply_ignored() -> None:
    connection = ClientConnection()
    request_id, _ = connection.start("a")

    data = connection.abandon(request_id)

    assert json.loads(data) == {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    connection.receive_data(b'{"jsonrpc":"2.0","id":1,"result":1}\n')
    assert connection.take_reply(request_id) is None


def test_nobody_waits_for_the_answer_to_a_ping() -> None:
    connection = ClientConnection()

    assert json.loads(connection.ping())["method"] == "ping"

    assert not connection.has_pending
    connection.receive_data(b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"m"}}\n')
    assert not connection.closed


def test_the_first_cause_of_the_end_is_told_to_all() -> None:
    connection = ClientConnection()
    first, _ = connection.start("a")
    second, _ = connection.start("b")

    connection.receive_data(b"")
    connection.close(RemoteProtocolError("later"))

    for request_id in (first, second):
        with pytest.raises(ConnectionLost) as caught:
            connection.take_reply(request_id)
        assert caught.value.may_have_run


def test_a_reply_that_came_before_the_end_is_still_there() -> None:
    connection = ClientConnection()
    request_id, _ = connection.start("a")

    connection.receive_data(b'{"jsonrpc":"2.0","id":1,"result":1}\n')
    connection.receive_data(b"")

    reply = connection.take_reply(request_id)
    assert reply is not None
    assert reply.result == 1


def test_nothing_can_be_started_after_the_end_and_it_says_that_nothing_ran() -> None:
    connection = ClientConnection()
    connection.start("a")
    connection.receive_data(b"")

    with pytest.raises(ConnectionLost) as caught:
        connection.start("b")

    assert not caught.value.may_have_run


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense",
        b'"text"',
        b"[]",
        b'{"jsonrpc":"2.0","id":1,"result":"\xff"}',
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","id":1,"error":"text"}',
        b'{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":"m"}}',
        b"[" * 200000,
    ],
)
def test_what_is_not_the_protocol_ends_the_connection(line: bytes) -> None:
    connection = ClientConnection()
    request_id, _ = connection.start("a")

    connection.receive_data(line + b"\n")

    with pytest.raises(RemoteProtocolError):
        connection.take_reply(request_id)


def test_an_error_without_id_ends_the_connection_with_what_it_says() -> None:
    connection = ClientConnection()
    request_id, _ = connection.start("a")

    connection.receive_data(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not JSON"}}\n')

    with pytest.raises(RequestFailed, match="not JSON"):
        connection.take_reply(request_id)


def test_a_line_without_end_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LINE_BYTES", 100)
    connection = ClientConnection()
    request_id, _ = connection.start("a")

    connection.receive_data(b"x" * 101)

    with pytest.raises(RemoteProtocolError, match="more than 100 bytes"):
        connection.take_reply(request_id)


def test_raw_parameters_go_out_as_they_are_but_in_one_line() -> None:
    _, data = ClientConnection().start("a", RawJSON('{"n":\r\n 12345678901234567890.0}'))

    assert data.count(b"\n") == 1
    assert b'"params":{"n":   12345678901234567890.0}}' in data


def test_a_request_that_somebody_else_sent_can_be_adopted() -> None:
    connection = ClientConnection()

    connection.adopt(1)

    connection.receive_data(b'{"jsonrpc":"2.0","id":1,"result":1}\n')
    assert connection.take_reply(1) is not None
    assert connection.start("a")[0] == 2
