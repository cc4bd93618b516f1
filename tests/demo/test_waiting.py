"""Calls of the demo server that wait: for time, or for an answer."""

import json

import pytest

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
MODERN = {VERSION: "2026-07-28", CAPABILITIES: {}}


def test_slow_reports_each_step_and_then_answers(client):
    identity = client.start(
        "tools/call", {"name": "slow", "arguments": {"seconds": 0.03, "steps": 3}}, meta={"progressToken": "t"}
    )

    messages = [client.read() for _ in range(4)]

    assert [message.get("method") for message in messages] == ["notifications/progress"] * 3 + [None]
    assert [message["params"] for message in messages[:3]] == [
        {"progressToken": "t", "progress": step, "total": 3, "message": f"step {step} of 3"} for step in (1, 2, 3)
    ]
    assert messages[3]["id"] == identity
    assert messages[3]["result"]["content"][0]["text"] == "slept 0.03 seconds"


def test_slow_is_silent_without_a_token_and_works_with_the_token_zero(client):
    assert client.text("slow", {"seconds": 0}) == "slept 0 seconds"

    client.start("tools/call", {"name": "slow", "arguments": {"seconds": 0, "steps": 1}}, meta={"progressToken": 0})
    assert client.read()["params"]["progressToken"] == 0
    assert "result" in client.read()


def test_other_calls_go_on_while_one_is_slow(client):
    slow = client.start("tools/call", {"name": "slow", "arguments": {"seconds": 3600}})

    assert client.text("echo", {"text": "meanwhile"}) == "meanwhile"
    client.send("notifications/cancelled", {"requestId": slow})
    assert client.text("echo", {"text": "after"}) == "after"
    assert client.end() == ([], 0)


def test_a_cancelled_call_is_not_answered_and_its_neighbour_is(start):
    client = start()
    slow = {
        "jsonrpc": "2.0",
        "method": "tools/call",
        "params": {"name": "slow", "arguments": {"seconds": 0.01}, "_meta": MODERN},
    }
    cancel = {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": 1, "reason": "no longer needed"},
    }

    # One write, so that the cancellation is there before the first call has slept enough.
    client.write(b"".join(json.dumps(each).encode() + b"\n" for each in (slow | {"id": 1}, slow | {"id": 2}, cancel)))

    rest, status = client.end()
    assert [message["id"] for message in rest] == [2]
    assert status == 0


def test_legacy_asks_by_a_request_and_gives_back_the_answer(start):
    client = start()
    client.initialize(elicitation={})
    identity = client.start("tools/call", {"name": "ask", "arguments": {"question": "Name?"}})

    question = client.read()
    assert question["method"] == "elicitation/create"
    assert question["params"]["message"] == "Name?"
    assert question["params"]["requestedSchema"]["properties"]["answer"]["type"] == "string"
    assert client.text("echo", {"text": "meanwhile"}) == "meanwhile"
    client.write(
        json.dumps(
            {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"answer": "Ann"}}}
        ).encode()
        + b"\n"
    )

    answer = client.read()
    assert answer["id"] == identity
    assert answer["result"] == {"content": [{"type": "text", "text": "Ann"}]}


@pytest.mark.parametrize(
    ("reply", "text", "is_error"),
    [
        ({"result": {"action": "decline"}}, "no answer: decline", False),
        ({"result": {"action": "cancel"}}, "no answer: cancel", False),
        ({"result": {"action": "accept", "content": {"answer": 5}}}, "no answer that fits the form", True),
        ({"result": {"action": "accept"}}, "no answer that fits the form", True),
        ({"error": {"code": -1, "message": "no"}}, "no answer that fits the form", True),
    ],
)
def test_other_replies_than_an_answer_end_the_call_too(start, reply, text, is_error):
    client = start()
    client.initialize(elicitation={"form": {}})
    client.start("tools/call", {"name": "ask"})

    client.write(json.dumps({"jsonrpc": "2.0", "id": client.read()["id"], **reply}).encode() + b"\n")

    result = client.read()["result"]
    assert (result["content"][0]["text"], result.get("isError", False)) == (text, is_error)


def test_a_cancelled_question_is_taken_back_and_a_late_reply_ignored(start):
    client = start()
    client.initialize(elicitation={})
    identity = client.start("tools/call", {"name": "ask"})
    question = client.read()

    client.send("notifications/cancelled", {"requestId": identity})

    taken_back = client.read()
    assert taken_back["method"] == "notifications/cancelled"
    assert taken_back["params"] == {"requestId": question["id"]}
    client.write(json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}}).encode() + b"\n")
    assert client.text("echo", {"text": "after"}) == "after"


@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {"url": {}}}, {"elicitation": None}, {"sampling": {}}])
def test_a_client_that_shows_no_forms_is_told_that_nobody_can_be_asked(start, capabilities):
    old, new = start(), start(meta={VERSION: "2026-07-28", CAPABILITIES: capabilities})
    old.initialize(**capabilities)

    for client in (old, new):
        result = client.call("ask")
        assert result["isError"] is True
        assert "nobody to ask" in result["content"][0]["text"]


def test_modern_asks_by_its_result_and_takes_the_answer_with_the_repeated_call(start):
    client = start(meta={VERSION: "2026-07-28", CAPABILITIES: {"elicitation": {"form": {}}}})
    call = {"name": "ask", "arguments": {"question": "Name?"}}

    asked = client.request("tools/call", call)["result"]
    assert asked["resultType"] == "input_required"
    question = asked["inputRequests"]["answer"]
    assert question["method"] == "elicitation/create"
    assert question["params"]["mode"] == "form"
    assert question["params"]["message"] == "Name?"
    reply = {
        "inputResponses": {"answer": {"action": "accept", "content": {"answer": "Ann"}}},
        "requestState": asked["requestState"],
    }

    answered = client.request("tools/call", call | reply)["result"]

    assert answered["resultType"] == "complete"
    assert answered["content"] == [{"type": "text", "text": "Ann"}]


def test_modern_asks_again_where_the_answer_is_missing_and_refuses_the_state_of_another_question(start):
    client = start(meta={VERSION: "2026-07-28", CAPABILITIES: {"elicitation": {}}})
    state = client.call("ask")["requestState"]
    reply = {"inputResponses": {"answer": {"action": "decline"}}, "requestState": state}

    again = client.request("tools/call", {"name": "ask", "inputResponses": {"else": {}}, "requestState": state})
    other = client.request("tools/call", {"name": "ask", "arguments": {"question": "Other?"}, **reply})

    assert again["result"]["resultType"] == "input_required"
    assert other["error"]["code"] == -32602
