"""The measurements of what servers and clients cost each other: their starts, their guardian, bad neighbours.

Imported once the folder of the shared benchmark is on `sys.path`.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import load
import machine
from programs import Mcpd, Rig

Note = Callable[[str, float], None]

HERE = Path(__file__).parent
SPAWNS = 60
# The start of the log, and what else is put off until the first clients have been served.
SETTLED_SECONDS, IDLE_SECONDS = 1.0, 4.0
POLITE_SECONDS = 2.0
LOUD_MB_PER_S = 100


def guardian(rig: Rig, note: Note) -> None:
    """A start through the guardian beside a bare `Popen`; the guardian's memory; a daemon with nothing to do."""
    for through, bare in json.loads(_run(rig, HERE / "spawn_cost.py", SPAWNS)):
        note("spawn.mcpd", through)
        note("spawn.popen", bare)
        note("spawn_extra.mcpd", through - bare)
    with rig.running(mcpd=("mcpd", None)) as programs:
        mcpd = programs["mcpd"]
        conn = mcpd.connect("s0").open()
        conn.ask(conn.call_body("echo", {"text": "hello"}))
        pids = [*mcpd.pids(), *_guardians(mcpd)]
        note("memory_guardian.mcpd", machine.memory(_guardians(mcpd)))
        time.sleep(SETTLED_SECONDS)
        before = sum(map(_cpu_seconds, pids))
        time.sleep(IDLE_SECONDS)
        note("idle_cpu.mcpd", (sum(map(_cpu_seconds, pids)) - before) / IDLE_SECONDS * 100)
        conn.close()


def crowd(rig: Rig, note: Note) -> None:
    """A polite client alone, and while one client floods, one never reads, and one server writes 100 MB/s."""
    servers = {"s0": rig.echo, "big": rig.echo, "loud": [rig.python, str(HERE / "loud_server.py"), str(LOUD_MB_PER_S)]}
    with rig.running(mcpd=("mcpd", servers)) as programs, ExitStack() as stack:
        mcpd = programs["mcpd"]
        polite = mcpd.connect("s0").open()
        stack.callback(polite.close)
        note("polite_p99.alone", _p99_ms(polite))
        loud = mcpd.connect("loud").open()
        stack.callback(loud.close)
        loud.ask(loud.call_body("echo", {"text": "hello"}))
        stack.enter_context(_rude(rig, mcpd, "flood", "s0"))
        stack.enter_context(_rude(rig, mcpd, "deaf", "big"))
        time.sleep(SETTLED_SECONDS)
        daemon = _daemon(mcpd)
        read, begin = _read_bytes(daemon), time.perf_counter()
        note("polite_p99.crowded", _p99_ms(polite))
        note("loud_rate.mcpd", (_read_bytes(daemon) - read) / (time.perf_counter() - begin) / 1e6)
        note("memory_crowded.mcpd", machine.memory([daemon]))


GROUPS = {"guardian": guardian, "crowd": crowd}


def _run(rig: Rig, program: Path, *argv: object) -> bytes:
    project = str(HERE.parents[1])
    command = [rig.python, str(program), *map(str, argv)]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": project}, stdout=subprocess.PIPE, check=True).stdout


@contextmanager
def _rude(rig: Rig, mcpd: Mcpd, how: str, server: str) -> Iterator[None]:
    argv = [rig.python, "-I", "-S", str(HERE / "rude_client.py"), str(mcpd.socket), how, server]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as child:
        yield
        if child.poll() is not None:
            raise RuntimeError(f"the client that was to {how} has ended")
        child.communicate()


def _p99_ms(conn: load.Conn) -> float:
    return load.closed_loop([conn], "echo", {"text": "hello"}, POLITE_SECONDS)["p99_us"] / 1e3


def _daemon(mcpd: Mcpd) -> int:
    (pid,) = (pid for pid in mcpd.pids() if "daemon" in _command_of(pid))
    return pid


def _guardians(mcpd: Mcpd) -> list[int]:
    """Return the guardian, which has hardly any environment to be known by."""
    path = f"/proc/{_daemon(mcpd)}/task/{_daemon(mcpd)}/children"
    return [pid for pid in map(int, Path(path).read_text().split()) if "guardian.py" in _command_of(pid)]


def _command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


def _cpu_seconds(pid: int) -> float:
    """Return the processor time of a process, finer than the clock's tick."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def _read_bytes(pid: int) -> int:
    """Return how much a process has read so far."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("rchar:"))
