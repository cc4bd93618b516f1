"""Many callers over one transport: what goes out, and to whom the answers go."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
import trio
from trio.testing import MockClock

from mcpd.errors import ServerProtocol, TooLarge
from mcpd.protocol.jsonrpc import Message
from mcpd.protocol.session import Session
from mcpd.timers import Timers
from mcpd.upstream.channel import GARBLED_SECONDS, MAX_BACKLOG_BYTES, Channel
from mcpd.upstream.exchange import Awaited
from tests.upstream.fakes import Request, Wire

SESSION = Session("2025-11-25", "legacy")


class Fixture:
    """A channel over a wire; `heard` are the notifications that it passed on."""

    def __init__(self, timers: Timers) -> None:
        self.wire, self.heard = Wire(), list[str]()
        self.channel = Channel(timers, self._hear, 1000)
        self.channel.attach(self.wire)

    def _hear(self, message: Message) -> None:
        self.heard.append(message.method)

    def ask(self, name: str = "t") -> Request:
        request = Request(name)
        self.channel.request(request, SESSION)
        return request

    def receives(self, *messages: object) -> None:
        for message in messages:
            self.channel.on_line(message if isinstance(message, bytes) else json.dumps(message).encode())


@pytest.fixture
async def on(nursery: trio.Nursery) -> AsyncIterator[Fixture]:
    timers = Timers()
    nursery.start_soon(timers.run)
    yield Fixture(timers)
    nursery.cancel_scope.cancel()


def result(number: object, value: object = None) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": number, "result": {"value": value}}


# -- requests ------------------------------------------------------------------------------------


async def test_requests_are_numbered_and_answers_find_their_callers(on: Fixture) -> None:
    a, b = on.ask("a"), on.ask("b")

    assert on.wire.messages == [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a"}},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "b"}},
    ]
    assert on.channel.in_flight == 2

    on.receives(result(2, "B"), {"jsonrpc": "2.0", "id": 1, "error": {"code": 5, "message": "no"}})

    assert b.outcomes == [("result", {"value": "B"})]
    assert a.outcomes == [("error", {"code": 5, "message": "no"})]
    assert on.channel.in_flight == 0


async def test_a_request_is_held_until_it_is_answered(on: Fixture) -> None:
    request = on.ask()
    assert on.channel.holds(request)

    on.receives(result(1))

    assert not on.channel.holds(request)


async def test_an_answer_that_is_none_fails_its_call(on: Fixture) -> None:
    request = on.ask()

    on.receives({"jsonrpc": "2.0", "id": 1})

    assert isinstance(request.problem, ServerProtocol)
    assert request.problem.may_have_run is True


async def test_strays_are_counted_and_hurt_nobody(on: Fixture) -> None:
    request = on.ask()

    on.receives(b"listening", result(7), result(True), result(None), b"[", b"[1]", b"{")

    assert request.outcomes == []
    assert dict(on.channel.counts) == {"noise": 4, "unknown": 3}


async def test_a_task_waits_for_its_outcome(on: Fixture) -> None:
    asked = Awaited("tools/list", lambda session: b'{"revision":"%b"}' % session.revision.encode(), lambda: None)
    on.channel.request(asked, SESSION)

    on.receives(result(1, "A"))

    assert on.wire.messages[0]["params"] == {"revision": "2025-11-25"}
    assert bytes(await asked.outcome()) == b'{"value": "A"}'  # type: ignore[arg-type]  # a result, as it was sent


async def test_a_task_that_waits_is_told_of_a_failure(on: Fixture) -> None:
    asked = Awaited("tools/list", lambda session: b"{}", lambda: None)
    on.channel.request(asked, SESSION)

    on.receives({"jsonrpc": "2.0", "id": 1}, result(1))

    with pytest.raises(ServerProtocol):
        await asked.outcome()


# -- giving up -----------------------------------------------------------------------------------


async def test_a_request_that_was_written_is_cancelled_at_the_server(on: Fixture) -> None:
    request = on.ask()
    assert on.channel.began(request)

    assert on.channel.give_up(request, 'too "late"') is True

    assert on.wire.messages[1] == {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": 1, "reason": 'too "late"'},
    }
    on.receives(result(1))
    assert request.outcomes == []
    assert dict(on.channel.counts) == {"late": 1}


async def test_a_request_that_was_not_written_is_taken_back_without_a_word(on: Fixture) -> None:
    on.wire.stalled = True
    request, other = on.ask("a"), on.ask("b")
    assert not on.channel.began(request)

    assert on.channel.give_up(request, "late") is False

    on.wire.unstall()
    assert [message["params"] for message in on.wire.messages] == [{"name": "b"}]
    assert on.channel.holds(other)


async def test_a_request_that_is_not_pending_cannot_be_given_up(on: Fixture) -> None:
    request = on.ask()
    on.receives(result(1))

    assert on.channel.give_up(request, "late") is False
    assert len(on.wire.written) == 1


async def test_a_request_is_forgotten_without_telling_the_server(on: Fixture) -> None:
    request = on.ask()

    on.channel.forget(request)
    on.receives(result(1))

    assert (request.outcomes, dict(on.channel.counts), len(on.wire.written)) == ([], {"late": 1}, 1)


async def test_what_was_not_written_may_go_elsewhere(on: Fixture) -> None:
    first = on.ask("first")
    on.wire.stalled = True
    second, third = on.ask("second"), on.ask("third")

    assert on.channel.take_unsent() == [second, third]

    assert (on.channel.in_flight, on.wire.backlog_bytes) == (1, 0)
    assert on.channel.take_all() == [first]
    assert on.channel.take_all() == []


async def test_a_channel_without_a_transport_has_written_nothing() -> None:
    channel = Channel(Timers(), lambda message: None, 1000)
    request = Request()

    channel.request(request, SESSION)

    assert not channel.began(request)
    assert channel.give_up(request, "late") is False
    assert channel.take_unsent() == []


async def test_whoever_drains_is_told_when_nothing_is_pending(on: Fixture) -> None:
    on.ask(), on.ask()
    idle = list[int]()
    on.channel.on_idle = lambda: idle.append(on.channel.in_flight)

    on.receives(result(1))
    assert idle == []
    on.receives(result(2))
    assert idle == [0]


# -- progress and notifications ------------------------------------------------------------------


def progress(token: object, **more: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, **more}}


async def test_progress_goes_to_the_request_with_that_token(on: Fixture) -> None:
    a, b = on.ask("a"), on.ask("b")

    on.receives(progress(2, progress=1, total=3, message="half"), progress(2, progress=2))

    assert a.progress == []
    assert b.progress == [
        {"progressToken": 2, "progress": 1, "total": 3, "message": "half"},
        {"progressToken": 2, "progress": 2},
    ]


async def test_progress_of_nobody_is_counted(on: Fixture) -> None:
    request = on.ask()
    done = on.ask()
    on.receives(result(2))

    on.receives(progress(2), progress(9), progress(True), progress(None), progress([1]))
    on.receives(b'{"method":"notifications/progress"}', b'{"method":"notifications/progress","params":[1]}')

    assert (request.progress, done.progress, on.channel.counts["stray_progress"]) == ([], [], 7)
    assert on.heard == []


async def test_other_notifications_are_passed_on(on: Fixture) -> None:
    on.receives({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}, {"method": "x", "params": {}})

    assert on.heard == ["notifications/tools/list_changed", "x"]


# -- what a server asks --------------------------------------------------------------------------


async def test_a_ping_is_answered_with_its_own_id(on: Fixture) -> None:
    on.receives(b'{"jsonrpc":"2.0","id":"x","method":"ping"}', b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}')

    assert on.wire.written == [
        b'{"jsonrpc":"2.0","id":"x","result":{}}\n',
        b'{"jsonrpc":"2.0","id":1,"result":{}}\n',
    ]


@pytest.mark.parametrize("method", ["roots/list", "sampling/createMessage", "elicitation/create", "tools/call"])
async def test_every_other_request_of_a_server_is_unknown(on: Fixture, method: str) -> None:
    request = on.ask()

    on.receives({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}})

    error = {"code": -32601, "message": f"method not found: {method}"}
    assert on.wire.messages[1] == {"jsonrpc": "2.0", "id": 1, "error": error}
    assert request.outcomes == []


async def test_a_server_that_asks_and_never_reads_gets_no_more_answers(on: Fixture) -> None:
    on.wire.stalled = True
    on.wire.send(b" " * MAX_BACKLOG_BYTES)

    on.receives({"id": 1, "method": "ping"}, {"id": 2, "method": "roots/list"})

    assert len(on.wire.queued) == 1
    assert on.channel.counts["unanswered"] == 2


# -- batches -------------------------------------------------------------------------------------


async def test_a_batch_is_taken_apart(on: Fixture) -> None:
    a, b = on.ask("a"), on.ask("b")

    on.receives([result(2, "B"), progress(1, progress=1), {"method": "x"}, {"id": 5, "method": "ping"}, result(1, "A")])

    assert (a.outcomes, b.outcomes) == ([("result", {"value": "A"})], [("result", {"value": "B"})])
    assert (a.progress, on.heard) == ([{"progressToken": 1, "progress": 1}], ["x"])
    assert on.wire.messages[2] == {"jsonrpc": "2.0", "id": 5, "result": {}}


async def test_of_a_batch_that_is_broken_nothing_counts(on: Fixture) -> None:
    request = on.ask()

    on.receives(b'[{"jsonrpc":"2.0","id":1,"result":{}},', b"[" * 5000, b"[[[]]]", b"[]")

    assert request.outcomes == []


# -- answers that cannot be read -----------------------------------------------------------------


async def test_a_garbled_answer_fails_its_call_after_a_moment(on: Fixture, autojump_clock: MockClock) -> None:
    request, other = on.ask("a"), on.ask("b")
    on.receives(b'{"jsonrpc":"2.0","id":1,"result":{"a":NaN}}')

    assert request.outcomes == []
    await trio.sleep(GARBLED_SECONDS + 0.01)

    assert isinstance(request.problem, ServerProtocol)
    assert request.problem.message.startswith("the answer is not valid JSON: ")
    assert request.problem.may_have_run is True
    assert other.outcomes == []
    on.receives(result(1))
    assert len(request.outcomes) == 1


async def test_a_good_answer_makes_up_for_a_garbled_one(on: Fixture, autojump_clock: MockClock) -> None:
    request = on.ask()
    on.receives(b'{"jsonrpc":"2.0","id":1,"resu', result(1, "A"))

    await trio.sleep(1)

    assert request.outcomes == [("result", {"value": "A"})]


async def test_a_garbled_answer_of_an_earlier_process_does_not_fail_a_later_call(
    on: Fixture, autojump_clock: MockClock
) -> None:
    on.ask("on the first")
    on.receives(b'{"jsonrpc":"2.0","id":1,"resu')
    on.channel.attach(second := Wire())
    request = on.ask("on the second")

    await trio.sleep(1)

    assert (second.messages[0]["id"], request.outcomes) == (1, [])
    assert on.channel.in_flight == 1


async def test_an_overlong_line_fails_the_call_it_answers(on: Fixture) -> None:
    request, other = on.ask("a"), on.ask("b")

    assert on.channel.on_overlong(b'{"jsonrpc":"2.0","id":1,"result":{"text":"xxxxx') is True

    assert isinstance(request.problem, TooLarge)
    assert (request.problem.message, request.problem.may_have_run) == ("the answer is longer than 1000 bytes (limits.message_bytes)", True)
    assert other.outcomes == []


@pytest.mark.parametrize("head", [b'{"jsonrpc":"2.0","id":9,"result":{', b"xxxxxxx", b'{"result":{"text":"xxxx'])
async def test_an_overlong_line_that_answers_no_call_says_so(on: Fixture, head: bytes) -> None:
    request = on.ask()

    assert on.channel.on_overlong(head) is False
    assert request.outcomes == []
