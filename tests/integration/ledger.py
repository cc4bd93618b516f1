"""Worlds with servers that keep a ledger: what ran is read there, and nowhere else."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.integration.wire import Wire
from tests.integration.world import World, until

SERVER = str(Path(__file__).with_name("ledger_server.py"))


def entry(world: World, *how: str, **more: object) -> dict[str, object]:
    """Return the entry of a server that keeps the world's ledger; `ledger_server.py` says how it may be."""
    return {"command": sys.executable, "args": ["-I", "-S", SERVER, str(world.path / "ledger"), *how], **more}


def ledger(world: World) -> list[str]:
    """Return what ran, in its order."""
    return [line for line in _lines(world) if not line.startswith("start ")]


def starts(world: World) -> list[int]:
    """Return the servers that were started, in their order."""
    return [int(line.split()[1]) for line in _lines(world) if line.startswith("start ")]


def _lines(world: World) -> list[str]:
    path = world.path / "ledger"
    return path.read_text().splitlines() if path.exists() else []


def running(world: World, what: str) -> None:
    """Wait until a call is in the ledger."""
    until(lambda: what in ledger(world), seen=lambda: ledger(world))


def servers(world: World) -> list[int]:
    """Return the processes of servers, leaders and what is below them."""
    return world.processes(SERVER)


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Assert that something takes no longer."""
    begin = time.monotonic()
    yield
    assert (taken := time.monotonic() - begin) < seconds, f"{taken:.2f} s"


def outcome(wire: Wire, identity: object) -> tuple[str, object]:
    """Return class and `may_have_run` of a call that has failed."""
    answer = wire.wait(identity)
    assert "error" in answer, answer
    return answer["error"]["data"]["class"], answer["error"]["data"].get("may_have_run")


def is_alive(pid: int) -> bool:
    """Whether a process is there, and is more than a remainder that nobody has collected."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return bool(file.read())
    return False


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
