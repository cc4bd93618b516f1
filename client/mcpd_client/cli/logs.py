"""`logs`: what servers wrote to stderr and what the daemon logged."""

from __future__ import annotations

import datetime

from mcpd_client.cli.options import Command
from mcpd_client.cli.render import Style, clean, dump, print_out, terminal_columns
from mcpd_client.cli.session import open_client
from mcpd_client.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Mapping
    from typing import Any

DEFAULT_LINES = 50


def format_log_line(line: Mapping[str, Any], *, style: Style, columns: int | None) -> str:
    """Return one line of a log: local time of day on a terminal, the whole moment in a pipe."""
    server = str(line.get("server") or "mcpd")
    text = str(line.get("text", ""))
    moment = str(line.get("time", ""))
    if columns is None:
        return f"{moment} {server}: {text}\n"
    return f"{style.paint(time_of_day(moment), 'dim')} {style.paint(clean(server), 'bold')}: {clean(text)}\n"


def time_of_day(moment: str) -> str:
    """Return the local time of day of a moment in ISO 8601; what is no moment stays what it is."""
    try:
        return datetime.datetime.fromisoformat(moment).astimezone().strftime("%H:%M:%S")
    except ValueError:
        return clean(moment)


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("server", nargs="?", metavar="SERVER", help="one server; default: all, and the daemon")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what is written from now on")
    parser.add_argument("-n", "--lines", metavar="N", default=str(DEFAULT_LINES), help="how many lines of the past")


def _logs(options: Namespace) -> int:
    if not options.lines.isdecimal():
        raise UsageError(f"-n takes a number of lines, not {options.lines!r}")
    write = _writer(options)
    params: dict[str, object] = {"tail": int(options.lines), "follow": options.follow}
    if options.server is not None:
        params["server"] = options.server
    # Lines may arrive together with the answer, and then before it is looked at.
    early: list[Any] = []
    with open_client(options) as client:
        reply = client.request("mcpd/logs", params, on_notification=_only_logs(early.append))
        for line in [*reply["lines"], *early]:
            write(line)
        if options.follow:
            client.follow(_only_logs(write))
    return 0


def _only_logs(write: Callable[[Any], None]) -> Callable[[str, Any], None]:
    return lambda method, line: write(line) if method == "mcpd/log" else None


def _writer(options: Namespace) -> Callable[[Mapping[str, Any]], None]:
    if options.json:
        return lambda line: print_out(dump(line))
    style, columns = Style(1, no_color=options.no_color), terminal_columns(1)
    return lambda line: print_out(format_log_line(line, style=style, columns=columns))


COMMANDS = {
    "logs": Command(
        _logs,
        examples=("logs", "logs demo -n 10", "logs -f", "logs --json"),
        exits=(0, 2, 6, 130),
        configure=_configure,
    )
}
