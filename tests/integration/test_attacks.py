"""A system that refuses, clients and servers that are too many or say too much: the rest is served, and nothing spins."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.ledger import cpu_seconds, entry, ledger, servers, within
from tests.integration.wire import Wire, text_of
from tests.integration.world import COMMAND, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.world import World

ROOT = os.geteuid() == 0
# Reads the interpreter wherever it is, and is somebody whose processes can be counted.
AS_NOBODY = (
    "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
    "--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search",
) if ROOT else ()  # fmt: skip
HASTY = {"drain_seconds": 0.3, "eof_seconds": 0.3, "term_seconds": 0.3}
MIB = 1 << 20
IDLE_CLIENTS = 1000
FEW_DESCRIPTORS = 64
# Three pipes, a file with the arguments, and the pidfd.
STARTING_TAKES = 8
# What a call may take while others misbehave, on a machine with other work to do.
SOON_SECONDS = 1.0
# What spins takes a whole processor, or its half beside others; what a heartbeat costs with a thousand clients is far less.
SPIN_SHARE = 0.25
BOUNDED_BYTES = 160 * MIB
# What may wait for a client that does not read.
OUTBOX_BYTES = 32 * MIB


def limited(words: str) -> tuple[str, ...]:
    """Return how a daemon is run after a few words of shell."""
    return ("sh", "-c", f'{words}; exec "$@"', "sh", *COMMAND)


def rss_bytes(wire: Wire) -> int:
    size: int = wire.ask("mcpd/status")["daemon"]["rss_bytes"]
    return size


def share_of_a_second(pid: int) -> float:
    """Return how much of a processor a process uses in the second that this takes."""
    before = cpu_seconds(pid)
    time.sleep(1)
    return cpu_seconds(pid) - before


def is_served(wire: Wire, server: str = "s", times: int = 20) -> bool:
    """Call a server some times, each of which must be quick."""
    for number in range(times):
        with within(SOON_SECONDS):
            assert wire.text("note", {"text": str(number)}, server=server) == str(number)
    return True


@contextlib.contextmanager
def connections(path: str, count: int) -> Iterator[list[Wire]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Wire(path)) for _ in range(count)]


def by_shell(server: dict[str, Any]) -> dict[str, object]:
    return {"command": "/bin/sh", "args": ["-c", 'exec "$@"', "sh", server["command"], *server["args"]]}


# -- a system that refuses ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def at_most_descriptors(pid: int, count: int) -> Iterator[None]:
    """Let a process have no more than so many descriptors."""
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (count, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


def open_descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_without_descriptors_the_clients_that_are_there_are_served_and_nothing_spins(world: World) -> None:
    world.configure({"s": entry(world)})
    daemon = world.daemon(command=limited(f"ulimit -n {FEW_DESCRIPTORS}"))
    with world.connect() as wire:
        assert is_served(wire)
        before = open_descriptors(daemon.pid)

        with connections(world.socket, 2 * FEW_DESCRIPTORS):
            until(lambda: open_descriptors(daemon.pid) > FEW_DESCRIPTORS // 2)
            assert is_served(wire)
            assert wire.ask("mcpd/status")["daemon"]["connections"] > 1
            assert share_of_a_second(daemon.pid) < SPIN_SHARE

        until(lambda: open_descriptors(daemon.pid) <= before)
        with world.connect() as other:
            assert is_served(other)


def test_a_flood_of_clients_at_the_very_start_is_survived(world: World) -> None:
    world.configure({"s": entry(world)})
    daemon = world.daemon(command=limited(f"ulimit -n {FEW_DESCRIPTORS}"))
    with world.connect() as wire:
        with connections(world.socket, 2 * FEW_DESCRIPTORS):
            # What is loaded a moment after the start has to be loaded now.
            until(lambda: daemon.poll() is not None or "daemon.ready" in world.log())
            for argv in (["tools", "s"], ["call", "s", "note", "text=hello"]):
                assert "exit" in wire.ask("mcpd/cli", {"argv": argv, "cwd": "/"})
            for method in ("mcpd/status", "mcpd/logs", "mcpd/reload"):
                assert wire.ask(method)
        assert is_served(wire)
    assert daemon.poll() is None


def test_a_start_without_descriptors_is_refused_for_the_moment_and_leaves_none_open(world: World) -> None:
    world.configure({"late": entry(world)})
    daemon = world.daemon(command=limited(f"ulimit -n {FEW_DESCRIPTORS}"))
    until(lambda: "daemon.ready" in world.log())  # which is written when all is loaded
    with world.connect() as wire:
        assert wire.row("late")["state"] == "stopped"
        before = open_descriptors(daemon.pid)
        for room in range(STARTING_TAKES):
            with at_most_descriptors(daemon.pid, before + room):
                error = wire.wait(wire.send("mcpd/start", {"server": "late"}))["error"]
                assert error["data"]["class"] == "server_unavailable"
                assert "too many open files" in error["message"]
                assert open_descriptors(daemon.pid) == before

        until(lambda: "result" in wire.wait(wire.send_call("note", {"text": "x"}, server="late")), seconds=5)


def test_a_system_without_room_for_processes_refuses_a_start_and_says_why(world: World) -> None:
    # The shell starts the interpreter, which this user may execute but which is in somebody else's home.
    world.configure({name: by_shell(entry(world)) for name in ("s", "late")})
    for path in (world.path, *world.path.rglob("*")):
        os.chown(path, 65534 if ROOT else -1, -1)
    command = (*AS_NOBODY, *COMMAND)
    world.daemon(command=command)
    (guardian,) = world.guardians()
    limit = (*AS_NOBODY, "prlimit", "--pid", str(guardian))
    with contextlib.ExitStack() as stack:
        stack.callback(world.run, "down", command=command)
        wire = stack.enter_context(world.connect())
        assert is_served(wire, times=1)
        assert world.run("--nproc=1:", command=limit).status == 0

        refused = wire.fail("mcpd/call", {"server": "late", "tool": "note"})

        assert (refused["data"]["class"], refused["data"]["may_have_run"]) == ("server_unavailable", False)
        assert "temporarily unavailable" in refused["message"]
        assert is_served(wire)
        assert world.run("--nproc=10000:", command=limit).status == 0
        # It was a moment's trouble, and not a refusal of the server's.
        until(lambda: "result" in wire.wait(wire.send_call("note", {"text": "x"}, server="late")), seconds=5)


@pytest.mark.parametrize("how", ["exec 2>/dev/full", "ulimit -f 8"], ids=["no-space-left", "file-too-large"])
def test_a_log_that_cannot_be_written_stops_nothing(world: World, how: str) -> None:
    world.configure({"s": entry(world)})
    daemon = world.daemon("--log-level", "debug", command=limited(how))
    with world.connect() as wire:
        for _ in range(60):
            wire.ask("mcpd/reload")
        assert is_served(wire)
        lines = wire.ask("mcpd/logs", {"tail": 5})["lines"]
    assert len(lines) == 5
    assert len(world.log()) <= 8 * 512

    assert world.run("down").status == 0
    assert daemon.wait() == 0


def has_connections(wire: Wire, count: int) -> bool:
    return bool(wire.ask("mcpd/status")["daemon"]["connections"] == count)


# -- clients -----------------------------------------------------------------------------------------------------


@pytest.fixture
def _many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * IDLE_CLIENTS
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, wanted) if hard >= 0 else wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("_many_descriptors")
def test_a_thousand_idle_clients_cost_nothing_but_memory(world: World) -> None:
    world.configure({"s": entry(world)})
    daemon = world.daemon()
    with world.connect() as wire, contextlib.ExitStack() as stack:
        for count in range(100, IDLE_CLIENTS + 1, 100):  # no more than can wait for the daemon to accept them
            idle = stack.enter_context(connections(world.socket, 100))
            until(partial(has_connections, wire, count + 1))
            assert idle[-1].text("note", {"text": "hello"}, server="s") == "hello"

        assert is_served(wire)
        assert share_of_a_second(daemon.pid) < SPIN_SHARE
        assert rss_bytes(wire) < BOUNDED_BYTES
    with world.connect() as wire:
        until(lambda: wire.ask("mcpd/status")["daemon"]["connections"] == 1)


def test_clients_that_never_read_hold_up_nobody_and_are_held_in_bounds(world: World) -> None:
    world.configure({"s": entry(world), "other": entry(world)})
    world.daemon()
    with world.connect() as wire, connections(world.socket, 2) as deaf:
        assert is_served(wire, times=1)
        for one in deaf:
            for number in range(150):
                one.send_call("big", {"text": number, "n": MIB}, server="s", max_bytes=2 * MIB)

        for server in ("other", "s"):
            assert is_served(wire, server)
        assert rss_bytes(wire) < BOUNDED_BYTES + 2 * OUTBOX_BYTES

    with world.connect() as wire:
        assert is_served(wire)


def test_a_client_that_asks_without_end_leaves_the_others_their_turn(world: World) -> None:
    world.configure({"s": entry(world)})
    world.daemon()
    with world.connect() as wire, world.connect() as greedy:
        assert is_served(wire, times=1)
        for _ in range(200):
            greedy.send_call("slow", {"seconds": 0.02}, server="s")

        assert is_served(wire)

        for identity in range(1, 201):
            assert text_of(greedy.wait(identity)["result"]) == "awake"


# -- servers -----------------------------------------------------------------------------------------------------


def test_a_server_that_notifies_without_end_holds_up_nobody_and_can_be_stopped(world: World) -> None:
    world.configure({"loud": entry(world, stop=HASTY), "s": entry(world)})
    daemon = world.daemon()
    with world.connect() as wire:
        assert is_served(wire, times=1)
        assert wire.text("flood", server="loud") == "it comes"
        until(lambda: _read_bytes(daemon.pid) > 100 * MIB)

        for server in ("s", "loud"):
            assert is_served(wire, server)
        assert rss_bytes(wire) < BOUNDED_BYTES

        with within(5):
            assert wire.ask("mcpd/stop", {"server": "loud"})["state"] == "stopped"
        assert len(servers(world)) == 1


def _read_bytes(pid: int) -> int:
    """Return how much a process has read so far."""
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith("rchar:"):
            return int(line.split()[1])
    return 0


def test_a_server_that_shouts_on_stderr_is_answered_and_kept_in_bounds(world: World) -> None:
    world.configure({"s": entry(world)})
    world.daemon()
    with world.connect() as wire:
        assert wire.text("note", {"text": "before"}, server="s") == "before"
        for size in (64 << 10, (64 << 10) + 1, 50 * MIB):
            with within(10):
                assert wire.text("shout", {"n": size}, server="s") == "shouted"

        lines: list[dict[str, Any]] = wire.ask("mcpd/logs", {"server": "s", "tail": 10})["lines"]
        assert sum(len(line["text"]) for line in lines if line["stream"] == "stderr") <= 64 << 10
        assert rss_bytes(wire) < BOUNDED_BYTES


def test_thirty_broken_servers_do_not_delay_the_seventy_others(world: World) -> None:
    good = [f"good{number}" for number in range(70)]
    broken = [f"broken{number}" for number in range(30)]
    entries = {name: entry(world, stop=HASTY) for name in good}
    for number, name in enumerate(broken):
        how = ("silent", "broken", "missing")[number % 3]
        entries[name] = entry(world, how, stop=HASTY) if how != "missing" else {"command": "no-such-program"}
    # The broken ones come first, wherever there is a first.
    names = [*broken, *good]
    world.configure({name: entries[name] for name in names})
    world.daemon()
    with world.connect() as wire:
        with within(20):
            calls = {name: wire.send_call("note", {"text": name}, server=name) for name in names}
            assert [text_of(wire.wait(calls[name])["result"]) for name in good] == good

        # Those that fail have failed by now, with a reason; those that are silent still have time.
        for number, name in enumerate(broken):
            if number % 3:
                error = wire.wait(calls[name])["error"]
                assert error["data"]["class"] == "server_unavailable", error
                assert ("exit status 3" if number % 3 == 1 else "no-such-program") in error["message"]
        states = {row["name"]: row["state"] for row in wire.ask("mcpd/servers", {"all": True})["servers"]}
    assert {states[name] for name in good} == {"ready"}
    assert {states[name] for name in broken[::3]} == {"starting"}
    assert sorted(ledger(world)) == sorted(f"note {name}" for name in good)
