"""A run of the suite is judged by what it has shown."""

from __future__ import annotations

import pytest

from tests.conformance.verdict import Check, expectations, judge, judge_client, listed, required

GOOD, BAD = Check("a", "SUCCESS"), Check("b", "FAILURE", "no")


def test_a_run_in_which_all_has_passed_is_good() -> None:
    verdict = judge(["one", "two"], {"one": [GOOD], "two": [GOOD, Check("c", "INFO")], "three": [BAD]}, {})
    assert (verdict.passed, verdict.of, verdict.complaints) == (2, 2, [])


@pytest.mark.parametrize("status", ["FAILURE", "WARNING", "SKIPPED"])
def test_what_failed_or_was_not_tried_is_a_complaint(status: str) -> None:
    verdict = judge(["one"], {"one": [GOOD, Check("b", status, "why")]}, {})
    assert (verdict.passed, verdict.complaints) == (0, [f"one:b: {status} why"])


@pytest.mark.parametrize("checks", [[], [Check("c", "INFO")]])
def test_a_scenario_that_has_shown_nothing_is_a_complaint(checks: list[Check]) -> None:
    verdict = judge(["one"], {"one": checks}, {})
    assert (verdict.passed, verdict.complaints) == (0, ["one: it has shown nothing"])


def test_a_scenario_that_was_not_run_is_a_complaint() -> None:
    assert judge(["one"], {}, {}).complaints == ["one: it has shown nothing"]


def test_a_failure_that_is_expected_is_none_and_does_not_count_as_passed() -> None:
    verdict = judge(["one"], {"one": [GOOD, BAD]}, {"one:b": "it cannot"})
    assert (verdict.passed, verdict.expected, verdict.complaints) == (0, 1, [])


def test_an_expected_failure_excuses_no_other_one() -> None:
    verdict = judge(["one"], {"one": [BAD, Check("c", "FAILURE", "too")]}, {"one:b": "it cannot"})
    assert verdict.complaints == ["one:c: FAILURE too"]


def test_an_expected_failure_that_does_not_come_is_a_complaint() -> None:
    assert judge(["one"], {"one": [GOOD]}, {"one:b": "it cannot"}).complaints == [
        "one:b: was expected to fail (it cannot)"
    ]


def test_the_names_are_those_that_are_required_of_servers() -> None:
    text = "# head\nserver:\n  - one\n  # why\n  - two/three\n\nclient:\n  - four\nnot_scored:\n  - scenario: five\n"
    assert required(text) == ["one", "two/three"]


def test_each_expected_failure_has_a_reason() -> None:
    assert expectations("server:\n  - one:b-c  # it cannot\n") == {"one:b-c": "it cannot"}
    for line in ("  - one:b-c", "  - one  # it cannot"):
        with pytest.raises(ValueError, match="why"):
            expectations(line)


def test_a_client_has_to_do_something_and_all_that_it_does_has_to_be_right() -> None:
    assert judge_client("one", 0, [GOOD, Check("c", "SKIPPED"), Check("d", "INFO")]) == []
    assert judge_client("one", 0, [GOOD, Check("c", "WARNING", "hm")]) == ["c: WARNING hm"]
    assert judge_client("one", 1, [GOOD, BAD]) == ["b: FAILURE no", "the suite's exit code is 1"]


@pytest.mark.parametrize("checks", [[], [Check("c", "SKIPPED"), Check("d", "INFO")]])
def test_a_client_that_did_nothing_has_not_passed(checks: list[Check]) -> None:
    assert judge_client("initialize", 0, checks) == ["it has shown 0 things, 1 are asked for"]


def test_where_much_can_be_left_out_more_is_asked_for() -> None:
    assert judge_client("http-standard-headers", 0, [GOOD]) == ["it has shown 1 things, 9 are asked for"]


def test_a_scenario_that_is_listed_says_what_it_is_for() -> None:
    text = "Client scenarios:\n  - one [2025-06-18,2026-07-28]\n  - auth/two [extension]\n\nother\n"
    assert listed(text) == {"one": ["2025-06-18", "2026-07-28"], "auth/two": ["extension"]}
