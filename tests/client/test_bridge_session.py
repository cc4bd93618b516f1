from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd_client.bridge import lines
from mcpd_client.bridge.answers import Failure
from mcpd_client.bridge.session import PATIENCE_SECONDS, Session
from tests.client.bridging import INITIALIZE, notification, request

NOW = 1000.0


def line_of(message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"


def read(messages: list[bytes]) -> list[Any]:
    return [json.loads(message) for message in messages]


class Talk:
    """A session, and what it has sent."""

    def __init__(self) -> None:
        self.session = Session("x", "1")

    def say(self, *messages: object, is_reachable: bool = True) -> None:
        for message in messages:
            self.session.from_host(line_of(message), NOW, is_reachable=is_reachable)

    def sent(self, size: int | None = None) -> list[Any]:
        """Let the daemon take `size` bytes, or all."""
        data = b""
        while (parts := self.session.parts()) and (size is None or len(data) < size):
            taken = b"".join(parts)[: None if size is None else size - len(data)]
            self.session.sent(len(taken))
            data += taken
        return [json.loads(line) for line in data.split(b"\n") if size is None and line]

    def hear(self, message: object) -> Any:
        passed = self.session.from_daemon(line_of(message))
        return None if passed is None else json.loads(passed)

    def resume(self) -> list[Any]:
        self.session.resume()
        return self.sent()


@pytest.fixture
def talk() -> Talk:
    return Talk()


def result(request_id: object, **members: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": request_id, "result": members}


@pytest.mark.parametrize("size", [1, 40, 100])
def test_a_line_counts_as_sent_when_all_of_it_is(talk: Talk, size: int) -> None:
    talk.say(request(1, "tools/call"), request(2, "tools/call"))
    first = len(talk.session.queue[0].line)
    talk.sent(first + size if size < 40 else first - 1)

    errors = read(talk.session.lost())

    assert [error["id"] for error in errors] == ([1] if size < 40 else [])
    assert [message["id"] for message in talk.resume()] == ([2] if size < 40 else [1, 2])


def test_all_that_waits_is_sent_in_order_and_nothing_is_kept(talk: Talk) -> None:
    talk.say(*(notification("x", n=n) for n in range(1000)))

    assert [message["params"]["n"] for message in talk.sent()] == [*range(1000)]
    assert talk.session.queued_bytes == 0


def test_a_request_that_is_cancelled_before_it_was_sent_never_is(talk: Talk) -> None:
    talk.say(request(1, "a"), request(2, "b"), notification("notifications/cancelled", requestId=2))

    assert [message["method"] for message in talk.sent()] == ["a"]


def test_a_request_that_is_cancelled_while_it_is_sent_is_finished_first(talk: Talk) -> None:
    talk.say(request(1, "tools/call"))
    talk.sent(5)
    talk.say(notification("notifications/cancelled", requestId=1))

    assert [entry.method for entry in talk.session.queue] == ["tools/call", "notifications/cancelled"]
    assert talk.session.lost() == []
    assert talk.resume() == []


def test_only_what_the_daemon_agreed_to_is_said_again(talk: Talk) -> None:
    talk.say(request(1, "initialize", **INITIALIZE), request(2, "logging/setLevel", level="x"))
    talk.sent()
    talk.hear(result(1))
    talk.hear({"jsonrpc": "2.0", "id": 2, "error": {"code": -32602, "message": "no"}})
    talk.session.lost()

    assert [message["method"] for message in talk.resume()] == ["initialize"]


def test_a_handshake_that_came_in_one_piece_is_replayed_whole(talk: Talk) -> None:
    talk.say(request(1, "initialize", **INITIALIZE), notification("notifications/initialized"))
    talk.sent()
    talk.hear(result(1))
    talk.session.lost()

    assert [message["method"] for message in talk.resume()] == ["initialize", "notifications/initialized"]


def test_a_handshake_that_was_not_answered_is_sent_again_as_it_was(talk: Talk) -> None:
    talk.say(request(1, "initialize", **INITIALIZE))
    talk.sent()
    talk.session.lost()

    assert talk.resume() == [request(1, "initialize", **INITIALIZE)]
    assert talk.hear(result(1)) == result(1)


def test_a_handshake_that_came_in_one_piece_and_was_not_answered_is_sent_again_whole(talk: Talk) -> None:
    talk.say(request(1, "initialize", **INITIALIZE), notification("notifications/initialized"), request(2, "ping"))
    talk.sent()

    for _ in range(2):
        talk.session.lost()
        assert [message["method"] for message in talk.resume()] == ["initialize", "notifications/initialized", "ping"]


def test_the_second_of_two_handshakes_is_the_one_that_holds(talk: Talk) -> None:
    for number, level in ((1, "2024-11-05"), (2, "2025-06-18")):
        talk.say(request(number, "initialize", protocolVersion=level), notification("notifications/initialized"))
        talk.sent()
        talk.hear(result(number))
    talk.session.lost()

    assert [message.get("params") for message in talk.resume()] == [{"protocolVersion": "2025-06-18"}, None]


def test_initialized_is_not_said_twice(talk: Talk) -> None:
    talk.say(request(1, "initialize", **INITIALIZE))
    assert "result" in read(talk.session.overdue(NOW + PATIENCE_SECONDS))[0]
    talk.say(notification("notifications/initialized"))

    assert [message["method"] for message in talk.resume()] == ["initialize", "notifications/initialized"]


def test_the_same_loss_twice_is_replayed_twice(talk: Talk) -> None:
    talk.say(request(1, "initialize", **INITIALIZE), request(2, "tools/list"))
    talk.sent()
    talk.hear(result(1))
    for _ in range(2):
        assert talk.session.lost() == []
        own, again = talk.resume()
        assert (own["method"], again["id"]) == ("initialize", 2)
    assert talk.hear(result(own["id"])) is None
    assert talk.hear(result(2)) == result(2)


def test_a_request_is_offered_to_three_daemons_and_then_given_up(talk: Talk) -> None:
    talk.say(request(1, "tools/list"))
    talk.sent()
    told = [talk.session.lost() or talk.resume() for _ in range(3)]

    assert json.loads(told[2][0])["error"]["code"] == 11
    assert not talk.session.is_waiting


def test_a_large_request_is_not_kept_for_a_second_time(talk: Talk) -> None:
    talk.say(request(1, "tools/list", text="x" * 100_000))
    talk.sent()

    assert read(talk.session.lost())[0]["error"]["code"] == 11


def test_a_request_is_not_repeated_if_its_method_is_not_certain(talk: Talk) -> None:
    line = line_of(request(1, "tools/list", x="x" * lines.WHOLE_BYTES)).replace(b"}}", b'},"method":"tools/call"}')
    talk.session.from_host(line, NOW, is_reachable=True)
    talk.sent()

    assert read(talk.session.lost())[0]["error"]["data"]["may_have_run"] is True
    assert talk.resume() == []


def test_a_subscription_that_has_ended_is_not_opened_again(talk: Talk) -> None:
    for number in (1, 2, 3, 4):
        talk.say(request(number, "subscriptions/listen"))
    talk.sent()
    talk.hear(notification("notifications/cancelled", requestId=1))
    talk.hear(result(2))
    talk.say(notification("notifications/cancelled", requestId=3))
    talk.sent()

    assert talk.session.lost() == []
    assert [message["id"] for message in talk.resume()] == [4]


def test_a_subscription_alone_is_no_reason_to_start_a_daemon_nor_to_stay(talk: Talk) -> None:
    talk.say(request(1, "subscriptions/listen"))
    assert not talk.session.wants_daemon
    talk.sent()
    assert not talk.session.is_waiting
    talk.say(request(2, "x"))
    assert talk.session.wants_daemon


def test_the_daemon_cannot_withdraw_a_call_by_the_name_of_its_question(talk: Talk) -> None:
    talk.say(request("s1", "tools/call"))
    talk.sent()
    talk.hear(request("s1", "ping"))
    talk.hear(notification("notifications/cancelled", requestId="s1"))
    talk.hear(notification("notifications/cancelled", requestId="s1"))

    assert [error["id"] for error in read(talk.session.lost())] == ["s1"]


@pytest.mark.parametrize(
    ("asked", "answered"), [("2024-11-05", "2024-11-05"), ("1999-01-01", "2025-11-25"), (5, "2025-11-25")]
)
def test_the_stand_in_speaks_the_revision_of_the_host(talk: Talk, asked: object, answered: str) -> None:
    talk.say(request(1, "initialize", protocolVersion=asked))

    (told,) = read(talk.session.fail(Failure("no")))

    assert told["result"]["protocolVersion"] == answered
    assert talk.session.resumed


def test_what_waits_for_too_long_is_answered_where_that_needs_no_daemon(talk: Talk) -> None:
    talk.say(request(1, "initialize"), request(2, "tools/call"), request(3, "ping"))
    assert talk.session.next_overdue() == NOW + PATIENCE_SECONDS
    assert talk.session.overdue(NOW + PATIENCE_SECONDS - 0.1) == []

    assert [told["id"] for told in read(talk.session.overdue(NOW + PATIENCE_SECONDS))] == [1, 3]
    assert talk.session.next_overdue() is None
    assert talk.session.wants_daemon


@pytest.mark.parametrize("method", ["initialize", "ping", "server/discover", "subscriptions/listen"])
def test_a_notification_with_the_name_of_a_request_is_none(talk: Talk, method: str) -> None:
    talk.say(notification(method))

    assert talk.session.next_overdue() is None
    assert talk.session.overdue(NOW + PATIENCE_SECONDS) == []
    assert talk.session.fail(Failure("no")) == []
    assert not talk.session.queue


def test_without_a_daemon_only_what_wants_an_answer_is_kept(talk: Talk) -> None:
    talk.say(
        notification("x"), 5, [notification("y")], result("s1"), request(1, "a"), [request(2, "b")], is_reachable=False
    )

    assert [entry.ids for entry in talk.session.queue] == [(1,), [2]]
    assert [told["id"] for told in read(talk.session.fail(Failure("no")))] == [1, 2]


def test_answers_to_nothing_are_passed_on_to_the_host_but_not_to_the_daemon(talk: Talk) -> None:
    assert talk.hear({"jsonrpc": "2.0", "id": None, "error": {"code": -32700}}) is not None
    assert talk.hear(result(9)) == result(9)
    talk.say(result("s9"))
    assert talk.sent() == []


def test_a_batch_is_answered_by_a_batch_or_piece_by_piece(talk: Talk) -> None:
    talk.say([request(1, "a"), request(2, "b"), request(3, "c")])
    talk.sent()
    talk.hear([result(1)])
    talk.hear(result(2))

    assert [error["id"] for error in read(talk.session.lost())] == [3]


def test_of_a_large_batch_what_is_open_is_answered_once(talk: Talk) -> None:
    talk.say([request(n, "tools/call") for n in range(20_000)])
    talk.sent()
    talk.hear([result(n) for n in range(10_000)])
    talk.hear(result(10_000))

    assert [error["id"] for error in read(talk.session.lost())] == [*range(10_001, 20_000)]


def test_a_question_that_was_answered_in_a_batch_is_not_withdrawn(talk: Talk) -> None:
    for name in ("s1", "s2"):
        talk.hear(request(name, "elicitation/create"))
    talk.say([result("s1"), request(1, "tools/call")])

    assert [message["params"]["requestId"] for message in read(talk.session.lost())] == ["s2"]


def test_after_the_last_loss_everything_is_answered(talk: Talk) -> None:
    talk.say(request(1, "tools/list"))
    talk.sent()
    talk.say(request(2, "tools/call"))

    told = read(talk.session.refuse_all())

    assert [(error["id"], error["error"]["data"]["may_have_run"]) for error in told] == [(1, True), (2, False)]
    assert not talk.session.is_waiting


REQUESTS = (
    "initialize",
    "ping",
    "tools/list",
    "tools/call",
    "subscriptions/listen",
    "resources/subscribe",
    "logging/setLevel",
)
HOST_SAYS = st.one_of(
    st.builds(
        lambda number, method: ("request", request(number, method, uri="x:1")),
        st.integers(0, 9),
        st.sampled_from(REQUESTS),
    ),
    st.builds(lambda number: ("say", notification("notifications/cancelled", requestId=number)), st.integers(0, 9)),
    st.sampled_from([("say", 5), ("say", notification("notifications/initialized")), ("say", notification("ping"))]),
    st.builds(lambda number: ("say", result(f"s{number}")), st.integers(0, 3)),
)
DAEMON_SAYS = st.one_of(
    st.builds(lambda number: ("hear", result(number)), st.integers(0, 9)),
    st.builds(lambda number: ("hear", {"jsonrpc": "2.0", "id": number, "error": {}}), st.integers(0, 9)),
    st.builds(lambda number: ("hear", result(f"mcpd-bridge-{number}")), st.integers(1, 9)),
    st.builds(lambda number: ("hear", request(f"s{number}", "roots/list")), st.integers(0, 3)),
)
EVENTS = st.one_of(
    st.builds(lambda size: ("send", size), st.integers(1, 300)),
    st.sampled_from([("lose", 0), ("fail", 0), ("overdue", 0)]),
)


@given(st.lists(st.one_of(HOST_SAYS, DAEMON_SAYS, EVENTS), max_size=40))
def test_whatever_happens_no_request_is_answered_twice_by_the_bridge(events: list[tuple[str, Any]]) -> None:
    talk, open_ids = Talk(), set()
    for kind, value in events:
        told: list[bytes] = []
        match kind:
            case "request" if value["id"] not in open_ids:
                open_ids.add(value["id"])
                talk.say(value)
            case "say":
                talk.say(value)
                if isinstance(value, dict) and value.get("method") == "notifications/cancelled":
                    open_ids.discard(value["params"]["requestId"])
            case "hear" if "method" in value or str(value["id"]).startswith("mcpd"):
                talk.hear(value)
            # A daemon answers what it has been sent.
            case "hear" if lines.key_of(value["id"]) in talk.session._in_flight:
                assert talk.hear(value) == value
                open_ids.discard(value["id"])
            case "send":
                talk.sent(value)
            case "lose":
                told = talk.session.lost()
                talk.session.resume()
            case "fail":
                told = talk.session.fail(Failure("no"))
            case "overdue":
                told = talk.session.overdue(NOW + PATIENCE_SECONDS)
        for answer in read(told):
            if "method" not in answer:
                assert answer["id"] in open_ids
                open_ids.remove(answer["id"])
        assert talk.session.queued_bytes == sum(len(entry.line) for entry in talk.session.queue)
    # In the end there is nothing left that somebody waits for in vain.
    left = {answer["id"] for answer in read(talk.session.refuse_all()) if "method" not in answer}
    assert left == open_ids
