"""What goes wrong in a run: the sequence of choices, which a seed decides, and how each is done.

A fault is of a class, and every class comes as often as any other: victims are chosen by what they are,
not by how many of them there are.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tests.chaos.ground import Ground
from tests.chaos.processes import Process, kill_together, send

# What the daemon lives through, and what it does not.
AROUND = (
    "server_kill", "grandchild_kill", "server_pause", "server_freeze", "server_hang", "server_garbage", "server_slow",
    "client_kill", "daemon_pause", "guardian_pause", "operator",
)  # fmt: skip
UPON = ("daemon_kill", "guardian_kill", "daemon_and_guardian_kill", "daemon_term", "socket_removal")
CLASSES = AROUND + UPON
SIGNALS = {
    "server_kill": signal.SIGKILL,
    "server_freeze": signal.SIGSTOP,
    "server_hang": signal.SIGUSR1,
    "server_garbage": signal.SIGUSR2,
    "server_slow": signal.SIGHUP,
}
PAUSE_SECONDS = (0.02, 0.4)
STOP_SECONDS = (0.05, 1.5)


@dataclass(frozen=True)
class Step:
    """One choice: what, after which pause, which of the candidates (0 to 1), and for how long."""

    fault: str
    pause_seconds: float
    pick: float
    seconds: float

    def one_of(self, candidates: Sequence[Process]) -> Process | None:
        return candidates[int(self.pick * len(candidates))] if candidates else None


def steps(seed: str, classes: Sequence[str]) -> Iterator[Step]:
    """Yield choices without end: all classes in a random order, again and again."""
    choose = random.Random(seed)
    while True:
        for fault in choose.sample(classes, len(classes)):
            yield Step(fault, choose.uniform(*PAUSE_SECONDS), choose.random(), choose.uniform(*STOP_SECONDS))


class Faults:
    """Plays faults.

    Attributes:
        done: how many of each class have found a victim.
        missed: how many have not: nobody of that class was there.
    """

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self.done: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()
        self._stopped: list[tuple[float, Process]] = []
        self._commands: list[subprocess.Popen[bytes]] = []

    def play(self, step: Step) -> None:
        found = self._ground.scan()
        match step.fault:
            case "socket_removal":
                hit = self._remove_socket()
            case "operator":
                hit = self._operate(step)
            case "server_pause" | "daemon_pause":
                hit = self._pause(step, of_role(found, step.fault.removesuffix("_pause")))
            case "guardian_pause":
                hit = self._pause(step, guardians(found))
            case "daemon_and_guardian_kill":
                hit = self._kill_both(step, found)
            case "guardian_kill":
                hit = self._send(step.one_of(guardians(found)), signal.SIGKILL)
            case "client_kill":
                hit = self._kill_client(step.one_of(of_role(found, "client")))
            case "grandchild_kill" | "daemon_kill" | "daemon_term" as fault:
                role, _, how = fault.rpartition("_")
                number = signal.SIGTERM if how == "term" else signal.SIGKILL
                hit = self._send(step.one_of(of_role(found, role)), number)
            case fault:
                hit = self._send(step.one_of(of_role(found, "server")), SIGNALS[fault])
        (self.done if hit else self.missed)[step.fault] += 1

    def tick(self, *, everything: bool = False) -> None:
        """Let those go on whose pause is over, and collect the operator's commands."""
        now = time.monotonic()
        for one in [one for one in self._stopped if everything or one[0] <= now]:
            self._stopped.remove(one)
            send(one[1], signal.SIGCONT)
        self._commands = [child for child in self._commands if child.poll() is None]

    def end(self) -> None:
        """Let everybody go on, and wait for the operator's commands."""
        self.tick(everything=True)
        for child in self._commands:
            with suppress(subprocess.TimeoutExpired):
                child.wait(timeout=30)

    def _remove_socket(self) -> bool:
        try:
            os.unlink(self._ground.socket_path)
        except FileNotFoundError:
            return False
        return True

    def _operate(self, step: Step) -> bool:
        """Run a command about one server, as an impatient user does."""
        names = self._ground.names
        verbs = ("start", "start", "restart", "stop")
        number = int(step.pick * len(names) * len(verbs))
        words = [verbs[number % len(verbs)], names[number // len(verbs)], "--no-autostart"]
        self._commands.append(self._ground.spawn(*self._ground.command, *words))
        return True

    def _pause(self, step: Step, candidates: list[Process]) -> bool:
        one = step.one_of(candidates)
        if one is None or not send(one, signal.SIGSTOP):
            return False
        self._stopped.append((time.monotonic() + step.seconds, one))
        return True

    def _kill_both(self, step: Step, found: list[Process]) -> bool:
        guardian = step.one_of(guardians(found))
        daemon = next((one for one in found if guardian is not None and one.pid == guardian.parent), None)
        if guardian is None or daemon is None:
            return False
        return kill_together((daemon, guardian))

    def _kill_client(self, one: Process | None) -> bool:
        """Kill a client with what it runs, which is its process group."""
        if one is None:
            return False
        with suppress(ProcessLookupError):
            os.killpg(one.pid, signal.SIGKILL)
        return True

    def _send(self, one: Process | None, number: signal.Signals) -> bool:
        return one is not None and send(one, number)


def of_role(found: Sequence[Process], role: str) -> list[Process]:
    """Return the processes of one role."""
    return [one for one in found if one.role == role]


def guardians(found: Sequence[Process]) -> list[Process]:
    """Return the guardians whose daemon lives."""
    daemons = {one.pid for one in of_role(found, "daemon")}
    return [one for one in of_role(found, "guardian") if one.parent in daemons]
