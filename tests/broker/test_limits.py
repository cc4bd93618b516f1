"""Who may send now: never more than there are places, nobody starved, nothing lost."""

from __future__ import annotations

from collections import Counter, deque

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mcpd.broker.limits import PER_CLIENT, QUEUED_PER_CLIENT, Admission


def queue_up(places: Admission[str], *calls: str) -> list[bool | None]:
    """Ask for a place for each call; its first letter is the client."""
    return [places.admit(call[0], call) for call in calls]


def served(places: Admission[str], *clients: str) -> list[str | None]:
    """Give back a place of each client; return who got it each time."""
    return [places.release(client) for client in clients]


def test_who_finds_a_place_free_has_it() -> None:
    places: Admission[str] = Admission(2)

    assert queue_up(places, "a1", "b1", "c1") == [True, True, False]
    assert (places.running, places.queued) == (2, 1)


def test_a_place_that_is_given_back_goes_to_who_waits() -> None:
    places: Admission[str] = Admission(1)
    queue_up(places, "a1", "b1", "c1")

    assert served(places, "a", "b", "c") == ["b1", "c1", None]
    assert (places.running, places.queued) == (0, 0)


def test_a_client_has_its_share_and_not_more() -> None:
    places: Admission[str] = Admission(10, per_client=2)

    assert queue_up(places, "a1", "a2", "a3", "b1") == [True, True, False, True]
    assert served(places, "b") == [None]
    assert served(places, "a") == ["a3"]


def test_the_calls_of_a_client_are_served_in_their_order() -> None:
    places: Admission[str] = Admission(1)
    queue_up(places, "a0", "a1", "a2", "a3")

    assert served(places, *"aaaa") == ["a1", "a2", "a3", None]


def test_the_clients_take_turns() -> None:
    places: Admission[str] = Admission(1)
    queue_up(places, "a0", "a1", "a2", "a3", "b1", "b2", "c1")

    assert served(places, *"aabcaba") == ["a1", "b1", "c1", "a2", "b2", "a3", None]


def test_a_client_with_a_long_queue_lets_a_newcomer_in_next() -> None:
    places: Admission[str] = Admission(2, per_client=2)
    queue_up(places, *[f"a{number}" for number in range(100)])

    queue_up(places, "b1")

    assert "b1" in served(places, "a", "a")


def test_who_is_at_its_share_is_passed_over_without_losing_its_calls() -> None:
    places: Admission[str] = Admission(2, per_client=1)
    queue_up(places, "a0", "b0", "a1", "c1")

    assert served(places, "b", "a", "c") == ["c1", "a1", None]


def test_by_default_a_client_has_sixteen_places_and_256_calls_may_wait_for_them() -> None:
    places: Admission[str] = Admission(64)

    answers = queue_up(places, *[f"a{number}" for number in range(PER_CLIENT + QUEUED_PER_CLIENT + 2)])

    assert answers == [True] * 16 + [False] * 256 + [None] * 2
    assert (places.running, places.queued) == (16, 256)
    assert queue_up(places, "b1") == [True]


def test_a_queue_that_was_full_takes_calls_again_when_one_was_served() -> None:
    places: Admission[str] = Admission(1, 1, 1)
    assert queue_up(places, "a0", "a1", "a2") == [True, False, None]

    served(places, "a")

    assert queue_up(places, "a3") == [False]


def test_who_leaves_the_queue_is_not_served() -> None:
    places: Admission[str] = Admission(1)
    queue_up(places, "a0", "a1", "b1", "b2")

    assert places.leave("b", "b1") is True

    assert places.queued == 2
    assert served(places, *"aab") == ["a1", "b2", None]


def test_who_is_not_in_the_queue_cannot_leave_it() -> None:
    places: Admission[str] = Admission(1)
    queue_up(places, "a0", "b1")

    assert places.leave("a", "a0") is False
    assert places.leave("b", "b9") is False
    assert places.leave("c", "c1") is False
    assert (places.running, places.queued) == (1, 1)


def test_nobody_waits_for_the_lane_of_a_client_that_may_not_go() -> None:
    paused: set[str] = set()
    places: Admission[str] = Admission(4, paused=paused)
    assert places.admit("a", "a1") is True
    assert places.admit("b", "b1", exclusive=True) is False
    paused.add("b")

    assert places.admit("c", "c1") is True
    assert served(places, "a", "c") == [None, None]

    paused.clear()
    assert places.next() == "b1"


class AgainstTheRules(RuleBasedStateMachine):
    """Whatever is asked, left and given back: the rules hold, and every call is in one place."""

    PLACES, PER_CLIENT, QUEUED = 4, 2, 3

    def __init__(self) -> None:
        super().__init__()
        self.admission: Admission[tuple[str, int]] = Admission(self.PLACES, self.PER_CLIENT, self.QUEUED)
        self.number = 0
        self.inside: list[tuple[str, int]] = []
        self.waiting: dict[str, deque[tuple[str, int]]] = {client: deque() for client in "abcd"}
        # How many others were served since a client that could have had a place last was.
        self.passed_over: Counter[str] = Counter()

    def taken(self, client: str) -> int:
        return sum(1 for one, _ in self.inside if one == client)

    def served(self, item: tuple[str, int] | None) -> None:
        """Check who got a place that was given back."""
        eligible = {c for c, queue in self.waiting.items() if queue and self.taken(c) < self.PER_CLIENT}
        if item is None:
            assert not eligible
            return
        client = item[0]
        assert client in eligible
        assert item == self.waiting[client].popleft()
        self.inside.append(item)
        self.passed_over = Counter({c: self.passed_over[c] + 1 for c in eligible - {client}})
        assert all(count < len(self.waiting) for count in self.passed_over.values())

    @rule(client=st.sampled_from("abcd"))
    def admit(self, client: str) -> None:
        self.number += 1
        item = (client, self.number)

        answer = self.admission.admit(client, item)

        if answer is True:
            assert len(self.inside) < self.PLACES
            assert self.taken(client) < self.PER_CLIENT
            self.inside.append(item)
        elif answer is False:
            assert len(self.inside) == self.PLACES or self.taken(client) == self.PER_CLIENT
            self.waiting[client].append(item)
        else:
            assert self.taken(client) + len(self.waiting[client]) == self.PER_CLIENT + self.QUEUED

    @precondition(lambda self: self.inside)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        item = data.draw(st.sampled_from(self.inside))
        self.inside.remove(item)

        self.served(self.admission.release(item[0]))

    @precondition(lambda self: any(self.waiting.values()))
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        item = data.draw(st.sampled_from([one for queue in self.waiting.values() for one in queue]))
        self.waiting[item[0]].remove(item)
        if not self.waiting[item[0]]:
            del self.passed_over[item[0]]  # who queues anew stands behind the others

        assert self.admission.leave(item[0], item)

    @invariant()
    def the_counts_are_right(self) -> None:
        assert self.admission.running == len(self.inside) <= self.PLACES
        assert self.admission.queued == sum(map(len, self.waiting.values()))
        assert all(self.taken(client) <= self.PER_CLIENT for client in self.waiting)

    @invariant()
    def nobody_waits_for_a_place_that_is_free(self) -> None:
        if len(self.inside) < self.PLACES:
            assert all(not queue or self.taken(c) == self.PER_CLIENT for c, queue in self.waiting.items())

    def teardown(self) -> None:
        while self.inside:
            self.served(self.admission.release(self.inside.pop(0)[0]))
        assert not any(self.waiting.values())


TestAgainstTheRules = AgainstTheRules.TestCase
