"""Servers by hand, servers that fail, and what they may not give away."""

from __future__ import annotations

import base64
import os
import signal
from typing import TYPE_CHECKING, Any

from tests.integration.world import demo, shell, until

if TYPE_CHECKING:
    from tests.integration.world import World

SECRET = "tok-5f2a9c81e7d3"
BROKEN = "echo reading /etc/thing >&2; echo 'fatal: no thing' >&2; exit 3"


def row_of(world: World, *argv: str) -> dict[str, Any]:
    row: dict[str, Any] = world.run(*argv, "--json").json
    return row


def test_start_stop_and_restart_answer_with_the_row(world: World) -> None:
    started = row_of(world, "start", "demo")
    assert (started["name"], started["state"], started["incarnation"]) == ("demo", "ready", 1)
    assert world.processes("demo.py") == [started["pid"]]
    assert world.call("demo", "counter") == "1"

    again = row_of(world, "start", "demo")
    assert (again["pid"], again["incarnation"]) == (started["pid"], 1)

    restarted = row_of(world, "restart", "demo")
    assert (restarted["state"], restarted["incarnation"]) == ("ready", 2)
    assert world.processes("demo.py") == [restarted["pid"]]
    assert world.call("demo", "counter") == "1"

    for _ in range(2):
        stopped = row_of(world, "stop", "demo")
        assert (stopped["state"], "pid" in stopped) == ("stopped", False)
    assert world.processes("demo.py") == []


def test_a_call_starts_what_was_stopped(world: World) -> None:
    assert world.call("demo", "counter") == "1"
    assert world.run("stop", "demo").status == 0

    assert world.call("demo", "counter") == "1"
    assert world.row("demo")["incarnation"] == 2


def test_a_stop_lets_a_call_finish_and_the_next_one_waits_for_the_next_start(world: World) -> None:
    assert world.call("demo", "counter") == "1"
    slow = world.begin("call", "demo", "slow", "seconds=4")
    until(lambda: world.row("demo")["in_flight"] == 1)
    stop = world.begin("stop", "demo", "--json")
    until(lambda: world.row("demo")["state"] == "stopping")

    assert world.run("start", "demo", "--json").error["class"] == "stopping"
    assert world.call("demo", "counter") == "1"

    assert slow().out == "slept 4 seconds\n"
    assert stop().status == 0
    assert world.row("demo")["incarnation"] == 2


def test_restarts_that_come_together_all_come_to_an_end(world: World) -> None:
    assert world.call("demo", "counter") == "1"
    with world.connect() as wire:
        ids = [wire.send("mcpd/restart", {"server": "demo"}) for _ in range(5)]

        outcomes = ["result" if "result" in (answer := wire.wait(one)) else answer["error"]["code"] for one in ids]

    assert "result" in outcomes
    # Whoever finds it being stopped by another one may be told just that.
    assert set(outcomes) <= {"result", 24}
    assert world.call("demo", "counter") == "1"
    assert len(world.processes("demo.py")) == 1


def test_a_server_that_exits_at_once_shows_its_status_and_its_last_words(world: World) -> None:
    world.configure({"broken": shell(BROKEN), "demo": None})

    done = world.run("call", "broken", "echo", "text=hi", "--json")
    said = world.run("start", "broken")

    error = done.error
    assert (done.status, error["code"], error["class"], error["server"]) == (4, 10, "server_unavailable", "broken")
    assert "exit status 3" in error["message"]
    # All of it twice: a server that leaves when it is probed is tried once more without the probe.
    assert error["data"]["stderr"].splitlines()[-2:] == ["reading /etc/thing", "fatal: no thing"]
    assert error["data"]["may_have_run"] is False
    assert said.status == 4
    assert "exit status 3" in said.err
    assert "fatal: no thing" in said.err
    row = world.row("broken")
    assert row["state"] in ("backoff", "failed", "stopped")
    assert "exit status 3" in row["reason"]
    assert "fatal: no thing" in world.run("logs", "broken").out
    assert world.call("demo", "echo", "text=hi") == "hi"


def test_a_command_that_does_not_exist_is_named(world: World) -> None:
    world.configure({"gone": {"command": "no-such-program-anywhere"}})

    done = world.run("call", "gone", "echo", "text=hi", "--json")

    assert (done.status, done.error["class"]) == (4, "server_unavailable")
    assert "no-such-program-anywhere" in done.error["message"]
    assert world.row("gone")["state"] == "failed"


