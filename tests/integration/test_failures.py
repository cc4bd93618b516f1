"""Whatever dies or hangs: nothing is left, nobody else notices, and every caller learns what became of its call."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from mcpd_client.errors import ConnectionLost
from mcpd_client.sync import Client
from tests.integration.ledger import entry, is_alive, ledger, outcome, running, servers, starts, within
from tests.integration.wire import text_of
from tests.integration.world import COMMAND, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.wire import Wire
    from tests.integration.world import Done, World

HASTY = {"drain_seconds": 0.5, "eof_seconds": 0.3, "term_seconds": 0.3}
SIZE = 50_000_000
COLD_CLIENTS = 100
STUBBORN_SERVERS = 20


def note(wire: Wire, text: str) -> Any:
    """Send a call that is noted and answered with its text."""
    return wire.send_call("note", {"text": text}, server="s")


def incarnation(answer: dict[str, Any]) -> int:
    number: int = answer["result"]["_meta"]["mcpd/view"]["incarnation"]
    return number


def everything_gone(pids: list[int]) -> Callable[[], bool]:
    return lambda: not any(map(is_alive, pids))


# -- a server ----------------------------------------------------------------------------------------------------


def test_a_server_killed_in_the_middle_of_a_call_costs_that_call_once(world: World) -> None:
    world.configure({"s": entry(world, "hidden")})
    with world.connect() as wire, world.connect() as other:
        identity = wire.send_call("slow", {"text": "a"}, server="s")
        running(world, "slow a")
        old = servers(world)
        (leader,) = starts(world)

        with within(2):
            os.kill(leader, signal.SIGKILL)
            assert outcome(wire, identity) == ("server_lost", True)
        with within(5):
            answer = other.wait(note(other, "b"))

        assert (text_of(answer["result"]), incarnation(answer)) == ("b", 2)
        assert ledger(world) == ["slow a", "note b"]
        until(everything_gone(old))
        assert other.row("s")["outcomes"] == {"done": 1, "unknown": 1}
        # One leader and its hidden child, of the second incarnation only.
        assert len(servers(world)) == 2


def test_a_server_that_kills_itself_is_said_to_have_died_by_that_signal(world: World) -> None:
    world.configure({"s": entry(world)})
    with world.connect() as wire:
        error = wire.wait(wire.send_call("die", {"text": "a"}, server="s"))["error"]

    assert "SIGKILL" in error["message"]
    assert (error["data"]["class"], error["data"]["may_have_run"]) == ("server_lost", True)
    assert (ledger(world), servers(world)) == (["die a"], [])


def test_a_server_that_hangs_costs_its_caller_and_not_the_other_client(world: World) -> None:
    # One that sleeps for ever inside of a tool, and one that was stopped: each server is named for what it does.
    kinds = ("hang", "stop")
    world.configure({kind: entry(world, "deaf", stop=HASTY) for kind in kinds})
    with world.connect() as wire, world.connect() as other:

        def ask(*texts: str) -> list[dict[str, Any]]:
            calls = [other.send_call("note", {"text": text}, server=kind) for text in texts for kind in kinds]
            return [other.wait(call) for call in calls]

        assert [incarnation(answer) for answer in ask("before")] == [1, 1]
        hanging = [wire.send_call(kind, {"text": "a"}, server=kind, timeout=1) for kind in kinds]
        for kind in kinds:
            running(world, f"{kind} a")
        stuck = servers(world)
        written = [other.send_call("note", {"text": "written"}, server=kind) for kind in kinds]

        with within(3):
            assert [outcome(wire, call) for call in hanging] == [("timeout", True)] * 2
        with within(3):
            # Whoever comes now does not wait for the one that hangs, and so does nobody after him.
            answers = ask("first", "second")

        assert [text_of(answer["result"]) for answer in answers] == ["first", "first", "second", "second"]
        assert [incarnation(answer) for answer in answers] == [2] * 4
        with within(10):
            assert [outcome(other, call)[1] for call in written] == [True, True]
            until(everything_gone(stuck))
        told = [f"note {text}" for text in ("before", "first", "second")] * 2
        assert sorted(ledger(world)) == sorted(["hang a", "stop a", *told])
        assert len(servers(world)) == 2


def test_a_slow_server_that_answers_when_it_is_asked_keeps_its_state_and_its_other_calls(world: World) -> None:
    world.configure({"s": entry(world)})
    with world.connect() as wire, world.connect() as other:
        slow = other.send_call("slow", {"text": "b", "seconds": 2}, server="s")
        running(world, "slow b")

        assert outcome(wire, wire.send_call("never", {"text": "a"}, server="s", timeout=0.5)) == ("timeout", True)

        assert text_of(other.wait(slow)["result"]) == "awake"
        assert incarnation(wire.wait(note(wire, "c"))) == 1
        assert ledger(world) == ["slow b", "never a", "note c"]


def test_a_hundred_cold_clients_start_one_daemon_and_one_server(world: World) -> None:
    world.configure({"s": entry(world)})
    texts = [f"client-{number}" for number in range(COLD_CLIENTS)]

    with within(30):
        calls = [world.begin("call", "s", "note", f"text={text}") for text in texts]
        answers = [call() for call in calls]

    assert [(done.status, done.out) for done in answers] == [(0, f"{text}\n") for text in texts]
    assert sorted(ledger(world)) == sorted(f"note {text}" for text in texts)
    assert len(starts(world)) == len(servers(world)) == len(world.daemons()) == 1


def test_an_answer_of_fifty_megabytes_is_cut_kept_and_holds_up_nobody(world: World) -> None:
    world.configure({"s": entry(world), "other": entry(world)})
    with world.connect() as wire, world.connect() as other:
        assert other.text("note", {"text": "before"}, server="other") == "before"
        with within(15):
            identity = wire.send_call("big", {"text": "a", "n": SIZE}, server="s")
            texts = [other.text("note", {"text": str(n)}, server="other") for n in range(20)]
            result = wire.wait(identity)["result"]

        assert texts == [str(number) for number in range(20)]
        view = result["_meta"]["mcpd/view"]
        assert (view["truncated"], view["bytes"], view["shown"]) == (True, SIZE, len(text_of(result)))
        page = wire.ask("mcpd/fetch", {"handle": view["handle"], "offset": 1_000_000, "max_bytes": 1000})
        assert text_of(page) == "x" * 1000
        assert ledger(world).count("big a") == 1
        assert wire.ask("mcpd/status")["daemon"]["rss_bytes"] < 256 << 20


# -- a stop ------------------------------------------------------------------------------------------------------


def test_servers_that_mind_nothing_are_gone_in_time_all_of_them_together(world: World) -> None:
    names = ("one", "two", "three")
    world.configure({name: entry(world, "deaf", "hidden") for name in names})
    with world.connect() as wire:
        calls = [wire.send_call("never", {"text": name}, server=name) for name in names]
        for name in names:
            running(world, f"never {name}")
        pids = servers(world)
        assert len(pids) == 2 * len(names)

        with within(12.5):
            stops = [wire.send("mcpd/stop", {"server": name}) for name in names]
            states = [wire.wait(stop)["result"]["state"] for stop in stops]
            assert not any(map(is_alive, pids))

        assert states == ["stopped"] * len(names)
        assert [outcome(wire, call) for call in calls] == [("stopping", True)] * len(names)
        assert (sorted(ledger(world)), servers(world)) == ([f"never {name}" for name in sorted(names)], [])


def test_down_with_twenty_stubborn_servers_takes_no_longer_than_with_one(world: World) -> None:
    names = [f"s{number}" for number in range(STUBBORN_SERVERS)]
    world.configure({name: entry(world, "deaf", "child", "hidden") for name in names})
    with world.connect() as wire:
        for identity in [wire.send_call("note", {"text": name}, server=name) for name in names]:
            assert "result" in wire.wait(identity)
    pids = [*world.processes(), *world.guardians()]
    assert len(pids) == 3 * STUBBORN_SERVERS + 2

    with within(13):
        assert world.run("down").status == 0

    assert world.processes() == []
    assert not any(map(is_alive, pids))
    assert sorted(ledger(world)) == sorted(f"note {name}" for name in names)


def test_a_signal_waits_for_the_answer_and_a_second_one_does_not(world: World) -> None:
    world.configure({"s": entry(world, "deaf", "hidden")})
    daemon = world.daemon()
    with world.connect() as wire:
        short = wire.send_call("slow", {"text": "a", "seconds": 1}, server="s")
        endless = wire.send_call("never", {"text": "b"}, server="s")
        running(world, "never b")
        pids = servers(world)
        daemon.terminate()
        assert text_of(wire.wait(short)["result"]) == "awake"

        with within(3):
            daemon.terminate()
            assert outcome(wire, endless)[1] is True
            assert daemon.wait() == 0

    assert not any(map(is_alive, pids))
    assert ledger(world) == ["slow a", "never b"]
    world.wait_empty()


# -- the daemon ----------------------------------------------------------------------------------------------------


def test_a_killed_daemon_leaves_nothing_and_its_caller_knows_that_it_may_have_run(world: World) -> None:
    world.configure({"s": entry(world, "deaf", "child", "hidden")})
    daemon = world.daemon()
    call = world.begin("call", "s", "never", "text=a", "--json")
    running(world, "never a")
    (guardian,) = world.guardians()
    pids = [*servers(world), guardian]
    assert len(pids) == 4

    with within(1):
        daemon.kill()
        until(everything_gone(pids))

    done: Done = call()
    assert (done.status, done.out, done.error["data"]["may_have_run"]) == (6, "", True)
    assert ledger(world) == ["never a"]
    world.wait_empty()


def test_nothing_is_left_when_the_whole_group_of_the_daemon_is_killed(world: World) -> None:
    world.configure({"s": entry(world, "deaf", "child", "hidden")})
    daemon = world.daemon(command=("setsid", *COMMAND))
    assert world.call("s", "note", "text=a") == "a"
    pids = [*servers(world), *world.guardians()]
    assert len(pids) == 4

    with within(1):
        os.killpg(daemon.pid, signal.SIGKILL)
        until(everything_gone(pids))

    world.wait_empty()


def test_the_next_command_takes_over_what_a_killed_daemon_has_left(world: World) -> None:
    world.configure({"s": entry(world, "deaf", "hidden")})
    assert world.call("s", "note", "text=a") == "a"
    (daemon,) = world.daemons()
    os.kill(daemon, signal.SIGKILL)

    with within(10):
        assert world.call("s", "note", "text=b") == "b"

    (successor,) = world.daemons()
    assert successor != daemon
    assert ledger(world) == ["note a", "note b"]
    assert len(starts(world)) == len(servers(world)) == 2  # the second leader, and its child


def test_a_client_of_the_library_learns_what_became_of_its_call_and_connects_again(world: World) -> None:
    world.configure({"s": entry(world)})
    world.daemon()
    failures: list[ConnectionLost] = []

    def ask() -> None:
        with Client(world.socket, autostart=False) as client:
            try:
                client.call("s", "never", {"text": "a"})
            except ConnectionLost as problem:
                failures.append(problem)

    thread = threading.Thread(target=ask)
    thread.start()
    running(world, "never a")
    world.signal_daemon(signal.SIGKILL)
    thread.join(10)

    assert [failure.may_have_run for failure in failures] == [True]
    until(lambda: not servers(world))
    world.daemon()
    with Client(world.socket, autostart=False) as client:
        answer = client.call("s", "note", {"text": "b"})
    assert (text_of(answer), ledger(world)) == ("b", ["never a", "note b"])


def has_left(wire: Wire, leader: int) -> bool:
    """Whether the daemon knows that a server has gone."""
    return wire.row("s").get("pid") != leader


# -- trees -----------------------------------------------------------------------------------------------------------


def tree(world: World, kind: str) -> dict[str, object]:
    """Return the entry of a server that is started by others: sh and Python, or npx, sh and node."""
    inner = entry(world, "deaf")["args"]
    assert isinstance(inner, list)
    if kind == "sh":
        python = "import subprocess, sys; subprocess.run([sys.executable, *sys.argv[1:]])"
        return {"command": "/bin/sh", "args": ["-c", '"$@"; exit', "sh", sys.executable, "-c", python, *inner]}
    package = world.path / "package"
    package.mkdir()
    (package / "package.json").write_text('{"name": "ledgered", "version": "1.0.0", "bin": "run.js"}')
    run = f"#!/usr/bin/env node\nrequire('child_process').spawn('{sys.executable}', {inner}, {{stdio: 'inherit'}})\n"
    (package / "run.js").write_text(run)
    (package / "run.js").chmod(0o755)
    env = {"npm_config_cache": f"{world.path}/npm", "npm_config_offline": "true", "npm_config_update_notifier": "false"}
    return {"command": "npx", "args": ["-y", str(package)], "env": env, "timeout": {"start_seconds": 60}}


@pytest.mark.parametrize("kind", ["sh", "npx"] if shutil.which("npx") else ["sh"])
def test_a_tree_of_processes_goes_as_a_whole_whichever_of_it_dies(world: World, kind: str) -> None:
    world.configure({"s": tree(world, kind) | {"stop": HASTY}})
    with world.connect() as wire:
        for number in itertools.count():
            assert wire.text("note", {"text": str(number)}, server="s") == str(number)
            leader = wire.row("s")["pid"]
            members = [pid for pid in world.processes() if pid not in world.daemons()]
            assert len(members) >= 3
            if number == 2:
                break
            # First who was started, then who is at the other end of the pipes.
            with within(3):
                os.kill(leader if not number else starts(world)[-1], signal.SIGKILL)
                until(everything_gone(members))
            until(partial(has_left, wire, leader))

    with within(5):
        assert world.run("down").status == 0
    assert not any(map(is_alive, members))
    assert ledger(world) == ["note 0", "note 1", "note 2"]
