"""What a server asks reaches the one client that it is meant for, or nobody."""

from __future__ import annotations

import gc
import json
from typing import Any

import pytest
import trio
from msgspec import Raw
from trio.testing import MockClock

from mcpd.broker.asking import Round, signed
from mcpd.broker.requests import ReadRequest
from mcpd.config.model import Config
from tests.broker.desk import Desk
from tests.upstream.fakes import LEGACY, MODERN, NEVER_SECONDS, FakeServer, Script, World, after, server

FORM = {"message": "sure?", "requestedSchema": {"type": "object", "properties": {}}}
YES = {"action": "accept", "content": {"n": 12345678901234567890}}


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    return World(nursery)


def asking(method: str = "elicitation/create", params: Any = None, request_id: Any = "q") -> Script:
    """A legacy server that asks in each call, and gives back what it was answered."""

    def ask(server: FakeServer, message: dict[str, Any]) -> None:
        server.say({"jsonrpc": "2.0", "id": request_id, "method": method, "params": FORM if params is None else params})

    return {**LEGACY, "tools/call": ask}


async def answer_of(server: FakeServer) -> dict[str, Any]:
    """Wait for the answer to the server's first question."""
    with trio.fail_after(NEVER_SECONDS):
        await trio.lowlevel.checkpoint()
        while not server.answers:  # noqa: ASYNC110  # of a fake, in virtual time
            await trio.sleep(0.01)
    return server.answers[0]


# -- whose a question is ----------------------------------------------------------------------------


def test_input_that_a_result_asks_for_says_which_server_asks() -> None:
    request = {"method": "elicitation/create", "params": FORM}
    asking = {
        "resultType": "input_required",
        "requestState": "s ",
        "inputRequests": {"q": request, "r": {"method": "roots/list"}},
    }

    asked = json.loads(bytes(signed("files", Raw(json.dumps(asking).encode()))))

    meta = {"_meta": {"mcpd/server": "files"}}
    assert asked["inputRequests"] == {
        "q": {"method": "elicitation/create", "params": FORM | meta | {"message": "[files] sure?"}},
        "r": {"method": "roots/list", "params": meta},
    }
    assert asked["requestState"] == "s "


@pytest.mark.parametrize("content", ["plain", 'it says "inputRequests": {}'])
def test_a_result_that_asks_for_nothing_stays_what_it_is(content: str) -> None:
    result = Raw(json.dumps({"content": [{"type": "text", "text": content}], "n": {"inputRequests": 1}}).encode())

    assert signed("files", result) is result


# -- legacy: a request that names no call ------------------------------------------------------------


async def test_the_only_client_at_work_is_asked_and_its_answer_goes_back_exactly(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, asking(request_id=7))
    client, idler = desk.client().able(form=True), desk.client("idler").able(form=True)
    client.call()

    question = await client.question()
    world.mover.batch(lambda: question.answered(Raw(json.dumps(YES).encode())))

    asked = json.loads(question.params)
    assert (question.method, asked["message"], asked["_meta"]) == ("elicitation/create", "[fake] sure?", {"mcpd/server": "fake"})
    assert asked["requestedSchema"] == FORM["requestedSchema"]
    assert await answer_of(world.servers[0]) == {"jsonrpc": "2.0", "id": 7, "result": YES}
    assert idler.questions == []