def test_a_server_that_never_answers_is_given_up(world: World) -> None:
    mute = {"command": "sleep", "args": ["3600"], "timeout": {"start_seconds": 0.5}, "stop": {"eof_seconds": 0.1}}
    world.configure({"mute": mute})

    done = world.run("call", "mute", "echo", "text=hi", "--json")

    assert (done.status, done.error["class"]) == (4, "server_unavailable")
    assert "0.5 s" in done.error["message"]
    until(lambda: not world.processes("sleep\0"))


def test_twenty_callers_share_one_start_that_fails(world: World) -> None:
    world.configure({"broken": shell(f"echo start >>{world.path}/starts; sleep 0.5; exit 3")})
    with world.connect() as wire:
        ids = [wire.send_call("echo", server="broken") for _ in range(20)]

        errors = [wire.wait(identity)["error"] for identity in ids]

    assert {error["code"] for error in errors} == {10}
    assert len({error["message"] for error in errors}) == 1
    # Servers that leave when they are probed get a second chance without the probe.
    assert (world.path / "starts").read_text().count("start") <= 2


def test_a_server_that_is_killed_in_the_middle_of_a_call_costs_that_call(world: World) -> None:
    with world.connect() as wire:
        assert wire.text("counter") == "1"
        identity = wire.send_call("slow", {"seconds": 3600})
        until(lambda: wire.row()["in_flight"] == 1)

        os.kill(wire.row()["pid"], signal.SIGKILL)

        error = wire.wait(identity)["error"]
        assert (error["code"], error["data"]["class"], error["data"]["may_have_run"]) == (11, "server_lost", True)
        assert "SIGKILL" in error["message"]
        assert wire.text("counter") == "1"
        assert wire.row()["incarnation"] == 2


def test_a_server_stops_by_itself_when_nobody_needs_it(world: World) -> None:
    world.configure({"demo": demo(timeout={"idle_seconds": 0.3})})
    assert world.call("demo", "counter") == "1"

    until(lambda: world.row("demo")["state"] == "stopped")

    assert world.processes("demo.py") == []
    assert world.call("demo", "counter") == "1"


def test_secrets_of_a_server_that_fails_are_shown_nowhere(world: World) -> None:
    encoded = base64.b64encode(SECRET.encode()).decode()
    world.env["FROM_USER"] = f"{SECRET}-user"
    script = f'echo "token $TOKEN, $TOKEN2, {encoded}" >&2; exit 1'
    world.configure({"broken": shell(script, env={"TOKEN": SECRET, "TOKEN2": "${FROM_USER}"})})

    seen = [
        world.run(*argv)
        for argv in (
            ("call", "broken", "echo", "text=hi", "--json"), ("call", "broken", "echo", "text=hi"), ("start", "broken"),
            ("status",), ("status", "--json"), ("status", "broken"), ("ls", "--json"), ("get", "broken", "--json"),
            ("logs",), ("logs", "broken"), ("logs", "--json"), ("config", "show"),
        )
    ]  # fmt: skip

    assert "token" in seen[0].error["data"]["stderr"]
    assert "token" in seen[9].out
    assert [done for done in seen if SECRET in done.out + done.err] == []
    assert world.run("down").status == 0
    assert SECRET not in world.log()


def test_secrets_of_a_server_that_works_stay_out_of_its_log(world: World) -> None:
    world.configure({"demo": shell('echo "token $TOKEN" >&2; exec $0', env={"TOKEN": SECRET})})
    assert world.call("demo", "echo", "text=hi") == "hi"

    done = world.run("logs", "demo")

    assert "token" in done.out
    assert SECRET not in done.out + world.log()
    assert SECRET not in world.run("status", "demo").out


def test_a_server_that_talks_without_end_on_stderr_harms_nobody(world: World) -> None:
    world.configure({"noisy": shell("yes noise >&2 & exec $0"), "demo": None})

    assert world.call("noisy", "echo", "text=hi") == "hi"
    assert world.call("demo", "echo", "text=hi") == "hi"

    assert len(world.run("logs", "noisy", "-n", "3").out.splitlines()) == 3
    assert world.status()["daemon"]["rss_bytes"] < 256 << 20
    assert len(world.log()) < 1 << 20
