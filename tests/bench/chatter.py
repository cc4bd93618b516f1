"""What servers say without being asked: a list that changes under 64 clients, and calls beside progress and questions.

Imported once the folder of the shared benchmark is on `sys.path`.
"""

from __future__ import annotations

import json
import select
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import load
import machine
from load import Lines
from programs import Mcpd, Rig

Note = Callable[[str, float], None]

LISTENERS, CHANGES, TOOLS = 64, 8, 1000
# Lists are not fetched more often than every quarter of a second.
PAUSE_SECONDS = 0.7
PATIENCE_SECONDS = 10.0
REPORTERS, REPORTS_PER_SECOND, ASKERS = 8, 20, 4
SLICES, SLICE_SECONDS = 3, 0.5
TOOL, ARGS = "echo", {"text": "hello"}
ABLE = {"version": 1, "capabilities": {"elicitation": {}}}


def changes(rig: Rig, note: Note) -> None:
    """The daemon's processor time for one list_changed of a thousand tools that 64 clients want to hear of."""
    with rig.running(mcpd=("mcpd", rig.tools(TOOLS))) as daemons, ExitStack() as stack:
        mcpd = daemons["mcpd"]
        conns = [_open(mcpd, stack) for _ in range(LISTENERS)]
        for conn in conns:
            _ask(conn, "mcpd/tools", {"server": "s0", "limit": 1})
        caller = _open(mcpd, stack)
        pid = _ask(caller, "mcpd/status", {})["daemon"]["pid"]
        for _ in range(CHANGES):
            time.sleep(PAUSE_SECONDS)
            before = _cpu_ms(pid)
            _ask(caller, "mcpd/call", {"server": "s0", "tool": TOOL, "arguments": {"text": "change the list"}})
            told = _collect(conns)
            note("list_change_cpu.mcpd", _cpu_ms(pid) - before)
            note("list_change_told.mcpd", told)
        asked = _ask(caller, "mcpd/call", {"server": "s0", "tool": TOOL, "arguments": {"text": "how often?"}})
        note("list_change_walks.mcpd", (int(asked["content"][0]["text"]) - 1) / CHANGES)


def chatter(rig: Rig, note: Note) -> None:
    """A call on one connection while other clients of the daemon get reports of progress, and are being asked."""
    talker = [str(rig.mcpd), "demo-server"]
    servers = {"s0": rig.echo, "talk": talker}
    with rig.running(mcpd=("mcpd", servers), prototype=("prototype", None)) as programs, ExitStack() as stack:
        _talk(programs["mcpd"], stack)
        conns = {name: stack.enter_context(_Calling(program)) for name, program in programs.items()}
        for _ in range(SLICES):
            for name, one in conns.items():
                found = one.run()
                note(f"chatter_p50.{name}", found["p50_us"])
                note(f"chatter_cpu.{name}", found["cpu_us"])


def _talk(mcpd: Mcpd, stack: ExitStack) -> None:
    """Let some clients have long calls that report, and some be asked and not answer."""
    for _ in range(REPORTERS):
        conn = _open(mcpd, stack)
        arguments = {"seconds": 60, "steps": 60 * REPORTS_PER_SECOND}
        params = {"server": "talk", "tool": "slow", "arguments": arguments, "timeout": 90, "_meta": {"progressToken": 1}}
        conn.write(conn.body("mcpd/call", params))
    for _ in range(ASKERS):
        conn = _open(mcpd, stack)
        _ask(conn, "mcpd/hello", ABLE)
        conn.write(conn.body("mcpd/call", {"server": "talk", "tool": "ask", "arguments": {}}))
        if not select.select([conn.rfd], [], [], PATIENCE_SECONDS)[0]:
            raise RuntimeError("a client was not asked")


class _Calling:
    """One connection with a call outstanding."""

    def __init__(self, program) -> None:
        self._program = program

    def __enter__(self):
        self._conn = self._program.connect("s0").open()
        self._conn.ask(self._conn.call_body(TOOL, ARGS))
        return self

    def __exit__(self, *failure: object) -> None:
        self._conn.close()

    def run(self) -> dict[str, float]:
        pids = self._program.pids()
        before = machine.cpu(pids)
        found = load.closed_loop([self._conn], TOOL, ARGS, SLICE_SECONDS)
        return {**found, "cpu_us": (machine.cpu(pids) - before) / found["calls"] * 1e6}


def _open(mcpd: Mcpd, stack: ExitStack) -> Lines:
    conn = Lines(path=str(mcpd.socket), initialize=False).open()
    stack.callback(conn.close)
    return conn


def _ask(conn: Lines, method: str, params: Mapping[str, object]):
    reply = json.loads(conn.ask(conn.body(method, params)))
    if "error" in reply:
        raise RuntimeError(f"{method}: {reply['error']['message']}")
    return reply["result"]


def _collect(conns: list[Lines]) -> float:
    """Wait until every client was told; return how often each was on average."""
    waiting, told = {conn.rfd: conn for conn in conns}, 0
    deadline = time.monotonic() + PATIENCE_SECONDS
    while waiting and time.monotonic() < deadline:
        for fd in select.select(list(waiting), [], [], 0.1)[0]:
            told += waiting.pop(fd).sock.recv(1 << 16).count(b"list_changed")
    for fd in select.select([conn.rfd for conn in conns], [], [], 0.1)[0]:
        told += next(conn for conn in conns if conn.rfd == fd).sock.recv(1 << 16).count(b"list_changed")
    return told / len(conns)


def _cpu_ms(pid: int) -> float:
    """Return the processor time of a process that has one busy thread, finer than in clock ticks."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6


GROUPS: Mapping[str, Callable[[Rig, Note], None]] = {"changes": changes, "chatter": chatter}
