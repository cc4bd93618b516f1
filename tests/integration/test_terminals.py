"""People at terminals whom a server asks, each his own question; and what those hear whom nobody can ask."""

from __future__ import annotations

import time

import pytest

from tests.client.terminal import CTRL_C, Terminal
from tests.integration.world import World, demo, until

ERAS = ("legacy", "modern")
END = "Enter sends this"


@pytest.mark.parametrize("era", ERAS)
def test_a_question_is_asked_on_the_terminal_and_its_answer_arrives(world: World, era: str) -> None:
    world.configure({"demo": demo(protocol=era)})

    with Terminal("call", "demo", "ask", "question=How are you?", env=world.env) as terminal:
        terminal.read_until("server 'demo' asks:")
        terminal.read_until("How are you?")
        terminal.answer("Answer", "very well")
        terminal.answer(END, "")
        assert terminal.finish() == 0

    assert terminal.shown.splitlines()[-1] == "very well"


@pytest.mark.parametrize("settings", [{"protocol": "modern"}, {"protocol": "legacy", "interactive": ["ask"], "scope": "user"}])
def test_two_terminals_at_once_get_their_own_question_each(world: World, settings: dict[str, object]) -> None:
    world.configure({"demo": demo(**settings)})
    world.call("demo", "echo", "text=warm")

    with (
        Terminal("call", "demo", "ask", "question=Who is one?", env=world.env) as one,
        Terminal("call", "demo", "ask", "question=Who is two?", env=world.env) as two,
    ):
        # Where a lane is needed, whoever is first is asked first.
        pairs = [(one, "one"), (two, "two")]
        if "interactive" in settings:
            until(lambda: world.row("demo").get("in_flight") == 1 and world.row("demo").get("queued") == 1)
            pairs.sort(key=lambda pair: not _is_asked(pair[0]))
        for terminal, name in pairs:
            terminal.read_until(f"Who is {name}?")
            terminal.answer("Answer", f"it is {name}")
            terminal.answer(END, "")
            assert terminal.finish() == 0
            assert terminal.shown.splitlines()[-1] == f"it is {name}"

    assert ("Who is two?" in one.shown, "Who is one?" in two.shown) == (False, False)


def _is_asked(terminal: Terminal) -> bool:
    return terminal.shows_soon("Who is")


@pytest.mark.parametrize("era", ERAS)
def test_ctrl_c_at_a_question_ends_the_call_and_hurts_no_other(world: World, era: str) -> None:
    world.configure({"demo": demo(protocol=era)})

    with Terminal("call", "demo", "ask", "question=Still there?", env=world.env) as terminal:
        terminal.read_until("Still there?")
        terminal.type(CTRL_C)
        assert terminal.finish() == 130

    until(lambda: world.row("demo")["in_flight"] == 0)
    assert world.call("demo", "echo", "text=fine") == "fine"


@pytest.mark.parametrize("era", ERAS)
def test_where_nobody_can_be_asked_that_is_said_at_once(world: World, era: str) -> None:
    world.configure({"demo": demo(protocol=era)})
    world.call("demo", "echo", "text=warm")
    begun = time.monotonic()

    done = world.run("call", "demo", "ask")

    # It would be the end of the call's own time, half a minute, if anybody had waited for an answer.
    assert time.monotonic() - begun < 20
    assert (done.status, "nobody to ask" in done.out) == (5, True)


@pytest.mark.parametrize("era", ERAS)
def test_what_was_said_beforehand_is_the_answer(world: World, era: str) -> None:
    world.configure({"demo": demo(protocol=era)})

    answered = world.run("call", "demo", "ask", "--elicit", '{"answer": "42"}')
    declined = world.run("call", "demo", "ask", "--elicit", "decline")

    assert (answered.out.strip(), answered.status) == ("42", 0)
    assert "decline" in declined.out
