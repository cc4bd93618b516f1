from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from mcpd_client.bridge import lines

BIG = {"text": 'quoted ","id":9,"method":"x" and more' * 200}
KINDS: list[tuple[dict[str, Any], str]] = [
    ({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"n": 1}}, lines.REQUEST),
    ({"jsonrpc": "2.0", "method": "notifications/x", "params": {"id": 5}}, lines.NOTIFICATION),
    ({"jsonrpc": "2.0", "id": "7", "result": {"id": 5, "error": 1, "method": "x"}}, lines.ANSWER),
    ({"jsonrpc": "2.0", "id": 7, "error": {"code": 1, "id": 5}}, lines.ANSWER),
]


@pytest.mark.parametrize("is_big", [False, True])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_id_method_and_kind_are_found_in_any_order_of_the_members(is_big: bool, separators: tuple[str, str]) -> None:
    for message, kind in KINDS:
        body = next(name for name in ("params", "result", "error") if name in message)
        told = message | {body: message[body] | BIG} if is_big else message
        for names in itertools.permutations(told):
            line = json.dumps({name: told[name] for name in names}, separators=separators).encode() + b"\n"

            found = lines.look(line)

            assert (found.kind, found.id, found.method) == (kind, message.get("id"), message.get("method", ""))
            assert found.is_error is ("error" in message)


@pytest.mark.parametrize("order", [("jsonrpc", "id", "method", "params"), ("method", "params", "jsonrpc", "id")])
def test_a_large_line_in_a_usual_order_is_not_parsed(order: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    message = {"jsonrpc": "2.0", "id": 'a"b', "method": "tools/call", "params": BIG}
    line = json.dumps({name: message[name] for name in order}, separators=(",", ":")).encode()
    monkeypatch.setattr(lines, "parse", None)

    assert lines.look(line).id == 'a"b'


@pytest.mark.parametrize(
    "line",
    [
        b"", b"\n", b"{", b'{"id":1', b'{"id":1,"method":"x"} more', b"hello", b"\xff", b"\0", b"5", b'"x"', b"null", b"NaN",
        b'{"id":null,"method":"x"}', b'{"id":true,"method":"x"}', b'{"id":{},"method":"x"}', b'{"id":1}', b'{"id":NaN,"method":"x"}',
        b'{"id":1e999,"method":"x"}', b'{"id":1,"method":5}', b"[" * 100_000, b'{"id":' + b"1" * 5000 + b',"method":"x"}', b"{" + b" " * 9000,
        b'{"id":1,"method":"x","params":' + b" " * 9000, b'{"result":{' + b" " * 9000 + b'"id":7}',
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_something_else(line: bytes) -> None:
    assert lines.look(line).kind == lines.OTHER


@pytest.mark.parametrize("is_last", [False, True])
def test_the_ends_of_a_line_tell_its_id_and_kind(is_last: bool) -> None:
    for message, kind in KINDS:
        body = next(name for name in ("params", "result", "error") if name in message)
        names = sorted(message, key=lambda name: (name == "id") if is_last else (name == body))
        line = json.dumps({name: message[name] | BIG if name == body else message[name] for name in names}).encode()

        found = lines.look_at_ends(line[:1024] + line[-1024:])

        assert (found.kind, found.id) == ((kind, message["id"]) if "id" in message else (lines.OTHER, None))


def test_a_batch_has_its_messages() -> None:
    found = lines.look(b'[{"id":1,"method":"a"},5,{"method":"b"},{"id":2,"result":1}]')

    assert found.kind == lines.BATCH
    assert [item.kind for item in found.items] == [lines.REQUEST, lines.NOTIFICATION, lines.ANSWER]


def test_ids_of_different_types_have_different_keys() -> None:
    ids = (7, "7", 7.0, "", "7.0", 0, -0.0)

    assert len({lines.key_of(request_id) for request_id in ids}) == len(ids)


@pytest.mark.parametrize(
    ("line", "params"),
    [
        ('{"method":"x","params":{"a":[1,{"b":"}"}]},"id":1}', '{"a":[1,{"b":"}"}]}'),
        ('{ "params" : { "ü" : 1e400 } , "method":"x"}', '{ "ü" : 1e400 }'),
        ('{"a":{"params":1},"method":"x"}', "{}"),
        ('{"method":"x","params":', "{}"),
        ("[]", "{}"),
        ("{}", "{}"),
    ],
)
def test_parameters_are_kept_as_they_were_written(line: str, params: str) -> None:
    assert lines.raw_params(line.encode()) == params


def test_what_is_written_is_json_whatever_the_id() -> None:
    for request_id in (1, "é\ud800\n", 1.5, None):
        line = lines.error_line(request_id, 5, 'a "b"\n', {"x": True, "y": None, "z": "ü"})

        assert line.count(b"\n") == 1
        assert json.loads(line) == {
            "jsonrpc": "2.0", "id": request_id, "error": {"code": 5, "message": 'a "b"\n', "data": {"x": True, "z": "ü"}},
        }  # fmt: skip
