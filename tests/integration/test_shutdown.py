"""The end: what is in flight drains, nothing is left, and whoever is in a hurry is obeyed."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.integration.wire import text_of
from tests.integration.world import demo, shell, until

if TYPE_CHECKING:
    from tests.integration.world import World

HURRY_SECONDS = 5.0
PATIENT = {"drain_seconds": 3600, "eof_seconds": 3600, "term_seconds": 3600}
IMPATIENT = {"drain_seconds": 0.1, "eof_seconds": 0.1, "term_seconds": 0.1}
# A server that minds neither the end of its input nor SIGTERM, and neither does its child.
STUBBORN = "trap '' TERM HUP INT; sleep 3600 & $0; sleep 3600"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_what_is_in_flight_finish(world: World, number: signal.Signals) -> None:
    daemon = world.daemon()
    with world.connect() as wire, world.connect() as other:
        assert wire.text("echo", {"text": "x"}) == "x"
        identity = wire.send_call("slow", {"seconds": 1})
        until(lambda: wire.row()["in_flight"] == 1)

        daemon.send_signal(number)
        until(lambda: "daemon.stopping" in world.log())

        refused = other.fail("mcpd/call", {"server": "demo", "tool": "counter"})
        assert (refused["code"], refused["data"]["class"]) == (31, "shutting_down")
        assert refused["data"]["may_have_run"] is False
        assert text_of(wire.wait(identity)["result"]) == "slept 1 seconds"
        assert wire.has_ended()
    assert daemon.wait() == 0
    assert not os.path.exists(world.socket)
    world.wait_empty()


def test_a_second_signal_waits_for_nobody(world: World) -> None:
    world.configure({"demo": demo(stop=PATIENT)})
    daemon = world.daemon()
    with world.connect() as wire:
        assert wire.text("echo", {"text": "x"}) == "x"
        identity = wire.send_call("slow", {"seconds": 3600})
        until(lambda: wire.row()["in_flight"] == 1)
        daemon.terminate()
        until(lambda: "daemon.stopping" in world.log())

        daemon.terminate()

        error = wire.wait(identity)["error"]
        assert error["data"]["may_have_run"] is True
    assert daemon.wait(HURRY_SECONDS) == 0
    world.wait_empty()


def test_a_command_in_flight_gets_its_answer_although_the_daemon_stops(world: World) -> None:
    world.daemon()
    assert world.call("demo", "counter") == "1"
    call = world.begin("call", "demo", "slow", "seconds=1")
    until(lambda: world.row("demo")["in_flight"] == 1)

    done = world.run("down")

    assert done.status == 0
    assert call().out == "slept 1 seconds\n"


def test_a_command_that_comes_while_the_daemon_stops_is_served_by_the_next_one(world: World) -> None:
    daemon = world.daemon()
    assert world.call("demo", "counter") == "1"
    slow = world.begin("call", "demo", "slow", "seconds=1")
    until(lambda: world.row("demo")["in_flight"] == 1)
    daemon.terminate()
    until(lambda: "daemon.stopping" in world.log())

    assert world.call("demo", "counter") == "1"
    assert slow().out == "slept 1 seconds\n"
    assert world.status()["daemon"]["pid"] != daemon.pid


def test_down_leaves_nothing_even_of_servers_that_refuse_to_go(world: World) -> None:
    world.configure({"stubborn": shell(STUBBORN, stop=IMPATIENT), "demo": None})
    assert world.call("stubborn", "echo", "text=hi") == "hi"
    assert world.call("demo", "echo", "text=hi") == "hi"
    assert len(world.processes("sleep\0")) == 1

    assert world.run("down").status == 0

    assert world.processes() == []
    assert sorted(os.listdir(world.path / "run/mcpd")) == ["mcpd.sock.lock", "start.lock"]


def test_down_leaves_nothing_of_a_server_whose_child_went_its_own_way(world: World) -> None:
    world.configure({"demo": shell("setsid sleep 3600 & exec $0", stop=IMPATIENT)})
    assert world.call("demo", "echo", "text=hi") == "hi"
    until(lambda: world.processes("sleep\0"))

    assert world.run("down").status == 0

    assert world.processes() == []


def test_a_killed_daemon_takes_its_servers_with_it(world: World) -> None:
    world.configure({"stubborn": shell(STUBBORN), "demo": None})
    daemon = world.daemon()
    assert world.call("stubborn", "echo", "text=hi") == "hi"
    assert world.call("demo", "echo", "text=hi") == "hi"

    daemon.kill()

    world.wait_empty()


def test_what_a_killed_daemon_and_guardian_leave_is_ended_by_the_next_daemon(world: World) -> None:
    world.configure({"stubborn": shell(STUBBORN), "demo": None})
    assert world.call("stubborn", "echo", "text=hi") == "hi"
    (guardian,) = world.guardians()
    left = world.processes("sleep\0")

    # Stopped first, so that neither sees the other's end.
    for pid in (*world.daemons(), guardian):
        os.kill(pid, signal.SIGSTOP)
    for pid in (*world.daemons(), guardian):
        os.kill(pid, signal.SIGKILL)

    assert world.call("demo", "counter") == "1"
    until(lambda: not set(left) & set(world.processes("sleep\0")))
    assert len(world.daemons()) == len(world.guardians()) == len(world.processes("demo.py")) == 1


def test_a_guardian_that_dies_takes_its_servers_along_and_is_replaced(world: World) -> None:
    world.configure({"stubborn": shell(STUBBORN), "demo": None})
    assert world.call("stubborn", "echo", "text=hi") == "hi"
    assert world.call("demo", "counter") == "1"
    (daemon,), (guardian,) = world.daemons(), world.guardians()

    os.kill(guardian, signal.SIGKILL)

    until(lambda: not world.processes("sleep\0") and not world.processes("demo.py"), seconds=HURRY_SECONDS)
    until(lambda: world.run("call", "demo", "counter").out == "1\n")
    assert world.daemons() == [daemon]
    assert guardian not in world.guardians()


def test_down_says_so_when_there_is_nothing_to_stop(world: World) -> None:
    done = world.run("down")

    assert (done.status, done.out, done.err) == (0, "", "the daemon is not running\n")
    assert world.run("down", "--json").json == {"stopped": False}
    assert world.processes() == []


def test_down_and_up_again_is_a_fresh_daemon(world: World) -> None:
    assert world.call("demo", "counter") == "1"
    first = world.run("up", "--json").json["pid"]

    assert world.run("down", "--json").json == {"stopped": True, "pid": first}

    assert world.run("up", "--json").json["pid"] != first
    assert world.call("demo", "counter") == "1"


def test_forced_down_does_not_wait_for_calls(world: World) -> None:
    world.configure({"demo": demo(stop=PATIENT)})
    assert world.call("demo", "counter") == "1"
    call = world.begin("call", "demo", "slow", "seconds=3600")
    until(lambda: world.row("demo")["in_flight"] == 1)

    assert world.run("down", "--force").status == 0

    assert call().status in (4, 6)
    assert world.processes() == []


def test_a_daemon_that_cannot_listen_says_why_and_is_never_ready(world: World) -> None:
    (world.path / "file").write_text("")
    reader, writer = os.pipe()
    with open(reader, "rb") as ready:
        daemon = world.spawn(
            *world.command, "daemon", "--ready-fd", str(writer), "--socket", f"{world.path}/file/s",
            pass_fds=(writer,), stdin=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(writer)
        out, err = daemon.communicate()

        assert ready.read() == b""
    assert (daemon.returncode, out) == (6, "")
    assert f"{world.path}/file" in err
    assert err.startswith("error: ")


def test_an_idle_daemon_leaves_if_it_is_told_to(world: World) -> None:
    world.configure({"demo": None}, daemon="idle_exit_seconds = 0.1")
    assert world.call("demo", "echo", "text=hi") == "hi"

    until(lambda: not world.processes())

    assert world.call("demo", "echo", "text=hi") == "hi"
