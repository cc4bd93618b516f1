"""What the commands share when they talk to the daemon."""

from __future__ import annotations

import os

from mcpd_client.errors import ClientError, RequestFailed
from mcpd_client.spawn import daemon_command
from mcpd_client.sync import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence
    from typing import Any


def open_client(options: Namespace, capabilities: Mapping[str, object] | None = None) -> Client:
    """Return a client that is connected as the global options say; a context manager.

    Args:
        options: the global ones.
        capabilities: what the user can be asked during its requests.

    Raises:
        ClientError: there is no daemon to be had.
    """
    client = Client(
        options.socket or None,
        not options.no_autostart,
        options.timeout,
        project=os.path.abspath(options.project) if options.project else None,
        command=command_of(options),
        capabilities=capabilities or None,
    )
    client.connect()
    if options.project and not capabilities:
        client.hello()
    return client


def command_of(options: Namespace) -> list[str]:
    """Return what starts a daemon as the global options say."""
    return daemon_command(socket=options.socket or None, config=options.config or None)


def unknown_server(name: str, names: Sequence[str]) -> ClientError:
    """Return the error that the daemon would answer with, near names included."""
    from difflib import get_close_matches

    near = get_close_matches(name, names, n=1)
    data: dict[str, Any] = {"class": "unknown_server", "server": name, "hint": "mcpd ls"}
    if near:
        data["reason"] = f"did you mean {near[0]!r}?"
    return RequestFailed({"code": 1, "message": f"there is no server {name!r}", "data": data})


def rows_of(name: str, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of one server; more than one if several projects run it.

    Raises:
        ClientError: there is none of that name.
    """
    found = [row for row in rows if row.get("name") == name]
    if not found:
        raise unknown_server(name, [str(row.get("name")) for row in rows])
    return found
