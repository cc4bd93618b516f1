"""Calls that need a sign-in: they say so, or sign in and go on, and never run twice."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.client.terminal import Terminal

if TYPE_CHECKING:
    from tests.integration.world import Done, World
    from tests.signin.authority import Authority


@pytest.fixture
def world(signing_world: World, authority: Authority) -> World:
    signing_world.configure({"s": {"url": authority.url}})
    return signing_world


def run(world: World, *argv: str) -> Done:
    return world.run(*argv, command=world.command)


def test_a_call_without_a_sign_in_says_what_to_type(world: World, authority: Authority) -> None:
    done = run(world, "call", "s", "read")

    assert (done.status, done.out) == (3, ""), done
    assert "mcpd login s" in done.err
    assert authority.seen("/authorize") == []


def test_with_login_a_call_signs_in_and_runs_once(world: World, authority: Authority) -> None:
    done = run(world, "call", "s", "read", "--login")

    assert (done.status, done.out) == (0, "read with \n"), done
    assert len(authority.seen("/authorize")) == 1
    assert authority.calls == ["read"]


def test_a_step_up_asks_for_all_that_there_was_and_for_more(world: World, authority: Authority) -> None:
    authority.needs = {"*": {"base"}, "write": {"pen"}}
    assert run(world, "login", "s").status == 0
    assert run(world, "call", "s", "read").status == 0

    done = run(world, "call", "s", "write", "--login")

    assert done.status == 0, done
    assert done.out == "write with base pen\n"
    assert [one["scope"] for one in authority.seen("/authorize")] == ["base", "base pen"]
    assert authority.calls == ["read", "write"]


def test_a_server_that_wants_ever_more_is_left_after_three_calls(world: World, authority: Authority) -> None:
    authority.needs = {"write": {"pen"}}
    authority.withheld = {"pen"}
    authority.is_greedy = True
    assert run(world, "login", "s").status == 0

    done = run(world, "call", "s", "write", "--login", "--json")

    assert done.status == 3, done
    assert json.loads(done.err.splitlines()[-1])["error"]["class"] == "auth_required"
    assert len(authority.seen("/authorize")) == 1 + 2
    assert authority.calls == []


def test_what_was_asked_for_in_vain_is_not_asked_for_again(world: World, authority: Authority) -> None:
    authority.needs = {"write": {"pen"}}
    authority.withheld = {"pen"}
    assert run(world, "login", "s").status == 0

    done = run(world, "call", "s", "write", "--login")

    assert done.status == 3, done
    assert [one.get("scope") for one in authority.seen("/authorize")] == [None, "pen"]
    assert authority.calls == []


def test_on_a_terminal_it_asks_first(world: World, authority: Authority) -> None:
    with Terminal("call", "s", "read", env=world.env, command=world.command) as terminal:
        terminal.answer("server s wants a sign-in; sign in now? [Y/n]", "n")
        assert terminal.finish() == 3
    assert authority.seen("/authorize") == []

    with Terminal("call", "s", "read", env=world.env, command=world.command) as terminal:
        terminal.answer("sign in now? [Y/n]", "")
        terminal.read_until("signed in to s")
        terminal.read_until("read with")
        assert terminal.finish() == 0
    assert authority.calls == ["read"]


def test_after_signing_out_a_call_needs_a_sign_in_again(world: World, authority: Authority) -> None:
    assert run(world, "login", "s").status == 0
    assert run(world, "call", "s", "read").status == 0

    assert run(world, "logout", "s").status == 0

    assert run(world, "call", "s", "read").status == 3
    assert authority.calls == ["read"]


def test_a_token_that_lacks_something_from_the_start_is_got_again_by_the_same_login(
    world: World, authority: Authority
) -> None:
    authority.needs = {"*": {"base"}}
    authority.naming = {403}

    done = run(world, "login", "s")

    assert done.status == 0, done
    assert [one.get("scope") for one in authority.seen("/authorize")] == [None, "base"]
    assert run(world, "call", "s", "read").status == 0
