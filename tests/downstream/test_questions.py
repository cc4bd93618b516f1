"""The questions that are with a client, and which of its lines answers one."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from msgspec import Raw

from mcpd.broker.asking import Question
from mcpd.downstream.questions import Questions


class Client:
    """Who is asked; the connection of these tests is the list of its lines."""

    key, capabilities = "client", None

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.told: list[tuple[Any, Any]] = []
        self.counters: Counter[str] = Counter()
        self.questions = Questions(self.lines.append, self.counters)

    def ask(self) -> Question:
        question = Question(self, "elicitation/create", b"{}", self._settle)  # type: ignore[arg-type]
        self.questions.ask(question)
        return question

    def _settle(self, result: Raw | None, error: Any) -> None:
        self.told.append((None if result is None else bytes(result), error and error.message))


@pytest.mark.parametrize(
    ("members", "told"),
    [
        (b'"result":{"a":1}', (b'{"a":1}', None)),
        (b'"error":{"code":-1,"message":"no"}', (None, "no")),
        (b'"result":{"a":1},"error":null', (b'{"a":1}', None)),
        (b'"result":null,"error":{"code":-1,"message":"no"}', (None, "no")),
    ],
)
def test_an_answer_is_what_is_not_null(members: bytes, told: tuple[Any, Any]) -> None:
    client = Client()
    client.ask()

    assert client.questions.take(b'{"jsonrpc":"2.0","id":"s1",%b}' % members) is True
    assert client.told == [told]


def test_a_question_is_answered_once_and_by_its_own_id() -> None:
    client = Client()
    client.ask(), client.ask()

    taken = [client.questions.take(b'{"id":%b,"result":{}}' % id_) for id_ in (b'"s3"', b"1", b'"s2"', b'"s2"')]

    assert (taken, client.told) == ([True] * 4, [(b"{}", None)])
    assert client.counters == {"late_answers": 3}


@pytest.mark.parametrize("has_open", [False, True])
def test_an_answer_to_no_open_question_is_counted_and_what_is_none_is_not(has_open: bool) -> None:
    client = Client()
    if has_open:
        client.ask()

    taken = [
        client.questions.take(line)
        for line in (b'{"id":"s7","result":{}}', b'{"id":"s8","error":{"code":1,"message":""}}', b'{"id":"s9"}', b"{}")
    ]

    assert (taken, client.counters) == ([True, True, False, False], {"late_answers": 2})
