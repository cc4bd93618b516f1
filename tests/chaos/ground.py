"""The ground that a run plays on: a folder in /tmp, an environment, the command, the socket, and the end of it all."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.chaos import processes
from tests.chaos.processes import Process

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
COMMAND = (sys.executable, "-m", "mcpd_client")
KINDS = ("plain", "family", "deaf", "slow", "crashing", "modern")
COMMAND_SECONDS = 60.0
REPLY_SECONDS = 30.0
# What is told to end is gone after this, or never.
EMPTY_SECONDS = 5.0

# Short steps of patience, so that a run sees many of them.
SETTINGS = """\
timeout = { start_seconds = 5, call_seconds = 1.5, idle_seconds = 5 }
stop = { drain_seconds = 0.5, eof_seconds = 0.3, term_seconds = 0.3 }
"""


class Ground:
    """A folder whose name is in the command line or the environment of every process of the run.

    Attributes:
        names: of the servers, with the kind in front.
        mark: what the marks of this place's processes begin with; 0 until a guardian has been seen.
    """

    def __init__(self, command: Sequence[str] | None, servers: int, mutant: str) -> None:
        self.path = tempfile.mkdtemp(prefix="chaos-", dir="/tmp")
        for name in ("home", "run"):
            os.mkdir(f"{self.path}/{name}", 0o700)
        self.command = list(command or COMMAND)
        foreign = ("MCPD_", "XDG_", "PYTHON")
        self.env = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        self.env |= {"HOME": f"{self.path}/home", "XDG_RUNTIME_DIR": f"{self.path}/run", "LANG": "C.UTF-8"}
        if command is None:
            self.env["PYTHONPATH"] = self._copy_code()
        self.names = [f"{KINDS[number % len(KINDS)]}{number}" for number in range(servers)]
        self.mark = 0
        self._configure(mutant)

    def _copy_code(self) -> str:
        """Copy what is under test, so that a run sees one state of it; return where to import it from."""
        code = Path(self.path, "code")
        shutil.copytree(REPOSITORY / "mcpd", code / "mcpd")
        shutil.copytree(REPOSITORY / "client/mcpd_client", code / "mcpd_client")
        return str(code)

    def _configure(self, mutant: str) -> None:
        entries = []
        for name in self.names:
            args = [str(HERE / "server.py"), self.path, name, name.rstrip("0123456789"), mutant]
            entries.append(f"[servers.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(args)}\n{SETTINGS}")
        folder = f"{self.path}/home/.config/mcpd"
        os.makedirs(folder)
        Path(folder, "config.toml").write_text("\n".join(entries))

    @property
    def socket_path(self) -> str:
        return f"{self.path}/run/mcpd/mcpd.sock"

    def remove(self, path: str) -> None:
        """Remove a file of the run."""
        os.unlink(path)

    # -- commands --------------------------------------------------------------------------------

    def spawn(self, *argv: str, **more: Any) -> subprocess.Popen[bytes]:
        """Start a process of the run, without anything to read or to say."""
        null = subprocess.DEVNULL
        options: dict[str, Any] = {"stdin": null, "stdout": null, "stderr": null, **more}
        return subprocess.Popen(argv, env=self.env, cwd=self.path, **options)

    def mcpd(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a command of mcpd to its end."""
        return subprocess.run(
            [*self.command, *argv],
            env=self.env, cwd=self.path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_SECONDS,
        )  # fmt: skip

    def ask(self, *requests: tuple[str, dict[str, Any]]) -> list[Any]:
        """Send requests over one connection; return the replies, in the order of the requests."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(REPLY_SECONDS)
            sock.connect(self.socket_path)
            for number, (method, params) in enumerate(requests):
                line = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                sock.sendall(json.dumps(line).encode() + b"\n")
            with sock.makefile("rb") as lines:
                replies = [json.loads(lines.readline()) for _ in requests]
        return sorted(replies, key=lambda reply: int(reply["id"]))

    def open_clients(self, count: int) -> list[socket.socket]:
        """Open connections that do nothing; the caller closes them."""
        socks = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(count)]
        for sock in socks:
            sock.connect(self.socket_path)
        return socks

    # -- processes -------------------------------------------------------------------------------

    def scan(self) -> list[Process]:
        """Return the living processes of this run."""
        return processes.scan(self.path, self.mark)

    def learn_mark(self) -> None:
        """Look at a guardian for what the marks of this place begin with."""
        found = self.scan()
        daemons = {one.pid for one in found if one.role == "daemon"}
        for pid in daemons:
            for child in processes.children(pid):
                if mark := processes.read_mark(child):
                    self.mark = mark >> processes.PLACE_BITS

    def logs(self) -> str:
        """Return what daemons have logged; the older one of two files first."""
        folder = Path(self.path, "home/.local/state/mcpd")
        files = (folder / "daemon.log.1", folder / "daemon.log")
        return "".join(file.read_text(errors="replace") for file in files if file.exists())

    def clear(self, keep: str | None) -> None:
        """Kill what is left and remove the folder, or move it to `keep`."""
        end = time.monotonic() + EMPTY_SECONDS
        while (left := self.scan()) and time.monotonic() < end:
            for one in left:
                with suppress(ProcessLookupError):
                    os.kill(one.pid, signal.SIGKILL)
            time.sleep(0.02)
        if keep:
            shutil.move(self.path, keep)
        else:
            shutil.rmtree(self.path, ignore_errors=True)
