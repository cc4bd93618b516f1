"""The main job: one command, nothing prepared, and everybody shares what it has started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.integration.world import until

if TYPE_CHECKING:
    from tests.integration.world import World


def test_the_first_command_of_a_newcomer_prints_its_answer_and_nothing_else(world: World) -> None:
    done = world.run("call", "demo", "echo", "text=hi")

    assert (done.status, done.out, done.err) == (0, "hi\n", "")


def test_a_second_process_uses_the_server_that_the_first_one_started(world: World) -> None:
    assert world.call("demo", "counter") == "1"
    assert world.call("demo", "counter") == "2"

    (row,) = world.status()["servers"]
    assert (row["name"], row["state"], row["served"], row["incarnation"]) == ("demo", "ready", 2, 1)
    assert world.processes("demo.py") == [row["pid"]]


def test_a_hundred_first_calls_at_once_get_a_hundred_answers_from_one_server(world: World) -> None:
    calls = [world.begin("call", "demo", "counter") for _ in range(100)]

    outcomes = [end() for end in calls]

    assert [done for done in outcomes if done.status or done.err] == []
    assert sorted(int(done.out) for done in outcomes) == list(range(1, 101))
    assert world.daemons() == [world.status()["daemon"]["pid"]]
    assert len(world.processes("demo.py")) == 1
    assert until(lambda: world.log().count("daemon.ready")) == 1


def test_what_the_demo_command_proposes_works(world: World) -> None:
    lines = [line.split() for line in world.run("demo").out.splitlines() if line.startswith("mcpd ")]

    assert len(lines) >= 4
    assert [line for line in lines if world.run(*line[1:]).status != 0] == []
