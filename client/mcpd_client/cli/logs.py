"""`logs`: what servers wrote to stderr and what the daemon logged."""

from __future__ import annotations

from mcpd_client.cli.feed import line_of, run_feed
from mcpd_client.cli.options import Command
from mcpd_client.cli.render import Style, clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping
    from typing import Any

DEFAULT_LINES = 50


def format_log_line(line: Mapping[str, Any], *, style: Style, columns: int | None) -> str:
    """Return one line of a log; in a pipe its text is as it was written."""
    text = str(line.get("text", ""))
    return line_of(line, text if columns is None else clean(text), style=style, columns=columns)


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("server", nargs="?", metavar="SERVER", help="one server; default: all, and the daemon")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what is written from now on")
    parser.add_argument(
        "-n", "--lines", dest="tail", metavar="N", default=str(DEFAULT_LINES), help="how many lines of the past"
    )


def _logs(options: Namespace) -> int:
    return run_feed(options, "mcpd/logs", "lines", "mcpd/log", format_log_line)


COMMANDS = {
    "logs": Command(
        _logs,
        examples=("logs", "logs demo -n 10", "logs -f", "logs --json"),
        exits=(0, 2, 6, 130),
        configure=_configure,
    )
}
