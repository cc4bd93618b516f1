from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from mcpd_client.cli import daemon
from mcpd_client.cli.main import main
from mcpd_client.errors import DaemonNotRunning

if TYPE_CHECKING:
    from pathlib import Path

    from tests.client.scripted import Peer

Capture = pytest.CaptureFixture[str]
DAEMON = {
    "pid": 7,
    "version": "0.1.0",
    "started": "2020-01-01T00:00:00.000Z",
    "socket": "/s",
    "config": "/c.toml",
    "connections": 1,
    "rss_bytes": 41943040,
}
STATUS = {"daemon": DAEMON, "servers": []}


def test_up_tells_where_the_daemon_is(serve: Any, capfd: Capture, home: Path) -> None:
    serve({"mcpd/status": STATUS})

    assert main(["up", "--config", f"{home}/other.toml"]) == 0

    out, err = capfd.readouterr()
    assert out == "mcpd 0.1.0 is running: pid 7, /s\n"
    assert err.startswith("note: it runs with /c.toml; ")
    assert main(["up", "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == DAEMON


def test_up_starts_a_daemon_even_where_it_is_not_to_start_by_itself(
    home: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def connect(path: str | None, *, command: list[str]) -> Any:
        asked.append((path, command[-2:]))
        raise DaemonNotRunning("not in a test")

    monkeypatch.setattr(daemon, "connect", connect)

    assert main(["up", "--config", f"{home}/c.toml"]) == 6
    assert asked == [(None, ["--config", f"{home}/c.toml"])]
    assert main(["up", "--no-autostart"]) == 6
    assert len(asked) == 1


def test_down_without_a_daemon_is_no_error(home: Path, capfd: Capture) -> None:
    assert main(["down"]) == 0
    assert capfd.readouterr() == ("", "the daemon is not running\n")

    assert main(["down", "--json"]) == 0
    assert capfd.readouterr().out == '{"stopped":false}\n'


def test_down_waits_until_the_process_has_gone(serve: Any, capfd: Capture) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:

        def shutdown(peer: Peer, request: dict[str, Any]) -> None:
            peer.answer(request, {})
            process.kill()

        serve({"mcpd/hello": {"daemon": {"pid": process.pid}}, "mcpd/shutdown": shutdown})

        assert main(["down"]) == 0
        assert process.wait() == -9

    assert capfd.readouterr().err == f"the daemon (pid {process.pid}) has stopped\n"


def test_down_by_force_kills_what_does_not_end(serve: Any, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "SECOND_SIGNAL_SECONDS", 0.01)
    monkeypatch.setattr(daemon, "FORCE_TERM_SECONDS", 0.01)
    with subprocess.Popen(["sh", "-c", "trap '' TERM; echo; exec sleep 60"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        serve({"mcpd/hello": {"daemon": {"pid": process.pid}}})

        assert main(["down", "--force"]) == 0
        assert process.wait() == -9


def test_down_does_not_wait_for_ever(serve: Any, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "DOWN_SECONDS", 0.05)
    serve({"mcpd/hello": {"daemon": {"pid": os.getpid()}}, "mcpd/shutdown": {}})

    assert main(["down"]) == 1

    assert capfd.readouterr().err.endswith("  try: mcpd down --force\n")


def test_reload_tells_what_has_changed_and_what_is_wrong(serve: Any, capfd: Capture) -> None:
    problem = {"file": "/c.toml", "server": "x", "key": "cwd", "problem": "expected text", "hint": 'cwd = "/"'}
    answers = [{"added": ["a", "b"], "removed": [], "changed": ["c"], "problems": []}, {"problems": [problem]}, {}]
    serve({"mcpd/reload": lambda peer, request: peer.answer(request, answers.pop(0))})

    assert main(["reload"]) == 0
    assert capfd.readouterr().out == "added: a, b; changed: c\n"
    assert main(["reload"]) == 9
    assert capfd.readouterr() == ("nothing has changed\n", '/c.toml: x.cwd: expected text (cwd = "/")\n')
    assert main(["reload", "--json"]) == 0
    assert capfd.readouterr().out == "{}\n"
