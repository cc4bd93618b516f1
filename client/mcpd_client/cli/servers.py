"""`ls`, `get`, `start`, `stop`, `restart`: the configured servers."""

from __future__ import annotations

from mcpd_client.cli.options import Command
from mcpd_client.cli.render import Style, dump, print_note, print_out, render_error, table, terminal_columns
from mcpd_client.cli.session import open_client, rows_of
from mcpd_client.cli.status import format_state, page_text
from mcpd_client.errors import RequestFailed
from mcpd_client.fast import can_ask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping, Sequence
    from typing import Any

# Of several copies the one in the best state stands for them all.
BEST_FIRST = ("ready", "starting", "stopping", "backoff", "needs_auth", "stopped", "failed")


def _ls(options: Namespace) -> int:
    with open_client(options) as client:
        reply = client.request_reply("mcpd/servers", {"all": True} if options.all else {})
    if options.json:
        print_out(reply.result_text() + "\n")
        return 0
    rows = _once_each(reply.result["servers"])
    style, columns = Style(1, no_color=options.no_color), terminal_columns(1)
    cells = [[str(row.get(key) or "-") for key in ("name", "state", "transport", "target")] for row in rows]
    if rows:
        print_out(table(("NAME", "STATE", "TRANSPORT", "TARGET"), cells, columns=columns, style=style))
    elif not options.quiet:
        print_note("no servers are enabled; of all that are configured: mcpd ls --all; where to write one: mcpd config path")
    return 0


def _once_each(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per server: that of its best copy, whose state says how many there are."""
    copies: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        copies.setdefault(row["name"], []).append(row)
    best = [{**sorted(found, key=_rank)[0], "copies": len(found)} for found in copies.values()]
    return [row if row["copies"] == 1 else {**row, "state": f"{row['state']}, {row['copies']} copies"} for row in best]


def _rank(row: Mapping[str, Any]) -> int:
    return BEST_FIRST.index(row["state"]) if row["state"] in BEST_FIRST else len(BEST_FIRST)


def _get(options: Namespace) -> int:
    with open_client(options) as client:
        rows = rows_of(options.server, client.servers(every=True))
    style = Style(1, no_color=options.no_color)
    print_out(
        "".join(dump(row) for row in rows) if options.json else "\n".join(page_text(row, style=style) for row in rows)
    )
    return 0


def _change(options: Namespace, method: str) -> int:
    """Do the same to each server; go on after a failure, and end with the exit code of the first."""
    status = 0
    style = Style(1, no_color=options.no_color)
    with open_client(options, _askable(method)) as client:
        for name in options.servers:
            try:
                reply = client.request_reply(method, {"server": name})
            except RequestFailed as error:
                print_note(render_error(error, as_json=options.json).rstrip("\n"))
                status = status or error.exit_code
            else:
                print_out(reply.result_text() + "\n" if options.json else _changed_line(reply.result, style))
    return status


def _askable(method: str) -> Mapping[str, object] | None:
    """Return what a user at a terminal can be asked: servers of older revisions are told that when they start."""
    if method == "mcpd/stop" or not can_ask():
        return None
    from mcpd_client.cli.questions import CAPABILITIES

    return CAPABILITIES


def _changed_line(row: Mapping[str, Any], style: Style) -> str:
    pid = f" (pid {row['pid']})" if row.get("pid") else ""
    copies = f" ({row['copies']} copies)" if row.get("copies", 1) > 1 else ""
    return f"{format_state(row, style)} {row['name']}: {row['state']}{pid}{copies}\n"


def _start(options: Namespace) -> int:
    return _change(options, "mcpd/start")


def _stop(options: Namespace) -> int:
    return _change(options, "mcpd/stop")


def _restart(options: Namespace) -> int:
    return _change(options, "mcpd/restart")


def _configure_ls(parser: ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="also those that are disabled")


def _configure_one(parser: ArgumentParser) -> None:
    parser.add_argument("server", metavar="NAME")


def _configure_many(parser: ArgumentParser) -> None:
    parser.add_argument("servers", metavar="NAME", nargs="+")


def _configure_stop(parser: ArgumentParser) -> None:
    parser.add_argument("servers", metavar="NAME", nargs="+", help="all its copies stop, those of other projects too")


COMMANDS = {
    "ls": Command(_ls, examples=("ls", "ls --json", "ls | cut -f1"), exits=(0, 2, 6), configure=_configure_ls),
    "get": Command(_get, examples=("get demo", "get demo --json"), exits=(0, 2, 6), configure=_configure_one),
    "start": Command(_start, examples=("start demo", "start demo --json"), configure=_configure_many),
    "stop": Command(_stop, examples=("stop demo", "stop demo other"), configure=_configure_stop),
    "restart": Command(_restart, examples=("restart demo", "restart demo --json"), configure=_configure_many),
}
