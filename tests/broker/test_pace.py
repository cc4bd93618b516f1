"""The pauses between the refetches of a list."""

from __future__ import annotations

from mcpd.broker.pace import Pace


def test_the_first_one_is_at_once() -> None:
    assert Pace().left(0.0) == 0


def test_then_it_is_four_times_a_second_while_something_changes() -> None:
    pace = Pace()
    for number in range(100):
        assert pace.left(number / 4) == 0
        pace.began(number / 4)
        pace.ended(different=True)
        assert pace.left(number / 4) == 0.25


def test_while_nothing_changes_the_pause_doubles_up_to_two_seconds() -> None:
    pace, now, pauses = Pace(), 0.0, []
    for _ in range(6):
        pace.began(now)
        pace.ended(different=False)
        pauses.append(pace.left(now))
        now += pauses[-1]

    assert pauses == [0.5, 1, 2, 2, 2, 2]


def test_a_difference_or_a_time_of_quiet_makes_it_quick_again() -> None:
    pace = Pace()
    for now in (0.0, 0.5, 1.5, 3.5):
        pace.began(now)
        pace.ended(different=False)
    pace.began(10.0)
    assert pace.left(10.0) == 0.25

    pace.ended(different=False)
    pace.began(10.5)
    pace.ended(different=True)
    assert pace.left(10.5) == 0.25
