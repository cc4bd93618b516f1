"""The course of a run: warm up, measure, play faults, let all come to rest, measure, stop, judge.

The first chapters alternate between faults that end the daemon and faults around it; the last one leaves
the daemon alone, so that it has something to leak from when it is measured.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.chaos import judge, processes
from tests.chaos.acts import Acts
from tests.chaos.crowd import Crowd
from tests.chaos.faults import AROUND, CLASSES, UPON, Faults, Step, of_role, steps
from tests.chaos.ground import Ground
from tests.chaos.judge import Violation
from tests.chaos.watch import Watch

TICK_SECONDS = 0.02
CHAPTER_SECONDS = 10.0
# Short runs have less of everything.
WARM_UP_SECONDS = 8.0
FD_ALLOWANCE, RSS_ALLOWANCE_BYTES = 2, 4 << 20
# From here on servers must have come back by themselves: a budget of starts that was spent is remembered for 30 s.
PATIENT_SECONDS = 40.0
SETTLE_SECONDS = 3.0
HOARD = 20
# By how much the time that a step brings along is stretched; what is short stays unripe.
RIPE_SECONDS = 2.0


@dataclass(frozen=True)
class Settings:
    """What is asked for on the command line."""

    seconds: float = 60.0
    seed: int = 1
    clients: int = 16
    servers: int = 6
    quiet_seconds: float = PATIENT_SECONDS
    mutant: str = ""
    faults: Sequence[str] = ()
    command: Sequence[str] | None = None
    keep: str | None = None


@dataclass(frozen=True)
class Size:
    """What a daemon takes when nothing runs."""

    pid: int
    rss_bytes: int
    fds: int


@dataclass
class Outcome:
    """What a run has come to."""

    settings: Settings
    violations: list[Violation] = field(default_factory=list)
    done: dict[str, int] = field(default_factory=dict)
    missed: dict[str, int] = field(default_factory=dict)
    before: Size | None = None
    after: Size | None = None
    most: dict[str, int] = field(default_factory=dict)
    daemons: int = 0
    clients: int = 0
    journals: dict[str, judge.Journal] = field(default_factory=dict)


def chapters(settings: Settings) -> Iterator[tuple[float, Sequence[str]]]:
    """Yield for how long which classes of faults are played."""
    if settings.faults:
        yield settings.seconds, settings.faults
        return
    length, left = min(CHAPTER_SECONDS, settings.seconds / 4), settings.seconds * 3 / 4
    for classes in itertools.cycle((CLASSES, AROUND)):
        if left <= 0:
            break
        yield min(length, left), classes
        left -= length
    yield settings.seconds / 4, AROUND


class Run:
    """One run on a ground of its own, which the caller clears."""

    def __init__(self, ground: Ground, settings: Settings) -> None:
        self.ground, self.settings = ground, settings
        self.outcome = Outcome(settings)
        self.faults, self.watch, self.acts = Faults(ground), Watch(ground), Acts(ground)
        self.crowd = Crowd(ground, settings.clients, settings.seed, settings.mutant)

    def play(self) -> Outcome:
        """Play it all; what cannot go on ends in an exception, after which `judge` is still of use."""
        warm_up = min(WARM_UP_SECONDS, max(3.0, self.settings.seconds / 8))
        self._up()
        # With faults, so that what a daemon loads and keeps for them is there before it is measured.
        self._chapter(f"{self.settings.seed}/warm-up", warm_up, AROUND)
        self.faults.end()
        self.crowd.end()
        self.outcome.before = self._rest()
        for number, (seconds, classes) in enumerate(chapters(self.settings)):
            self._chapter(f"{self.settings.seed}/{number}", seconds, classes)
        self.faults.end()
        self._up()
        self._recover()
        self.crowd.end()
        self._compare()
        self.outcome.violations += self.acts.play()
        return self.judge()

    def judge(self) -> Outcome:
        """Read the notes and add up."""
        outcome = self.outcome
        outcome.journals, ledger = judge.read(self.ground.path)
        outcome.violations += self.watch.violations + judge.judge(outcome.journals, ledger)
        outcome.violations += judge.of_log(self.ground.logs())
        outcome.violations += [Violation("client", failure) for failure in self.crowd.failures]
        outcome.done, outcome.missed = dict(self.faults.done), dict(self.faults.missed)
        outcome.most, outcome.daemons, outcome.clients = self.watch.most, len(self.watch.daemons), self.crowd.started
        return outcome

    def _violate(self, kind: str, detail: object) -> None:
        self.outcome.violations.append(Violation(kind, str(detail)))

    # -- under load ------------------------------------------------------------------------------

    def _load(self, seconds: float) -> None:
        """Keep the crowd going for a while."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.crowd.fill()
            self.faults.tick()
            self.watch.look()
            time.sleep(min(left, TICK_SECONDS))

    def _chapter(self, seed: str, seconds: float, classes: Sequence[str]) -> None:
        end = time.monotonic() + seconds
        for step in steps(seed, classes):
            if time.monotonic() + step.pause_seconds > end:
                return
            self._load(step.pause_seconds)
            self._ripen(step, end)
            self.faults.play(step)

    def _ripen(self, step: Step, end: float) -> None:
        """Give a daemon that is to end the time to get servers, often enough."""
        end = min(end, time.monotonic() + RIPE_SECONDS * step.seconds)
        while step.fault in UPON and not self._is_ripe() and time.monotonic() < end:
            self._load(TICK_SECONDS)

    def _is_ripe(self) -> bool:
        found, names = self.ground.scan(), self.ground.names
        has_family = any(name.startswith("family") for name in names)
        return len(of_role(found, "server")) * 2 >= len(names) and bool(of_role(found, "grandchild")) >= has_family

    def _recover(self) -> None:
        """Go on without faults until every server answers again, by itself if there is the time for it."""
        waiting = [name for name in self.ground.names if not name.startswith("crashing")]
        end, number = time.monotonic() + self.settings.quiet_seconds, 0
        while waiting and time.monotonic() < end:
            self._load(0.2)
            number += 1
            waiting = [name for name in waiting if not self._answers(name, number)]
        if waiting and self.settings.quiet_seconds >= PATIENT_SECONDS:
            rows = self.ground.ask(("mcpd/status", {}))[0]["result"]["servers"]
            self._violate("not_back", [row for row in rows if row["name"] in waiting])
        for name in waiting:
            said = self.ground.mcpd("restart", name)
            if said.returncode or not self._answers(name, number + 1):
                self._violate("not_back", f"{name} after a restart: {said}")

    def _answers(self, name: str, number: int) -> bool:
        arguments = f"token={judge.OWN_SERIAL}-{name}-{number}"
        return self.ground.mcpd("call", name, "echo", arguments, "--timeout", "3", "--no-autostart").returncode == 0

    # -- at rest ---------------------------------------------------------------------------------

    def _up(self) -> None:
        said = self.ground.mcpd("up", "-q")
        if said.returncode:
            self._violate("up", said)
        self.ground.learn_mark()

    def _rest(self) -> Size | None:
        """Stop every server and measure the daemon."""
        self.outcome.violations += self.acts.stop_servers()
        return self._size(self.ground.ask(("mcpd/status", {}))[0]["result"]["daemon"]["pid"])

    def _size(self, pid: int) -> Size:
        """Measure until it shrinks no more."""
        end = time.monotonic() + SETTLE_SECONDS
        sizes = []
        while time.monotonic() < end:
            sizes.append(Size(pid, processes.rss_bytes(pid), processes.count_fds(pid)))
            time.sleep(SETTLE_SECONDS / 10)
            if len(sizes) > 2 and sizes[-1] == sizes[-3]:
                break
        return min(sizes, key=lambda size: size.fds)

    def _compare(self) -> None:
        hoarded = self.ground.open_clients(HOARD) if self.settings.mutant == "hoard" else []
        before, after = self.outcome.before, self._rest()
        self.outcome.after = after
        for sock in hoarded:
            sock.close()
        if before is None or after is None:
            return
        self.outcome.violations += judge.of_size("fds", before.fds, after.fds, FD_ALLOWANCE)
        self.outcome.violations += judge.of_size("rss", before.rss_bytes, after.rss_bytes, RSS_ALLOWANCE_BYTES)
        daemons = of_role(self.ground.scan(), "daemon")
        if [one.pid for one in daemons] != [after.pid]:
            self._violate("daemons", [*map(str, daemons)])
