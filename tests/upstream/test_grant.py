"""The answer of a token endpoint: a token, a refusal, or nothing that is either."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.upstream.grant import Denied, Granted, Reply, Unclear, read_reply


def answer(status: int, content_type: str = "application/json", /, **fields: Any) -> Reply:
    return Reply(status=status, content_type=content_type, body=json.dumps(fields).encode())


def granted(**fields: Any) -> Granted:
    found = read_reply(answer(200, access_token="abc", **fields))
    assert isinstance(found, Granted)
    return found


def test_a_token_with_all_that_is_said_of_it() -> None:
    found = granted(token_type="bearer", refresh_token="r", scope="a b", expires_in=60, other=[1])

    assert found == Granted(access_token="abc", token_type="Bearer", refresh_token="r", scope="a b", expires_in=60)


def test_a_token_of_which_nothing_is_said() -> None:
    assert granted() == Granted(
        access_token="abc", token_type="Bearer", refresh_token=None, scope=None, expires_in=None
    )


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        (3600, 3600.0), ("3600", 3600.0), (0.5, 0.5), (10**30, 315360000.0), ("1e999", 315360000.0),
        (0, None), (-5, None), ("", None), ("soon", None), ("nan", None), (True, None), ([1], None), (None, None), (10**400, None),
    ],
)  # fmt: skip
def test_how_long_it_lives(said: object, seconds: float | None) -> None:
    assert granted(expires_in=said).expires_in == seconds


def test_a_form_is_an_answer_too() -> None:
    body = b"access_token=abc&scope=a+b&expires_in=60&token_type=bearer"

    found = read_reply(Reply(status=200, content_type="application/x-www-form-urlencoded; charset=utf-8", body=body))

    assert found == Granted(access_token="abc", token_type="Bearer", refresh_token=None, scope="a b", expires_in=60)


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (answer(400, error="invalid_grant", error_description="secret"), "invalid_grant"),
        (answer(200, error="bad_refresh_token"), "bad_refresh_token"),
        (answer(401), "invalid_client"),
        (answer(403, error="access_denied"), "access_denied"),
        (answer(400, error="a token: secret-of-mine"), "an error without a proper name"),
        (answer(400, error="\x1b[31m"), "an error without a proper name"),
        (Reply(status=400, content_type="application/x-www-form-urlencoded", body=b"error=invalid_grant"), "invalid_grant"),
    ],
)  # fmt: skip
def test_a_refusal_is_named_without_what_it_may_repeat(reply: Reply, error: str) -> None:
    assert read_reply(reply) == Denied(error)


@pytest.mark.parametrize(
    ("reply", "why", "passing"),
    [
        (answer(500, error="invalid_grant"), "HTTP 500", True),
        (answer(429), "HTTP 429", True),
        (answer(400, error="temporarily_unavailable"), "HTTP 400, temporarily_unavailable", True),
        (answer(400), "HTTP 400", False),
        (answer(404), "HTTP 404", False),
        (answer(307), "HTTP 307", False),
        (answer(200), "HTTP 200 without a token", False),
        (answer(204), "HTTP 204 without a token", False),
        (answer(200, access_token=["abc"]), "HTTP 200 without a token", False),
        (answer(200, access_token=""), "HTTP 200 without a token", False),
        (answer(200, access_token="a b"), "HTTP 200 without a token", False),
        (answer(200, access_token="a\nb"), "HTTP 200 without a token", False),
        (answer(200, access_token="é"), "HTTP 200 without a token", False),
        (answer(200, access_token="abc", token_type="mac"), "HTTP 200 with a token that is no bearer token", False),
        (Reply(status=200, body=b"<html>"), "HTTP 200 without a token", False),
        (Reply(status=200, body=b"[" * 100_000), "HTTP 200 without a token", False),
        (Reply(status=200, body=b"\xff\xfe"), "HTTP 200 without a token", False),
    ],
)  # fmt: skip
def test_what_is_neither(reply: Reply, why: str, passing: bool) -> None:
    assert read_reply(reply) == Unclear(why=why, passing=passing)


def test_when_to_ask_again() -> None:
    assert read_reply(Reply(status=503, retry_after="7")) == Unclear(why="HTTP 503", passing=True, after_seconds=7)
    # A date says nothing that matters for so short a time.
    assert read_reply(Reply(status=503, retry_after="Wed, 21 Oct 2026 07:28:00 GMT")) == Unclear(
        why="HTTP 503", passing=True
    )


def test_nothing_shows_a_token() -> None:
    reply = answer(200, access_token="abcdef", refresh_token="ghijkl")

    assert "abcdef" not in repr(reply) + repr(read_reply(reply))
    assert "ghijkl" not in repr(reply) + repr(read_reply(reply))


@given(
    st.integers(100, 599),
    st.sampled_from(["", "application/json", "application/x-www-form-urlencoded"]),
    st.one_of(
        st.binary(max_size=50),
        st.dictionaries(
            st.sampled_from(["access_token", "token_type", "expires_in", "error", "scope", "refresh_token"]),
            st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=9), st.lists(st.none(), max_size=2)),
        ).map(lambda fields: json.dumps(fields).encode()),
    ),
)  # fmt: skip
def test_whatever_it_is_it_is_one_of_the_three(status: int, content_type: str, body: bytes) -> None:
    found = read_reply(Reply(status=status, content_type=content_type, body=body))

    assert isinstance(found, Granted | Denied | Unclear)
