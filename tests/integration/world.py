"""A private world for real processes: folders, an environment, the command line, the daemon's life."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tests.integration.wire import Wire

REPOSITORY = Path(__file__).parents[2]
DEMO = str(REPOSITORY / "mcpd" / "demo.py")
COMMAND = (sys.executable, "-m", "mcpd_client")
# Nothing here takes long; a machine that does ten things at once makes it look so.
PATIENCE_SECONDS = 30.0
LOOK_SECONDS = 0.01

T = TypeVar("T")


def until(condition: Callable[[], T], *, seconds: float = PATIENCE_SECONDS, seen: Callable[[], object] = str) -> T:
    """Return the first true value of `condition`; the one place where time passes.

    `seen` says what there was instead if it never comes.
    """
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {value!r} {seen()}"
        time.sleep(LOOK_SECONDS)
    return value


@dataclass(frozen=True)
class Done:
    """What a command has left."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its one line of JSON on stdout."""
        assert self.status == 0, self
        assert self.out.count("\n") == 1, self
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        """Its one line of JSON on stderr."""
        assert self.err.count("\n") == 1, self
        error: dict[str, Any] = json.loads(self.err)["error"]
        return error


class World:
    """Everything below one folder, whose name every process of it has in its environment.

    Attributes:
        env: the environment of commands; tests may change it.
        command: how `mcpd` is run.
        patience_seconds: how long a command may take.
    """

    def __init__(self, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self.patience_seconds = patience_seconds
        # A socket's path may have 107 bytes: pytest's own folders are too long.
        self.path = Path(tempfile.mkdtemp(prefix="mi", dir="/tmp"))
        for name in ("home", "run"):
            (self.path / name).mkdir(mode=0o700)
        foreign = ("MCPD_", "XDG_", "PYTHON", "NO_COLOR", "CLICOLOR")
        self.env = {key: value for key, value in os.environ.items() if not key.startswith(foreign)} | {
            "HOME": f"{self.path}/home",
            "XDG_RUNTIME_DIR": f"{self.path}/run",
            "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY}/client",
            "LANG": "C.UTF-8",
        }
        self.command = COMMAND
        self._children: list[subprocess.Popen[str]] = []

    @property
    def socket(self) -> str:
        """Where a daemon with this environment listens."""
        return f"{self.path}/run/mcpd/mcpd.sock"

    def __enter__(self) -> World:
        return self

    def __exit__(self, *failure: object) -> None:
        try:
            self.run("down")
            self.wait_empty()
        finally:
            for pid in self.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for child in self._children:
                child.communicate(timeout=PATIENCE_SECONDS)
            shutil.rmtree(self.path)

    # -- configuration ---------------------------------------------------------------------------

    def configure(self, servers: Mapping[str, Mapping[str, object] | None] | str, daemon: str = "") -> None:
        """Write the configuration: a TOML text, or entries in which None stands for the demo server."""
        if not isinstance(servers, str):
            servers = "\n".join(_entry(name, entry or demo()) for name, entry in servers.items())
        path = self.path / "home/.config/mcpd/config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"[daemon]\n{daemon}\n{servers}" if daemon else servers)

    # -- commands --------------------------------------------------------------------------------

    def run(self, *argv: str, env: Mapping[str, str] | None = None, stdin: str = "", command: Any = COMMAND) -> Done:
        """Run a command line of `mcpd` to its end."""
        return self.begin(*argv, env=env, stdin=stdin, command=command)()

    def begin(
        self, *argv: str, env: Mapping[str, str] | None = None, stdin: str = "", command: Any = COMMAND
    ) -> Callable[[], Done]:
        """Start a command line; what is returned waits for its end."""
        child = self.spawn(*command, *argv, env=env)

        def end() -> Done:
            out, err = child.communicate(stdin, timeout=self.patience_seconds)
            return Done(child.returncode, out, err)

        return end

    def spawn(self, *argv: str, env: Mapping[str, str] | None = None, **more: Any) -> subprocess.Popen[str]:
        """Start any process in this world; it is collected at the end."""
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        child = subprocess.Popen(
            argv, env=self.env if env is None else env, cwd=self.path, encoding="utf-8", **{**pipes, **more}
        )
        self._children.append(child)
        return child

    def call(self, server: str, tool: str, *arguments: str) -> str:
        """Return the text that a tool gives back to the command line."""
        done = self.run("call", server, tool, *arguments)
        assert done.status == 0, done
        return done.out.removesuffix("\n")

    def status(self) -> Any:
        """Return what `mcpd status` says of the running daemon."""
        return self.run("status", "--json", "--no-autostart").json

    def row(self, server: str) -> dict[str, Any]:
        """Return the row of one server."""
        return next(row for row in self.status()["servers"] if row["name"] == server)

    def connect(self) -> Wire:
        """Return a connection to the daemon, which is started if need be."""
        if not os.path.exists(self.socket):
            assert self.run("up", "-q").status == 0
        return Wire(self.socket)

    def daemon(self, *argv: str, env: Mapping[str, str] | None = None, command: Any = COMMAND) -> subprocess.Popen[str]:
        """Start a daemon in the foreground and return when it says that it listens."""
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        with (self.path / "foreground.log").open("a") as log, open(reader, "rb", buffering=0) as ready:
            options = ("daemon", "--ready-fd", str(writer), *argv)
            child = self.spawn(*command, *options, env=env, pass_fds=(writer,), stdout=log, stderr=log)
            os.close(writer)
            said = [until(lambda: None if (data := ready.read(64)) is None else (data,)) for _ in range(2)]
            # And then the end: nobody else has got hold of the descriptor.
            assert said == [(b"ready\n",), (b"",)], self.log()
        return child

    def log(self) -> str:
        """Return all that daemons have logged."""
        files = (self.path / "foreground.log", self.path / "home/.local/state/mcpd/daemon.log")
        return "".join(file.read_text() for file in files if file.exists())

    # -- processes -------------------------------------------------------------------------------

    def processes(self, word: str = "") -> list[int]:
        """Return the living processes of this world, those with `word` in their command line."""
        mark = os.fsencode(self.path)
        found = []
        for pid in _all():
            command = _read(f"/proc/{pid}/cmdline")
            # A process that has ended and waits to be collected has no command line.
            if command and word.encode() in command and (mark in command or mark in _read(f"/proc/{pid}/environ")):
                found.append(pid)
        return found

    def daemons(self) -> list[int]:
        """Return the daemons of this world."""
        return self.processes("mcpd_client\0daemon")

    def guardians(self) -> list[int]:
        """Return the guardians of this world's daemons, which have hardly any environment to be known by."""
        mine = self.daemons()
        return [pid for pid in _all() if b"guardian.py\0" in _read(f"/proc/{pid}/cmdline") and _parent(pid) in mine]

    def signal_daemon(self, number: signal.Signals) -> None:
        """Send a signal to the one daemon of this world."""
        (pid,) = self.daemons()
        os.kill(pid, number)

    def wait_empty(self) -> None:
        """Wait until no process is left; nothing may need more than a moment to be gone."""
        until(lambda: not self.processes(), seconds=5, seen=lambda: [*map(_command_of, self.processes())])


def demo(**more: object) -> dict[str, object]:
    """Return the entry of a demo server."""
    return {"command": sys.executable, "args": [DEMO], **more}


def shell(script: str, **more: object) -> dict[str, object]:
    """Return the entry of a server that a shell script starts; `$0` is the demo server."""
    return {"command": "/bin/sh", "args": ["-c", script, f"{sys.executable} {DEMO}"], **more}


def _entry(name: str, entry: Mapping[str, object]) -> str:
    return f"[servers.{name}]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in entry.items())


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    # Texts, numbers, booleans and lists of them read the same in JSON.
    return json.dumps(value)


def _all() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _parent(pid: int) -> int:
    # The name of the program, in parentheses, may hold anything.
    state = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return int(state[1]) if state else 0


def _command_of(pid: int) -> str:
    return _read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def open_world() -> Iterator[World]:
    """Be the body of a fixture: a world of its own that ends empty."""
    with World() as world:
        yield world
