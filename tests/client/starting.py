"""Starts a fake daemon, and knows what has come of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcpd_client import autostart

if TYPE_CHECKING:
    import socket

FAKE = Path(__file__).with_name("fake_daemon.py")


class Starter:
    """The command of a fake daemon, and what has come of it."""

    def __init__(self, home: Path, path: str) -> None:
        self.path = path
        self._starts = home / "starts"

    def command(self, how: str = "") -> list[str]:
        return [sys.executable, "-I", "-S", str(FAKE), self.path, str(self._starts), *([how] if how else [])]

    def connect(self, how: str = "") -> socket.socket:
        return autostart.connect(command=self.command(how))

    def pids(self) -> list[int]:
        return [int(line) for line in self._starts.read_text().split()] if self._starts.exists() else []


def ask(sock: socket.socket) -> dict[str, Any]:
    with sock, sock.makefile("rb") as lines:
        sock.sendall(b'{"jsonrpc":"2.0","id":1,"method":"facts"}\n')
        facts: dict[str, Any] = json.loads(lines.readline())["result"]
        return facts
