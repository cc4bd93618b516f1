"""`status`: the daemon and its servers at a glance, or one server in full."""

from __future__ import annotations

import datetime

from mcpd_client.cli.logs import format_log_line
from mcpd_client.cli.options import Command
from mcpd_client.cli.render import (
    Style,
    brief,
    clean_line,
    display_width,
    dump,
    format_age,
    format_bytes,
    print_note,
    print_out,
    short_path,
    table_lines,
    terminal_columns,
)
from mcpd_client.cli.session import open_client, rows_of
from mcpd_client.errors import RequestFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping, Sequence
    from typing import Any

    from mcpd_client.sync import Client

# State to its sign, what stands for the sign in ASCII, and its colour.
SIGNS = {
    "ready": ("✔", "+", "green"),
    "starting": ("…", "~", "yellow"),
    "stopping": ("…", "~", "yellow"),
    "backoff": ("…", "~", "yellow"),
    "failed": ("✘", "x", "red"),
    "misconfigured": ("✘", "x", "red"),
    "needs_auth": ("!", "!", "yellow"),
    "pending_trust": ("!", "!", "yellow"),
    "disabled": ("⏸", "=", "dim"),
    "stopped": ("·", ".", "dim"),
}
HEADER = ("", "NAME", "STATE", "TRANSPORT", "TOOLS", "CLIENTS", "CALLS", "PID", "SINCE", "PROJECT", "NOTE")
PAGE_LOG_LINES = 10


def format_state(row: Mapping[str, Any], style: Style) -> str:
    """Return the sign of a row's state."""
    sign, ascii_sign, color = SIGNS.get(row["state"], ("?", "?", "yellow"))
    return style.paint(style.sign(sign, ascii_sign), color)


def format_since(row: Mapping[str, Any], *, columns: int | None) -> str:
    """Return since when a row is in its state: how long on a terminal, the moment itself in a pipe."""
    since = row.get("since")
    if not since or columns is None:
        return str(since or "-")
    return format_age(age_seconds(since)) or "-"


def age_seconds(moment: str) -> float:
    """Return how long ago an ISO 8601 moment was; 0 if it cannot be read."""
    try:
        then = datetime.datetime.fromisoformat(moment)
    except ValueError:
        return 0.0
    if then.tzinfo is None:
        then = then.replace(tzinfo=datetime.UTC)
    return (datetime.datetime.now(datetime.UTC) - then).total_seconds()


def format_note(row: Mapping[str, Any]) -> str:
    """Return why a server is not ready, or what it is doing."""
    parts = [brief(str(row["reason"]))] if row.get("reason") else []
    if row["state"] == "needs_auth" and row.get("hint"):
        parts.append(str(row["hint"]))
    if seconds := row.get("retry_after_seconds"):
        parts.append(f"next try in {seconds:.0f} s")
    if count := row.get("in_flight"):
        parts.append(f"{count} in flight")
    if count := row.get("queued"):
        parts.append(f"{count} waiting")
    if count := row.get("held_back"):
        parts.append(f"{count} of its tools held back (mcpd approvals)")
    if row.get("asking"):
        parts.append("a user is being asked")
    return ", ".join(parts)


def status_text(status: Mapping[str, Any], *, columns: int | None, style: Style) -> str:
    """Return the daemon's line and one row per server."""
    rows = status["servers"]
    if not rows:
        return f"{daemon_line(status['daemon'])}\nno servers are enabled; where to write one: mcpd config path\n"
    cells = [dict(zip(HEADER, _cells(row, columns=columns), strict=True)) for row in rows]
    titles = _titles(cells, columns)
    head, *lines = table_lines(titles, [[cell[key] for key in titles] for cell in cells], columns=columns, wrap=True)
    # The sign is painted after the layout: the table strips control characters.
    painted = [format_state(row, style) + line[1:] for line, row in zip(lines, rows, strict=True)]
    top = "" if columns is None else f"{style.paint(head, 'dim')}\n"
    return f"{daemon_line(status['daemon'])}\n{top}{''.join(painted)}"


def _titles(cells: Sequence[Mapping[str, str]], columns: int | None) -> list[str]:
    """Return the columns to show: projects where there are any, transports unless room is short."""
    titles = [title for title in HEADER if title != "PROJECT" or any(cell["PROJECT"] not in ("", "-") for cell in cells)]
    if columns is not None:
        widths = [max(display_width(cell[title]) for cell in [{t: t for t in HEADER}, *cells]) for title in titles[:-1]]
        if sum(widths) + 2 * len(widths) > columns:
            titles.remove("TRANSPORT")
    return titles


