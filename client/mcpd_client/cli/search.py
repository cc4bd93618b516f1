"""`search`: which tools a few words may mean."""

from __future__ import annotations

from mcpd_client.cli.options import Command
from mcpd_client.cli.render import Style, brief, clean_line, print_note, print_out, table, terminal_columns
from mcpd_client.cli.session import open_client
from mcpd_client.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping
    from typing import Any

MAX_LIMIT = 100


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("words", nargs="+", metavar="WORDS", help="what to look for in names, titles and descriptions")
    parser.add_argument("--limit", metavar="N", default="10", help=f"how many to show, 1 to {MAX_LIMIT}; default 10")
    parser.add_argument("--server", metavar="SERVER", help="only the tools of one server")


def _search(options: Namespace) -> int:
    if not (options.limit.isascii() and options.limit.isdecimal() and 1 <= int(options.limit) <= MAX_LIMIT):
        raise UsageError(f"--limit takes a number from 1 to {MAX_LIMIT}, not {options.limit!r}")
    query = " ".join(options.words)
    params: dict[str, object] = {"query": query, "limit": int(options.limit)}
    if options.server is not None:
        params["server"] = options.server
    with open_client(options) as client:
        reply = client.request_reply("mcpd/search", params)
    found = reply.result
    if options.json:
        print_out(reply.result_text() + "\n")
    elif found["items"]:
        rows = [[item["server"], item["name"], _says(item)] for item in found["items"]]
        style, columns = Style(1, no_color=options.no_color), terminal_columns(1)
        print_out(table(("SERVER", "TOOL", "DESCRIPTION"), rows, columns=columns, style=style))
    if not options.quiet:
        _explain(query, found, problems=not options.json)
    return 0


def _says(item: Mapping[str, Any]) -> str:
    return str(item.get("description") or item.get("title") or "-")


def _explain(query: str, found: Mapping[str, Any], *, problems: bool) -> None:
    """Say on stderr what the table does not: that it is empty or cut, and whose tools are missing."""
    for problem in found.get("problems", ()) if problems else ():
        print_note(f"not searched: {brief(clean_line(problem['message']))}")
    shown, total = len(found["items"]), found["total"]
    if not total:
        print_note(f"no tool matches {clean_line(query)!r}; all tools: mcpd tools")
    elif shown < total:
        print_note(f"shown {shown} of {total}; more: --limit N" if shown < MAX_LIMIT else f"shown {shown} of {total}")


COMMANDS = {
    "search": Command(
        _search,
        examples=(
            "search add numbers",
            "search echo --server demo",
            "search image --limit 3 --json",
            "search x | cut -f1,2",
        ),
        exits=(0, 2, 4, 6),
        configure=_configure,
    )
}
