"""`events`: what has happened to servers lately, and what happens now."""

from __future__ import annotations

from mcpd_client.cli.feed import line_of, run_feed
from mcpd_client.cli.options import Command
from mcpd_client.cli.render import Style, brief, clean_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping
    from typing import Any

DEFAULT_EVENTS = 50
_OF_CONFIG = ("added", "removed", "changed", "problems")
# Every line begins with these.
_AT_FRONT = ("time", "event", "server", "project")


def format_event(event: Mapping[str, Any], *, style: Style, columns: int | None) -> str:
    """Return one line about what happened."""
    return line_of(event, brief(clean_line(_told(event))), style=style, columns=columns)


def _told(event: Mapping[str, Any]) -> str:
    """Return what happened in words; of an event that is not known here all that it says."""
    match event:
        case {"event": "state", "state": state, **more}:
            process = f" (pid {more['pid']})" if state == "ready" and "pid" in more else ""
            why = f": {more['reason']}" if state in ("backoff", "failed", "misconfigured") and "reason" in more else ""
            return f"{state}{process}{' for good' if more.get('leaving') else ''}{why}"
        case {"event": "call", "tool": tool, "outcome": outcome, "seconds": seconds, **more}:
            return f"call of {tool} by client {more.get('client')}: {outcome} in {seconds:.3g} s"
        case {"event": "list_changed", "kind": kind, "items": items}:
            return f"its {kind} have changed: {items} now"
        case {"event": "approval", "id": name, "action": action, "tool": tool}:
            return f"nod {name} for {tool}: {action}"
        case {"event": "config", **more}:
            parts = [f"{key} {', '.join(map(str, names))}" for key in _OF_CONFIG if (names := more.get(key))]
            return f"configuration read: {'; '.join(parts) or 'nothing has changed'}"
        case {"event": "missed", "count": count}:
            return f"{count} events were missed"
    parts = [f"{key}={value}" for key, value in event.items() if key not in _AT_FRONT]
    return " ".join([str(event.get("event")), *parts])


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("server", nargs="?", metavar="SERVER", help="one server; default: all")
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on with what happens from now on, calls included"
    )
    parser.add_argument("-n", "--tail", metavar="N", default=str(DEFAULT_EVENTS), help="how many events of the past")


def _events(options: Namespace) -> int:
    return run_feed(options, "mcpd/events", "events", "mcpd/event", format_event)


COMMANDS = {
    "events": Command(
        _events,
        examples=("events", "events demo --tail 10", "events -f", "events -f --json"),
        exits=(0, 2, 6, 130),
        configure=_configure,
    )
}
