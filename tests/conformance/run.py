"""The official conformance suite against `mcpd bridge`: `python -m tests.conformance.run --help`.

suite -> HTTP shim -> mcpd bridge -> daemon -> fixture, in both eras on both sides.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import trio

from tests.conformance.shim import Program, open_shim
from tests.conformance.suite import Run, Suite, install
from tests.conformance.verdict import MORE, expectations, judge
from tests.integration.world import World

HERE = Path(__file__).parent
RECORDER = HERE.parent / "real/recorder.py"
WIRES = {"legacy": "2025-11-25", "modern": "2026-07-28"}
NAME = "everything"
# A legacy server that asks has to say which of its tools do, else nobody is asked who shares it with others.
INTERACTIVE = ["test_sampling", "test_elicitation*", "test_input_required_*", "test_streaming_*", "test_missing_*"]
# No line says whose a log message is, too.
INTERACTIVE.append("test_tool_with_logging")


def options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.run", description=__doc__)
    parser.add_argument("--mcpd", default=str(Path(sys.prefix) / "bin/mcpd"), help="the command under test")
    parser.add_argument("--direct", action="store_true", help="without mcpd: is the fixture itself what it should be?")
    parser.add_argument("--wire", choices=("all", *WIRES.values()), default="all", help="what the suite speaks")
    parser.add_argument("--fixture", choices=("all", *WIRES), default="all", help="what the server speaks")
    parser.add_argument("--same", action="store_true", help="only where suite and server speak the same")
    parser.add_argument("--twice", action="store_true", help="run each two times at once, on one daemon")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="put all that was said there; it must not exist")
    return parser.parse_args(argv)


def expected(era: str, wire: str) -> dict[str, str]:
    """Return what fails where suite and server are of different eras."""
    file = HERE / f"expected/{wire}-on-{era}.yml"
    return expectations(file.read_text()) if file.exists() else {}


def complaints_of(suite: Suite, era: str, wire: str, run: Run) -> tuple[str, Sequence[str]]:
    """Return how a run went, in a line, and what is wrong with it."""
    expecting = expected(era, wire)
    verdict = judge([*suite.required(wire), *MORE[wire]], run.results, expecting)
    wrong = list(verdict.complaints)
    # With failures that are expected the suite's own exit code says nothing.
    if run.status != 0 and not expecting:
        wrong.append(f"the suite's exit code is {run.status}")
    return str(verdict), wrong


async def play(suite: Suite, program: Program, era: str, wire: str, folder: Path, times: int) -> bool:
    """Run the suite one or more times at once, and say how it went."""
    said: list[tuple[str, Sequence[str]]] = []

    async def one(turn: int) -> None:
        began = time.monotonic()
        with (folder / f"wire-{turn}.log").open("w") as log:
            async with open_shim(program, log) as shim:
                run = await suite.run(shim.url, wire, folder / f"{turn}")
        line, complaints = complaints_of(suite, era, wire, run)
        troubles = [f"{number} processes: {told}" for told, number in Counter(shim.troubles).items()]
        said.append((f"{line} ({time.monotonic() - began:.1f} s)", [*complaints, *troubles]))

    async with trio.open_nursery() as nursery:
        for turn in range(times):
            nursery.start_soon(one, turn)
    for line, complaints in said:
        print(f"{wire} on a {era} server: {line}", *complaints, sep="\n  ", flush=True)
    return not any(complaints for _, complaints in said)


def fixture_command(era: str, record: Path | None) -> list[str]:
    """Return how the fixture is started; what it hears and says is recorded if there is a place for it."""
    recorder = [] if record is None else [sys.executable, str(RECORDER), str(record)]
    return [*recorder, sys.executable, str(HERE / "fixture.py"), "--era", era]


def play_world(suite: Suite, given: argparse.Namespace, era: str, wire: str) -> bool:
    """Run the suite with a daemon of its own."""
    times = 2 if given.twice else 1
    with World() as world:
        # The command under test brings its own code along.
        del world.env["PYTHONPATH"]
        folder = world.path / "runs"
        for turn in range(times):
            (folder / f"{turn}").mkdir(parents=True)
        fixture = fixture_command(era, folder / "fixture" if given.keep else None)
        more = {"interactive": INTERACTIVE} if era == "legacy" else {}
        world.configure({NAME: {"command": fixture[0], "args": fixture[1:], **more}})
        command = fixture if given.direct else [given.mcpd, "bridge", NAME]
        try:
            return trio.run(play, suite, Program(command, world.env, str(world.path)), era, wire, folder, times)
        finally:
            if given.keep:
                (folder / "daemon.log").write_text(world.log())
                shutil.copytree(folder, given.keep / f"{wire}-on-{era}")


def main(argv: list[str] | None = None) -> int:
    given = options(argv)
    # Whoever ends this run wants all that it has started to end, too.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    suite = install()
    good = True
    for era, wire in product(WIRES, WIRES.values()):
        is_same = wire == WIRES[era]
        if (
            given.fixture in ("all", era)
            and given.wire in ("all", wire)
            and (is_same or not (given.direct or given.same))
        ):
            good &= play_world(suite, given, era, wire)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
