"""The measurements: each takes one round of samples, the programs in turn while all of them are alive.

Imported once the folder of the shared benchmark is on `sys.path`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack

import adapters
import bridge
import chatter
import load
import machine
import neighbours
import remote
from load import Lines
from programs import Mcpd, Rig, imported_by, tool_count

# Where a sample goes: its series, and the value.
Note = Callable[[str, float], None]

TOOL, ARGS = "echo", {"text": "hello"}
# Short runs taken in turn see the same weather; the first fifth of each is not counted.
SLICES, SLICE_SECONDS = 2, 0.5
SHOTS = 12
BLOB_BYTES, BLOB_SHOTS = 5_000_000, 5
# JSON escapes are longer than what they stand for.
WHOLE_BYTES = 2 * BLOB_BYTES
STARTUP_MS = 200
# Who is measured when only one can run at a time; neither is always the first.
THERE_AND_BACK = ("mcpd", "prototype", "prototype", "mcpd")
MANY_SERVERS, FEW_TOOLS, MANY_TOOLS = 50, 10, 1000
CLI_CLIENTS = 8


def calls(rig: Rig, note: Note) -> None:
    """Sustained calls on 1 and on 64 connections: round trip, rate, processor time; memory before and after."""
    with rig.both() as programs:
        for name, program in programs.items():
            note(f"memory_idle.{name}", machine.memory(program.pids()))
        for clients in (1, 64):
            loads = {name: _Load(program, clients) for name, program in programs.items()}
            with ExitStack() as stack:
                for one in loads.values():
                    stack.callback(one.close)
                    one.open()
                for name, found in _in_turn(loads):
                    note(f"call_p50_{clients}.{name}", found["p50_us"])
                    note(f"calls_per_s_{clients}.{name}", found["per_s"])
                    note(f"call_cpu_{clients}.{name}", found["cpu_us"])
                for name, program in programs.items():
                    note(f"memory_{clients}_clients.{name}", machine.memory(program.pids()))


def cli(rig: Rig, note: Note) -> None:
    """One-shot command lines against a warm daemon, in turn with a Python that does nothing."""
    with rig.both() as programs:
        mcpd, prototype = programs["mcpd"], programs["prototype"]
        words, by_args = mcpd.cli_words("s0", TOOL, ARGS), mcpd.cli("s0", TOOL, ARGS)
        commands = {
            "cli.python": (mcpd, rig.bare, b""),
            "cli_call.mcpd": (mcpd, words, b"hello"),
            "cli_call_args.mcpd": (mcpd, by_args, b"hello"),
            "cli_tools.mcpd": (mcpd, [rig.mcpd, "tools"], b"counter"),
            "cli_call.prototype": (prototype, prototype.cli("s0", TOOL, ARGS), b"hello"),
        }
        _shoot(commands, SHOTS, note)
        note("modules.mcpd", len(imported_by([rig.python, *words], mcpd)))
        note("modules.python", len(imported_by(rig.bare, mcpd)))


def cold(rig: Rig, note: Note) -> None:
    """From nothing running to the first answer; once more with the daemon started by the command itself."""
    for name in THERE_AND_BACK:
        program = rig.make(name)
        try:
            begin = time.perf_counter()
            program.start()
            program.run(program.cli("s0", TOOL, ARGS))
            note(f"first_answer.{name}", _ms_since(begin))
        finally:
            program.stop()
    alone = rig.make("mcpd")
    del alone.env["MCPD_NO_AUTOSTART"]
    try:
        note("autostart.mcpd", _timed(alone, alone.cli("s0", TOOL, ARGS), b"hello"))
    finally:
        alone.stop()


def ten(rig: Rig, note: Note) -> None:
    """The tools of ten servers that take their time to start: nothing running, and all running."""
    servers = {f"s{number}": [*rig.echo, "--startup-ms", str(STARTUP_MS)] for number in range(10)}
    for name in THERE_AND_BACK:
        program = rig.make(name, servers)
        try:
            begin = time.perf_counter()
            program.start()
            started = time.perf_counter()
            _list(program, program.cli_list(), len(servers))
            note(f"ten_servers_cold.{name}", _ms_since(begin))
            note(f"ten_servers_started.{name}", _ms_since(started))
        finally:
            program.stop()
    with rig.both(servers) as programs:
        mcpd = programs["mcpd"]
        for program in programs.values():
            _list(program, program.cli_list(), len(servers))
        warm = {
            "ten.python": (mcpd, rig.bare, b""),
            "ten_servers_warm.mcpd": (mcpd, mcpd.cli_list(), mcpd.list_mark),
        }
        _shoot(warm, SHOTS, note)
        for name, program in programs.items():
            note(f"memory_ten_servers.{name}", machine.memory(program.pids()))


def blob(rig: Rig, note: Note) -> None:
    """A result of 5 MB on a warm connection: time, and how far memory rises above what it was."""
    with rig.both() as programs, ExitStack() as stack:
        mcpd, prototype = programs["mcpd"], programs["prototype"]
        conns = {"mcpd": mcpd.connect_whole("s0", WHOLE_BYTES), "prototype": prototype.connect("s0")}
        before = {}
        for name, conn in conns.items():
            stack.callback(conn.open().close)
            conn.ask(conn.call_body(TOOL, ARGS))
            pids = programs[name].pids()
            before[name] = machine.memory(pids)
            machine.reset_peak(pids)
            _fetch(conn, BLOB_BYTES)
        for _ in range(BLOB_SHOTS):
            for name, conn in conns.items():
                note(f"blob_time.{name}", _fetch(conn, BLOB_BYTES))
        for name, program in programs.items():
            note(f"blob_growth.{name}", machine.memory(program.pids(), "VmHWM") - before[name])
        viewer = mcpd.connect("s0")
        stack.callback(viewer.open().close)
        for _ in range(BLOB_SHOTS):
            note("blob_view.mcpd", _fetch(viewer, 1 << 14))


def servers(rig: Rig, note: Note) -> None:
    """What a call costs a daemon of one server, and one of fifty that are all running."""
    many = {f"s{number}": rig.echo for number in range(MANY_SERVERS)}
    with rig.running(one_server=("mcpd", None), fifty_servers=("mcpd", many)) as daemons:
        for daemon in daemons.values():
            _list(daemon, daemon.cli_list_all(), len(daemon.servers))
        _compare(daemons, note)


def tools(rig: Rig, note: Note) -> None:
    """What a call costs with ten tools on the server, with a thousand, and before anybody has listed them."""
    few, many = rig.tools(FEW_TOOLS), rig.tools(MANY_TOOLS)
    with rig.running(ten_tools=("mcpd", few), thousand_tools=("mcpd", many), not_listed=("mcpd", many)) as daemons:
        for label, count in (("ten_tools", FEW_TOOLS), ("thousand_tools", MANY_TOOLS)):
            if (found := tool_count(daemons[label], "s0")) != count:
                raise RuntimeError(f"{found} tools were listed, not {count}")
        _compare(daemons, note)


def search(rig: Rig, note: Note) -> None:
    """A search that every one of a thousand tools matches: the first one, which indexes their list, and more."""
    with rig.running(mcpd=("mcpd", rig.tools(MANY_TOOLS))) as daemons, ExitStack() as stack:
        mcpd = daemons["mcpd"]
        if (found := tool_count(mcpd, "s0")) != MANY_TOOLS:
            raise RuntimeError(f"{found} tools were listed, not {MANY_TOOLS}")
        conn = Lines(path=str(mcpd.socket), initialize=False).open()
        stack.callback(conn.close)
        for shot in range(SHOTS + 1):
            note("search.mcpd" if shot else "search_first.mcpd", _search(conn))


GROUPS: Mapping[str, Callable[[Rig, Note], None]] = {
    "calls": calls, "cli": cli, "cold": cold, "ten": ten, "blob": blob, "servers": servers, "tools": tools,
    "search": search,
    **neighbours.GROUPS, **chatter.GROUPS, **bridge.GROUPS,
    **remote.GROUPS,
}  # fmt: skip


class _Load:
    """A number of connections to one program, each with one call outstanding."""

    def __init__(self, program: adapters.Adapter, clients: int, *, by_cli: bool = False) -> None:
        self._program, self._clients = program, clients
        self._connect = program.connect_cli if by_cli else program.connect
        self._conns: list[load.Conn] = []

    def open(self) -> None:
        """Connect, and see that a call is answered as it should be."""
        for _ in range(self._clients):
            self._conns.append(self._connect("s0").open())
            answer = self._conns[-1].ask(self._conns[-1].call_body(TOOL, ARGS))
            # A command line that fails is a result, too.
            if b"hello" not in answer or (b'"exit":' in answer and b'"exit":0' not in answer):
                raise RuntimeError(f"unexpected answer: {answer[:200]!r}")

    def close(self) -> None:
        """Close what has been opened."""
        for conn in self._conns:
            conn.close()

    def run(self) -> dict[str, float]:
        """Drive all connections for a slice of time."""
        pids = self._program.pids()
        before = machine.cpu(pids)
        found = load.closed_loop(self._conns, TOOL, ARGS, SLICE_SECONDS)
        return {**found, "cpu_us": (machine.cpu(pids) - before) / found["calls"] * 1e6}


def _in_turn(loads: Mapping[str, _Load]):
    """Run all loads SLICES times, forwards and backwards by turns; yield name and finding of each run."""
    order = list(loads)
    for _ in range(SLICES):
        for name in order:
            yield name, loads[name].run()
        order.reverse()


def _compare(daemons: Mapping[str, Mcpd], note: Note) -> None:
    """Take the processor time of a call: from 1 client, from 64, and as a command line."""
    for series, clients in (("cpu_1", 1), ("cpu_64", 64), ("cpu_cli", CLI_CLIENTS)):
        by_cli = series == "cpu_cli"
        # A command line needs the schema, so that one of them would end the state that is looked at.
        wanted = {label: one for label, one in daemons.items() if not (by_cli and label == "not_listed")}
        loads = {label: _Load(one, clients, by_cli=by_cli) for label, one in wanted.items()}
        with ExitStack() as stack:
            for one in loads.values():
                stack.callback(one.close)
                one.open()
            for label, found in _in_turn(loads):
                note(f"{series}.{label}", found["cpu_us"])


def _shoot(commands: Mapping[str, tuple[adapters.Adapter, list[object], bytes]], shots: int, note: Note) -> None:
    """Run command lines in turn; the first run of each warms up and is not counted."""
    for shot in range(shots + 1):
        for series, command in commands.items():
            taken = _timed(*command)
            if shot:
                note(series, taken)


def _timed(program: adapters.Adapter, argv: list[object], expected: bytes) -> float:
    begin = time.perf_counter()
    out = program.run(argv)
    taken = _ms_since(begin)
    if expected not in out:
        raise RuntimeError(f"{argv[1:]}: unexpected output: {out[:200]!r}")
    return taken


def _fetch(conn: load.Conn, least_bytes: int) -> float:
    """Return the milliseconds of a big result, which must have that many bytes."""
    body = conn.call_body("blob", {"n": BLOB_BYTES})
    begin = time.perf_counter()
    size = len(conn.ask(body))
    taken = _ms_since(begin)
    if size < least_bytes:
        raise RuntimeError(f"only {size} bytes came back")
    return taken


def _search(conn: Lines) -> float:
    """Return the milliseconds of a search that finds all tools."""
    body = conn.body("mcpd/search", {"query": "give the value of a tool back unchanged", "limit": 10})
    begin = time.perf_counter()
    answer = conn.ask(body)
    taken = _ms_since(begin)
    if b'"total":%d' % MANY_TOOLS not in answer:
        raise RuntimeError(f"unexpected answer: {answer[:200]!r}")
    return taken


def _list(program: adapters.Adapter, argv: list[object], count: int) -> None:
    """Have the tools of all servers listed, which starts them."""
    listed = program.run(argv)
    if listed.count(program.list_mark) < count:
        raise RuntimeError(f"it did not list the tools of {count} servers: {listed[:200]!r}")


def _ms_since(begin: float) -> float:
    return (time.perf_counter() - begin) * 1e3