async def test_with_two_clients_at_work_nobody_is_asked(world: World, autojump_clock: MockClock) -> None:
    quiet = {**asking(), "tools/call": None}
    desk = Desk(world, quiet)
    one, two = desk.client("one").able(form=True), desk.client("two").able(form=True)
    one.call(), two.call()
    await trio.sleep(1)

    world.servers[0].say({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": FORM})

    assert (await answer_of(world.servers[0]))["result"] == {"action": "cancel"}
    assert (one.questions, two.questions) == ([], [])
    assert desk.place.routing.counts == {"questions_ambiguous": 1}


async def test_with_nobody_at_work_nobody_is_asked(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, LEGACY)
    client = desk.client().able(form=True)
    await client.outcome(client.call())

    world.servers[0].say({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": FORM})

    assert (await answer_of(world.servers[0]))["result"] == {"action": "cancel"}
    assert client.questions == []


async def test_a_client_that_cannot_be_asked_is_not(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, asking())
    desk.client("able").able(form=True).call()
    await trio.sleep(1)
    assert world.servers[0].got("initialize")[0]["capabilities"] == {"elicitation": {}}
    client = desk.client("unable")
    desk.place.clients["able"].questions[0].left()  # type: ignore[attr-defined]
    for call in desk.place.clients["able"].calls:  # type: ignore[attr-defined]
        call.cancel("over")
    world.servers[0].written.clear()

    client.call()

    assert (await answer_of(world.servers[0]))["result"] == {"action": "cancel"}
    assert client.questions == []


async def test_a_server_is_offered_what_somebody_can_answer_and_not_more(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, LEGACY)
    client = desk.client()
    await client.outcome(client.call())

    assert world.servers[0].got("initialize")[0]["capabilities"] == {}


async def test_what_was_not_offered_is_refused(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, asking("sampling/createMessage", {"messages": []}))
    desk.client().call()
    await trio.sleep(1)

    assert (await answer_of(world.servers[0]))["error"]["code"] == -32601


async def test_sampling_that_nobody_can_be_asked_for_is_rejected_as_by_a_user(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, {**LEGACY, "tools/call": None})
    one, two = desk.client("one").able(sampling=True), desk.client("two").able(sampling=True)
    one.call(), two.call()
    await trio.sleep(1)

    world.servers[0].say({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {"messages": []}})

    assert (await answer_of(world.servers[0]))["error"]["code"] == -1


async def test_a_clients_error_reaches_the_server(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, asking("sampling/createMessage", {"messages": []}))
    client = desk.client().able(sampling=True)
    client.call()

    question = await client.question()
    world.mover.batch(lambda: question.refused(Raw(b'{"code":-1,"message":"no","data":{"x":1.0}}')))

    assert (await answer_of(world.servers[0]))["error"] == {"code": -1, "message": "no", "data": {"x": 1.0}}


async def test_a_client_that_vanishes_is_answered_for(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, asking())
    client = desk.client().able(form=True)
    client.call()

    question = await client.question()
    world.mover.batch(question.left)

    assert (await answer_of(world.servers[0]))["result"] == {"action": "cancel"}


async def test_a_call_that_is_over_takes_its_questions_back(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, asking())
    client = desk.client().able(form=True)
    call = client.call()
    question = await client.question()

    world.mover.batch(lambda: call.cancel("not wanted"))

    assert client.withdrawn == [question]
    assert (await answer_of(world.servers[0]))["result"] == {"action": "cancel"}


async def test_a_question_that_its_server_cancels_is_taken_back(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, asking())
    client = desk.client().able(form=True)
    client.call()
    question = await client.question()

    world.servers[0].say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "q"}})
    world.mover.batch(lambda: question.answered(Raw(b'{"action":"accept"}')))
    await trio.sleep(1)

    assert client.withdrawn == [question]
    assert world.servers[0].answers == []


async def test_a_server_that_dies_takes_its_questions_back(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, asking())
    client = desk.client().able(form=True)
    call = client.call()
    question = await client.question()

    world.servers[0].die()

    assert (await client.error(call))["class"] == "server_lost"
    assert client.withdrawn == [question]


async def test_a_user_who_thinks_has_more_time_than_a_call(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, asking())
    client = desk.client().able(form=True)
    call = client.call()

    question = await client.question()
    await trio.sleep(1000)

    assert client.told == {}
    world.mover.batch(lambda: question.answered(Raw(b'{"action":"accept"}')))
    assert (await client.error(call))["class"] == "timeout"
    assert 1029 < trio.current_time() < 1032


async def test_a_user_has_the_time_for_each_of_two_questions(world: World, autojump_clock: MockClock) -> None:
    def ask(server: FakeServer, message: dict[str, Any]) -> None:
        for request_id in ("a", "b"):
            server.say({"jsonrpc": "2.0", "id": request_id, "method": "elicitation/create", "params": FORM})

    desk = Desk(world, {**LEGACY, "tools/call": ask})
    client = desk.client().able(form=True)
    call = client.call()

    first, second = await client.question(), await client.question()
    world.mover.batch(lambda: first.answered(Raw(b'{"action":"accept"}')))
    await trio.sleep(1000)

    assert (client.told, client.withdrawn) == ({}, [])
    world.mover.batch(lambda: second.answered(Raw(b'{"action":"accept"}')))
    assert (await client.error(call))["class"] == "timeout"


async def test_the_roots_of_a_project_are_the_project_and_nobody_is_asked(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, asking("roots/list", {}))
    client = desk.client(project="/my project").able(roots=True)
    client.call()

    await trio.sleep(1)
    answer = await answer_of(world.servers[0])

    assert answer["result"] == {"roots": [{"uri": "file:///my%20project", "name": "my project"}]}
    assert client.questions == []


async def test_what_all_share_has_no_roots(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, asking("roots/list", {}), scope="user")
    client = desk.client(project="/p").able(roots=True)
    client.call()
    await trio.sleep(1)

    assert world.servers[0].got("initialize")[0]["capabilities"] == {}


async def test_a_client_that_has_left_is_not_told_of_its_visit_and_not_kept(
    world: World, autojump_clock: MockClock
) -> None:
    visit = {"mode": "url", "message": "go", "url": "https://x.test/", "elicitationId": "e"}
    desk = Desk(world, asking(params=visit))
    client = desk.client().able(url=True)
    client.call()
    question = await client.question()
    world.mover.batch(lambda: question.answered(Raw(b'{"action":"accept"}')))

    world.mover.batch(lambda: [call.cancel("left") for call in client.calls])
    world.mover.batch(lambda: desk.broker.forget(client.key))
    done = {"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": {"elicitationId": "e"}}
    world.servers[0].say(done)

    assert client.notices == []


# -- lanes -------------------------------------------------------------------------------------------


async def test_each_of_two_clients_gets_its_own_question_where_a_tool_is_interactive(
    world: World, autojump_clock: MockClock
) -> None:
    def ask(server: FakeServer, message: dict[str, Any]) -> None:
        question = {"message": f"for {message['params']['arguments']['who']}"}
        server.say({"jsonrpc": "2.0", "id": message["id"], "method": "elicitation/create", "params": question})
        server.timers.after(1, lambda: server.react(message, {"content": []}))

    desk = Desk(world, {**LEGACY, "tools/call": ask}, interactive=("ask*",))
    one, two = desk.client("one").able(form=True), desk.client("two").able(form=True)
    calls = [(one, one.call("ask_it", '{"who":"one"}')), (two, two.call("ask_it", '{"who":"two"}'))]

    for client, call in calls:
        question = await client.question()
        assert json.loads(question.params)["message"] == f"[fake] for {client.key}"
        world.mover.batch(lambda question=question: question.answered(Raw(b'{"action":"accept"}')))  # type: ignore[misc]
        await client.outcome(call)


async def test_while_an_interactive_tool_runs_nobody_elses_call_is_admitted(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, {**LEGACY, "tools/call": after(1, {"content": []})}, interactive=("ask",))
    one, two = desk.client("one"), desk.client("two")
    calls = [(two, two.call("plain")), (one, one.call("ask")), (two, two.call("other")), (one, one.call("mine"))]

    for client, call in calls:
        await client.outcome(call)

    assert world.servers[0].calls[0:2] == ["plain", "ask"]
    assert trio.current_time() == pytest.approx(3)


async def test_who_waited_behind_a_call_that_wanted_the_lane_goes_when_that_is_given_up(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, {**LEGACY, "tools/call": after(20, {"content": []})}, interactive=("ask",))
    await desk.slot.start()
    one, two, three = desk.client("one"), desk.client("two"), desk.client("three")
    one.call("long")
    impatient, patient = two.call("ask"), three.call("plain")
    assert world.servers[0].calls == ["long"]

    world.mover.batch(lambda: impatient.cancel("not wanted"))

    assert world.servers[0].calls == ["long", "plain"]
    await three.outcome(patient)
    assert desk.places == (0, 0)


async def test_who_waits_behind_a_call_that_wants_the_lane_goes_when_its_client_stops_reading(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, {**LEGACY, "tools/call": after(20, {"content": []})}, interactive=("ask",))
    await desk.slot.start()
    one, two, three = desk.client("one"), desk.client("two"), desk.client("three")
    one.call("long"), two.call("ask"), three.call("plain")

    world.mover.batch(lambda: desk.broker.pause("two"))

    assert world.servers[0].calls == ["long", "plain"]


async def test_a_modern_server_needs_no_lane(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, {**MODERN, "tools/call": after(1, {"content": []})}, interactive=("ask",))
    one, two = desk.client("one"), desk.client("two")
    await one.outcome(one.call("warm"))
    begun = trio.current_time()

    for client, call in [(one, one.call("ask")), (two, two.call("ask"))]:
        await client.outcome(call)

    assert trio.current_time() - begun == pytest.approx(1)


# -- modern: questions inside of results -------------------------------------------------------------


def wants(**members: Any) -> dict[str, Any]:
    return {"resultType": "input_required", **members}


ONE = {"a": {"method": "elicitation/create", "params": FORM}}


def rounds(*reactions: Any) -> Script:
    """A modern server that reacts to one request after the other."""
    left = list(reactions)

    def react(server: FakeServer, message: dict[str, Any]) -> None:
        server.react(message, left.pop(0))

    return {**MODERN, "tools/call": react, "resources/read": react}


async def test_the_caller_is_asked_and_the_call_goes_again_with_the_answer(world: World, autojump_clock: MockClock) -> None:
    state = 'ü "}{ \\u00e9'
    desk = Desk(world, rounds(wants(inputRequests=ONE, requestState=state), {"content": [], "resultType": "complete"}))
    client, other = desk.client().able(form=True), desk.client("other").able(form=True)
    call = client.call("t", '{"x":1.0}')

    question = await client.question()
    world.mover.batch(lambda: question.answered(Raw(json.dumps(YES).encode())))

    assert (await client.outcome(call))["content"] == []
    first, second = world.servers[0].got("tools/call")
    assert "inputResponses" not in first
    assert (second["inputResponses"], second["requestState"]) == ({"a": YES}, state)
    assert {**second, "inputResponses": 0, "requestState": 0} == {**first, "inputResponses": 0, "requestState": 0}
    ids = [one["id"] for one in world.servers[0].messages if one["method"] == "tools/call"]
    assert len(set(ids)) == 2
    assert (other.questions, desk.outcomes) == ([], {"done": 1})


async def test_each_request_says_what_its_own_client_can_be_asked(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, MODERN)
    for client in (desk.client("able").able(form=True, url=True), desk.client("unable")):
        await client.outcome(client.call())

    said = [one["_meta"]["io.modelcontextprotocol/clientCapabilities"] for one in world.servers[0].got("tools/call")]
    assert said == [{"elicitation": {"form": {}, "url": {}}}, {}]


async def test_reading_a_resource_may_need_an_answer_too(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, rounds(wants(inputRequests=ONE), {"contents": [], "resultType": "complete"}))
    client = desk.client().able(form=True)
    call = client.send(ReadRequest(server="fake", uri="x:y"))

    question = await client.question()
    world.mover.batch(lambda: question.answered(Raw(b'{"action":"decline"}')))

    assert (await client.outcome(call))["contents"] == []


async def test_only_a_state_goes_back_without_a_question(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, rounds(wants(requestState=""), {"content": []}))
    client = desk.client()

    await client.outcome(client.call())

    assert world.servers[0].got("tools/call")[1]["requestState"] == ""


async def test_a_server_that_asks_for_ever_comes_to_an_end(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, {**MODERN, "tools/call": wants(requestState="s")})
    client = desk.client()

    error = await client.error(client.call())

    assert (error["class"], error["may_have_run"]) == ("server_protocol", True)
    assert len(world.servers[0].calls) == 11


@pytest.mark.parametrize(
    "result",
    [
        wants(),
        wants(inputRequests={}),
        wants(inputRequests=[]),
        wants(inputRequests={"a": {}}),
        wants(inputRequests=ONE, requestState=5),
        wants(inputRequests={str(n): ONE["a"] for n in range(17)}),
        wants(inputRequests={"a": {"method": "elicitation/create", "params": []}}),
    ],
)
async def test_a_malformed_wish_is_an_error_and_no_question(
    world: World, autojump_clock: MockClock, result: dict[str, Any]
) -> None:
    desk = Desk(world, {**MODERN, "tools/call": result})
    client = desk.client().able(form=True)

    assert (await client.error(client.call()))["class"] == "server_protocol"
    assert client.questions == []


async def test_a_client_that_refuses_ends_the_call(world: World, autojump_clock: MockClock) -> None:
    two = {**ONE, "b": {"method": "elicitation/create", "params": FORM}}
    desk = Desk(world, rounds(wants(inputRequests=two)))
    client = desk.client().able(form=True)
    call = client.call()

    first, second = await client.question(), await client.question()
    world.mover.batch(lambda: first.refused(Raw(b'{"code":-32603,"message":"broken"}')))

    assert (await client.error(call))["class"] == "input_required"
    assert client.withdrawn == [second]


async def test_a_call_that_is_cancelled_takes_its_questions_back(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, rounds(wants(inputRequests=ONE), {"content": []}))
    client = desk.client().able(form=True)
    call = client.call()
    question = await client.question()

    world.mover.batch(lambda: call.cancel("not wanted"))
    world.mover.batch(lambda: question.answered(Raw(b"{}")))
    await trio.sleep(1)

    assert (client.withdrawn, desk.outcomes, desk.places) == ([question], {"unknown": 1}, (0, 0))
    assert len(world.servers[0].calls) == 1


@pytest.mark.parametrize("how", ["shutdown", "reload"])
async def test_a_call_whose_client_is_asked_ends_with_its_server(
    world: World, autojump_clock: MockClock, how: str
) -> None:
    desk = Desk(world, rounds(wants(inputRequests=ONE), {"content": []}))
    client = desk.client().able(form=True)
    call = client.call()
    question = await client.question()

    if how == "shutdown":
        world.mover.batch(desk.broker.close)
        await desk.broker.closed()
    else:
        world.mover.batch(lambda: desk.broker.reload(Config(path="config.toml", servers={"fake": server(args=("new",))})))

    error = await client.error(call)
    assert (error["class"], error["may_have_run"]) == ("shutting_down" if how == "shutdown" else "stopping", True)
    assert (client.withdrawn, desk.places) == ([question], (0, 0))


async def test_of_a_call_that_is_over_its_questions_are_not_kept(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, rounds(wants(inputRequests=ONE), {"content": []}))
    client = desk.client().able(form=True)
    call = client.call()
    await client.question()

    world.mover.batch(lambda: call.cancel("not wanted"))
    client.withdrawn.clear()
    gc.collect()

    assert [one for one in gc.get_objects() if isinstance(one, Round)] == []


# -- another project ---------------------------------------------------------------------------------


async def test_what_was_asked_in_another_project_is_not_sent_any_more(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, {**LEGACY, "tools/call": None}, limits=Desk.limits(in_flight=1), scope="user")
    client = desk.client()
    sent = client.call("sent")
    waiting = client.call("waiting")
    await trio.sleep(1)

    world.mover.batch(lambda: [call.go_stale() for call in (waiting, sent)])

    assert [(await client.error(call))["may_have_run"] for call in (sent, waiting)] == [True, False]
    assert {(await client.error(call))["class"] for call in (sent, waiting)} == {"stale_session"}
    assert world.servers[0].calls == ["sent"]
    assert "notifications/cancelled" in world.servers[0].methods


# -- a question that crosses the end of its call -----------------------------------------------------


def slow_to_read(seconds: float = 1) -> Script:
    """A legacy server that answers a ping late, as one does that has not read what was sent before."""
    return {**LEGACY, "tools/call": None, "ping": after(seconds, {})}


def ask_now(world: World, request_id: int = 1) -> None:
    world.servers[0].say({"jsonrpc": "2.0", "id": request_id, "method": "elicitation/create", "params": FORM})


async def two_at_work(desk: Desk) -> tuple[Any, Any, Any]:
    """Let two clients call; return the first one's call, and the second client with its call."""
    one, two = desk.client("one").able(form=True), desk.client("two").able(form=True)
    first, second = one.call("ask"), two.call("other")
    await trio.sleep(0.5)
    return first, two, second


async def test_a_question_of_a_call_that_was_given_up_is_not_put_to_who_is_left(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, slow_to_read())
    first, two, _ = await two_at_work(desk)

    world.mover.batch(lambda: first.cancel("not wanted"))
    ask_now(world)

    assert (await answer_of(world.servers[0]))["result"] == {"action": "cancel"}
    assert two.questions == []


async def test_once_the_server_has_read_that_it_was_given_up_it_speaks_for_the_other(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, slow_to_read())
    first, two, _ = await two_at_work(desk)

    world.mover.batch(lambda: first.cancel("not wanted"))
    await trio.sleep(5)
    ask_now(world)

    assert (await two.question()).method == "elicitation/create"


async def test_a_lane_is_not_lost_to_a_server_that_never_says_that_it_has_read(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, {**LEGACY, "tools/call": None, "ping": None}, interactive=("ask",))
    one, two = desk.client("one").able(form=True), desk.client("two").able(form=True)
    first = one.call("ask")
    await trio.sleep(0.5)
    world.mover.batch(lambda: first.cancel("not wanted"))
    two.call("ask", '{"who":"two"}')

    await trio.sleep(25)

    assert world.servers[0].calls == ["ask", "ask"]


@pytest.mark.parametrize("questions", [2, 5])
@pytest.mark.parametrize("interactive", [(), ("ask",)])
async def test_a_tool_that_goes_on_asking_when_it_is_given_up_asks_nobody_else(
    world: World, autojump_clock: MockClock, questions: int, interactive: tuple[str, ...]
) -> None:
    def hear(server: FakeServer, message: dict[str, Any]) -> None:
        """Answer a ping, and then ask on, as one does that takes an answer a moment after it has read it."""
        server.react(message, {})
        asked = len(server.answers)
        if 0 < asked < questions:
            ask_now(world, asked + 1)

    desk = Desk(world, {**LEGACY, "tools/call": None, "ping": hear}, interactive=interactive)
    one, two = desk.client("one").able(form=True), desk.client("two").able(form=True)
    first = one.call("ask")
    await trio.sleep(0.5)
    ask_now(world)
    await one.question()
    two.call("ask")

    world.mover.batch(lambda: first.cancel("not wanted"))
    await trio.sleep(5)

    assert [each["result"] for each in world.servers[0].answers] == [{"action": "cancel"}] * questions
    assert two.questions == []
    assert world.servers[0].calls == ["ask", "ask"]


async def test_a_server_that_asks_after_it_was_told_to_give_up_is_not_believed_the_next_time(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, slow_to_read(0))
    one, two = desk.client("one").able(form=True), desk.client("two").able(form=True)
    first = one.call("ask")
    await trio.sleep(0.5)
    world.mover.batch(lambda: first.cancel("not wanted"))
    await trio.sleep(0.5)
    ask_now(world, 1)
    again = one.call("ask")
    two.call("other")
    await trio.sleep(0.5)

    world.mover.batch(lambda: again.cancel("not wanted"))
    await trio.sleep(10)
    ask_now(world, 2)
    await trio.sleep(0.5)

    assert [one["result"] for one in world.servers[0].answers] == [{"action": "cancel"}] * 2
    assert two.questions == []


async def test_a_late_answer_says_so_too(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, slow_to_read(1000))
    first, two, _ = await two_at_work(desk)

    world.mover.batch(lambda: first.cancel("not wanted"))
    world.servers[0].say({"jsonrpc": "2.0", "id": int(first.id), "result": {"content": []}})
    await trio.sleep(0.1)
    ask_now(world)

    assert (await two.question()).method == "elicitation/create"


async def test_a_lane_is_kept_until_the_server_has_read_that_its_call_was_given_up(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, slow_to_read(), interactive=("ask",))
    one, two = desk.client("one").able(form=True), desk.client("two").able(form=True)
    first, _ = one.call("ask"), two.call("ask")
    await trio.sleep(0.5)

    world.mover.batch(lambda: first.cancel("not wanted"))
    ask_now(world)
    await trio.sleep(0.5)
    assert (world.servers[0].calls, two.questions) == (["ask"], [])
    await trio.sleep(3)

    assert (world.servers[0].calls, desk.places) == (["ask", "ask"], (1, 0))


async def test_a_lane_whose_server_dies_is_free(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, slow_to_read(1000), {**LEGACY}, interactive=("ask",))
    one, two = desk.client("one").able(form=True), desk.client("two").able(form=True)
    first, second = one.call("ask"), two.call("ask")
    await trio.sleep(0.5)

    world.mover.batch(lambda: first.cancel("not wanted"))
    world.servers[0].die()

    assert "content" in await two.outcome(second)


async def test_who_has_a_copy_alone_is_asked_for_its_roots_if_it_has_some(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, asking("roots/list", {}), scope="client")
    client = desk.client(project="/p").able(roots=True)
    client.call()

    assert (await client.question()).method == "roots/list"


# -- what is said about it ---------------------------------------------------------------------------


async def test_a_call_is_told_that_a_question_was_put_to_nobody(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, {**LEGACY, "tools/call": after(2, {"content": []})})
    one, two = desk.client("one").able(form=True), desk.client("two").able(form=True)
    calls = one.call(), two.call()
    await trio.sleep(1)

    ask_now(world)

    for client, call in zip((one, two), calls, strict=True):
        view = (await client.outcome(call))["_meta"]["mcpd/view"]
        assert "several clients have calls going" in view["unasked"]


async def test_a_call_whose_client_cannot_be_asked_is_told_that(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, {**LEGACY, "tools/call": after(2, {"content": []})}, interactive=("x",))
    client = desk.client()
    call = client.call()
    await trio.sleep(1)

    ask_now(world)

    assert "this client cannot be asked" in (await client.outcome(call))["_meta"]["mcpd/view"]["unasked"]


async def test_who_waits_for_a_lane_in_vain_is_told_what_it_waited_for(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, {**LEGACY, "tools/call": None}, interactive=("ask",))
    one, two = desk.client("one").able(form=True), desk.client("two")
    one.call("ask", timeout=100.0)
    await trio.sleep(1)

    error = await two.error(two.call("other"))

    assert (error["class"], error["may_have_run"]) == ("timeout", False)
    assert "taken by a call of another client" in error["message"]


async def test_a_tool_that_may_be_hidden_from_who_cannot_be_asked_is_explained(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, {**LEGACY, "tools/list": {"tools": [{"name": "echo"}]}})
    agent, user = desk.client("agent"), desk.client("user").able(form=True)
    await agent.outcome(agent.call("echo"))
    await desk.catalog.listing("tools")

    error = await user.error(user.call("ask"))

    assert (error["class"], "mcpd restart fake" in error["hint"]) == ("unknown_tool", True)
    assert "hint" not in error or "restart" not in (await agent.error(agent.call("ask")))["hint"]
