"""A run in figures: a table for people, an object for programs."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

from tests.chaos.faults import CLASSES
from tests.chaos.judge import Told
from tests.chaos.run import Outcome, Size

RAN = {"yes": "may have run", "no": "not run", "-": ""}
MIB = 1 << 20
# A violation that repeats itself tells its story with the first ones.
SHOWN = 10


def figures(outcome: Outcome) -> dict[str, Any]:
    """Return all figures, as JSON has it."""
    settings = dataclasses.asdict(outcome.settings)
    told = [(tool, one) for journal in outcome.journals.values() for token, (_, tool) in journal.sent.items() for one in journal.told[token]]
    return {
        "settings": settings,
        "faults": outcome.done,
        "faults_without_victim": outcome.missed,
        "daemons": outcome.daemons,
        "clients": outcome.clients,
        "calls": sum(len(journal.sent) for journal in outcome.journals.values()),
        "unreachable": sum(journal.unreachable for journal in outcome.journals.values()),
        "outcomes": dict(sorted(Counter(f"{one.outcome} {RAN[one.ran]}".strip() for _, one in told).items())),
        "echo_milliseconds": _latencies([one for tool, one in told if tool == "echo" and one.outcome == "done"]),
        "slowest_milliseconds": max((one.milliseconds for _, one in told), default=0.0),
        "before": outcome.before and dataclasses.asdict(outcome.before),
        "after": outcome.after and dataclasses.asdict(outcome.after),
        "most": outcome.most,
        "violations": [dataclasses.asdict(one) for one in outcome.violations],
    }


def _latencies(told: list[Told]) -> dict[str, float]:
    times = sorted(one.milliseconds for one in told)
    if not times:
        return {}
    return {"p50": times[len(times) // 2], "p99": times[len(times) * 99 // 100], "max": times[-1]}


def table(outcome: Outcome) -> str:
    """Return the figures for people, the violations last."""
    found = figures(outcome)
    settings = outcome.settings
    lines = [f"{settings.seconds:g} s, seed {settings.seed}, {settings.clients} clients, {settings.servers} servers"]
    lines.append(f"\n{'fault':30}{'done':>8}{'nobody there':>15}")
    for name in CLASSES:
        lines.append(f"{name:30}{outcome.done.get(name, 0):8}{outcome.missed.get(name, 0):15}")
    lines.append(f"{'all':30}{sum(outcome.done.values()):8}{sum(outcome.missed.values()):15}")
    lines.append(f"\n{'outcome':45}{'calls':>8}")
    lines += [f"{name:45}{number:8}" for name, number in found["outcomes"].items()]
    lines.append(f"{'all':45}{found['calls']:8}")
    echo = " ".join(f"{name} {value:.1f}" for name, value in found["echo_milliseconds"].items())
    lines.append(f"\nechoes: {echo} ms; slowest outcome of all: {found['slowest_milliseconds']:.0f} ms")
    lines.append(f"{outcome.daemons} daemons, {outcome.clients} clients; {found['unreachable']} connects found no daemon")
    lines.append(f"daemon after the warm-up: {_size(outcome.before)}; at the end: {_size(outcome.after)}")
    most = outcome.most
    lines.append(f"most: {most['rss_bytes'] / MIB:.1f} MiB, {most['fds']} fds, {most['processes']} processes in all")
    lines += ["", *_violations(outcome), f"{len(outcome.violations)} violations"]
    return "\n".join(lines)


def _size(size: Size | None) -> str:
    return "-" if size is None else f"{size.rss_bytes / MIB:.1f} MiB, {size.fds} fds"


def _violations(outcome: Outcome) -> list[str]:
    seen: Counter[str] = Counter()
    lines = []
    for one in outcome.violations:
        seen[one.kind] += 1
        if seen[one.kind] <= SHOWN:
            lines.append(f"VIOLATION {one}")
    return lines + [f"VIOLATION {kind}: {n - SHOWN} more" for kind, n in seen.items() if n > SHOWN]
