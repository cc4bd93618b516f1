"""`doctor`: look for what is wrong, and say what to do about it."""

from __future__ import annotations

import os
import time

from mcpd_client.address import socket_path
from mcpd_client.cli.options import Command
from mcpd_client.cli.render import Style, clean_line, dump, print_out
from mcpd_client.cli.session import open_client, unknown_server
from mcpd_client.errors import EXIT_SERVER, ClientError, RequestFailed, not_installed
from mcpd_client.hosts.bridge import is_bridge
from mcpd_client.hosts.files import HostFileError
from mcpd_client.hosts.known import HOSTS
from mcpd_client.hosts.plan import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

SIGNS = {"ok": ("✔", "+", "green"), "warn": ("!", "!", "yellow"), "fail": ("✘", "x", "red")}
URL_KEYS = ("url", "httpUrl", "serverUrl")
# So many servers start side by side.
AT_ONCE = 8
MAX_TOOLS = 1000


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("server", nargs="?", metavar="SERVER", help="look at this one only")
    parser.add_argument("--no-start", action="store_true", help="start no server: look only at what can be seen without")


def _doctor(options: Namespace) -> int:
    try:
        from mcpd.doctor import entry
    except ModuleNotFoundError as error:
        raise not_installed(error) from None
    status, why = _status(options)
    # Of a daemon that runs, the file is the one that it has read.
    config = options.config or (status["daemon"].get("config") if status is not None else None)
    names = entry.names(config)
    if options.server is not None and options.server not in names:
        raise unknown_server(options.server, names)
    found = {} if status is None or options.no_start else _start_all(options, [options.server] if options.server else names)
    path = status["daemon"]["socket"] if status is not None else options.socket or socket_path(os.environ, os.getuid())
    project = os.path.abspath(options.project) if options.project else None
    checks = entry.examine(config, path, status, why, found, _owns(), options.server, project)
    print_out(dump({"checks": checks}) if options.json else _text(checks, Style(1, no_color=options.no_color)))
    return EXIT_SERVER if any(check["status"] == "fail" for check in checks) else 0


def _status(options: Namespace) -> tuple[dict[str, Any] | None, str]:
    """Return what the daemon says of itself, or why it says nothing; it is started only if servers are to be."""
    forbidden, options.no_autostart = options.no_autostart, options.no_autostart or options.no_start
    try:
        with open_client(options) as client:
            answer: dict[str, Any] = client.request("mcpd/status")
    except ClientError as error:
        return None, str(error)
    finally:
        options.no_autostart = forbidden
    return answer, ""


def _start_all(options: Namespace, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Start servers side by side, each over a connection of its own; return what came of it."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(names, pool.map(lambda name: _start(options, name), names), strict=True))


def _start(options: Namespace, name: str) -> dict[str, Any]:
    begun = time.monotonic()
    try:
        with open_client(options) as client:
            client.request("mcpd/start", {"server": name})
            seconds = time.monotonic() - begun
            tools: list[Mapping[str, Any]] = []
            offset: int | None = 0
            while offset is not None and len(tools) < MAX_TOOLS:
                page = client.request("mcpd/tools", {"server": name, "offset": offset, "limit": 100})
                tools += page["items"]
                offset = page.get("nextOffset")
            row = client.request("mcpd/start", {"server": name})
    except RequestFailed as error:
        return {"seconds": time.monotonic() - begun, "error": {"message": error.message, "hint": error.hint}}
    except ClientError as error:
        return {"seconds": time.monotonic() - begun, "error": {"message": str(error), "hint": error.hint}}
    return {"seconds": seconds, "row": row, "tools": tools}


def _owns() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield what the hosts of this user start or reach without us: host, name, and the words of the command or one URL."""
    for host in HOSTS:
        for path in filter(os.path.exists, host.files("user", os.getcwd(), os.environ)):
            try:
                entries = Place(host, "user", path, os.getcwd()).entries
            except HostFileError:
                continue  # `mcpd install` says what is wrong with it
            for name, entry in entries.items():
                words = host.command(entry) or [url for key in URL_KEYS if isinstance(entry, dict) and isinstance(url := entry.get(key), str)][:1]
                if words and not is_bridge(words):
                    yield host.name, name, tuple(words)


def _text(checks: Sequence[Mapping[str, Any]], style: Style) -> str:
    lines = [line for check in checks for line in _lines(check, style)]
    counts = {status: sum(check["status"] == status for check in checks) for status in ("fail", "warn")}
    lines.append(_summary(counts))
    return "\n".join(lines) + "\n"


def _lines(check: Mapping[str, Any], style: Style) -> list[str]:
    sign, ascii_sign, color = SIGNS[check["status"]]
    about = f"{check['server']}: " if check.get("server") else ""
    head = f"{style.paint(style.sign(sign, ascii_sign), color)} {clean_line(about + check['label'])}: {clean_line(check['detail'])}"
    return [head, f"    {clean_line(check['hint'])}"] if check.get("hint") and check["status"] != "ok" else [head]


def _summary(counts: Mapping[str, int]) -> str:
    if not counts["fail"] and not counts["warn"]:
        return "nothing is wrong"
    return f"{counts['fail']} failed, {counts['warn']} to look at"


COMMANDS = {
    "doctor": Command(
        _doctor, examples=("doctor", "doctor github", "doctor --no-start", "doctor --json"), exits=(0, 2, 4), configure=_configure
    )
}
