"""A harness that cannot fail proves nothing: each promise is broken on purpose, and must be seen to be."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
ENOUGH_SECONDS = 120


# Which faults make it show, and as what; a promise seldom breaks alone.
MUTANTS = {
    "resend": ("server_kill,operator", "executed_twice"),
    "wrong_token": ("server_slow", "wrong_token"),
    "leak": ("daemon_and_guardian_kill", "left_over"),
    "hoard": ("server_slow", "fds"),
}


class Played:
    """A run in the background: exit status, figures and table, once it is waited for."""

    def __init__(self, out: Path, *options: str) -> None:
        self._figures = out / "figures.json"
        argv = [sys.executable, "-m", "tests.chaos", "--quiet", "2", "--json", str(self._figures), *options]
        self._child = subprocess.Popen(
            argv, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
        )

    def wait(self) -> tuple[int, dict[str, Any], str]:
        table, problems = self._child.communicate(timeout=ENOUGH_SECONDS)
        assert problems == ""
        return self._child.returncode, json.loads(self._figures.read_text()), table

    def end(self) -> None:
        """Break it off, unless it is over; it clears its ground."""
        if self._child.returncode is None:
            self._child.terminate()
            self._child.communicate()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Played]]:
    """All of them at once, since most of their time they wait; the one without a name breaks nothing."""
    small = ("--seconds", "2", "--clients", "6", "--servers", "2")
    played = {
        name: Played(tmp_path_factory.mktemp(name), *small, "--faults", faults, "--mutant", name)
        for name, (faults, _) in MUTANTS.items()
    }
    played[""] = Played(tmp_path_factory.mktemp("plain"), "--seconds", "8", "--seed", "8")
    yield played
    for one in played.values():
        one.end()


def test_eight_seconds_of_chaos_break_no_promise(runs: dict[str, Played]) -> None:
    status, found, table = runs[""].wait()

    assert found["violations"] == [], table
    assert status == 0
    assert table.endswith("\n0 violations\n")
    assert found["calls"] > 100


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_promise_is_seen(name: str, runs: dict[str, Played]) -> None:
    status, found, table = runs[name].wait()

    assert status == 1
    assert MUTANTS[name][1] in {one["kind"] for one in found["violations"]}, table
