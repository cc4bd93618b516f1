"""What a server that is reached by HTTP costs: a call beside a bare HTTP client, 64 clients, the first one's memory.

Imported once the folder of the shared benchmark is on `sys.path`.
"""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import load
import machine
from programs import Mcpd, Rig

Note = Callable[[str, float], None]

HERE = Path(__file__).parent
TOOL, ARGS = "echo", {"text": "hello"}
SLICES, SLICE_SECONDS = 4, 0.5
CLIENTS = 64
# How a server answers, and how it is asked.
KINDS = {"call": ("json", "modern"), "stream": ("sse", "modern"), "legacy": ("sse", "legacy")}
# What is put off until the first clients have been served.
SETTLED_SECONDS = 1.0


def remote(rig: Rig, note: Note) -> None:
    """What remote servers cost, in three parts."""
    _calls(rig, note)
    _crowd(rig, note)
    _first(rig, note)


GROUPS = {"remote": remote}


def _calls(rig: Rig, note: Note) -> None:
    """The same call through the daemon and with a bare httpx2, in turn."""
    with _server(rig) as url, ExitStack() as stack:
        mcpd = stack.enter_context(_daemon(rig, {kind: (f"{url}/{path}", era) for kind, (path, era) in KINDS.items()}))
        for kind, (path, _) in KINDS.items():
            with _bare(rig, f"{url}/{path}") as bare, ExitStack() as conns:
                conn = _connected(mcpd, kind, conns)
                for _ in range(SLICES):
                    before = machine.cpu(mcpd.pids())
                    found, beside = load.closed_loop([conn], TOOL, ARGS, SLICE_SECONDS), bare(1)
                    note(f"remote_{kind}.mcpd", found["p50_us"])
                    note(f"remote_{kind}.httpx2", beside["p50_us"])
                    note(f"remote_{kind}_cpu.mcpd", (machine.cpu(mcpd.pids()) - before) / found["calls"] * 1e6)
                    note(f"remote_{kind}_cpu.httpx2", beside["cpu_us"])


def _crowd(rig: Rig, note: Note) -> None:
    """Many clients on one server; each side has a server of its own, which counts the connections."""
    with _server(rig) as url, _server(rig) as other, ExitStack() as stack:
        mcpd = stack.enter_context(_daemon(rig, {"remote": (f"{url}/json", "modern")}))
        conns = [_connected(mcpd, "remote", stack) for _ in range(CLIENTS)]
        bare = stack.enter_context(_bare(rig, f"{other}/json"))
        for _ in range(SLICES):
            note("remote_per_s_64.mcpd", load.closed_loop(conns, TOOL, ARGS, SLICE_SECONDS)["per_s"])
            note("remote_per_s_64.httpx2", bare(CLIENTS)["per_s"])
        note("remote_pool_64.mcpd", _seen(url))
        note("remote_pool_64.httpx2", _seen(other))


def _first(rig: Rig, note: Note) -> None:
    """What the first remote server adds to the memory of a daemon that has served a local one."""
    with _server(rig) as url, _daemon(rig, {"remote": (f"{url}/json", "auto")}) as mcpd, ExitStack() as stack:
        _connected(mcpd, "s0", stack)
        time.sleep(SETTLED_SECONDS)
        before = machine.memory(mcpd.pids())
        _connected(mcpd, "remote", stack)
        time.sleep(SETTLED_SECONDS)
        note("memory_remote.mcpd", machine.memory(mcpd.pids()) - before)


@contextmanager
def _server(rig: Rig) -> Iterator[str]:
    """Run the server; give its address."""
    argv = [rig.python, "-I", "-S", str(HERE / "http_server.py")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        yield f"http://127.0.0.1:{child.stdout.readline().strip()}"
        child.stdin.close()


@contextmanager
def _daemon(rig: Rig, entries: Mapping[str, tuple[str, str]]) -> Iterator[Mcpd]:
    """Run a daemon with remote servers, given as name = (URL, era), beside its local one."""
    mcpd = rig.make("mcpd")
    with mcpd.config.open("a") as config:
        for name, (url, era) in entries.items():
            config.write(f"[servers.{name}]\nurl = {json.dumps(url)}\nprotocol = {json.dumps(era)}\n")
    try:
        mcpd.start()
        yield mcpd
    finally:
        mcpd.stop()


@contextmanager
def _bare(rig: Rig, url: str) -> Iterator[Callable[[int], dict[str, float]]]:
    """Run the bare client; what is given has it call from a number of callers for a slice."""
    argv = [rig.python, str(HERE / "http_client.py"), url]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:

        def run(callers: int) -> dict[str, float]:
            child.stdin.write(f"{callers} {SLICE_SECONDS}\n")
            child.stdin.flush()
            return json.loads(child.stdout.readline())

        # Its connections are there, and what it needs is imported.
        run(1)
        yield run
        child.stdin.close()


def _connected(mcpd: Mcpd, server: str, stack: ExitStack) -> load.Conn:
    """Return a connection that has been answered by that server."""
    conn = mcpd.connect(server).open()
    stack.callback(conn.close)
    answer = conn.ask(conn.call_body(TOOL, ARGS))
    if b"hello" not in answer:
        raise RuntimeError(f"unexpected answer: {answer[:200]!r}")
    return conn


def _seen(url: str) -> int:
    """Return how many connections have brought a message to the server."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{url}/seen") as answer:
        return int(answer.read())
