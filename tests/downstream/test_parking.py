"""Modern clients of legacy servers: a question in the middle of a call becomes the result of a request."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from mcpd.downstream.parking import IN_THE_WAY_SECONDS, PARK_SECONDS
from tests.downstream.hall import Hall
from tests.downstream.host import FORM, Host, asks_then, hosts
from tests.downstream.test_face import SERVER, TEXT

CALL: dict[str, Any] = {"name": "echo", "arguments": {"a": 1}}
YES = {"action": "accept", "content": {}}


def hall_of(nursery: trio.Nursery, **more: Any) -> Hall:
    return Hall(nursery, {"one": {**SERVER, "tools/call": asks_then(TEXT, **more)}})


def back(asked: dict[str, Any], answer: Any = YES, **changed: Any) -> dict[str, Any]:
    """Return the params of the request that brings the answers."""
    return {
        **CALL,
        "inputResponses": dict.fromkeys(asked["inputRequests"], answer),
        "requestState": asked["requestState"],
        **changed,
    }


async def asked_by(host: Host) -> dict[str, Any]:
    result: dict[str, Any] = await host.result(host.modern("tools/call", CALL))
    assert result["resultType"] == "input_required"
    return result


async def test_the_answers_reach_the_call_that_has_waited_and_it_runs_once(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = hall_of(nursery, times=2)
    with hosts(hall) as (host,):
        first = await asked_by(host)
        (question,) = first["inputRequests"].values()
        assert (question["method"], question["params"]["message"]) == ("elicitation/create", "sure?")
        second = await host.result(host.modern("tools/call", back(first)))
        assert second["resultType"] == "input_required"
        assert second["requestState"] != first["requestState"]
        last = await host.result(host.modern("tools/call", back(second)))
        assert (last["resultType"], last["content"]) == ("complete", TEXT["content"])
    assert hall.servers[0].calls == ["echo"]
    assert [one["result"] for one in hall.servers[0].answers] == [YES, YES]


@pytest.mark.parametrize("changed", [{"arguments": {"a": 2}}, {"name": "other"}, {"requestState": "mcpd-parked-1"}])
async def test_answers_for_another_request_are_refused_and_the_call_waits_on(
    nursery: trio.Nursery, autojump_clock: MockClock, changed: dict[str, Any]
) -> None:
    with hosts(hall_of(nursery)) as (host,):
        asked = await asked_by(host)
        error = await host.error(host.modern("tools/call", back(asked, **changed)))
        assert error["data"]["class"] == "stale_session"
        assert (await host.result(host.modern("tools/call", back(asked))))["content"] == TEXT["content"]


async def test_the_state_of_one_client_is_no_good_for_another(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    with hosts(hall_of(nursery), {}, {}) as (host, thief):
        asked = await asked_by(host)
        error = await thief.error(thief.modern("tools/call", back(asked)))
        assert error["data"]["class"] == "stale_session"
        assert (await host.result(host.modern("tools/call", back(asked))))["resultType"] == "complete"


async def test_a_state_is_good_once(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    with hosts(hall_of(nursery)) as (host,):
        asked = await asked_by(host)
        await host.result(host.modern("tools/call", back(asked)))
        assert (await host.error(host.modern("tools/call", back(asked))))["data"]["class"] == "stale_session"


async def test_the_same_arguments_in_another_order_are_the_same_request(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    with hosts(hall_of(nursery)) as (host,):
        asked = await asked_by(host)
        turned = dict(reversed(back(asked).items()))
        assert (await host.result(host.modern("tools/call", turned)))["resultType"] == "complete"


async def test_what_is_not_answered_is_asked_again_and_what_nobody_asked_is_ignored(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    with hosts(hall_of(nursery)) as (host,):
        asked = await asked_by(host)
        again = await host.result(host.modern("tools/call", back(asked, inputResponses={"other": YES})))
        assert again["inputRequests"] == asked["inputRequests"]
        assert (await host.result(host.modern("tools/call", back(again))))["resultType"] == "complete"


@pytest.mark.parametrize("leave", ["closes", "half-closes", "never comes back"])
async def test_for_a_client_that_leaves_the_server_is_answered_and_the_call_cancelled(
    nursery: trio.Nursery, autojump_clock: MockClock, leave: str
) -> None:
    hall = hall_of(nursery)
    with hosts(hall) as (host,):
        await asked_by(host)
        if leave == "closes":
            host.close()
        elif leave == "half-closes":
            host.end_input()
        await trio.sleep(PARK_SECONDS + 1 if leave == "never comes back" else 1)
        server = hall.servers[0]
        assert [one["result"] for one in server.answers] == [{"action": "cancel"}]
        assert not hall.place("one").slot.in_flight


async def test_an_outcome_that_comes_while_nobody_waits_is_told_to_whoever_comes_back(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    def impatient(server: Any, message: dict[str, Any]) -> None:
        server.say({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {"message": "?"}})
        server.timers.after(5, lambda: server.react(message, TEXT))

    with hosts(Hall(nursery, {"one": {**SERVER, "tools/call": impatient}})) as (host,):
        asked = await asked_by(host)
        await trio.sleep(20)
        assert (await host.result(host.modern("tools/call", back(asked))))["content"] == TEXT["content"]


async def test_who_cannot_be_asked_is_not_and_the_server_hears_so(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = hall_of(nursery)
    nothing = {"io.modelcontextprotocol/clientCapabilities": {}}
    with hosts(hall) as (host,):
        result = await host.result(host.modern("tools/call", CALL, meta=nothing))
        assert result["resultType"] == "complete"
    (answer,) = hall.servers[0].answers
    assert "inputRequests" not in result
    assert answer.get("result") == {"action": "cancel"} or answer["error"]["code"] == -32601


async def test_progress_of_the_call_that_goes_on_has_the_token_of_the_request_that_goes_on(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    def works(server: Any, message: dict[str, Any]) -> None:
        token = message["params"]["_meta"]["progressToken"]

        def report(progress: int) -> None:
            note = {"progressToken": token, "progress": progress}
            server.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": note})

        def look() -> None:
            if not server.answers:
                server.timers.after(0.01, look)
                return
            report(3)
            server.react(message, TEXT)

        report(1)
        server.say({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {"message": "?"}})
        report(2)
        look()

    with hosts(Hall(nursery, {"one": {**SERVER, "tools/call": works}})) as (host,):
        first = await host.result(host.modern("tools/call", CALL, meta={"progressToken": "t1"}))
        await host.result(host.modern("tools/call", back(first), meta={"progressToken": 2}))
        seen = [note["params"] for note in host.notes]
        assert [(one["progressToken"], one["progress"]) for one in seen] == [("t1", 1), (2, 3)]


def asks_always(server: Any, message: dict[str, Any]) -> None:
    """Ask, and answer with what the client says."""
    call, seen = message["id"], len(server.answers)

    def look() -> None:
        if len(server.answers) == seen:
            server.timers.after(0.01, look)
        elif server.answers[-1]["id"] == f"q{call}":
            server.react(message, TEXT)

    server.say({"jsonrpc": "2.0", "id": f"q{call}", "method": "elicitation/create", "params": FORM})
    look()


async def test_a_call_that_nobody_comes_back_for_does_not_get_the_questions_of_the_next_one(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    with hosts(Hall(nursery, {"one": {**SERVER, "tools/call": asks_always}})) as (host,):
        await asked_by(host)
        await asked_by(host)


async def test_a_request_that_can_be_asked_nothing_is_not_asked_by_way_of_another_one(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"one": {**SERVER, "tools/call": asks_always}})
    nothing = {"io.modelcontextprotocol/clientCapabilities": {}}
    with hosts(hall) as (host,):
        await asked_by(host)
        result = await host.result(host.modern("tools/call", CALL, meta=nothing))
        assert (result["resultType"], result["content"]) == ("complete", TEXT["content"])
    assert hall.servers[0].answers[0]["result"] == {"action": "cancel"}


@pytest.mark.parametrize("waited_for", [True, False])
async def test_a_parked_call_that_has_its_server_to_itself_gives_way_to_others_that_wait(
    nursery: trio.Nursery, autojump_clock: MockClock, waited_for: bool
) -> None:
    script = {**SERVER, "tools/call": asks_then(TEXT)}
    hall = Hall(nursery, {"one": script}, interactive=["echo"])
    with hosts(hall, {}, {}) as (host, other):
        asked = await asked_by(host)
        second = other.modern("tools/call", CALL) if waited_for else None
        await trio.sleep(IN_THE_WAY_SECONDS + 5)
        answer = await host.answer(host.modern("tools/call", back(asked)))
        assert ("error" in answer) is waited_for
        if second is not None:
            assert (await other.result(second))["resultType"] == "input_required"
