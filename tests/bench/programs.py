"""The programs that are measured: mcpd and the prototype, by the adapters of the shared benchmark.

Imported once the folder of the shared benchmark is on `sys.path`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import adapters
import bench
from load import Lines

TOOL_SERVER = Path(__file__).with_name("tool_server.py")

Servers = Mapping[str, list[str]]


class Mcpd(adapters.Mcpd):
    """mcpd with the ways of asking that the shared adapter lacks."""

    def connect_whole(self, server: str, max_bytes: int) -> Lines:
        """Return a connection whose calls ask for results of up to `max_bytes`.

        Over the socket a result is cut to a view of 32 KiB unless more is asked for, and the shared
        adapter does not ask: its 5 MB would be 5 MB cut, kept under a handle and not transferred.
        """
        conn = Lines(path=str(self.socket), initialize=False)
        wanted = {"server": server, "max_bytes": max_bytes}
        conn.call_body = lambda tool, args: conn.body("mcpd/call", {**wanted, "tool": tool, "arguments": args})
        return conn

    def connect_cli(self, server: str) -> Lines:
        """Return a connection whose calls are command lines, read by schema and rendered by the daemon."""
        conn = Lines(path=str(self.socket), initialize=False)

        def body(tool: str, args: Mapping[str, str]) -> bytes:
            words = [f"{name}={value}" for name, value in args.items()]
            return conn.body("mcpd/cli", {"argv": ["call", server, tool, *words], "cwd": "/"})

        conn.call_body = body
        return conn

    def cli_words(self, server: str, tool: str, args: Mapping[str, str]) -> list[object]:
        """Return the command line of a call as people type it, which the daemon reads by the tool's schema."""
        return [self.mcpd, "call", server, tool, *(f"{name}={value}" for name, value in args.items())]

    def cli_list_all(self) -> list[object]:
        """Return the command line that lists every tool; `--json` by itself is one page of at most 100."""
        return [*self.cli_list(), "--all"]


class Rig:
    """What all measurements share: the commands, the echo server, and fresh instances of the programs.

    Args:
        mcpd: the command.
        work: an empty directory.

    Attributes:
        python: the interpreter that runs mcpd; the prototype and the bare Python are run by the same one.
        echo: the argv of a server that costs next to nothing.
    """

    def __init__(self, mcpd: Path, work: Path) -> None:
        # The shared adapter looks here for the command.
        os.environ["BENCH_MCPD"] = str(mcpd)
        self.mcpd, self._work, self._made = mcpd, work, 0
        self.python = interpreter_of(mcpd)
        self.echo = bench.echo_server(work)

    def make(self, program: str, servers: Servers | None = None) -> adapters.Adapter:
        """Return an instance with a directory and a configuration of its own, not yet started."""
        kind = Mcpd if program == "mcpd" else adapters.ALL[program]
        self._made += 1
        return kind(servers or {"s0": self.echo}, self._work / str(self._made), self._work, python=self.python)

    @contextmanager
    def running(self, **wanted: tuple[str, Servers | None]) -> Iterator[dict[str, adapters.Adapter]]:
        """Start several instances, given as label = (program, servers); stop them all at the end."""
        made = {label: self.make(*what) for label, what in wanted.items()}
        try:
            for adapter in made.values():
                adapter.start()
            yield made
        finally:
            for adapter in made.values():
                adapter.stop()

    def both(self, servers: Servers | None = None):
        """Start mcpd and the prototype with the same servers."""
        return self.running(mcpd=("mcpd", servers), prototype=("prototype", servers))

    def tools(self, count: int) -> Servers:
        """Return a server with that many tools."""
        return {"s0": [self.python, "-I", "-S", str(TOOL_SERVER), str(count)]}

    @property
    def bare(self) -> list[str]:
        """The argv of a Python that does nothing: the least that any command written in it takes."""
        return [self.python, "-I", "-S", "-c", "pass"]


def interpreter_of(command: Path) -> str:
    """Return the Python in a script's first line; where there is none, the one that runs this."""
    with command.open("rb") as file:
        words = file.readline(4096).decode("utf-8", "replace").removeprefix("#!").split()
    if words and Path(words[0]).name == "env":
        words = [shutil.which(words[-1]) or ""]
    return words[0] if words and Path(words[0]).name.startswith("python") else sys.executable


def imported_by(argv: list[object], adapter: adapters.Adapter) -> list[str]:
    """Return the modules that a Python command line imports, in that order; argv[0] is the interpreter."""
    timed = [str(argv[0]), "-X", "importtime", *map(str, argv[1:])]
    done = subprocess.run(timed, capture_output=True, env=adapter.env, cwd=adapter.work, timeout=60, check=True)
    lines = [line for line in done.stderr.decode().splitlines() if line.startswith("import time:")]
    # The first line is the head of a table whose last column is the name.
    return [line.rpartition("|")[2].strip() for line in lines[1:]]


def tool_count(adapter: Mcpd, server: str) -> int:
    """Have the daemon load the list of a server's tools; return how many it has found."""
    conn = Lines(path=str(adapter.socket), initialize=False).open()
    try:
        reply = json.loads(conn.ask(conn.body("mcpd/tools", {"server": server, "limit": 1})))
    finally:
        conn.close()
    if "error" in reply:
        raise RuntimeError(f"mcpd/tools: {reply['error']['message']}")
    return reply["result"]["total"]
