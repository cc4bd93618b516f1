"""What is promised of the daemon as a whole, shown with real processes: one test a promise."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import mcpd
from tests.integration.ledger import entry, ledger, running, servers, starts
from tests.integration.wire import text_of
from tests.integration.world import COMMAND, shell, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.wire import Wire
    from tests.integration.world import World

MIB = 1 << 20
VIEW_BYTES = 32 * 1024
ODD = str(Path(__file__).with_name("odd_server.py"))
HASTY = {"drain_seconds": 0.3, "eof_seconds": 0.3, "term_seconds": 0.3}
SLOW_START = "sleep 1; exec $0"
SHOUT = 10_000


def odd(*how: str, **more: object) -> dict[str, object]:
    """Return the entry of a server that speaks in an odd way; `odd_server.py` says which there are."""
    return {"command": sys.executable, "args": ["-I", "-S", ODD, *how], **more}


# -- one owner -----------------------------------------------------------------------------------------------------


def pipes_of(pid: int) -> set[str]:
    """Return the pipes that a process has open, by their names in the system."""
    found = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return {name for name in found if name.startswith("pipe:")}


def test_only_the_daemon_holds_the_pipes_of_a_server_and_no_client_takes_it_along(world: World) -> None:
    client = world.spawn(*world.command, "call", "demo", "slow", "seconds=3600")
    until(lambda: os.path.exists(world.socket))
    with world.connect() as wire:
        until(lambda: wire.row()["in_flight"] == 1)
        server = wire.row()["pid"]
        (daemon,) = world.daemons()
        between = pipes_of(server)
        assert len(between) == 3

        assert between <= pipes_of(daemon)
        assert not between & pipes_of(client.pid)
        client.kill()
        until(lambda: wire.row()["in_flight"] == 0)

    with world.connect() as other:
        assert (other.row()["pid"], other.row()["clients"]) == (server, 0)
        assert other.text("counter") == "1"


def test_two_clients_may_use_the_same_id_at_the_same_time(world: World) -> None:
    world.configure({"demo": shell("tee heard | $0", cwd="${HOME}")})
    with world.connect() as one, world.connect() as two:
        assert one.text("echo", {"text": "before"}, id="before") == "before"
        for wire, text in ((one, "one"), (two, "two")):
            wire.send_call("slow", {"seconds": 0.5}, id=1)
            wire.send_call("echo", {"text": text}, id=2)

        for wire, text in ((one, "one"), (two, "two")):
            assert text_of(wire.wait(2)["result"]) == text
            assert text_of(wire.wait(1)["result"]) == "slept 0.5 seconds"

    heard = (world.path / "home/heard").read_text().splitlines()
    ids = [line.partition('"id":')[2].partition(",")[0] for line in heard if '"tools/call"' in line]
    assert len(ids) == len(set(ids)) == 5


def test_a_client_from_another_directory_shares_the_server_of_a_user(world: World) -> None:
    world.configure({"demo": shell("pwd >>folders; exec $0", scope="user")})
    for name in ("a", "b"):
        (world.path / name).mkdir()
        there = ("sh", "-c", 'cd "$0" && exec "$@"', str(world.path / name), *COMMAND)
        assert world.run("call", "demo", "counter", command=there).out == {"a": "1\n", "b": "2\n"}[name]

    # It was started once, and where the client was is not where it is.
    assert (world.path / "home/folders").read_text() == f"{world.path}/home\n"


# -- nothing before it is needed -----------------------------------------------------------------------------------


def test_fifty_servers_are_configured_and_none_is_started_until_one_is_used(world: World) -> None:
    good = {f"s{number}": entry(world) for number in range(40)}
    broken = {f"b{number}": {"command": "no-such-program"} for number in range(10)}
    world.configure({**broken, **good})
    with world.connect() as wire:
        assert len(wire.ask("mcpd/servers")["servers"]) == 50
        assert {row["state"] for row in wire.ask("mcpd/status")["servers"]} == {"stopped"}
        assert starts(world) == []

        assert wire.text("note", {"text": "a"}, server="s7") == "a"

    assert len(starts(world)) == 1


def test_what_is_prewarmed_is_there_before_it_is_asked_for_and_nobody_waits_for_what_is_not(world: World) -> None:
    kinds = {"warm": (), "mute": ("silent", "deaf"), "gone": ("broken",)}
    entries = {name: entry(world, *how, prewarm=True, stop=HASTY) for name, how in kinds.items()}
    world.configure({**entries, "cold": entry(world)})
    with world.connect() as wire:
        assert wire.text("note", {"text": "a"}, server="cold") == "a"
        until(lambda: wire.row("warm")["state"] == "ready")
        until(lambda: "exit status 3" in wire.row("gone").get("reason", ""))

        assert (wire.row("mute")["state"], wire.row("warm")["calls"]) == ("starting", 0)


def test_a_row_says_whether_a_server_lives(world: World) -> None:
    world.configure({"demo": shell(SLOW_START)})
    with world.connect() as wire:
        assert (wire.row()["state"], "pid" in wire.row()) == ("stopped", False)
        first = wire.send_call("counter")
        until(lambda: wire.row()["state"] == "starting")
        wire.wait(first)
        row = wire.row()
        assert (row["state"], row["era"], row["incarnation"], row["clients"]) == ("ready", "modern", 1, 1)

        os.kill(row["pid"], signal.SIGKILL)

        until(lambda: wire.row()["state"] != "ready")
        assert "pid" not in wire.row()


def test_a_server_that_fails_to_start_once_answers_the_call_all_the_same(world: World) -> None:
    world.configure({"demo": shell("echo start >>starts; mkdir seen && exit 1; exec $0", cwd=f"{world.path}/home")})

    assert world.call("demo", "echo", "text=hi") == "hi"

    assert (world.path / "home/starts").read_text() == "start\n" * 2


# -- what is wrong costs nothing -----------------------------------------------------------------------------------

WRONG_ARGUMENTS = ([1], "[1]", 5, True, '{"text":"x"}')
WRONG_PAGES = (
    {"offset": -1}, {"offset": 1001}, {"offset": 1.5}, {"offset": "1"}, {"offset": True},
    {"limit": 0}, {"limit": 101}, {"limit": 1.5}, {"limit": "20"}, {"limit": True},
    {"name": "echo", "offset": 1}, {"name": "echo", "limit": 5}, {"name": 7},
)  # fmt: skip


def test_arguments_and_pages_are_looked_at_before_any_server_is_started(world: World) -> None:
    world.configure({"s": entry(world)})
    with world.connect() as wire:
        for arguments in WRONG_ARGUMENTS:
            error = wire.fail("mcpd/call", {"server": "s", "tool": "note", "arguments": arguments})
            assert (error["code"], error["data"]["class"]) == (3, "bad_request")
        for kind in ("tools", "prompts", "resources", "templates"):
            for page in WRONG_PAGES:
                error = wire.fail(f"mcpd/{kind}", {"server": "s", **page})
                assert (error["code"], error["data"]["class"]) in ((3, "bad_request"), (4, "invalid_page")), page
        assert starts(world) == []

        for arguments in ({}, None):
            assert "result" in wire.wait(wire.send("mcpd/call", {"server": "s", "tool": "note", "arguments": arguments}))
        assert "result" in wire.wait(wire.send("mcpd/call", {"server": "s", "tool": "note"}))


def test_a_client_of_another_version_is_told_which_is_spoken(world: World) -> None:
    with world.connect() as wire:
        error = wire.fail("mcpd/hello", {"version": 2})
        hello = wire.ask("mcpd/hello", {"version": 1, "later": {"than": "us"}})

    assert (error["code"], error["data"]["class"]) == (3, "bad_request")
    assert "version 2 is not spoken here, only 1" in error["message"]
    assert (hello["version"], hello["daemon"]["version"]) == (1, mcpd.__version__)
    assert world.run("version", "--json").json["version"] == mcpd.__version__


# -- speech --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "framing"),
    [
        ((), "auto"),
        (("writes-frames",), "auto"),
        (("banner",), "auto"),
        (("banner", "writes-frames"), "auto"),
        (("reads-frames", "writes-frames"), "content-length"),
        (("reads-frames",), "content-length"),
    ],
)
def test_a_server_is_understood_in_either_framing(world: World, how: tuple[str, ...], framing: str) -> None:
    world.configure({"odd": odd(*how, framing=framing)})

    assert world.call("odd", "echo", "text=é\u2028\U0001f600") == "é\u2028\U0001f600"
    assert [line.split("\t")[1] for line in world.run("tools", "odd").out.splitlines()] == ["echo", "other"]


def test_the_revision_that_was_agreed_on_is_shown_and_may_be_set(world: World) -> None:
    world.configure({"pinned": odd(protocol="2024-11-05"), "auto": odd(), "old": odd("old=2025-03-26")})
    for name in ("pinned", "auto", "old"):
        assert world.call(name, "echo", "text=hi") == "hi"

    rows = {row["name"]: (row["era"], row["revision"]) for row in world.status()["servers"]}
    assert rows == {
        "pinned": ("legacy", "2024-11-05"),
        "auto": ("legacy", "2025-11-25"),
        "old": ("legacy", "2025-03-26"),
    }


# -- what is seen --------------------------------------------------------------------------------------------------


def test_a_command_is_shown_as_it_was_written(world: World) -> None:
    world.env["SECRET_KEY"] = "tok-5f2a9c81e7d3"
    words: list[object] = [*shell("exec $0")["args"], "--key", "${SECRET_KEY}"]  # type: ignore[misc]  # a list
    world.configure({"demo": {"command": "/bin/sh", "args": words}})
    assert world.call("demo", "echo", "text=hi") == "hi"

    seen = [world.run(*argv).out for argv in (("ls",), ("ls", "--json"), ("get", "demo"), ("status", "demo"))]

    assert "--key '${SECRET_KEY}'" in seen[0]
    assert [out for out in seen if world.env["SECRET_KEY"] in out] == []
    assert world.run("down").status == 0
    assert world.env["SECRET_KEY"] not in world.log()


def test_what_a_server_says_on_stderr_is_in_no_error_of_a_call(world: World) -> None:
    world.configure({"s": entry(world)})
    with world.connect() as wire:
        assert wire.text("shout", {"n": SHOUT}, server="s") == "shouted"
        errors = [
            wire.fail("mcpd/call", {"server": "s", "tool": "never", "timeout": 0.2}),
            wire.fail("mcpd/call", {"server": "s", "tool": "die"}),
        ]

    assert [error["data"]["class"] for error in errors] == ["timeout", "server_lost"]
    assert [error for error in errors if "yyy" in str(error) or "stderr" in error["data"]] == []
    assert "yyy" in world.run("logs", "s").out


# -- bounds --------------------------------------------------------------------------------------------------------


def test_twenty_clients_with_ten_mebibytes_each_see_a_view_of_them(world: World) -> None:
    world.configure({"s": entry(world)})
    with contextlib.ExitStack() as stack:
        wires: list[Wire] = [stack.enter_context(world.connect()) for _ in range(20)]
        ids = [wire.send_call("big", {"n": 10 * MIB}, server="s", timeout=300) for wire in wires]

        views = [wire.wait(identity)["result"] for wire, identity in zip(wires, ids, strict=True)]

        assert [len(text_of(view)) for view in views] == [VIEW_BYTES] * 20
        assert {view["_meta"]["mcpd/view"]["bytes"] for view in views} == {10 * MIB}
        daemon = wires[0].ask("mcpd/status")["daemon"]
    assert daemon["results"]["held_bytes"] <= 64 * MIB
    assert daemon["rss_bytes"] < 256 * MIB


# -- the end -------------------------------------------------------------------------------------------------------


@pytest.fixture
def noted(world: World) -> Callable[[], list[str]]:
    """What a server has noted of its end, once it is over."""
    return lambda: (world.path / "home/end").read_text().split()


def test_a_server_that_leaves_at_the_end_of_its_input_is_not_killed(world: World, noted: Callable[[], list[str]]) -> None:
    script = "trap 'echo TERM >>end' TERM; $0; sleep 1; echo left >>end"
    world.configure({"demo": shell(script, cwd="${HOME}")})
    assert world.call("demo", "echo", "text=hi") == "hi"

    assert world.run("stop", "demo").status == 0

    assert noted() == ["left"]


def test_a_server_that_minds_only_a_signal_gets_one(world: World, noted: Callable[[], list[str]]) -> None:
    script = "trap 'echo TERM >>end; kill $!; exit' TERM; $0; echo EOF >>end; sleep 3600 & wait"
    world.configure({"demo": shell(script, cwd="${HOME}", stop={**HASTY, "term_seconds": 3600})})
    assert world.call("demo", "echo", "text=hi") == "hi"

    assert world.run("stop", "demo").status == 0

    assert noted() == ["EOF", "TERM"]
    assert world.processes("sleep\0") == []


def test_a_daemon_that_goes_down_during_a_stop_takes_along_what_is_still_stopping(world: World) -> None:
    world.configure({"s": entry(world, "deaf", "hidden", stop={**HASTY, "eof_seconds": 3600})})
    with world.connect() as wire:
        assert wire.text("note", {"text": "a"}, server="s") == "a"
        wire.send("mcpd/stop", {"server": "s"})
        until(lambda: wire.row("s")["state"] == "stopping")
        assert len(servers(world)) == 2

        assert world.run("down", "--force").status == 0

    assert world.processes() == []


def test_a_stopped_server_is_seen_as_stopping_by_all_until_nothing_of_it_is_left(world: World) -> None:
    world.configure({"s": entry(world, "deaf", stop=HASTY)})
    with world.connect() as wire, world.connect() as other:
        endless = wire.send_call("never", {"text": "a"}, server="s")
        running(world, "never a")
        before = other.row("s")
        stop = wire.send("mcpd/stop", {"server": "s"})
        until(lambda: other.row("s")["state"] == "stopping")
        refused = other.fail("mcpd/start", {"server": "s"})
        waiting = other.send_call("note", {"text": "b"}, server="s")

        assert (refused["code"], refused["data"]["class"]) == (24, "stopping")
        assert "error" in wire.wait(endless)
        assert "result" in wire.wait(stop)
        assert text_of(other.wait(waiting)["result"]) == "b"
        after = other.row("s")

    assert (before["incarnation"], after["incarnation"]) == (1, 2)
    assert before["pid"] != after["pid"]
    assert ledger(world) == ["never a", "note b"]
