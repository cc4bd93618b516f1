"""The store of remainders: capabilities that expire, in bounded memory."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mcpd.broker.results import ENTRY_BYTES, ResultStore
from mcpd.errors import HandleExpired
from mcpd.protocol.bounding import Whole


def whole(size: int) -> Whole:
    return Whole(segments=[], ends=[], rest={}, bytes=size, held_bytes=size)


def why_not(store: ResultStore, handle: str, *, owner: object = None, now: float = 0.0) -> str:
    with pytest.raises(HandleExpired) as caught:
        store.get(handle, owner, now)
    return caught.value.message


def test_a_result_is_fetched_as_often_as_wanted() -> None:
    store, result = ResultStore(), whole(10)

    handle = store.put(result, None, 0.0, "abc")

    assert store.get(handle, None, 1.0)[0] is result
    assert store.get(handle, "anybody", 599.9)[0] is result


def test_a_handle_is_safe_as_an_argument_of_a_command() -> None:
    assert ResultStore().put(whole(1), None, 0.0, "-abc") == "r-abc"


def test_a_handle_lives_ten_minutes_from_its_filing() -> None:
    store = ResultStore()
    handle = store.put(whole(10), None, 100.0, "abc")
    store.get(handle, None, 699.0)

    assert "handles live 10 minutes" in why_not(store, handle, now=700.0)


def test_the_error_names_the_life_that_was_configured() -> None:
    assert "handles live 5 seconds" in why_not(ResultStore(keep_seconds=5), "r1")


def test_an_owner_has_its_results_for_itself_and_others_learn_nothing() -> None:
    store = ResultStore()
    handle = store.put(whole(10), "alice", 0.0, "abc")

    assert store.get(handle, "alice", 0.0)[0].bytes == 10
    assert why_not(store, handle, owner="bob") == why_not(store, handle, owner=None) == why_not(store, "rnothing")


def test_what_an_owner_has_goes_with_the_owner() -> None:
    store = ResultStore()
    hers, his, anybodys = (store.put(whole(10), owner, 0.0, f"{owner}") for owner in ("alice", "bob", None))

    store.forget("alice")
    store.forget(None)

    why_not(store, hers, owner="alice")
    assert store.get(his, "bob", 0.0)[0].bytes == 10
    assert store.get(anybodys, "alice", 0.0)[0].bytes == 10
    assert store.held_bytes == 2 * (10 + ENTRY_BYTES)


def test_the_oldest_goes_first_when_room_is_short() -> None:
    store = ResultStore(max_bytes=3 * (100 + ENTRY_BYTES))
    handles = [store.put(whole(100), None, float(n), str(n)) for n in range(4)]

    assert store.dropped == 1
    assert "handles live" in why_not(store, handles[0], now=4.0)
    assert [store.get(handle, None, 4.0)[0].bytes for handle in handles[1:]] == [100, 100, 100]


def test_a_result_larger_than_the_store_does_not_drive_out_the_others() -> None:
    store = ResultStore(max_bytes=10_000)
    small = store.put(whole(100), None, 0.0, "small")

    large = store.put(whole(10_000), None, 0.0, "large")

    assert store.get(small, None, 0.0)[0].bytes == 100
    why_not(store, large)
    assert store.dropped == 1


def test_what_is_too_old_gives_its_room_back() -> None:
    store = ResultStore(keep_seconds=10)
    store.put(whole(100), None, 0.0, "a")
    store.put(whole(100), None, 5.0, "b")

    store.expire(10.0)

    assert (len(store), store.held_bytes, store.dropped) == (1, 100 + ENTRY_BYTES, 0)


def test_filing_drops_what_is_too_old_first() -> None:
    store = ResultStore(max_bytes=2 * (100 + ENTRY_BYTES), keep_seconds=10)
    store.put(whole(100), None, 0.0, "a")
    young = store.put(whole(100), None, 5.0, "b")

    store.put(whole(100), None, 10.0, "c")

    assert store.get(young, None, 10.0)[0].bytes == 100
    assert store.dropped == 0


def test_a_token_used_twice_counts_once() -> None:
    store = ResultStore()
    store.put(whole(100), None, 0.0, "a")

    handle = store.put(whole(200), None, 0.0, "a")

    assert store.get(handle, None, 0.0)[0].bytes == 200
    assert (len(store), store.held_bytes) == (1, 200 + ENTRY_BYTES)


class AgainstAList(RuleBasedStateMachine):
    """The store does what a list of all that was ever filed says it should."""

    MAX_BYTES, KEEP_SECONDS = 10 * ENTRY_BYTES, 20

    def __init__(self) -> None:
        super().__init__()
        self.store = ResultStore(self.MAX_BYTES, self.KEEP_SECONDS)
        self.now = 0
        self.filed: list[tuple[str, object, int, Whole]] = []
        self.count = 0

    @rule(size=st.integers(0, 12 * ENTRY_BYTES), owner=st.sampled_from([None, "a", "b"]))
    def put(self, size: int, owner: object) -> None:
        self.count += 1
        result = whole(size)
        handle = self.store.put(result, owner, self.now, str(self.count))
        self.advance(0)
        if size + ENTRY_BYTES <= self.MAX_BYTES:
            self.filed.append((handle, owner, self.now, result))
        while self.cost() > self.MAX_BYTES:
            del self.filed[0]

    @rule(seconds=st.integers(0, 15))
    def advance(self, seconds: int) -> None:
        self.now += seconds
        self.filed = [each for each in self.filed if self.now - each[2] < self.KEEP_SECONDS]

    @rule(owner=st.sampled_from([None, "a", "b"]))
    def forget(self, owner: object) -> None:
        self.store.forget(owner)
        self.filed = [each for each in self.filed if owner is None or each[1] != owner]

    @invariant()
    def the_same_is_there(self) -> None:
        kept = {handle: (owner, result) for handle, owner, _, result in self.filed}
        for number in range(1, self.count + 1):
            for asking in (None, "a", "b"):
                owner, result = kept.get(f"r{number}", ("nobody", None))
                if owner in (None, asking):
                    assert self.store.get(f"r{number}", asking, self.now)[0] is result
                else:
                    why_not(self.store, f"r{number}", owner=asking, now=self.now)

    @invariant()
    def the_room_is_counted_right(self) -> None:
        self.store.expire(self.now)
        assert self.store.held_bytes == self.cost() <= self.MAX_BYTES
        assert len(self.store) == len(self.filed)

    def cost(self) -> int:
        return sum(result.held_bytes + ENTRY_BYTES for *_, result in self.filed)


TestAgainstAList = AgainstAList.TestCase


def test_a_handle_remembers_where_its_reader_goes_on():
    store = ResultStore()
    handle = store.put(Whole([], [], {}, 0, 0), None, 0.0, "abc", 7)

    store.turn(handle, 9)
    store.turn("rnobody", 3)

    assert store.get(handle, None, 1.0)[1] == 9
