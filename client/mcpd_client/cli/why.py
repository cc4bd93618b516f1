"""`why`: which copy of a server this client gets, and what would give it another one."""

from __future__ import annotations

from mcpd_client.cli.options import Command
from mcpd_client.cli.render import Style, clean_line, print_out, table, terminal_columns
from mcpd_client.cli.session import open_client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def _why(options: Namespace) -> int:
    with open_client(options) as client:
        reply = client.request_reply("mcpd/why", {"server": options.server})
    if options.json:
        print_out(reply.result_text() + "\n")
        return 0
    found = reply.result
    head = f"{found['server']} is shared by {_SHARED.get(found['scope'], found['scope'])}: {found['because']}\n"
    print_out(clean_line(head) + "\n")
    style, columns = Style(1, no_color=options.no_color), terminal_columns(1)
    nothing = "-" if columns is None else ""
    cells = [[clean_line(str(one.get(key) or nothing)) for key in ("field", "value", "splits")] for one in found["fields"]]
    header = ("FIELD", "VALUE", "WHAT WOULD SPLIT IT")
    print_out(table(header, cells, columns=columns, style=style, wrap=True))
    if found.get("identity"):
        print_out(f"identity {found['identity']}; copies: {len(found['copies'])}\n")
    return 0


_SHARED = {
    "user": "all clients",
    "project": "the clients of one project",
    "client": "nobody but this client",
    "auto": "nobody knows yet whom",
}


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("server", metavar="NAME")


COMMANDS = {"why": Command(_why, examples=("why demo", "why demo --json"), exits=(0, 2, 6), configure=_configure)}
