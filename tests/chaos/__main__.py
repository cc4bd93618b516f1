"""Random faults under load, and whether every promise is kept: `python -m tests.chaos --help`."""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import sys
from pathlib import Path
from typing import NoReturn

from tests.chaos.faults import CLASSES
from tests.chaos.ground import Ground
from tests.chaos.judge import Violation
from tests.chaos.report import figures, table
from tests.chaos.run import PATIENT_SECONDS, Run, Settings

MUTANTS = ("resend", "wrong_token", "leak", "hoard")
# For warm-up, recovery, ends and judgement; a run that needs more hangs.
MORE_SECONDS = 240
EXIT_INTERRUPTED = 130


def options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long faults are played")
    parser.add_argument("--seed", type=int, default=1, help="decides the sequence of choices")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--servers", type=int, default=6)
    parser.add_argument("--faults", default="", metavar="CLASS,…", help=f"only these: {', '.join(CLASSES)}")
    parser.add_argument("--mutant", default="", choices=("", *MUTANTS), help="break a promise on purpose")
    parser.add_argument(
        "--quiet", type=float, metavar="SECONDS", help="how long servers have to come back at the end before they "
        f"are restarted; from {PATIENT_SECONDS:g} on they must come back by themselves (default for 30 s and more)",
    )  # fmt: skip
    parser.add_argument("--json", metavar="OUT", help="write the figures to a file")
    parser.add_argument("--keep", metavar="FOLDER", help="move all notes and logs there instead of removing them")
    parser.add_argument("--mcpd", metavar="CMD", help="the command under test; by default this checkout's")
    return parser.parse_args(argv)


def settings_of(given: argparse.Namespace) -> Settings:
    quiet = given.quiet
    if quiet is None:
        quiet = PATIENT_SECONDS if given.seconds >= 30 else 3.0
    return Settings(
        seconds=given.seconds, seed=given.seed, clients=given.clients, servers=given.servers, quiet_seconds=quiet,
        mutant=given.mutant, faults=tuple(filter(None, given.faults.split(","))),
        command=shlex.split(given.mcpd) if given.mcpd else None, keep=given.keep,
    )  # fmt: skip


def out_of_time(*_: object) -> NoReturn:
    raise TimeoutError("the run does not come to an end")


def main(argv: list[str] | None = None) -> int:
    given = options(argv)
    settings = settings_of(given)
    signal.signal(signal.SIGALRM, out_of_time)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.alarm(int(settings.seconds + settings.quiet_seconds + MORE_SECONDS))
    ground = Ground(settings.command, settings.servers, settings.mutant)
    run = Run(ground, settings)
    try:
        outcome = run.play()
    except OSError as problem:  # TimeoutError, too: the daemon does not answer, or nothing ends
        outcome = run.judge()
        outcome.violations.append(Violation("broken_off", repr(problem)))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    finally:
        signal.alarm(0)
        run.faults.end()
        run.crowd.kill()
        ground.clear(settings.keep)
    print(table(outcome))
    if given.json:
        Path(given.json).write_text(json.dumps(figures(outcome), indent=1) + "\n")
    return 1 if outcome.violations else 0


if __name__ == "__main__":
    sys.exit(main())
