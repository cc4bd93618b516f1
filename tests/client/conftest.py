from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.client.scripted import ScriptedDaemon, answers
from tests.client.starting import Starter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CLIENT_ROOT = Path(__file__).parents[2] / "client"


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty home with a short path, since a socket's path may have 107 bytes; no daemon is ever started."""
    path = Path(tempfile.mkdtemp(prefix="mc", dir="/tmp"))
    for name in list(os.environ):
        if name.startswith(("MCPD_", "XDG_", "NO_COLOR", "CLICOLOR")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(path / "run"))
    monkeypatch.setenv("MCPD_NO_AUTOSTART", "1")
    monkeypatch.setenv("PYTHONPATH", f"{CLIENT_ROOT}:{CLIENT_ROOT.parent}")
    (path / "run" / "mcpd").mkdir(parents=True)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def socket_path(home: Path) -> str:
    """Where the client looks for its daemon."""
    return str(home / "run" / "mcpd" / "mcpd.sock")


@pytest.fixture
def serve(socket_path: str) -> Iterator[Callable[[dict[str, Any]], list[dict[str, Any]]]]:
    """Start a daemon that answers by method; returns the list in which its requests are noted."""
    daemons: list[ScriptedDaemon] = []

    def start(results: dict[str, Any]) -> list[dict[str, Any]]:
        seen: list[dict[str, Any]] = []
        daemons.append(ScriptedDaemon(socket_path, answers(results, seen)).__enter__())
        return seen

    yield start
    for daemon in daemons:
        daemon.__exit__()


@pytest.fixture
def starter(home: Path, socket_path: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Starter]:
    monkeypatch.delenv("MCPD_NO_AUTOSTART")
    result = Starter(home, socket_path)
    yield result
    for pid in result.pids():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
