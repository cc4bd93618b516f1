"""What HTTP answers say of a server: of its era, of a request that it refused, and of a session it has lost."""

from __future__ import annotations

import json

import pytest

from mcpd.protocol.evidence import code_in, error_in, forgot_session, is_modern, of_probe


def error(code: int, message: str = "no", request_id: object = None, **more: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message, **more}}).encode()


PAGE = b"<html>no such page</html>"


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        # a modern server refuses this one
        (400, error(-32022, data={"supported": ["2026-07-28"]}), -32022),
        (400, error(-32020), -32020),
        (400, error(-32021), -32021),
        # a legacy server does not know what it was asked
        (400, error(-32600, "Bad Request: Missing session ID"), -32600),
        (404, error(-32601), -32601),
        (200, error(-32601), -32601),
        (400, b"", -32601),
        (400, b"Bad Request: Unsupported protocol version", -32601),
        (404, PAGE, -32601),
        (405, b"", -32601),
        (406, b"{}", -32601),
        (415, b"null", -32601),
        (422, b'{"detail":[]}', -32601),
        (202, b"", -32601),
        (200, PAGE, -32601),
        (500, error(-32603), -32603),
        # about who asks, about now, or about another place
        (401, b"", None),
        (401, error(-32022), None),
        (403, error(-32001), None),
        (429, b"", None),
        (500, PAGE, None),
        (502, PAGE, None),
        (503, b"", None),
        (307, b"", None),
    ],
)
def test_the_answer_to_the_probe_tells_the_era_or_nothing(status: int, body: bytes, code: int | None) -> None:
    line = of_probe(status, body, b"7")

    assert (None if line is None else code_in(line)) == code
    assert line is None or json.loads(line)["id"] == 7


def test_an_error_keeps_all_it_has_and_gets_the_id_of_its_request() -> None:
    body = error(-32022, "Unsupported", data={"supported": ["2026-07-28"]})

    line = error_in(body, b'"x"')

    assert line is not None
    assert json.loads(line) == {**json.loads(body), "id": "x"}


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"null", PAGE, b'{"error":"Session not found"}', b'{"jsonrpc":"2.0","id":1,"result":{}}', b"[" * 5000, b"\xff",
     b'{"jsonrpc":"2.0","id":1,"method":"x","error":{"code":1}}'],
)  # fmt: skip
def test_what_is_no_error_of_json_rpc_refuses_nothing(body: bytes) -> None:
    assert error_in(body, b"1") is None


@pytest.mark.parametrize(
    ("body", "modern"), [(error(-32020), True), (error(-32021), True), (error(-32022), True), (error(-32601), False), (b"", False)]
)
def test_some_errors_only_a_modern_server_knows(body: bytes, modern: bool) -> None:
    assert is_modern(body) is modern


@pytest.mark.parametrize(
    ("status", "body", "forgot"),
    [
        (404, b"", True),
        (404, PAGE, True),
        (404, error(-32001, "Session not found"), True),
        (400, error(-32000, "Bad Request: No valid session ID provided"), True),
        (400, error(-32600, "Invalid Session"), True),
        (400, error(-32602, "no such session in the arguments"), False),
        (400, error(-32600, "Invalid Request"), False),
        (400, b"no session", False),
        (500, error(-32000, "session"), False),
    ],
)
def test_a_session_is_gone_where_the_server_says_so(status: int, body: bytes, forgot: bool) -> None:
    assert forgot_session(status, body) is forgot
