"""The official conformance suite against mcpd as a client: `python -m tests.conformance.client --help`.

suite -> adapter -> mcpd -> daemon -> the suite's own server over HTTP, one scenario and one daemon at a time.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import trio

from tests.conformance.suite import Suite, install
from tests.conformance.verdict import CLIENT_COUNTS, judge_client
from tests.integration.world import REPOSITORY

EXTENSION = "extension"
# Extensions that mcpd has nothing of, and why.
LEFT_OUT = {
    "auth/enterprise-managed-authorization": "no exchange of an identity provider's tokens",
    "auth/dpop": "no proof of possession",
    "auth/dpop-nonce": "no proof of possession",
    "auth/wif-jwt-bearer": "no workload identity",
    **dict.fromkeys(
        [f"sep-2640-client-{name}" for name in ("no-prefetch", "verify-digest", "verify-size", "verify-frontmatter")],
        "no skills",
    ),
}
SIDE_BY_SIDE = 2
LINE_CHARS = 600


@dataclass(frozen=True)
class Plan:
    """One scenario at one revision; `revision` is None for an extension."""

    scenario: str
    revision: str | None

    def __str__(self) -> str:
        return f"{self.revision or EXTENSION} {self.scenario}"


@dataclass
class Outcome:
    """What has been tried, and how it went."""

    good: Counter[str] = field(default_factory=Counter)
    tried: Counter[str] = field(default_factory=Counter)

    def add(self, plan: Plan, *, good: bool) -> None:
        """Count one."""
        self.tried[plan.revision or EXTENSION] += 1
        self.good[plan.revision or EXTENSION] += good


def options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.client", description=__doc__)
    parser.add_argument("--mcpd", default=str(Path(sys.prefix) / "bin/mcpd"), help="the command under test")
    parser.add_argument("--wire", action="append", choices=(*CLIENT_COUNTS, EXTENSION), help="only this revision")
    parser.add_argument("--only", action="append", metavar="GLOB", help="only scenarios of such a name")
    parser.add_argument("--jobs", type=int, default=SIDE_BY_SIDE, help="how many at once; default: %(default)s")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="put all that was said there; it must not exist")
    parser.add_argument("--pin", action="store_true", help="let mcpd's entry name the revision: nothing is found out")
    parser.add_argument("--client", metavar="COMMAND", help="another client than mcpd, to compare with")
    return parser.parse_args(argv)


def plans(scenarios: dict[str, list[str]]) -> Iterator[Plan]:
    """Yield all that there is to try.

    Raises:
        AssertionError: The suite has other scenarios than those that are known.
    """
    for revision, count in CLIENT_COUNTS.items():
        names = [name for name, wires in scenarios.items() if revision in wires]
        assert len(names) == count, f"{revision} has {len(names)} scenarios for clients: {names}"
        yield from (Plan(name, revision) for name in names)
    extensions = {name for name, wires in scenarios.items() if wires == [EXTENSION]}
    assert extensions >= LEFT_OUT.keys(), LEFT_OUT.keys() - extensions
    yield from (Plan(name, None) for name in sorted(extensions - LEFT_OUT.keys()))


def wanted(plan: Plan, given: argparse.Namespace) -> bool:
    """Whether the options choose this one."""
    is_wire = not given.wire or (plan.revision or EXTENSION) in given.wire
    return is_wire and (not given.only or any(fnmatchcase(plan.scenario, glob) for glob in given.only))


def launcher(folder: Path, mcpd: str, *, pin: bool) -> str:
    """Write the command that the suite runs; the suite itself takes no spaces in it."""
    words = [sys.executable, "-m", "tests.conformance.adapter", "--mcpd", mcpd, *(["--pin"] if pin else [])]
    file = folder / "client"
    file.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(REPOSITORY))} exec {shlex.join(words)} "$@"\n')
    file.chmod(0o700)
    return str(file)


def room(folder: Path, plan: Plan) -> Path:
    """Make the folder for what comes of one."""
    made = folder / (plan.revision or EXTENSION) / plan.scenario
    made.mkdir(parents=True)
    return made


async def play(suite: Suite, command: str, plan: Plan, folder: Path) -> list[str]:
    """Try one scenario, say how it went, and return what is wrong."""
    began = time.monotonic()
    run = await suite.try_client(command, plan.scenario, plan.revision, folder)
    checks = run.results.get(plan.scenario, [])
    wrong = judge_client(plan.scenario, run.status, checks)
    kinds = Counter(check.status for check in checks)
    count = f"{kinds['SUCCESS']}/{kinds['SUCCESS'] + kinds['FAILURE'] + kinds['WARNING']}"
    print(f"{'FAILED' if wrong else 'ok':6} {plan}: {count} ({time.monotonic() - began:.1f} s)", flush=True)
    return [*wrong, *(_said(folder) if wrong else ())]


def _said(folder: Path) -> Iterator[str]:
    """Yield what the client itself has said."""
    for file in folder.rglob("std???.txt"):
        yield from (f"  {line[:LINE_CHARS]}" for line in file.read_text().splitlines())


async def play_all(suite: Suite, given: argparse.Namespace, folder: Path) -> bool:
    """Try all that is wanted; return whether all is as it has to be."""
    command = given.client or launcher(folder, given.mcpd, pin=given.pin)
    every = [*plans(await suite.client_scenarios(folder))]
    chosen = [plan for plan in every if wanted(plan, given)]
    outcome, limit = Outcome(), trio.CapacityLimiter(given.jobs)

    async def one(plan: Plan) -> None:
        async with limit:
            wrong = await play(suite, command, plan, room(folder, plan))
        outcome.add(plan, good=not wrong)
        if wrong:
            print(f"\n{plan}:", *wrong, "", sep="\n  ", flush=True)

    async with trio.open_nursery() as nursery:
        for plan in chosen:
            nursery.start_soon(one, plan)
    say(outcome, every, chosen)
    return bool(chosen) and outcome.good == outcome.tried


def say(outcome: Outcome, every: Sequence[Plan], chosen: Sequence[Plan]) -> None:
    """Print the count of each revision, and what was not tried."""
    for wire in (*CLIENT_COUNTS, EXTENSION):
        if outcome.tried[wire]:
            print(f"{wire}: {outcome.good[wire]}/{outcome.tried[wire]} passed")
    if len(chosen) < len(every):
        print(f"not chosen: {len(every) - len(chosen)} of {len(every)}")
    print("left out:", "; ".join(f"{name} ({why})" for name, why in LEFT_OUT.items()), flush=True)


def main(argv: list[str] | None = None) -> int:
    given = options(argv)
    # Whoever ends this run wants all that it has started to end, too.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    suite = install()
    with tempfile.TemporaryDirectory(prefix="mc", dir="/tmp") as name:
        folder = Path(name)
        try:
            return 0 if trio.run(play_all, suite, given, folder) else 1
        finally:
            if given.keep:
                shutil.copytree(folder, given.keep)


if __name__ == "__main__":
    sys.exit(main())
