"""The judge reads notes and finds what must not be in them."""

import random
from collections.abc import Sequence
from itertools import islice

import pytest

from tests.chaos.faults import CLASSES, steps
from tests.chaos.judge import Ledger, judge, of_log, of_size, read_journal, read_ledger
from tests.chaos.run import Settings, chapters

SENT, LEFT = "sent 1-1 plain0 echo", "left"
DONE = 'told 1-1 done - 2.5 1-1 ""'
LOST = 'told 1-1 server_lost yes 2.5 - "server ended"'
REFUSED = 'told 1-1 server_unavailable no 2.5 - "not started"'
RAN = ("begin 1-1 0.1 77", "end 1-1 0.2 77")


def kinds(journal: Sequence[str], ledger: Sequence[str] = RAN, more: Sequence[str] = ()) -> list[str]:
    noted = Ledger()
    read_ledger("plain0", ledger, noted)
    read_ledger("deaf2", more, noted)
    return [one.kind for one in judge({"1": read_journal(journal)}, noted)]


@pytest.mark.parametrize(
    ("journal", "ledger"),
    [
        ((SENT, DONE, LEFT), RAN),
        ((SENT, LOST, LEFT), RAN),
        ((SENT, LOST, LEFT), ()),
        ((SENT, REFUSED, LEFT), ()),
        ((SENT,), RAN),
        ((SENT, DONE), RAN),
    ],
    ids=["done", "lost and ran", "lost and did not run", "refused", "killed while waiting", "killed after the answer"],
)
def test_what_keeps_the_promises_is_no_violation(journal: Sequence[str], ledger: Sequence[str]) -> None:
    assert kinds(journal, ledger) == []


def test_a_call_of_a_client_that_has_left_in_order_must_have_an_outcome() -> None:
    assert kinds((SENT, LEFT)) == ["unanswered"]


def test_a_call_has_one_outcome_only() -> None:
    assert kinds((SENT, DONE, LOST, LEFT)) == ["answered_twice"]


def test_a_token_is_executed_once_by_all_servers_together() -> None:
    assert kinds((SENT, DONE, LEFT), more=("begin 1-1 0.3 78",)) == ["executed_twice"]


def test_an_answer_bears_the_token_of_its_request() -> None:
    assert kinds((SENT, DONE.replace(" 1-1 \"", " 1-2 \""), LEFT)) == ["wrong_token"]


def test_what_is_answered_has_been_executed() -> None:
    assert kinds((SENT, DONE, LEFT), ()) == ["not_executed"]


def test_what_is_said_not_to_have_run_has_not() -> None:
    assert kinds((SENT, REFUSED, LEFT)) == ["did_run"]


def test_what_nobody_sent_is_not_executed() -> None:
    assert kinds((LEFT,)) == ["never_sent"]


def test_an_answer_that_nobody_waits_for_is_a_stray() -> None:
    assert kinds((SENT, DONE, "stray {}", LEFT)) == ["stray"]


@pytest.mark.parametrize("outcome", ["no_answer", "internal", "daemon_protocol", "unreadable"])
def test_silence_and_nonsense_are_no_outcomes(outcome: str) -> None:
    assert kinds((SENT, f'told 1-1 {outcome} - 2.5 - ""', LEFT)) == [outcome]


def test_a_daemon_that_logs_a_bug_is_seen() -> None:
    text = 'fine\nTraceback (most recent call last):\n  File "x"\nOSError: y\n{"level":"error","event":"connection.crashed"}'

    assert [one.detail.splitlines()[-1] for one in of_log(text)] == ["  OSError: y", '{"level":"error","event":"connection.crashed"}']


def test_a_daemon_may_have_grown_by_a_tenth_or_by_the_allowance() -> None:
    assert of_size("fds", 12, 14, 2) == []
    assert of_size("fds", 100, 110, 2) == []
    assert [one.kind for one in of_size("fds", 12, 15, 2)] == ["fds"]


def test_a_seed_decides_the_sequence_and_every_class_comes_as_often() -> None:
    found = list(islice(steps("7", CLASSES), 3 * len(CLASSES)))

    assert found == list(islice(steps("7", CLASSES), 3 * len(CLASSES)))
    assert found != list(islice(steps("8", CLASSES), 3 * len(CLASSES)))
    assert sorted(step.fault for step in found) == sorted(3 * CLASSES)


@pytest.mark.parametrize("seconds", [1.0, 8.0, 60.0, random.Random(1).uniform(60, 600)])
def test_chapters_last_as_long_as_was_asked_and_the_last_one_leaves_the_daemon_alone(seconds: float) -> None:
    found = list(chapters(Settings(seconds=seconds)))

    assert sum(length for length, _ in found) == pytest.approx(seconds)
    assert found[0][1] == CLASSES
    assert "daemon_kill" not in found[-1][1]
