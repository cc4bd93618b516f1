"""What a server asks reaches the one client whose call it is for, or nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.chatty import (
    ERAS,
    FORMS,
    accept,
    ask,
    calls,
    entry,
    hello,
    note,
    question,
    reached,
    received,
    reply,
    silence,
    started,
    text,
    was_not_asked,
)
from tests.integration.ledger import within
from tests.integration.wire import text_of
from tests.integration.world import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.wire import Wire
    from tests.integration.world import World

INTERACTIVE = {"interactive": ["ask", "deaf"]}


# -- whose question it is --------------------------------------------------------------------------------------------


def test_the_only_client_with_a_call_under_way_is_asked(world: World) -> None:
    world.configure({"s": entry(world, "legacy")})
    with world.connect() as a, world.connect() as b:
        for wire in (a, b):
            hello(wire, FORMS)
        # Others have used this server, and the last one was not a.
        assert b.text("echo", {"text": "b"}, server="s") == "b"
        call = ask(a, "Who?")

        asked = question(a)

        assert (asked["method"], asked["params"]["message"]) == ("elicitation/create", "[s] Who?")
        assert asked["params"]["_meta"]["mcpd/server"] == "s"
        assert asked["params"]["requestedSchema"]["required"] == ["answer"]
        accept(a, asked, "me")
        assert text(a, call) == "Who? -> accept me"
        was_not_asked(a, b)


@pytest.mark.parametrize("era", ERAS)
def test_a_server_that_is_added_meanwhile_is_listed_called_and_asks(world: World, era: str) -> None:
    world.configure({"other": entry(world, era, ledger="other")})
    with world.connect() as a:
        hello(a, FORMS)
        assert a.text("echo", {"text": "a"}, server="other") == "a"
        world.configure({"other": entry(world, era, ledger="other"), "s": entry(world, era)})

        assert a.ask("mcpd/reload")["added"] == ["s"]

        listed = a.ask("mcpd/tools", {"limit": 100})["items"]
        assert {"other", "s"} == {item["server"] for item in listed if item["name"] == "ask"}
        call = ask(a, "Who?")
        accept(a, question(a), "me")
        assert text(a, call) == "Who? -> accept me"
        assert len(started(world, "other")) == 1


def test_with_two_clients_under_way_a_legacy_server_gets_a_cancel_and_nobody_is_asked(world: World) -> None:
    world.configure({"s": entry(world, "legacy")})
    with world.connect() as a, world.connect() as b:
        for wire in (a, b):
            hello(wire, FORMS)
        held = b.send_call("hold", {"key": "k"}, server="s")
        reached(world, "hold")

        assert text(a, ask(a, "Delete?")) == "Delete? -> cancel"

        was_not_asked(a, b)
        assert a.text("release", {"key": "k"}, server="s") == "1"
        assert text(b, held) == "k"


def test_two_clients_of_an_interactive_server_each_get_their_own_question(world: World) -> None:
    world.configure({"s": entry(world, "legacy", **INTERACTIVE)})
    with world.connect() as a, world.connect() as b:
        for wire in (a, b):
            hello(wire, FORMS)
        first = ask(a, "from a")
        reached(world, "ask")
        second = ask(b, "from b")

        for wire, call, name in ((a, first, "a"), (b, second, "b")):
            asked = question(wire)
            assert asked["params"]["message"] == f"[s] from {name}"
            accept(wire, asked, f"by {name}")
            assert text(wire, call) == f"from {name} -> accept by {name}"

        was_not_asked(a, b)
        # Both were served by one process, one after the other.
        assert len(started(world)) == 1


def test_while_an_interactive_tool_runs_no_call_of_another_client_is_let_in(world: World) -> None:
    world.configure({"s": entry(world, "legacy", **INTERACTIVE)})
    with world.connect() as a, world.connect() as b:
        for wire in (a, b):
            hello(wire, FORMS)
        call = ask(a, "Sure?")
        asked = question(a)

        late = b.send_call("echo", {"text": "late"}, server="s")
        silence(b)
        # The caller's own calls go on meanwhile: the question is his, whichever of them it is about.
        assert a.text("count", server="s") == "1"
        assert calls(world, "echo") == []
        accept(a, asked, "yes")

        assert text(a, call) == "Sure? -> accept yes"
        assert text(b, late) == "late"


def test_an_answer_to_what_another_client_was_asked_counts_for_nothing(world: World) -> None:
    world.configure({"s": entry(world, "legacy")})
    with world.connect() as a, world.connect() as b:
        for wire in (a, b):
            hello(wire, FORMS)
        call = ask(a, "Pay?")
        asked = question(a)

        accept(b, asked, "all of it")
        silence(b)
        accept(a, asked, "nothing")
        # And whoever answers twice is heard once.
        accept(a, asked, "more")

        assert text(a, call) == "Pay? -> accept nothing"
        assert b.text("echo", {"text": "b"}, server="s") == "b"


def test_answers_to_questions_that_are_not_open_are_counted(world: World) -> None:
    world.configure({"s": entry(world, "legacy")})
    with world.connect() as a:
        hello(a, FORMS)
        call = ask(a, "Sure?")
        asked = question(a)
        for answer in ("yes", "no"):
            accept(a, asked, answer)

        assert text(a, call) == "Sure? -> accept yes"
        assert a.ask("mcpd/status")["daemon"]["counters"]["late_answers"] == 1


def test_what_is_asked_with_nothing_under_way_is_answered_without_any_client(world: World) -> None:
    world.configure({"s": entry(world, "legacy", "eager")})
    with world.connect() as a, world.connect() as b:
        for wire in (a, b):
            hello(wire, {**FORMS, "roots": {}})

        a.ask("mcpd/start", {"server": "s"})

        def answers() -> dict[object, dict[str, object]]:
            return {message["id"]: message for message in received(world) if "method" not in message}

        until(lambda: len(answers()) == 2, seen=answers)
        form, roots = answers()["eager-1"], answers()["eager-2"]
        assert "error" in form or form["result"] == {"action": "cancel"}
        assert "error" in roots or roots["result"] == {"roots": []}
        was_not_asked(a, b)
        assert a.text("echo", {"text": "a"}, server="s") == "a"


def cancel(a: Wire, b: Wire) -> None:
    a.notify("notifications/cancelled", {"requestId": 77})
    silence(a)


def leave(a: Wire, b: Wire) -> None:
    a.close()
    until(lambda: b.ask("mcpd/status")["daemon"]["connections"] == 1)


@pytest.mark.parametrize("give_up", [cancel, leave])
@pytest.mark.parametrize("more", [{}, INTERACTIVE], ids=["plain", "interactive"])
def test_a_question_that_crosses_the_end_of_its_call_goes_to_nobody_else(
    world: World, more: dict[str, object], give_up: Callable[[Wire, Wire], None]
) -> None:
    world.configure({"s": entry(world, "legacy", **more)})
    gate = world.path / "gate"
    with world.connect() as a, world.connect() as b:
        for wire in (a, b):
            hello(wire, FORMS)
        a.send_call("deaf", {"until": str(gate), "question": "Is it a?"}, server="s", id=77)
        reached(world, "deaf")
        give_up(a, b)
        # Now only b has a call under way, and the server will ask before it reads of the end.
        call = b.send_call("echo", {"text": "b"}, server="s")
        silence(b)
        gate.touch()

        assert text(b, call) == "b"
        assert b.text("echo", {"text": "again"}, server="s") == "again"
        was_not_asked(b)


# -- who can be asked ------------------------------------------------------------------------------------------------


def test_a_legacy_server_learns_at_once_that_its_caller_cannot_be_asked(world: World) -> None:
    world.configure({"s": entry(world, "legacy")})
    with world.connect() as able, world.connect() as mute:
        hello(able, FORMS)
        hello(mute)
        assert able.text("echo", {"text": "x"}, server="s") == "x"

        with within(1):
            assert text(mute, ask(mute, "Hm?", rude=True)).startswith(("Hm? -> cancel", "Hm? -> error"))

        was_not_asked(able, mute)


@pytest.mark.parametrize("era", ERAS)
def test_a_client_is_asked_for_a_sample_only_if_it_has_said_that_it_makes_some(world: World, era: str) -> None:
    world.configure({"s": entry(world, era)})
    with world.connect() as a, world.connect() as b:
        hello(a, {"sampling": {}})
        hello(b, FORMS)
        call = a.send_call("sample", {"text": "Say a"}, server="s")

        asked = question(a)

        assert asked["method"] == "sampling/createMessage"
        assert asked["params"]["messages"][0]["content"]["text"].endswith("Say a")
        result = {"role": "assistant", "content": {"type": "text", "text": "a"}, "model": "m"}
        reply(a, asked, result=result)
        assert text(a, call) == "Say a -> result a"
        refused = b.wait(b.send_call("sample", {"text": "Say b"}, server="s"))
        assert "error" in refused or "-> error" in text_of(refused["result"])
        was_not_asked(a, b)


# -- questions that nobody answers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, INTERACTIVE], ids=["plain", "interactive"])
def test_for_a_client_that_vanishes_while_it_is_asked_the_server_gets_an_answer(
    world: World, more: dict[str, object]
) -> None:
    world.configure({"s": entry(world, "legacy", **more)})
    with world.connect() as b:
        hello(b, FORMS)
        with world.connect() as a:
            hello(a, FORMS)
            ask(a, "Still there?")
            question(a)

        def answer() -> list[dict[str, object]]:
            return [message for message in received(world) if "method" not in message]

        until(answer)
        assert "error" in answer()[0] or answer()[0]["result"] == {"action": "cancel"}
        # The server goes on, and the next one who is asked is asked his own.
        call = ask(b, "And you?")
        asked = question(b)
        assert asked["params"]["message"] == "[s] And you?"
        accept(b, asked, "here")
        assert text(b, call) == "And you? -> accept here"


def test_a_question_that_the_server_takes_back_is_taken_back_from_the_client(world: World) -> None:
    world.configure({"s": entry(world, "legacy")})
    with world.connect() as a:
        hello(a, FORMS)
        call = ask(a, "Quick?")
        asked = question(a)

        assert a.text("withdraw", server="s") == "done"

        assert note(a, "notifications/cancelled")["requestId"] == asked["id"]
        assert text(a, call) == "withdrawn"
        # Whoever has not seen that in time answers to nobody.
        accept(a, asked, "too late")
        assert a.text("echo", {"text": "x"}, server="s") == "x"
        assert [message for message in received(world) if "method" not in message] == []


@pytest.mark.parametrize("era", ERAS)
def test_the_question_of_a_call_that_its_client_cancels_is_taken_back(world: World, era: str) -> None:
    world.configure({"s": entry(world, era)})
    with world.connect() as a:
        hello(a, FORMS)
        call = ask(a, "Wait?")
        asked = question(a)

        a.notify("notifications/cancelled", {"requestId": call})

        assert note(a, "notifications/cancelled")["requestId"] == asked["id"]
        accept(a, asked, "too late")
        assert a.text("echo", {"text": "x"}, server="s") == "x"
        assert a.early == []
        assert len(calls(world, "ask")) == 1
