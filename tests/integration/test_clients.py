"""Clients that leave, wait, hurry or hoard: each gets what is its own, and nobody pays for another."""

from __future__ import annotations

import signal
import socket
from typing import TYPE_CHECKING

import pytest

from tests.integration.wire import text_of
from tests.integration.world import shell, until

if TYPE_CHECKING:
    from tests.integration.wire import Wire
    from tests.integration.world import World

MIB = 1 << 20
HOUR = {"seconds": 3600}
# Everything that the demo server is told is kept in a file.
OVERHEARD = shell("tee heard | $0", cwd="${HOME}")


def heard(world: World) -> str:
    return (world.path / "home/heard").read_text()


# -- leaving ---------------------------------------------------------------------------------------


def test_a_client_that_sends_no_more_still_gets_all_its_answers(wire: Wire) -> None:
    ids = [wire.send_call("slow", {"seconds": 0.3}), *(wire.send_call("echo", {"text": str(n)}) for n in range(30))]
    wire.sock.shutdown(socket.SHUT_WR)

    answers = [text_of(wire.wait(identity)["result"]) for identity in ids]

    assert answers == ["slept 0.3 seconds", *map(str, range(30))]
    assert wire.has_ended()


def test_a_client_that_leaves_cancels_what_it_asked_for(world: World) -> None:
    world.configure({"demo": OVERHEARD})
    with world.connect() as wire:
        assert wire.text("echo", {"text": "x"}) == "x"
        wire.send_call("slow", HOUR)
        until(lambda: '"slow"' in heard(world))

    with world.connect() as other:
        until(lambda: other.row()["in_flight"] == 0)
        assert other.row()["outcomes"] == {"done": 1, "unknown": 1}
        until(lambda: "notifications/cancelled" in heard(world))
        assert other.row()["incarnation"] == 1


def test_an_interrupted_command_cancels_its_call(world: World) -> None:
    with world.connect() as wire:
        assert wire.text("echo", {"text": "x"}) == "x"
        command = world.spawn(*world.command, "call", "demo", "slow", "seconds=3600")
        until(lambda: wire.row()["in_flight"] == 1)

        command.send_signal(signal.SIGINT)

        assert command.wait() == 130
        until(lambda: wire.row()["in_flight"] == 0)


def test_what_is_cancelled_is_never_answered(wire: Wire, neighbour: Wire) -> None:
    before = wire.row()["outcomes"].get("unknown", 0)
    identity = wire.send_call("slow", {"seconds": 0.3})
    until(lambda: neighbour.row()["in_flight"] == 1)
    wire.notify("notifications/cancelled", {"requestId": identity, "reason": "changed my mind"})

    assert wire.text("slow", {"seconds": 0.4}) == "slept 0.4 seconds"
    assert wire.early == []
    assert wire.row()["outcomes"]["unknown"] == before + 1


def test_a_cancelled_id_can_be_used_again(wire: Wire) -> None:
    wire.send_call("slow", HOUR, id="again")
    wire.notify("notifications/cancelled", {"requestId": "again"})

    assert wire.text("echo", {"text": "second"}, id="again") == "second"


# -- not reading -----------------------------------------------------------------------------------


def test_a_client_that_does_not_read_is_waited_for_by_nobody(shared_world: World, neighbour: Wire) -> None:
    with shared_world.connect() as slow:
        ids = [slow.send_call("big", {"n": 4 * MIB}, max_bytes=16 * MIB) for _ in range(8)]
        for number in range(50):
            assert neighbour.text("echo", {"text": str(number)}) == str(number)

        sizes = [len(text_of(slow.wait(identity)["result"])) for identity in ids]

    assert sizes == [4 * MIB] * 8


def test_what_is_kept_for_a_client_that_does_not_read_is_bounded(world: World) -> None:
    with world.connect() as slow, world.connect() as other:
        for _ in range(80):
            slow.send_call("big", {"n": 2 * MIB}, max_bytes=16 * MIB)

        # Nothing more is asked of the server for a client that does not read, and so the counts stand still.
        seen: list[object] = []
        while len(seen) < 20 or seen[-20:] != [seen[-1]] * 20:
            seen.append(other.row().get("outcomes"))
        assert other.ask("mcpd/status")["daemon"]["rss_bytes"] < 128 * MIB

        for _ in range(80):
            slow.read()


# -- progress --------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", ["token", 7, 0, 2**53, "7", ""])
def test_progress_comes_with_the_token_of_the_one_who_asked(token: object, wire: Wire, neighbour: Wire) -> None:
    other = neighbour.send_call("slow", {"seconds": 0.2}, _meta={"progressToken": token})

    wire.text("slow", {"seconds": 0.2, "steps": 4}, _meta={"progressToken": token})

    tokens = [note["params"].pop("progressToken") for note in wire.notes]
    assert [type(one) for one in tokens] == [type(token)] * 4
    assert set(tokens) == {token}
    assert wire.notes[-1] == {
        "jsonrpc": "2.0",
        "method": "notifications/progress",
        "params": {"progress": 4, "total": 4, "message": "step 4 of 4"},
    }
    neighbour.wait(other)
    assert len(neighbour.notes) == 10


def test_who_asks_for_no_progress_hears_none(wire: Wire) -> None:
    wire.text("slow", {"seconds": 0.1})

    assert wire.notes == []


# -- deadlines -------------------------------------------------------------------------------------


def test_a_call_that_takes_too_long_may_have_run_and_its_server_lives_on(wire: Wire, neighbour: Wire) -> None:
    params = {"server": "demo", "tool": "slow", "arguments": HOUR, "timeout": 0.2}

    error = wire.fail("mcpd/call", params)

    assert (error["code"], error["data"]["class"], error["data"]["may_have_run"]) == (12, "timeout", True)
    assert (error["data"]["server"], error["data"]["tool"], error["data"]["seconds"]) == ("demo", "slow", 0.2)
    assert all(word in error["message"] for word in ("demo", "slow", "0.2 s"))
    assert wire.text("echo", {"text": "x"}) == "x"
    assert wire.row()["incarnation"] == 1


def test_the_command_line_ends_with_seven_on_a_timeout(shared_world: World) -> None:
    done = shared_world.run("call", "demo", "slow", "seconds=3600", "--timeout", "0.2", "--json")

    assert (done.status, done.out, done.error["class"]) == (7, "", "timeout")


def test_progress_does_not_extend_a_deadline_that_the_client_has_set(wire: Wire) -> None:
    params = {"server": "demo", "tool": "slow", "arguments": {"seconds": 3600, "steps": 10_000}, "timeout": 1}

    error = wire.fail("mcpd/call", {**params, "_meta": {"progressToken": 1}})

    assert error["code"] == 12
    assert wire.notes


def test_progress_extends_the_deadline_of_the_configuration(world: World) -> None:
    world.configure({"demo": shell("exec $0", timeout={"call_seconds": 1})})

    with world.connect() as wire:
        done = wire.text("slow", {"seconds": 1.5, "steps": 15}, _meta={"progressToken": 1})
        assert done == "slept 1.5 seconds"
        assert (
            wire.fail("mcpd/call", {"server": "demo", "tool": "slow", "arguments": {**HOUR, "steps": 1}})["code"] == 12
        )
