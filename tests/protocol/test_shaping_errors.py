"""Errors of servers of any era, for clients of any revision."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from mcpd.protocol import mcp
from mcpd.protocol.shaping import elicitations, error

CLIENTS = [(True, "2026-07-28"), *((False, revision) for revision in mcp.LEGACY)]
METHODS = ["tools/call", "resources/read", "prompts/get", "completion/complete"]
VISIT = {"mode": "url", "elicitationId": "e1", "url": "https://a.example/x?y=1", "message": "Sign in"}


def url_required(*pages: object, message: str = "Please sign in") -> Raw:
    return Raw(json.dumps({"code": -32042, "message": message, "data": {"elicitations": pages}}).encode())


def shaped(body: bytes | Raw, method: str = "tools/call", revision: str = "2025-11-25") -> Any:
    return json.loads(error(Raw(bytes(body)), method=method, modern=revision in mcp.MODERN, revision=revision))


@pytest.mark.parametrize(("modern", "revision"), CLIENTS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("code", [-32700, -32600, -32601, -32602, -32603, -32000, -32001, -32019, -32023, -1, 0, 7])
def test_an_error_of_the_server_keeps_its_bytes(modern: bool, revision: str, method: str, code: int) -> None:
    body = b'{ "message":"\\u0061", "code" :%d, "data": [1.0, 123456789012345678901], "x":null}' % code

    assert error(Raw(body), method=method, modern=modern, revision=revision) == body


@pytest.mark.parametrize("data", [b"", b',"data":{"uri":"a:b", "n":1.0}', b',"data":"a:b"'])
def test_a_resource_that_is_not_there_is_minus_32602_for_modern_clients(data: bytes) -> None:
    body = b'{"code":-32002,"message":"m"%b,"x":1.0}' % data

    done = error(Raw(body), method="resources/read", modern=True, revision="2026-07-28")

    assert done == body.replace(b"-32002", b"-32602")


@pytest.mark.parametrize("revision", mcp.LEGACY)
def test_a_resource_that_is_not_there_is_minus_32002_for_legacy_clients(revision: str) -> None:
    body = b'{"code":-32602,"message":"m","data":{"uri":"a:b", "n":1.0}}'

    done = error(Raw(body), method="resources/read", modern=False, revision=revision)

    assert done == body.replace(b"-32602", b"-32002")


@pytest.mark.parametrize("data", [b"", b',"data":null', b',"data":{}', b',"data":{"uri":7}', b',"data":"a:b"'])
def test_parameters_that_are_wrong_are_not_taken_for_a_resource_that_is_not_there(data: bytes) -> None:
    body = b'{"code":-32602,"message":"m"%b}' % data

    assert error(Raw(body), method="resources/read", modern=False, revision="2025-11-25") == body


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "completion/complete"])
def test_only_reading_looks_for_resources(method: str) -> None:
    missing, wrong = b'{"code":-32002,"message":"m"}', b'{"code":-32602,"message":"m","data":{"uri":"a:b"}}'

    assert error(Raw(missing), method=method, modern=True, revision="2026-07-28") == missing
    assert error(Raw(wrong), method=method, modern=False, revision="2025-11-25") == wrong


@pytest.mark.parametrize("code", [-32020, -32021, -32022])
def test_an_error_of_the_modern_era_is_an_internal_one_for_a_legacy_client(code: int) -> None:
    body = b'{"code":%d,"message":"m","data":{"requiredCapabilities":{"n":1.0}}}' % code

    for revision in mcp.LEGACY:
        assert error(Raw(body), method="tools/call", modern=False, revision=revision) == (
            body.replace(b"%d" % code, b"-32603")
        )
    assert error(Raw(body), method="tools/call", modern=True, revision="2026-07-28") == body


def test_pages_to_visit_are_told_to_a_client_of_2025_11_25() -> None:
    body = url_required(VISIT)

    assert error(body, method="tools/call", modern=False, revision="2025-11-25") == bytes(body)


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-06-18", "2025-03-26", "2024-11-05"])
def test_other_clients_read_which_pages_to_visit(revision: str) -> None:
    other = {**VISIT, "url": "https://b.example/"}

    assert shaped(url_required(VISIT, VISIT, other), revision=revision) == {
        "code": 34,
        "message": "Please sign in (open https://a.example/x?y=1, https://b.example/, then try again)",
        "data": {
            "class": "input_required",
            "elicitations": [
                {"message": "Sign in", "url": "https://a.example/x?y=1"},
                {"message": "Sign in", "url": "https://a.example/x?y=1"},
                {"message": "Sign in", "url": "https://b.example/"},
            ],
        },
    }


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"code":-32042,"message":"sign in"}', "sign in"),
        (b'{"code":-32042,"message":""}', "pages have to be opened first"),
        (b'{"code":-32042}', "the server gave no reason"),
        (b'{"code":-32042,"message":"sign in","data":{"elicitations":7}}', "sign in"),
        (b'{"code":-32042,"message":"sign in","data":{"elicitations":[]}}', "sign in"),
        (b'{"code":-32042,"message":"sign in","data":{"elicitations":[{"url":7}]}}', "sign in"),
    ],
)
def test_pages_that_are_not_named_are_no_reason_to_pass_the_code_on(body: bytes, message: str) -> None:
    for revision in ("2026-07-28", "2025-06-18"):
        assert shaped(body, revision=revision) == {"code": 34, "message": message, "data": {"class": "input_required"}}


def test_a_page_that_is_malformed_does_not_hide_the_others() -> None:
    assert "https://a.example/x?y=1" in shaped(url_required({"url": 7}, VISIT), revision="2025-06-18")["message"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'"it broke"', {"code": -32603, "message": "it broke"}),
        (b"null", {"code": -32603, "message": "null"}),
        (b"[1]", {"code": -32603, "message": "[1]"}),
        (b"{}", {"code": -32603, "message": "the server gave no reason"}),
        (b'{"message":"m","data":[1.0]}', {"code": -32603, "message": "m", "data": [1.0]}),
        (b'{"code":5}', {"code": 5, "message": "the server gave no reason"}),
        (b'{"code":"E5","message":"m"}', {"code": -32603, "message": '{"code":"E5","message":"m"}'}),
        (b'{"code":5,"message":null}', {"code": -32603, "message": '{"code":5,"message":null}'}),
    ],
)
@pytest.mark.parametrize(("modern", "revision"), CLIENTS)
def test_what_is_no_error_object_becomes_one(modern: bool, revision: str, body: bytes, expected: Any) -> None:
    assert shaped(body, revision=revision) == expected


def test_what_is_broken_beside_the_error_does_not_hide_it() -> None:
    body = b'{"code":-32002,"message":"m","\xff":1,"data":[1.0]}'

    done = error(Raw(body), method="resources/read", modern=True, revision="2026-07-28")

    assert done == b'{"code":-32602,"message":"m","data":[1.0]}'


@given(
    code=st.integers(-32100, 100),
    client=st.sampled_from(CLIENTS),
    method=st.sampled_from(METHODS),
    data=st.sampled_from(
        [b"", b',"data":{"uri":"a:b"}', b',"data":7', b',"data":{"elicitations":[{"url":"https://a"}]}']
    ),
)
def test_no_client_gets_a_code_of_another_era(code: int, client: tuple[bool, str], method: str, data: bytes) -> None:
    modern, revision = client
    body = Raw(b'{"code":%d,"message":"m"%b}' % (code, data))

    seen = json.loads(error(body, method=method, modern=modern, revision=revision))["code"]

    assert not (modern and (seen == -32042 or (method == "resources/read" and seen == -32002)))
    assert modern or seen not in (-32020, -32021, -32022)
    assert seen != -32042 or revision == "2025-11-25"


def test_pages_to_visit_are_questions_for_a_modern_client() -> None:
    other = {"url": "https://b.example/", "x": 1}

    asked = elicitations(url_required(VISIT, other))

    assert [(method, json.loads(params)) for method, params in asked or []] == [
        ("elicitation/create", {"mode": "url", "message": "Sign in", "url": "https://a.example/x?y=1"}),
        ("elicitation/create", {"mode": "url", "message": "Please sign in", "url": "https://b.example/"}),
    ]


@pytest.mark.parametrize(
    "body",
    [
        b'{"code":-32041,"message":"m","data":{"elicitations":[{"url":"https://a","message":"m"}]}}',
        b'{"code":-32042,"message":"m"}',
        b'{"code":-32042,"message":"m","data":{}}',
        b'{"code":-32042,"message":"m","data":7}',
        b'{"code":-32042,"message":"m","data":{"elicitations":{}}}',
        b'{"code":-32042,"message":"m","data":{"elicitations":[]}}',
        b'{"code":-32042,"message":"m","data":{"elicitations":[7]}}',
        b'{"code":-32042,"message":"m","data":{"elicitations":[{"message":"m"}]}}',
        b'{"code":-32042,"message":"m","data":{"elicitations":[{"url":""}]}}',
        b'{"code":-32042,"message":"m","data":{"elicitations":[{"url":"https://a"},{"url":7}]}}',
        b'{"code":-32042,"message":"m","data":{"elicitations":[{"url":"https://a","mode":"form"}]}}',
        b'{"code":-32042,"message":"m","data":{"elicitations":[%b]}}' % b",".join([b'{"url":"https://a"}'] * 17),
        b'"-32042"',
        b"null",
    ],
)
def test_any_other_error_asks_for_nothing(body: bytes) -> None:
    assert elicitations(Raw(body)) is None
