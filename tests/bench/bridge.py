"""What a host pays for the bridge: its calls, the bridge's memory, the first answers, the list of many servers.

Imported once the folder of the shared benchmark is on `sys.path`.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack

import load
import machine
from load import HELLO, Lines
from programs import Mcpd, Rig, tool_count

Note = Callable[[str, float], None]

TOOL, ARGS = "echo", {"text": "hello"}
SLICES, SLICE_SECONDS = 3, 0.5
CALLS, LISTS = 1000, 30
# A server that is still starting when the last bridge has been answered.
STARTUP_MS, FIRST_SHOTS = 5000, 12
MANY_SERVERS, LIST_SHOTS = 30, 10
PATIENCE_SECONDS = 60.0


def bridge(rig: Rig, note: Note) -> None:
    """The same call through a bridge and on the socket, in turn; the memory of a bridge that has worked."""
    with rig.running(mcpd=("mcpd", None)) as programs, ExitStack() as stack:
        mcpd = programs["mcpd"]
        conns = {"bridge": through(mcpd, "s0").open(), "socket": mcpd.connect("s0").open()}
        for conn in conns.values():
            stack.callback(conn.close)
            _expect(conn, conn.call_body(TOOL, ARGS), b"hello")
        for _ in range(SLICES):
            found = {
                name: load.closed_loop([conn], TOOL, ARGS, SLICE_SECONDS)["p50_us"] for name, conn in conns.items()
            }
            note("bridge_call.bridge", found["bridge"])
            note("bridge_call.socket", found["socket"])
            note("bridge_extra.mcpd", found["bridge"] - found["socket"])
        worked = through(mcpd, "s0").open()
        stack.callback(worked.close)
        for _ in range(CALLS):
            _expect(worked, worked.call_body(TOOL, ARGS), b"hello")
        for _ in range(LISTS):
            _expect(worked, worked.body("tools/list", {}), b'"echo"')
        note("memory_bridge.mcpd", machine.memory([worked.child.pid]))


def bridge_first(rig: Rig, note: Note) -> None:
    """From the start of a bridge to its first answers, while the server takes its time and its catalog is kept."""
    mcpd = rig.make("mcpd", {"s0": [*rig.echo, "--startup-ms", str(STARTUP_MS)]})
    try:
        mcpd.start()
        count = tool_count(mcpd, "s0")
        mcpd.stop()
        mcpd.start()
        for _ in range(FIRST_SHOTS):
            for series, taken in _first_answers(mcpd, count).items():
                note(f"{series}.mcpd", taken)
            begin = time.perf_counter()
            mcpd.run(rig.bare)
            note("bridge_first.python", _ms_since(begin))
        if (state := _state(mcpd)) == "ready":
            raise RuntimeError(f"the server was {state} before the last bridge had its answer")
    finally:
        mcpd.stop()


def bridge_many(rig: Rig, note: Note) -> None:
    """The tools of many running servers, as one list through a bridge."""
    many = {f"s{number}": rig.echo for number in range(MANY_SERVERS)}
    with rig.running(mcpd=("mcpd", many)) as programs, ExitStack() as stack:
        mcpd = programs["mcpd"]
        expected = sum(tool_count(mcpd, name) for name in many)
        conn = through(mcpd).open()
        stack.callback(conn.close)
        for shot in range(LIST_SHOTS + 1):
            begin = time.perf_counter()
            answer = conn.ask(conn.body("tools/list", {}))
            taken = _ms_since(begin)
            if (found := len(json.loads(answer)["result"]["tools"])) != expected:
                raise RuntimeError(f"{found} tools of {expected} were listed")
            note("bridge_list_30.mcpd" if shot else "bridge_list_30_first.mcpd", taken)


GROUPS: Mapping[str, Callable[[Rig, Note], None]] = {
    "bridge": bridge, "bridge_first": bridge_first, "bridge_many": bridge_many,
}  # fmt: skip


def through(mcpd: Mcpd, *servers: str) -> Lines:
    """Return a connection through a bridge, not yet opened."""
    return Lines(argv=[str(mcpd.mcpd), "bridge", *servers], env=mcpd.env)


def _first_answers(mcpd: Mcpd, count: int) -> dict[str, float]:
    """Start a bridge and say at once what hosts say first; return the milliseconds until each answer."""
    messages = [
        {"id": 1, "method": "initialize", "params": HELLO},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list", "params": {}},
    ]
    said = b"".join(json.dumps({"jsonrpc": "2.0", **each}).encode() + b"\n" for each in messages)
    argv, taken = [str(mcpd.mcpd), "bridge", "s0"], {}
    begin = time.perf_counter()
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=mcpd.env, cwd=mcpd.work) as child:
        child.stdin.write(said)
        child.stdin.flush()
        while len(taken) < 2:
            line = child.stdout.readline()
            at = _ms_since(begin)
            answer = json.loads(line) if line else {}
            if answer.get("id") == 1 and "result" in answer:
                taken["bridge_initialize"] = at
            elif answer.get("id") == 2 and len(answer.get("result", {}).get("tools", ())) == count:
                taken["bridge_tools"] = at
            elif "method" not in answer:
                child.kill()
                raise RuntimeError(f"unexpected answer: {line[:200]!r}")
        child.stdin.close()
        child.wait(PATIENCE_SECONDS)
    return taken


def _state(mcpd: Mcpd) -> str:
    conn = Lines(path=str(mcpd.socket), initialize=False).open()
    try:
        return json.loads(conn.ask(conn.body("mcpd/servers", {"all": True})))["result"]["servers"][0]["state"]
    finally:
        conn.close()


def _expect(conn: Lines, body: bytes, mark: bytes) -> None:
    answer = conn.ask(body)
    if mark not in answer:
        raise RuntimeError(f"unexpected answer: {answer[:200]!r}")


def _ms_since(begin: float) -> float:
    return (time.perf_counter() - begin) * 1e3
