"""`events`: what has happened to servers lately, and what happens now."""

from __future__ import annotations

from mcpd_client.cli.logs import time_of_day
from mcpd_client.cli.options import Command
from mcpd_client.cli.render import Style, clean_line, dump, print_out, terminal_columns
from mcpd_client.cli.session import open_client
from mcpd_client.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Mapping
    from typing import Any

DEFAULT_EVENTS = 50
_OF_CONFIG = ("added", "removed", "changed", "problems")
# Every line begins with these.
_AT_FRONT = ("time", "event", "server")


def format_event(event: Mapping[str, Any], *, style: Style, columns: int | None) -> str:
    """Return one line: when, which server, what; on a terminal the local time of day, in a pipe the whole moment."""
    moment, server = str(event.get("time", "")), clean_line(str(event.get("server") or "mcpd"))
    what = clean_line(_told(event))
    if columns is None:
        return f"{clean_line(moment)} {server}: {what}\n"
    return f"{style.paint(time_of_day(moment), 'dim')} {style.paint(server, 'bold')}: {what}\n"


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
    if not (options.tail.isascii() and options.tail.isdecimal()):
        raise UsageError(f"--tail takes a number of events, not {options.tail!r}")
    write = _writer(options)
    params: dict[str, object] = {"tail": int(options.tail), "follow": options.follow}
    if options.server is not None:
        params["server"] = options.server
    # Events may arrive together with the answer, and then before it is looked at.
    early: list[Any] = []
    with open_client(options) as client:
        reply = client.request("mcpd/events", params, on_notification=_only_events(early.append))
        for event in reply["events"]:
            write(event)
        if options.follow and options.json:
            # How things are, between what has happened and what will.
            print_out(dump({"event": "servers", "servers": reply["servers"]}))
        for event in early:
            write(event)
        if options.follow:
            client.follow(_only_events(write))
    return 0


def _only_events(write: Callable[[Any], None]) -> Callable[[str, Any], None]:
    return lambda method, event: write(event) if method == "mcpd/event" else None


def _writer(options: Namespace) -> Callable[[Mapping[str, Any]], None]:
    if options.json:
        return lambda event: print_out(dump(event))
    style, columns = Style(1, no_color=options.no_color), terminal_columns(1)
    return lambda event: print_out(format_event(event, style=style, columns=columns))


COMMANDS = {
    "events": Command(
        _events,
        examples=("events", "events demo --tail 10", "events -f", "events -f --json"),
        exits=(0, 2, 6, 130),
        configure=_configure,
    )
}
