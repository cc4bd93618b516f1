"""The servers as the daemon has found them: whether each starts, what it speaks, and how long that took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mcpd.doctor import tools
from mcpd.doctor.check import Check

# A server that takes longer is missed by hosts that wait five seconds.
SLOW_SECONDS = 5.0


def examine(found: Mapping[str, Mapping[str, Any]]) -> Iterator[Check]:
    """Look at what came of starting servers.

    Args:
        found: by name: `{seconds, row?, error?: {message, hint?}, tools?: [descriptor]}`; nothing of both where it was
            not tried.
    """
    for name, one in found.items():
        if (error := one.get("error")) is not None:
            yield Check("start", "fail", str(error["message"]), error.get("hint"), name)
        elif (row := one.get("row")) is not None:
            yield _ready(name, row, float(one["seconds"]))
            yield from tools.examine(name, one.get("tools") or [])


def _ready(name: str, row: Mapping[str, Any], seconds: float) -> Check:
    count = row.get("tools")
    detail = f"ready in {seconds:.1f} s, revision {row.get('revision', '?')}, {'?' if count is None else count} tools"
    if notes := row.get("tools_problems"):
        return Check("start", "warn", f"{detail}; {notes[0]}", f"mcpd status {name}", name)
    if seconds > SLOW_SECONDS:
        return Check("start", "warn", f"{detail}: hosts may give it up", f"set prewarm = true in [servers.{name}]", name)
    return Check("start", "ok", detail, None, name)
