"""What a run of the suite has shown: its own exit code alone would not say that anything was tried."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

# How many scenarios a revision requires; a suite that requires others is another suite.
COUNTS = {"2025-11-25": 30, "2026-07-28": 37}
# Not required, or not yet, and nevertheless kept: untouched schemas, and what shows that the shim does its duty.
MORE = {
    "2025-11-25": ("server-session-lifecycle", "json-schema-2020-12"),
    "2026-07-28": ("json-schema-2020-12", "http-header-validation"),
}
# The same for clients: a scenario that is gone, or new, is not passed over in silence.
CLIENT_COUNTS = {"2025-03-26": 2, "2025-06-18": 5, "2025-11-25": 19, "2026-07-28": 33}
# Scenarios that are passed by whoever does nothing, or less than all that they look at.
MINIMUM = {"initialize": 1, "http-standard-headers": 9, "json-schema-ref-no-deref": 1, "request-metadata": 5}
PASSED, INFORMED = "SUCCESS", "INFO"


@dataclass(frozen=True)
class Check:
    """One thing that a scenario has looked at."""

    id: str
    status: str
    told: str = ""


@dataclass(frozen=True)
class Verdict:
    """How many scenarios passed of those that are looked at, and what is wrong."""

    passed: int
    expected: int
    of: int
    complaints: Sequence[str]

    def __str__(self) -> str:
        more = f", {self.expected} more fail as expected" if self.expected else ""
        return f"{self.passed}/{self.of} passed{more}"


def judge(scenarios: Collection[str], results: Mapping[str, Sequence[Check]], expected: Mapping[str, str]) -> Verdict:
    """Judge a run.

    Args:
        scenarios: those that have to pass.
        results: the checks of each scenario that was run.
        expected: `SCENARIO:CHECK` of each check that fails, and why.
    """
    complaints: list[str] = []
    failing: set[str] = set()
    passed = 0
    for scenario in scenarios:
        checks = results.get(scenario, ())
        # What is skipped is not shown, and a warning is about what a server should do.
        bad = {f"{scenario}:{check.id}": check for check in checks if check.status not in (PASSED, INFORMED)}
        complaints += [f"{name}: {check.status} {check.told}" for name, check in bad.items() if name not in expected]
        failing |= bad.keys()
        if not any(check.status == PASSED for check in checks) and not bad:
            complaints.append(f"{scenario}: it has shown nothing")
        passed += not bad and any(check.status == PASSED for check in checks)
    complaints += [f"{name}: was expected to fail ({expected[name]})" for name in expected if name not in failing]
    return Verdict(passed, len({name.partition(":")[0] for name in expected}), len(scenarios), complaints)


def required(requirements: str) -> list[str]:
    """Return the names in the list `server` of a requirements file of the suite."""
    section = re.search(r"^server:\n((?:  - .*\n|\s*#.*\n|\n)*)", requirements, re.MULTILINE)
    return re.findall(r"^  - (\S+)", section[1], re.MULTILINE) if section else []


def judge_client(scenario: str, status: int, checks: Sequence[Check]) -> list[str]:
    """Return what is wrong with a run of one scenario for clients.

    What is skipped there is what the client did not do, and did not have to: so that it did something is asked for.
    """
    wrong = [f"{check.id}: {check.status} {check.told}" for check in checks if check.status in ("FAILURE", "WARNING")]
    if status != 0:
        wrong.append(f"the suite's exit code is {status}")
    least, shown = MINIMUM.get(scenario, 1), sum(check.status == PASSED for check in checks)
    if shown < least:
        wrong.append(f"it has shown {shown} things, {least} are asked for")
    return wrong


def listed(text: str) -> dict[str, list[str]]:
    """Return the scenarios that the suite lists, each with what it is for."""
    found = re.findall(r"^  - (\S+) \[(.+)\]$", text, re.MULTILINE)
    return {name: what.split(",") for name, what in found}


def expectations(text: str) -> dict[str, str]:
    """Return what a file of expected failures lists, with the reasons.

    Raises:
        ValueError: An entry has no reason, or does not name a check.
    """
    found = {}
    for line in text.splitlines():
        if line.strip().startswith("- "):
            entry = re.fullmatch(r"\s+- ([\w-]+:[\w-]+)\s+# (.+)", line)
            if entry is None:
                raise ValueError(f"no `- SCENARIO:CHECK  # why`: {line}")
            found[entry[1]] = entry[2]
    return found
