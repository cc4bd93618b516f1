from __future__ import annotations

import pytest

from mcpd.signin.answer import MAX_QUERY_CHARS, Answer, read_pasted, read_query

GOOD = Answer(state="s", code="c")


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("code=c&state=s", GOOD),
        ("code=c&state=s&other=1&other=2", GOOD),
        ("code=a%2Bb+c&state=s&iss=https%3A%2F%2Fid", Answer(state="s", code="a+b c", iss="https://id")),
        (
            "error=access_denied&error_description=no&state=s",
            Answer(state="s", error="access_denied", error_description="no"),
        ),
        ("code=c", None),
        ("state=s", None),
        ("code=&state=s", None),
        ("code=c&state=", None),
        ("code=c&code=d&state=s", None),
        ("code=c&state=s&state=t", None),
        ("code=c&state=s&iss=a&iss=b", None),
        ("", None),
        ("&&&==", None),
        (f"code={'c' * MAX_QUERY_CHARS}&state=s", None),
    ],
)
def test_an_answer_has_a_state_and_a_code_or_an_error_each_once(query: str, answer: Answer | None) -> None:
    assert read_query(query) == answer


@pytest.mark.parametrize(
    "text",
    [
        "http://127.0.0.1:5/callback?code=c&state=s",
        "  'http://127.0.0.1:5/callback?code=c&state=s#_=_'\r",
        "<http://127.0.0.1:5/callback?code=c&state=s>",
        "code=c&state=s",
        "?code=c&state=s",
    ],
)
def test_what_a_user_has_copied_is_read(text: str) -> None:
    assert read_pasted(text) == GOOD


@pytest.mark.parametrize("text", ["", "y", "http://[", "http://127.0.0.1:5/callback"])
def test_what_is_no_answer_is_none(text: str) -> None:
    assert read_pasted(text) is None


def test_an_answer_is_for_one_request() -> None:
    assert GOOD.is_for("s")
    assert not any(GOOD.is_for(state) for state in ("t", "", "é", None))


def test_no_code_is_shown() -> None:
    assert "'c'" not in repr(GOOD)