def daemon_line(daemon: Mapping[str, Any]) -> str:
    """Return one line about the daemon."""
    parts = [f"mcpd {daemon.get('version', '?')}", f"pid {daemon.get('pid', '?')}"]
    if started := daemon.get("started"):
        parts.append(f"up {format_age(age_seconds(started))}")
    if count := daemon.get("approvals"):
        parts.append(f"{count} waiting for a nod (mcpd approvals)")
    if (connections := daemon.get("connections")) is not None:
        parts.append(f"{connections} connection{'' if connections == 1 else 's'}")
    if rss := daemon.get("rss_bytes"):
        parts.append(format_bytes(rss))
    return ", ".join([*parts, str(daemon.get("socket", ""))])


def page_text(row: Mapping[str, Any], *, style: Style) -> str:
    """Return what there is to say about one server, a line per subject."""
    since = row.get("since")
    when = f" since {since} ({format_age(age_seconds(since))})" if since else ""
    scope = f"scope {row['scope']}" if row.get("scope") else ""
    protocol = " ".join(str(row[key]) for key in ("era", "revision") if row.get(key))
    process = [f"pid {row['pid']}"] if row.get("pid") else []
    if row.get("incarnation"):
        process.append(f"run {row['incarnation']}")
    counts = [
        f"{row.get('calls', 0)} calls",
        f"{row.get('in_flight', 0)} in flight",
        f"{row.get('clients', 0)} clients",
    ]
    if row.get("served") is not None:
        counts.append(f"{row['served']} served so far")
    subjects = {
        "target": row.get("target"),
        "transport": ", ".join(part for part in (row.get("transport"), scope) if part),
        "project": row.get("project"),
        "process": ", ".join(process),
        "protocol": protocol,
        "tools": row.get("tools"),
        "calls": ", ".join(counts),
        "note": row.get("reason"),
        "hint": row.get("hint"),
    }
    lines = [f"{format_state(row, style)} {style.paint(clean_line(row['name']), 'bold')}: {row['state']}{when}"]
    lines += [f"{name:>11}: {clean_line(str(value))}" for name, value in subjects.items() if value not in (None, "")]
    return "\n".join(lines) + "\n"


def _cells(row: Mapping[str, Any], *, columns: int | None) -> Sequence[str]:
    sign = SIGNS.get(row["state"], ("?", "?", ""))
    counts = [str(row[key]) if row.get(key) is not None else "-" for key in ("tools", "clients", "calls", "pid")]
    name, state, transport = row["name"], row["state"], row.get("transport", "-")
    project = str(row.get("project") or "-")
    where = project if columns is None else short_path(project)
    return (sign[0], name, state, transport, *counts, format_since(row, columns=columns), where, format_note(row))


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("server", nargs="?", metavar="SERVER", help="one server in full, with its last log lines")


def _status(options: Namespace) -> int:
    style, columns = Style(1, no_color=options.no_color), terminal_columns(1)
    with open_client(options) as client:
        reply = client.request_reply("mcpd/status")
        rows = None if options.server is None else rows_of(options.server, reply.result["servers"])
        if rows is None:
            if options.json:
                print_out(reply.result_text() + "\n")
                return 0
            print_out(status_text(reply.result, columns=columns, style=style))
            for problem in _further_problems(reply.result):
                print_note(f"configuration: {clean_line(problem)}")
            return 0
        if options.json:
            print_out("".join(dump(row) for row in rows))
            return 0
        print_out("\n".join(page_text(row, style=style) for row in rows))
        logs = _last_lines(client, options.server)
    if logs:
        print_out("\n" + "".join(format_log_line(line, style=style, columns=columns) for line in logs))
    elif options.verbose:
        print_note("its log is empty")
    return 0


def _further_problems(status: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the configuration and is not the note of a server already."""
    notes = [str(row["reason"]) for row in status["servers"] if row.get("reason")]
    problems = [str(problem) for problem in status["daemon"].get("problems") or []]
    return [problem for problem in problems if not any(note in problem or problem in note for note in notes)]


def _last_lines(client: Client, server: str) -> list[dict[str, Any]]:
    try:
        lines: list[dict[str, Any]] = client.request("mcpd/logs", {"server": server, "tail": PAGE_LOG_LINES})["lines"]
    except RequestFailed:
        # A server that is misconfigured has never written anything.
        return []
    return lines


COMMANDS = {
    "status": Command(
        _status,
        examples=("status", "status demo", "status --json"),
        exits=(0, 2, 6),
        configure=_configure,
    )
}
