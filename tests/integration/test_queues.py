"""Places at a server, and what one may not or cannot call at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.integration.wire import text_of
from tests.integration.world import demo, until

if TYPE_CHECKING:
    from tests.integration.wire import Wire
    from tests.integration.world import World

HOUR = {"seconds": 3600}


def test_calls_behind_a_full_server_are_served_in_their_order(world: World) -> None:
    world.configure({"demo": demo(limits={"in_flight": 1})})
    with world.connect() as wire:
        first = wire.send_call("slow", {"seconds": 0.5})
        rest = [wire.send_call("counter") for _ in range(5)]
        until(lambda: (row := wire.row())["in_flight"] == 1 and row["queued"] == 5)

        assert text_of(wire.wait(first)["result"]) == "slept 0.5 seconds"
        assert [text_of(wire.wait(identity)["result"]) for identity in rest] == ["1", "2", "3", "4", "5"]


def test_who_waits_in_a_queue_and_gives_up_has_not_run(world: World) -> None:
    world.configure({"demo": demo(limits={"in_flight": 1})})
    with world.connect() as wire:
        wire.send_call("slow", HOUR, id="first")
        timed_out = wire.send_call("counter", timeout=0.2)
        wire.send_call("counter", id="second")
        wire.send_call("counter", id="third")
        error = wire.wait(timed_out)["error"]
        assert (error["code"], error["data"]["may_have_run"]) == (12, False)

        for gone in ("second", "first"):
            wire.notify("notifications/cancelled", {"requestId": gone})

        assert text_of(wire.wait("third")["result"]) == "1"


def test_one_greedy_client_leaves_room_for_the_others(wire: Wire, shared_world: World) -> None:
    with shared_world.connect() as greedy:
        for _ in range(60):
            greedy.send_call("slow", HOUR)
        until(lambda: (row := wire.row())["in_flight"] == 16 and row["queued"] == 44)

        assert wire.text("echo", {"text": "me too"}) == "me too"

    until(lambda: (row := wire.row())["in_flight"] == row["queued"] == 0)


def test_a_client_that_waits_for_nothing_is_told_to_come_back(shared_world: World) -> None:
    with shared_world.connect() as greedy:
        ids = [greedy.send_call("slow", HOUR) for _ in range(273)]

        error = greedy.wait(ids[-1])["error"]

    assert (error["code"], error["data"]["class"], error["data"]["may_have_run"]) == (30, "overloaded", False)
    assert error["data"]["retry_after_seconds"] > 0


def test_a_denied_tool_is_neither_listed_nor_called(world: World) -> None:
    world.configure({"demo": demo(tools={"allow": ["*"], "deny": ["co*", "fail"]})})

    assert "counter" not in world.run("tools", "demo").out
    done = world.run("call", "demo", "counter", "--json")

    assert (done.status, done.out, done.error["code"], done.error["class"]) == (8, "", 20, "denied")
    assert world.run("call", "demo", "fail").status == 8
    assert world.call("demo", "echo", "text=hi") == "hi"


def test_only_allowed_tools_are_there(world: World) -> None:
    world.configure({"demo": demo(tools={"allow": ["echo"]})})

    assert [line.split("\t")[:2] for line in world.run("tools", "demo").out.splitlines()] == [["demo", "echo"]]
    assert world.run("call", "demo", "add", "a=1", "b=2").status == 8


def test_an_unknown_server_is_answered_with_near_names(shared_world: World) -> None:
    done = shared_world.run("call", "dmeo", "echo", "--json")
    said = shared_world.run("call", "dmeo", "echo")

    assert (done.status, done.error["code"], done.error["data"]["near"]) == (2, 1, ["demo"])
    assert said.err == "error: there is no server 'dmeo'\n  did you mean demo?\n"


def test_an_unknown_tool_is_answered_with_near_names(world: World) -> None:
    # The first time nobody has asked the server yet what it has.
    for _ in range(2):
        done = world.run("call", "demo", "ehco", "--json")
        assert (done.status, done.error["code"], done.error.get("hint")) == (5, 2, "did you mean echo?")
        assert (done.error["data"]["near"], done.error["data"]["may_have_run"]) == (["echo"], False)


def test_a_tool_that_says_error_is_a_result(shared_world: World, wire: Wire) -> None:
    done = shared_world.run("call", "demo", "fail", "message=broken")

    assert (done.status, done.out) == (5, "broken\n")
    assert wire.ask("mcpd/call", {"server": "demo", "tool": "fail"})["isError"] is True
