"""`approvals`, `approve` and `deny`: the calls that wait for a nod, and the nod."""

from __future__ import annotations

from mcpd_client.cli.options import Command
from mcpd_client.cli.render import Style, clean, clean_line, dump, print_out, short_path
from mcpd_client.cli.session import open_client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping
    from typing import Any

    from mcpd_client.sync import Client

MARGIN = "    "


def format_approval(row: Mapping[str, Any], *, style: Style) -> str:
    """Return all that there is to decide by; nothing of it can do anything to a terminal."""
    name, tool = clean_line(str(row.get("id"))), clean_line(f"{row.get('server')}.{row.get('tool')}")
    lines = [f"{style.paint(name, 'bold')}  {tool}{_left(row)}"]
    if client := row.get("client"):
        lines.append(f"{MARGIN}from {_who(client)}")
    if "arguments" in row:
        cut = f" … ({row['arguments_bytes']} bytes in all)" if "arguments_bytes" in row else ""
        lines.append(f"{MARGIN}with {clean_line(str(row['arguments']))}{cut}")
    definition = row.get("definition")
    if isinstance(definition, dict):
        held = "is held back: its" if "client" not in row else "has changed: its"
        lines.append(f"{MARGIN}the tool {held} definition is not the one that was let through before")
        diff = clean(str(definition.get("diff", ""))).splitlines()
        lines += [MARGIN + style.paint(line, _COLORS.get(line[:1], "")) if line[:1] in _COLORS else MARGIN + line for line in diff]
    return "".join(f"{line}\n" for line in lines)


_COLORS = {"+": "green", "-": "red"}


def _left(row: Mapping[str, Any]) -> str:
    left = row.get("expires_in_seconds")
    return f"  ({left:.0f} s left)" if isinstance(left, int | float) else ""


def _who(client: Mapping[str, Any]) -> str:
    """Return who calls: the program as the kernel knows it, and the name that it gives itself."""
    parts = [f"pid {client.get('pid')}"]
    if "exe" in client:
        parts.append(clean_line(str(client["exe"])))
    if "name" in client:
        parts.append(f"which calls itself {clean_line(str(client['name']))!r}")
    if "project" in client:
        parts.append(f"in {short_path(clean_line(str(client['project'])))}")
    return ", ".join(parts)


def _rows(client: Client) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = client.request("mcpd/approvals")["approvals"]
    return rows


def _approvals(options: Namespace) -> int:
    style = Style(1, no_color=options.no_color)
    with open_client(options) as client:
        if not options.follow:
            if options.json:
                print_out(client.request_reply("mcpd/approvals").result_text() + "\n")
                return 0
            rows = _rows(client)
            print_out("".join(format_approval(row, style=style) for row in rows) or "nothing waits for a nod\n")
            return 0
        _follow(options, client, style)
    return 0


def _follow(options: Namespace, client: Client, style: Style) -> None:
    """Print what waits, and then each call that begins to; the one connection hears, the other one asks."""
    shown: set[str] = set()

    def show() -> None:
        for row in _rows(other):
            if row["id"] not in shown:
                shown.add(row["id"])
                print_out(dump(row) if options.json else format_approval(row, style=style))

    def hear(method: str, event: Any) -> None:
        if method == "mcpd/event" and isinstance(event, dict) and event.get("event") in ("approval", "list_changed", "missed"):
            show()

    with open_client(options) as other:
        client.request("mcpd/events", {"tail": 0, "follow": True})
        show()
        client.follow(hear)


def _approve(options: Namespace) -> int:
    with open_client(options) as client:
        reply = client.request_reply("mcpd/approve", {"id": options.id, "remember": options.remember})
    print_out(reply.result_text() + "\n" if options.json else f"approved {clean_line(options.id)}\n")
    return 0


def _deny(options: Namespace) -> int:
    params = {"id": options.id, **({"reason": options.reason} if options.reason else {})}
    with open_client(options) as client:
        reply = client.request_reply("mcpd/deny", params)
    print_out(reply.result_text() + "\n" if options.json else f"denied {clean_line(options.id)}\n")
    return 0


def _configure_approvals(parser: ArgumentParser) -> None:
    parser.add_argument("-f", "--follow", action="store_true", help="go on with those that come from now on")


def _configure_approve(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="as `mcpd approvals` shows it")
    parser.add_argument(
        "--remember", action="store_true",
        help="ask no more for this tool in this project, as long as its definition is the same",
    )  # fmt: skip


def _configure_deny(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="as `mcpd approvals` shows it")
    parser.add_argument("--reason", metavar="TEXT", help="what the caller is told")


COMMANDS = {
    "approvals": Command(
        _approvals,
        examples=("approvals", "approvals -f", "approvals --json"),
        exits=(0, 6, 8, 130),
        configure=_configure_approvals,
    ),
    "approve": Command(
        _approve, examples=("approve a1", "approve a1 --remember"), exits=(0, 2, 6, 8), configure=_configure_approve
    ),
    "deny": Command(
        _deny, examples=("deny a1", "deny a1 --reason 'not on a Friday'"), exits=(0, 2, 6, 8), configure=_configure_deny
    ),
}
