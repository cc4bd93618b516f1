"""The table of states, and when a lost upstream may start again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.upstream.lifecycle import Event, IllegalTransition, Restarts, State, after, backoff_seconds

# Every way there is, in the words of the socket.
WAYS = {
    ("stopped", "start"): "starting",
    ("stopped", "stop"): "stopped",
    ("starting", "negotiated"): "ready",
    ("starting", "lost"): "backoff",
    ("starting", "give_up"): "failed",
    ("starting", "stop"): "stopping",
    ("ready", "lost"): "backoff",
    ("ready", "give_up"): "failed",
    ("ready", "stop"): "stopping",
    ("ready", "retire"): "stopped",
    ("stopping", "exited"): "stopped",
    ("stopping", "lost"): "stopping",
    ("stopping", "stop"): "stopping",
    ("backoff", "retry"): "starting",
    ("backoff", "rest"): "stopped",
    ("backoff", "give_up"): "failed",
    ("backoff", "stop"): "stopped",
    ("starting", "wants_auth"): "needs_auth",
    ("ready", "wants_auth"): "needs_auth",
    ("needs_auth", "start"): "starting",
    ("needs_auth", "stop"): "stopped",
    ("failed", "start"): "starting",
    ("failed", "stop"): "stopped",
}


@pytest.mark.parametrize("event", Event, ids=lambda event: event.value)
@pytest.mark.parametrize("state", State, ids=lambda state: state.value)
def test_every_event_in_every_state_has_a_way_or_is_a_bug(state: State, event: Event) -> None:
    follows = WAYS.get((state.value, event.value))

    if follows is None:
        with pytest.raises(IllegalTransition, match=f"{event.value} in state {state.value}"):
            after(state, event)
    else:
        assert after(state, event) is State(follows)


# -- back-off ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attempt", "seconds"),
    [(1, 0.1), (2, 0.2), (3, 0.4), (4, 0.8), (5, 1.6), (8, 12.8), (9, 25.6), (10, 30.0), (11, 30.0), (10**6, 30.0)],
)
def test_the_wait_doubles_from_a_tenth_of_a_second_to_half_a_minute(attempt: int, seconds: float) -> None:
    assert backoff_seconds(attempt, 1.0) == pytest.approx(seconds)
    assert backoff_seconds(attempt, 0.0) == pytest.approx(seconds / 2)
    assert backoff_seconds(attempt, 0.5) == pytest.approx(seconds * 3 / 4)


@given(st.integers(1, 10**9), st.floats(0, 1))
def test_the_wait_is_never_nothing_and_never_longer_than_half_a_minute(attempt: int, jitter: float) -> None:
    assert 0.05 <= backoff_seconds(attempt, jitter) <= 30.0


# -- restarts ------------------------------------------------------------------------------------


def fails_at(restarts: Restarts, *times: float, ready_seconds: float | None = None) -> list[float | None]:
    """Spawn and lose it at each of the times; return what was said each time."""
    said = []
    for now in times:
        restarts.spawned(now)
        said.append(restarts.lost(now, ready_seconds, 1.0))
    return said


def test_each_failure_in_a_row_waits_twice_as_long_and_the_fifth_spawn_was_the_last() -> None:
    assert fails_at(Restarts(), 0, 1, 2, 3, 4) == [
        pytest.approx(0.1), pytest.approx(0.2), pytest.approx(0.4), pytest.approx(0.8), None,
    ]  # fmt: skip


def test_after_the_pause_there_are_five_spawns_again_but_the_waits_go_on_growing() -> None:
    restarts = Restarts()
    fails_at(restarts, 0, 1, 2, 3, 4)

    assert fails_at(restarts, 34, 35, 36, 37, 38) == [
        pytest.approx(3.2), pytest.approx(6.4), pytest.approx(12.8), pytest.approx(25.6), None,
    ]  # fmt: skip


def test_spawns_are_counted_over_thirty_seconds() -> None:
    assert None not in fails_at(Restarts(), 0, 7.5, 15, 22.5, 30, 37.5, 45, 52.5)
    assert fails_at(Restarts(), 0, 7.4, 14.8, 22.2, 29.6)[-1] is None


def test_spawns_that_were_not_lost_count_too() -> None:
    restarts = Restarts()
    for now in range(4):
        restarts.spawned(now)

    assert fails_at(restarts, 5) == [None]


@pytest.mark.parametrize(
    ("ready_seconds", "waits"),
    [(None, 1.6), (0.0, 1.6), (9.99, 1.6), (10.0, 0.1), (3600.0, 0.1)],
)
def test_ten_seconds_of_being_ready_forgive_what_was_before(ready_seconds: float | None, waits: float) -> None:
    restarts = Restarts()
    fails_at(restarts, 0, 10, 20, 30)

    restarts.spawned(40)

    assert restarts.lost(50, ready_seconds, 1.0) == pytest.approx(waits)


def test_a_run_that_is_forgiven_does_not_count_against_the_budget() -> None:
    restarts = Restarts()

    said = fails_at(restarts, *range(20), ready_seconds=10.0)

    assert said == [pytest.approx(0.1)] * 20


def test_forgiving_forgets_waits_and_spawns() -> None:
    restarts = Restarts()
    fails_at(restarts, 0, 1, 2, 3)

    restarts.forgive()

    assert fails_at(restarts, 4, 5, 6, 7, 8) == [
        pytest.approx(0.1), pytest.approx(0.2), pytest.approx(0.4), pytest.approx(0.8), None,
    ]  # fmt: skip
