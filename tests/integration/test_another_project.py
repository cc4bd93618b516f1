"""What a client has asked for in one project is neither done nor answered in the next one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.integration.wire import Wire
    from tests.integration.world import World


def lines(*requests: tuple[Any, str, object]) -> bytes:
    """Return requests as (id, method, params) in one piece, so that they are read in one go."""
    return b"".join(
        json.dumps({"jsonrpc": "2.0", "method": method, "params": params} | ({"id": id_} if id_ else {})).encode() + b"\n"
        for id_, method, params in requests
    )


def answers(wire: Wire, last: object) -> dict[object, list[Any]]:
    """Return all answers up to that of a last request, by id."""
    found: dict[object, list[Any]] = {}
    while last not in found:
        message = wire.read()
        if "method" not in message:
            found.setdefault(message["id"], []).append(message.get("error", message.get("result")))
    return found


def assert_nothing_more(wire: Wire) -> None:
    """Show that no request is answered that was not asked now, nor one a second time."""
    for _ in range(3):  # each of them a task that begins when those before it are over
        wire.ask("mcpd/tools", {"server": "demo"})
    assert wire.early == []


def test_a_command_that_was_not_begun_is_not_run_after_the_turn(world: World) -> None:
    with world.connect() as wire, world.connect() as other:
        wire.ask("mcpd/hello", {"project": "/a"})
        assert wire.text("counter") == "1"
        argv = ["call", "demo", "counter", "--no-check"]

        wire.write(lines(("c", "mcpd/cli", {"argv": argv}), ("h", "mcpd/hello", {"project": "/b"})))
        found = answers(wire, "h")

        assert [one["data"]["class"] for one in found["c"]] == ["stale_session"]
        assert other.text("counter") == "2"
        assert_nothing_more(wire)


def test_a_request_that_is_refused_for_the_turn_is_answered_once(world: World) -> None:
    with world.connect() as wire:
        wire.ask("mcpd/hello", {"project": "/a"})
        assert wire.text("echo", {"text": "hi"}) == "hi"

        wire.write(lines(("l", "mcpd/tools", {"server": "nope"}), ("h", "mcpd/hello", {"project": "/b"})))

        found = answers(wire, "h")
        assert [one["data"]["class"] for one in found["l"]] == ["stale_session"]
        assert_nothing_more(wire)


def test_the_first_request_of_a_client_belongs_to_the_project_that_was_said_before(world: World) -> None:
    with world.connect() as wire:
        wire.write(
            lines(
                ("1", "mcpd/hello", {"project": "/a"}),
                ("l", "mcpd/tools", {"server": "demo"}),
                ("2", "mcpd/hello", {"project": "/b"}),
            )
        )

        assert [one["data"]["class"] for one in answers(wire, "2")["l"]] == ["stale_session"]


def test_what_is_cancelled_in_the_moment_in_which_it_is_asked_is_not_answered(world: World) -> None:
    with world.connect() as wire:
        wire.write(lines(("l", "mcpd/tools", {"server": "nope"}), (None, "notifications/cancelled", {"requestId": "l"})))

        assert_nothing_more(wire)
