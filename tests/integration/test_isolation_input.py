"""A modern server answers that it needs input: only the client whose call that is gets asked, and the call comes again."""

from __future__ import annotations

import pytest

from tests.integration.chatty import (
    FORMS,
    PROTOCOL_KEYS,
    accept,
    ask,
    calls,
    entry,
    hello,
    question,
    reached,
    received,
    reply,
    text,
    was_not_asked,
)
from tests.integration.ledger import within
from tests.integration.world import World, until

# Text that looks like something else, and none at all: a state is a state.
STATES = ['{"a": [1.0, "\\u00e9"]}', "naïve ☃ 𝄞 \u2028\u0000 \\ \"'", "", "0", "null"]


def test_of_two_clients_of_a_modern_server_only_the_one_whose_call_it_is_gets_asked(world: World) -> None:
    world.configure({"s": entry(world, "modern")})
    with world.connect() as a, world.connect() as b:
        for wire in (a, b):
            hello(wire, FORMS)
        held = a.send_call("hold", {"key": "k"}, server="s")
        reached(world, "hold")
        call = ask(b, "b?")

        asked = question(b)

        assert (asked["method"], asked["params"]["message"]) == ("elicitation/create", "[s] b?")
        was_not_asked(a)
        # Both can be asked at once; each answers his own.
        other = ask(a, "a?")
        for wire, name in ((a, "a"), (b, "b")):
            accept(wire, question(wire) if wire is a else asked, f"by {name}")
        assert text(a, other) == "a? -> accept by a"
        assert text(b, call) == "b? -> accept by b"
        a.text("release", {"key": "k"}, server="s")
        assert text(a, held) == "k"


@pytest.mark.parametrize("state", [*STATES, None], ids=["object", "any-text", "empty", "number", "null", "none"])
def test_the_state_of_a_question_goes_back_as_it_came_under_a_new_id(world: World, state: str | None) -> None:
    world.configure({"s": entry(world, "modern")})
    with world.connect() as a:
        hello(a, FORMS)
        call = ask(a, "Q", state=state)
        accept(a, question(a), "A")

        assert text(a, call) == "Q -> accept A"

    first, second = calls(world, "ask")
    assert first["id"] != second["id"]
    assert second["params"].pop("inputResponses") == {"it": {"action": "accept", "content": {"answer": "A"}}}
    assert second["params"].pop("requestState", None) == state
    assert [one["params"]["arguments"] for one in (first, second)] == [{"question": "Q", "state": state}] * 2
    assert all(PROTOCOL_KEYS + "clientCapabilities" in one["params"]["_meta"] for one in (first, second))


def test_a_refusal_is_an_answer_and_an_error_ends_the_call_of_a_modern_server(world: World) -> None:
    world.configure({"s": entry(world, "modern")})
    with world.connect() as a:
        hello(a, FORMS)
        call = ask(a, "Yes?")
        reply(a, question(a), result={"action": "decline"})
        assert text(a, call) == "Yes? -> decline"
        call = ask(a, "No?")
        reply(a, question(a), error={"code": -32603, "message": "no window"})

        assert "error" in a.wait(call)

    # The first call came again with its answer, the second did not.
    assert ["inputResponses" in one["params"] for one in calls(world, "ask")] == [False, True, False]


def test_a_call_of_a_modern_server_ends_with_the_client_that_vanishes_while_it_is_asked(world: World) -> None:
    world.configure({"s": entry(world, "modern")})
    with world.connect() as b:
        hello(b, FORMS)
        with world.connect() as a:
            hello(a, FORMS)
            ask(a, "Still there?")
            question(a)
        until(lambda: b.row("s")["in_flight"] == 0)

        assert b.text("echo", {"text": "b"}, server="s") == "b"

        was_not_asked(b)
        # It was asked for input that will never come: there is nothing to send.
        assert len(calls(world, "ask")) == 1


def test_a_modern_server_learns_at_once_that_its_caller_cannot_be_asked(world: World) -> None:
    world.configure({"s": entry(world, "modern")})
    with world.connect() as able, world.connect() as mute:
        hello(able, FORMS)
        hello(mute)
        # Somebody else could be asked, and is under way.
        held = able.send_call("hold", {"key": "k"}, server="s")
        reached(world, "hold")

        with within(1):
            error = mute.wait(ask(mute, "Hm?", rude=True))["error"]

        assert (error["code"], error["data"]["class"], error["data"]["server"]) == (34, "input_required", "s")
        assert error["message"] == "server 's' asks for input that this client cannot give"
        was_not_asked(able, mute)
        mute.text("release", {"key": "k"}, server="s")
        assert text(able, held) == "k"
    declared = {
        call["params"]["name"]: call["params"]["_meta"][PROTOCOL_KEYS + "clientCapabilities"]
        for call in received(world, "tools/call")
    }
    assert ("elicitation" in declared["hold"], "elicitation" in declared["ask"]) == (True, False)
