"""Measure mcpd beside the prototype and a bare Python, and compare with the targets.

    python tests/bench/run.py --rounds 5
    python tests/bench/run.py --only calls,cli_call --json out.json

All that is compared is measured in turn, in one run, since a shared machine is never twice the same;
medians are printed. Exit 0 if every target is met, 1 if one is missed or could not be measured, 2 if
there is nothing to measure with. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from figures import COLUMNS, FIGURES, Figure, read

PROJECT = Path(__file__).resolve().parents[2]
NEEDED = ("adapters.py", "bench.py", "load.py", "machine.py", "prototype/broker.py")


def main() -> int:
    """Run the benchmark; return the exit code."""
    options = parse_options()
    figures = chosen(options.only)
    mcpd = find_mcpd(options.mcpd)
    add_to_path(options.bench)
    run = Run({figure.group for figure in figures})
    with tempfile.TemporaryDirectory(prefix="mcpd-bench-") as work:
        run.go(mcpd, Path(work), options.rounds)
    return report(run, figures, options.json)


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    names = (
        f"figures: {', '.join(f.name for f in FIGURES)}\n\ngroups: {', '.join(dict.fromkeys(f.group for f in FIGURES))}"
    )
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=names, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = PROJECT.parent / "shared" / "bench"
    parser.add_argument(
        "--bench", type=Path, default=default, metavar="DIR", help=f"the shared benchmark (default {default})"
    )
    parser.add_argument("--mcpd", metavar="CMD", help="the command (default: beside this Python, else on PATH)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="how often all is measured (default 5)")
    parser.add_argument("--only", metavar="NAME,…", help="some figures or groups of them")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write medians and all samples to this file")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return options


def give_up(message: str) -> None:
    """End with exit code 2: there is nothing to measure with."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(2)


def chosen(only: str | None) -> list[Figure]:
    """Return the figures that were asked for."""
    if only is None:
        return list(FIGURES)
    wanted = set(filter(None, only.split(",")))
    known = {figure.name for figure in FIGURES} | {figure.group for figure in FIGURES}
    if unknown := wanted - known:
        give_up(f"no such figure: {', '.join(sorted(unknown))}; --help lists them")
    return [figure for figure in FIGURES if {figure.name, figure.group} & wanted]


def find_mcpd(command: str | None) -> Path:
    """Return the path of the command."""
    beside = Path(sys.executable).with_name("mcpd")
    found = shutil.which(command) if command else str(beside) if beside.exists() else shutil.which("mcpd")
    if found is None:
        give_up(f"there is no command {command or 'mcpd'}: install the project, or name one with --mcpd")
    return Path(found).absolute()


def add_to_path(folder: Path) -> None:
    """Make the modules of the shared benchmark importable."""
    lacking = [name for name in NEEDED if not (folder / name).is_file()]
    if lacking:
        give_up(f"the shared benchmark is not in {folder} ({', '.join(lacking)} missing): name its folder with --bench")
    sys.path.insert(1, str(folder.resolve()))


class Run:
    """One interleaved run of some groups.

    Attributes:
        samples: all values by series.
        busy: the share of the processors in use before each measurement.
        failures: what could not be measured, in words.
    """

    def __init__(self, groups: set[str]) -> None:
        self._wanted = groups
        self.samples: dict[str, list[float]] = defaultdict(list)
        self.busy: list[float] = []
        self.failures: list[str] = []

    def go(self, mcpd: Path, work: Path, rounds: int) -> None:
        """Take all rounds."""
        import machine
        import measures
        from programs import Rig

        rig = Rig(mcpd, work)
        groups = {name: measure for name, measure in measures.GROUPS.items() if name in self._wanted}
        for number in range(1, rounds + 1):
            for name, measure in groups.items():
                self.busy.append(machine.busy())
                print(f"\rround {number} of {rounds}: {name:<10}", end="", file=sys.stderr, flush=True)
                try:
                    measure(rig, lambda series, value: self.samples[series].append(value))
                except (RuntimeError, OSError, subprocess.SubprocessError) as problem:
                    self.failures.append(
                        f"{name}, round {number}: {type(problem).__name__}: {_explained(problem, work)}"
                    )
        self.busy.append(machine.busy())
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr, flush=True)


def _explained(problem: Exception, work: Path) -> str:
    """Return what went wrong, with the last words of a daemon whose log will be gone with the directory."""
    logs = sorted(work.glob("*/daemon.log"), key=lambda path: path.stat().st_mtime)
    said = logs[-1].read_text(errors="replace").strip() if logs and "daemon.log" in str(problem) else ""
    return f"{problem}\n{said[-1000:]}".rstrip()


def report(run: Run, figures: list[Figure], out: Path | None) -> int:
    """Print the table and the load of the machine; return the exit code."""
    readings = [read(figure, run.samples) for figure in figures]
    print(COLUMNS.format("figure", "mcpd", "yardstick", "ratio", "target", "").rstrip())
    for reading in readings:
        print(reading.line)
    for failure in run.failures:
        print(f"failed: {failure}")
    loads = " ".join(f"{load:.2f}" for load in os.getloadavg())
    print(f"load {loads} on {os.cpu_count()} processors; {statistics.median(run.busy):.0%} busy before a measurement")
    if out is not None:
        rows = [
            {"name": one.figure.name, "unit": one.figure.unit, "mcpd": one.value, "yardstick": one.beside,
             "ratio": one.ratio, "target": one.figure.target, "verdict": one.verdict}
            for one in readings
        ]  # fmt: skip
        content = {"figures": rows, "samples": run.samples, "busy": run.busy, "failures": run.failures}
        out.write_text(json.dumps(content, indent=1))
    missed = any(reading.verdict in ("OVER", "MISSING") for reading in readings)
    return 1 if missed or run.failures else 0


if __name__ == "__main__":
    sys.exit(main())
