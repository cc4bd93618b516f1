"""What `logs` and `events` share: items of the past, a line each, and with `-f` those that come from now on."""

from __future__ import annotations

import datetime

from mcpd_client.cli.render import Style, clean, clean_line, dump, print_out, short_path, terminal_columns
from mcpd_client.cli.session import open_client
from mcpd_client.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Mapping
    from typing import Any

    Format = Callable[..., str]


def run_feed(options: Namespace, method: str, member: str, notification: str, format_item: Format) -> int:
    """Print what a method tells, and what its notifications tell while the user follows.

    Args:
        options: the global ones, and `server`, `tail`, `follow`.
        method: what to ask.
        member: where in the answer the items of the past are, oldest first.
        notification: what brings a new one.
        format_item: makes a line of an item; gets `style` and `columns`.

    Raises:
        UsageError: `tail` is no number.
    """
    if not (options.tail.isascii() and options.tail.isdecimal()):
        raise UsageError(f"-n takes a number, not {options.tail!r}")
    params: dict[str, object] = {"tail": int(options.tail), "follow": options.follow}
    if options.server is not None:
        params["server"] = options.server
    write = _writer(options, format_item)
    # Items may arrive together with the answer, and then before it is looked at.
    early: list[Any] = []
    with open_client(options) as client:
        reply = client.request(method, params, on_notification=_only(notification, early.append))
        for item in reply[member]:
            write(item)
        if options.json and "servers" in reply:
            # How things are, between what has happened and what will.
            print_out(dump({"event": "servers", "servers": reply["servers"]}))
        for item in early:
            write(item)
        if options.follow:
            client.follow(_only(notification, write))
    return 0


def line_of(item: Mapping[str, Any], text: str, *, style: Style, columns: int | None) -> str:
    """Return one line: when, which server, and for a project's copy which; then `text`, which is clean.

    On a terminal it is the local time of day, in a pipe the whole moment.
    """
    moment, server = str(item.get("time", "")), clean_line(str(item.get("server") or "mcpd"))
    project = item.get("project")
    if columns is None:
        where = f" ({clean_line(str(project))})" if project else ""
        return f"{clean_line(moment)} {server}{where}: {text}\n"
    where = f" ({short_path(str(project))})" if project else ""
    return f"{style.paint(time_of_day(moment), 'dim')} {style.paint(server, 'bold')}{where}: {text}\n"


def time_of_day(moment: str) -> str:
    """Return the local time of day of a moment in ISO 8601; what is no moment stays what it is."""
    try:
        return datetime.datetime.fromisoformat(moment).astimezone().strftime("%H:%M:%S")
    except ValueError:
        return clean(moment)


def _only(method: str, write: Callable[[Any], None]) -> Callable[[str, Any], None]:
    return lambda told, item: write(item) if told == method else None


def _writer(options: Namespace, format_item: Format) -> Callable[[Mapping[str, Any]], None]:
    if options.json:
        return lambda item: print_out(dump(item))
    style, columns = Style(1, no_color=options.no_color), terminal_columns(1)
    return lambda item: print_out(format_item(item, style=style, columns=columns))
