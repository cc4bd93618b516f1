"""Lists outlive the daemon: the next one answers from disk while the server starts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests.integration.world import DEMO, until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.world import World

HOUR_MS = 3_600_000  # what the demo promises of its lists


def behind_a_gate(world: World) -> Path:
    """Configure a server that is not ready before a file is there; return the file's path, which is."""
    gate = world.path / "gate"
    gate.touch()
    wait = f"while [ ! -e {gate} ]; do sleep 0.02; done; exec {sys.executable} {DEMO}"
    world.configure({"demo": {"command": "sh", "args": ["-c", wait]}})
    return gate


def test_the_next_daemon_answers_a_list_while_the_server_starts(world: World) -> None:
    gate = behind_a_gate(world)
    with world.connect() as wire:
        first = wire.ask("mcpd/tools", {"server": "demo"})
    assert "stale" not in first
    world.run("down")
    (kept,) = (world.path / "home/.local/state/mcpd/catalogs").glob("*.tools.json")
    assert kept.stat().st_mode & 0o777 == 0o600

    gate.unlink()
    with world.connect() as wire:
        early = wire.ask("mcpd/tools", {"server": "demo"})
        assert (early["items"], early["revision"], early["stale"]) == (first["items"], first["revision"], True)
        assert wire.row()["state"] == "starting"

        gate.touch()
        until(lambda: "stale" not in wire.ask("mcpd/tools", {"server": "demo"}))
        again = wire.ask("mcpd/tools", {"server": "demo"})
        assert 0 < again.pop("ttlMs") <= HOUR_MS  # what is left of the server's promise: less with every moment
        assert 0 < first.pop("ttlMs") <= HOUR_MS
        assert again == first


def test_a_broken_file_and_a_folder_that_cannot_be_written_cost_nothing_but_the_wait(world: World) -> None:
    behind_a_gate(world)
    assert "echo" in world.run("tools", "demo").out
    world.run("down")
    folder = world.path / "home/.local/state/mcpd/catalogs"
    (kept,) = folder.glob("*.tools.json")
    kept.write_bytes(b"\0" * 1000)

    assert "an earlier one" not in world.run("tools", "demo").out
    world.run("down")
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    folder.write_text("in the way")

    done = world.run("tools", "demo")
    assert (done.status, "echo" in done.out) == (0, True)
    assert world.run("down").status == 0
    assert folder.read_text() == "in the way"
