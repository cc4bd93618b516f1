from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mcpd_client import Client
from mcpd_client.cli.main import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def daemon(home: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """A home in which the real daemon is started by whoever needs it, and is stopped at the end."""
    monkeypatch.delenv("MCPD_NO_AUTOSTART")
    yield
    assert main(["down"]) == 0


def test_the_first_request_starts_the_daemon_and_the_next_one_finds_it(daemon: object, capfd: Capture) -> None:
    assert main(["up", "--json"]) == 0
    first = json.loads(capfd.readouterr().out)

    with Client() as client:
        assert client.hello()["daemon"]["pid"] == first["pid"]
        assert client.call("demo", "add", {"a": 1, "b": 2})["structuredContent"] == {"sum": 3}

    assert os.getsid(first["pid"]) == first["pid"]


def test_down_leaves_nothing_behind(home: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture) -> None:
    monkeypatch.delenv("MCPD_NO_AUTOSTART")
    assert main(["start", "demo", "--json"]) == 0
    server = json.loads(capfd.readouterr().out)["pid"]

    assert main(["down"]) == 0

    # A process that nobody has collected yet has no command line any more.
    assert not Path(f"/proc/{server}/cmdline").exists() or not Path(f"/proc/{server}/cmdline").read_bytes()
    assert main(["down"]) == 0
    assert capfd.readouterr().err.splitlines()[-1] == "the daemon is not running"


def test_a_daemon_that_cannot_start_tells_why(home: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture) -> None:
    monkeypatch.delenv("MCPD_NO_AUTOSTART")
    folder = home / "run" / "mcpd"
    folder.chmod(0o777)

    assert main(["ls"]) == 6

    assert capfd.readouterr().err == (
        "error: the daemon could not start (exit 6)\n"
        f"  others may write to the folder {folder} | run: chmod go-w {folder}\n"
        f"  see {home}/.local/state/mcpd/daemon.log\n"
    )


def test_what_a_search_finds_can_be_called_and_who_follows_is_told(daemon: object, capfd: Capture) -> None:
    assert main(["search", "two", "numbers", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)["items"][0]
    events: list[dict[str, object]] = []

    with Client() as watcher, Client() as caller:
        rows = watcher.request("mcpd/events", {"follow": True})["servers"]
        caller.call(found["server"], found["name"], {"a": 1, "b": 2})
        watcher.request("ping", on_notification=lambda _, event: events.append(event))

    assert [(row["name"], row["state"]) for row in rows] == [("demo", "ready")]
    (event,) = events
    assert (event["event"], event["server"], event["tool"], event["outcome"]) == ("call", "demo", "add", "done")
