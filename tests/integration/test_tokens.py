"""Tokens of a remote server that expire: one daemon holds them for all clients, and loses none, whatever ends it."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcpd.upstream.vault import Client, Credential, Endpoints, Tokens, Vault
from tests.integration.wire import Wire
from tests.integration.world import World, until
from tests.servers.auth_server import Both, serving

CLIENTS = 50


@pytest.fixture(params=["legacy", "modern"])
def both(request: pytest.FixtureRequest) -> Iterator[Both]:
    """An authorization server, and an MCP server of one era that it protects."""
    with serving() as both:
        both.eras = {request.param}
        yield both


@pytest.fixture
def modern() -> Iterator[Both]:
    with serving() as both:
        both.eras = {"modern"}
        yield both


def vault(world: World) -> Vault:
    return Vault(f"{world.path}/home/.local/state/mcpd/credentials")


def sign_in(world: World, both: Both, scope: str = "mcp", **client: Any) -> Credential:
    """Configure the server and put into the vault what a sign-in brings."""
    world.configure({"api": {"url": both.resource}})
    known = both.register(**client)
    granted = both.sign_in(known["client_id"], scope)
    tokens = Tokens(
        access_token=granted["access_token"], token_type="Bearer", refresh_token=granted["refresh_token"], scope=scope,
        expires_at=None,
    )  # fmt: skip
    mine = Client(client_id=known["client_id"], client_secret=known.get("client_secret"), registration="dynamic")
    credential = Credential(
        version=1, resource=both.resource, issuer=both.origin, client=mine,
        endpoints=Endpoints(token=f"{both.origin}/token"), tokens=tokens, saved_at=0.0,
    )  # fmt: skip
    with vault(world).locked(both.origin, both.resource):
        return vault(world).write(credential)


def stored(world: World, both: Both) -> Tokens:
    found = vault(world).read(both.origin, both.resource)
    assert found is not None
    assert found.tokens is not None
    return found.tokens


def ask(wire: Wire, text: str = "hello") -> Any:
    return wire.send("mcpd/call", {"server": "api", "tool": "echo", "arguments": {"text": text}})


@contextlib.contextmanager
def clients(world: World, number: int) -> Iterator[list[Wire]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(world.connect()) for _ in range(number)]


def texts(wires: list[Wire], numbers: list[Any]) -> list[str]:
    """Return what fifty calls have answered."""
    results = [wire.wait(number)["result"] for wire, number in zip(wires, numbers, strict=True)]
    return [result["content"][0]["text"] for result in results]


def test_fifty_clients_whose_token_has_expired_make_one_refresh_and_get_fifty_answers(world: World, both: Both) -> None:
    sign_in(world, both)
    assert world.call("api", "echo", "text=before") == "before"
    both.asked.clear()
    both.expire()
    both.token_seconds = 0.3  # all of them come while it is made

    with clients(world, CLIENTS) as wires:
        numbers = [ask(wire, f"text {index}") for index, wire in enumerate(wires)]
        answers = texts(wires, numbers)

    assert answers == [f"text {index}" for index in range(CLIENTS)]
    assert both.asked == [("refresh_token", 200)]
    assert both.revoked == set()
    assert both.is_alive(stored(world, both).refresh_token or "")


def test_fifty_clients_whose_token_expires_again_and_again_lose_nothing(world: World, modern: Both) -> None:
    both = modern
    sign_in(world, both)
    world.call("api", "echo", "text=before")

    with clients(world, CLIENTS) as wires:
        for turn in range(5):
            both.expire()
            numbers = [ask(wire, f"{turn} {index}") for index, wire in enumerate(wires)]
            assert texts(wires, numbers) == [f"{turn} {index}" for index in range(CLIENTS)]

    assert both.revoked == set()
    assert {status for _, status in both.asked} == {200}


@pytest.mark.parametrize("moment", ["before the answer", "after the answer"])
def test_a_daemon_that_is_killed_after_a_refresh_loses_no_credential(moment: str, world: World, both: Both) -> None:
    sign_in(world, both)
    world.call("api", "echo", "text=before")
    before = stored(world, both)
    both.expire()
    both.answering.clear()
    both.calls.clear()

    with world.connect() as wire:
        number = ask(wire)
        # The token is renewed, and the call with it has come, but nobody has got an answer yet.
        until(lambda: [status for _, status in both.calls] == [401, 200])
        if moment == "after the answer":
            both.answering.set()
            assert wire.wait(number)["result"]["content"]
        world.signal_daemon(signal.SIGKILL)
        until(lambda: not world.daemons())

    after = stored(world, both)
    assert after.refresh_token != before.refresh_token
    assert both.is_alive(after.refresh_token or "")
    both.answering.set()
    assert world.call("api", "echo", "text=again") == "again"
    both.expire()
    assert world.call("api", "echo", "text=and again") == "and again"
    assert both.revoked == set()


def test_a_daemon_that_is_killed_again_and_again_never_shows_a_spent_token(world: World, modern: Both) -> None:
    """Each is killed as soon as the refreshed token is on the disk, while its calls are on their way."""
    both = modern
    sign_in(world, both)

    for _ in range(5):
        world.call("api", "echo", "text=before")
        before = stored(world, both)
        both.expire()
        with clients(world, 5) as wires:
            for wire in wires:
                ask(wire)
            until(functools.partial(_has_changed, world, both, before))
            world.signal_daemon(signal.SIGKILL)
            until(lambda: not world.daemons())

    assert both.revoked == set()
    assert world.call("api", "echo", "text=after") == "after"


def test_a_daemon_that_is_asked_to_stop_in_the_middle_of_a_refresh_keeps_what_it_brings(
    world: World, modern: Both
) -> None:
    both = modern
    sign_in(world, both)
    world.call("api", "echo", "text=before")
    both.expire()
    both.token_seconds = 1.0
    both.calls.clear()

    with world.connect() as wire:
        ask(wire)
        until(lambda: both.calls)
        assert world.run("down").status == 0

    assert both.is_alive(stored(world, both).refresh_token or "")
    assert world.call("api", "echo", "text=again") == "again"
    assert both.revoked == set()


def test_a_daemon_that_is_asked_to_stop_does_not_wait_for_an_authorization_server_that_hangs(
    world: World, modern: Both
) -> None:
    both = modern
    before = sign_in(world, both)
    world.call("api", "echo", "text=before")
    both.expire()
    both.token_seconds = 1000
    both.calls.clear()

    with world.connect() as wire:
        ask(wire)
        until(lambda: both.calls)
        assert world.run("down").status == 0  # or it is not done within the patience of this world

    assert stored(world, both) == before.tokens


def test_a_refresh_that_is_refused_wants_a_sign_in_and_keeps_the_file(world: World, modern: Both) -> None:
    both = modern
    sign_in(world, both)
    world.call("api", "echo", "text=before")
    before = vault(world).read(both.origin, both.resource)
    both.revoked.add(1)

    done = world.run("call", "api", "echo", "text=x", "--json")

    assert done.status == 3
    assert done.error["class"] == "auth_required"
    assert done.error["hint"] == "mcpd login api"
    assert world.row("api")["state"] == "needs_auth"
    assert vault(world).read(both.origin, both.resource) == before


def test_a_new_sign_in_is_used_after_a_start(world: World, modern: Both) -> None:
    both = modern
    sign_in(world, both)
    both.revoked.add(1)
    assert world.run("call", "api", "echo", "text=x").status == 3

    sign_in(world, both)
    assert world.run("start", "api").status == 0

    assert world.call("api", "echo", "text=x") == "x"


def test_an_authorization_server_that_is_down_for_a_moment_wants_no_sign_in(world: World, modern: Both) -> None:
    both = modern
    sign_in(world, both)
    world.call("api", "echo", "text=before")
    both.expire()
    both.fails = 2

    assert world.call("api", "echo", "text=x") == "x"
    assert both.asked == [("refresh_token", 503), ("refresh_token", 503), ("refresh_token", 200)]


def test_a_step_up_says_what_to_sign_in_for_and_disturbs_nobody(world: World, modern: Both) -> None:
    both = modern
    sign_in(world, both)

    done = world.run("call", "api", "admin", "--json")

    assert done.status == 3
    assert done.error["data"]["scopes"] == ["mcp", "admin"]
    assert done.error["data"]["error"] == "insufficient_scope"
    assert world.call("api", "echo", "text=x") == "x"
    assert world.row("api")["state"] == "ready"


def test_no_token_is_seen_anywhere(world: World, modern: Both) -> None:
    both = modern
    sign_in(world, both, token_endpoint_auth_method="client_secret_basic")
    world.call("api", "echo", "text=before")
    seen = {*_secrets(world, both)}
    both.expire()
    world.call("api", "echo", "text=after")
    seen |= {*_secrets(world, both)}
    both.revoked.add(1)
    said = [
        world.run("call", "api", "echo"),
        world.run("status", "--json"),
        world.run("status", "api"),
        world.run("logs", "api"),
    ]

    assert len(seen) == 5
    text = f"{said} {world.log()}"
    assert [secret for secret in seen if secret in text] == []
    files = [path for path in Path(world.path).rglob("*") if path.is_file()]
    holding = [path for path in files if any(secret in path.read_text(errors="replace") for secret in seen)]
    assert [path.parent.name for path in holding] == ["credentials"]
    assert [stat.S_IMODE(os.stat(path).st_mode) for path in holding] == [0o600]


def _has_changed(world: World, both: Both, before: Tokens) -> bool:
    return stored(world, both) != before


def _secrets(world: World, both: Both) -> Iterator[str]:
    found = vault(world).read(both.origin, both.resource)
    assert found is not None
    yield from found.secrets


def test_a_command_prints_what_a_server_wants_and_is_run_again_when_that_is_refused(world: World, modern: Both) -> None:
    both = modern
    client = both.register()["client_id"]
    token = world.path / "token"
    script = f"""printf '{{"Authorization": "Bearer %s"}}' "$(cat {token})"; echo >> {token}.runs"""
    world.configure({"api": {"url": both.resource, "headers_helper": ["/bin/sh", "-c", script.replace("$", "$$")]}})
    token.write_text(both.sign_in(client)["access_token"])
    assert world.call("api", "echo", "text=one") == "one"

    both.expire()
    token.write_text(both.sign_in(client)["access_token"])

    assert world.call("api", "echo", "text=two") == "two"
    assert Path(f"{token}.runs").read_text() == "\n\n"
    both.expire()
    done = world.run("call", "api", "echo", "text=three", "--json")
    assert done.status == 3
    assert done.error["hint"] == "check headers_helper in the entry of api"
