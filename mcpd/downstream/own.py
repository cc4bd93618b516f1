"""The server `mcpd`: the daemon itself as an MCP server, for agents that look after their servers.

It shows what `mcpd/servers` and `mcpd/logs` show and does what `mcpd/restart` does, with the same rights. What
goes wrong with a server is told as the result of a tool: the model is to read it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from urllib.parse import unquote

import msgspec
import trio
from msgspec import Raw, Struct

from mcpd import __version__
from mcpd.broker.broker import Broker
from mcpd.broker.explaining import nearest
from mcpd.broker.parties import Guest
from mcpd.errors import McpdError, UnknownServer, UnknownTool, first_leaf

from . import manual, rows
from .cli.text import clean
from .shown import Card, Local, Shown
from .steering import Steering
from .tail import LogParams, Tail

INFO = Raw(msgspec.json.encode({"name": "mcpd", "title": "mcpd", "version": __version__}))
CAPABILITIES = {"tools": Raw(b"{}"), "resources": Raw(b"{}")}
# Hosts give a tool a minute; one that is told nothing in that time calls it a failure.
RESTART_SECONDS = 45.0
# Of a log; the last lines are what matters.
LOG_BYTES = 32 * 1024
# What a list tells of a server; the rest is in its status.
_BRIEF = ("name", "state", "scope", "project", "tools", "clients", "reason", "hint")

# What the hints of errors say to people at a terminal, in tools of this server.
_INSTEAD = {
    "mcpd ls": "list_servers names them",
    "mcpd logs ": "server_logs shows what it has written",
    "mcpd start ": "restart_server starts it",
}

Work = Callable[[Guest, Any], Awaitable[dict[str, Any]]]


class ListArguments(Struct):
    """Arguments of list_servers."""

    all: bool = False


class ServerArguments(Struct):
    """Arguments of tools about one server."""

    server: str


class LogArguments(Struct):
    """Arguments of server_logs."""

    server: str | None = None
    lines: int = manual.DEFAULT_LINES


class Own:
    """Shows the daemon itself."""

    alone = True

    def __init__(self, broker: Broker, tail: Tail, steering: Steering) -> None:
        self._broker, self._tail, self._steering = broker, tail, steering
        self._lists = {"tools": manual.TOOLS, "resources": manual.RESOURCES, "templates": manual.TEMPLATES}
        self._tools: dict[str, tuple[type[Struct], Work]] = {
            "list_servers": (ListArguments, self._list),
            "server_status": (ServerArguments, self._status),
            "server_logs": (LogArguments, self._logs),
            "restart_server": (ServerArguments, self._restart),
        }

    async def card(self, guest: Guest) -> Card:
        """Return how it presents itself."""
        await trio.lowlevel.checkpoint()
        return Card(INFO, CAPABILITIES, manual.INSTRUCTIONS)

    async def listing(self, kind: str, guest: Guest) -> Shown:
        """Return one of the lists; they never change."""
        await trio.lowlevel.checkpoint()
        return Shown(items=list(self._lists.get(kind, ())))

    def find(self, kind: str, name: str, guest: Guest) -> Local | None:
        """Return what does it, if there is such a thing."""
        if kind == "tools" and (tool := self._tools.get(name)) is not None:
            return Local(partial(self._use, *tool, guest))
        if kind == "resources" and (read := self._reader(name, guest)) is not None:
            return Local(read)
        return None

    async def look(self, kind: str, name: str, guest: Guest) -> Local:
        """Return the same.

        Raises:
            UnknownTool: There is no such thing.
        """
        await trio.lowlevel.checkpoint()
        found = self.find(kind, name, guest)
        if found is None:
            near = nearest(name, self._tools) if kind == "tools" else []
            hint = f"did you mean {', '.join(near)}?" if near else f"there are {', '.join(_names(kind)) or 'none'}"
            raise UnknownTool(f"mcpd has no {kind.removesuffix('s')} '{name[:200]}'", hint=hint, near=near)
        return found

    def result(self, route: object, result: Raw, guest: Guest) -> Raw:
        """Return it as it is: nothing is routed to a server."""
        return result

    # -- tools -----------------------------------------------------------------------------------

    async def _use(self, kind: type[Struct], work: Work, guest: Guest, given: Raw) -> dict[str, Any]:
        """Do the work of a tool; what goes wrong is its result."""
        try:
            arguments = msgspec.json.decode(given or b"{}", type=kind)
        except (msgspec.MsgspecError, RecursionError) as problem:
            return _failure(f"the arguments do not fit: {str(problem)[:1].lower()}{str(problem)[1:]}")
        outcome: dict[str, Any] = {}
        try:
            outcome = await work(guest, arguments)
        except* McpdError as group:
            outcome = _failure(_explained(first_leaf(group)))
        return outcome

    async def _list(self, guest: Guest, arguments: ListArguments) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        found = self._rows(everything=arguments.all)
        text = "\n".join(_summary(row) for row in found) or self._why_none()
        return {"content": [_text(text)], "structuredContent": {"servers": found}}

    async def _status(self, guest: Guest, arguments: ServerArguments) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        status = self._everything(arguments.server, guest)
        text = "\n\n".join(_page(row) for row in status["copies"])
        return {"content": [_text(text)], "structuredContent": status}

    async def _logs(self, guest: Guest, arguments: LogArguments) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        lines = min(max(arguments.lines, 1), manual.MAX_LINES)
        about = f" of server '{arguments.server}'" if arguments.server else ""
        return {"content": [_text(self._log(arguments.server, lines) or f"there are no lines{about} yet")]}

    async def _restart(self, guest: Guest, arguments: ServerArguments) -> dict[str, Any]:
        name = arguments.server
        place = None
        with trio.move_on_after(RESTART_SECONDS):
            place = await self._steering.restart(name, guest)
        if place is not None:
            row = rows.of(place)
            text = f"server '{name}' was restarted: {_summary(row)}"
        else:
            row = rows.of(self._broker.resolve(name, guest.seeker))
            then = "once it has stopped, it starts when it is called" if row["state"] == "stopping" else "ask server_status"
            text = f"server '{name}' is {row['state']} after {RESTART_SECONDS:g} s, and goes on; {then}"
        return {"content": [_text(text)], "structuredContent": row}

    # -- resources -------------------------------------------------------------------------------

    def _reader(self, uri: str, guest: Guest) -> Callable[[Raw], Awaitable[dict[str, Any]]] | None:
        """Return what reads a resource; None if the uri is none of these."""
        if uri == manual.SERVERS:
            return partial(_read, uri, "application/json", lambda: _json({"servers": self._rows(everything=True)}))
        for prefix, kind, text in (
            (manual.SERVER, "application/json", lambda name: _json(self._everything(name, guest))),
            (manual.LOG, "text/plain", lambda name: self._log(name, manual.DEFAULT_LINES)),
        ):
            if uri.startswith(prefix) and uri != prefix:
                return partial(_read, uri, kind, partial(text, unquote(uri.removeprefix(prefix))))
        return None

    # -- what both show --------------------------------------------------------------------------

    def _rows(self, *, everything: bool) -> list[dict[str, Any]]:
        found = rows.of_all(self._broker, everything=everything)
        return [{key: row[key] for key in _BRIEF if key in row} for row in found]

    def _everything(self, name: str, guest: Guest) -> dict[str, Any]:
        """Return the rows of one server, that of the client's own copy first; raises as `rows.of_server`."""
        upstream = self._broker.upstreams.get(name)
        if upstream is None:
            return {"name": name, "copies": rows.of_server(self._broker, name)}
        own = upstream.place_for(guest.seeker)
        others = [place for place in rows.worth_showing(upstream) if place is not own]
        return {"name": name, "copies": [{**rows.of(place), "yours": place is own} for place in (own, *others)]}

    def _log(self, server: str | None, count: int) -> str:
        """Return the last lines; the first of them are left out where they are too many."""
        found = self._tail.lines(LogParams(server=server, tail=count))["lines"]
        lines, room = list[str](), LOG_BYTES
        for line in reversed(found):
            text = f"{line['time']} {line['server']} {line['stream']}: {clean(line['text'])}"
            room -= len(text.encode()) + 1
            if room < 0:
                lines.append(f"({len(found) - len(lines)} earlier lines are left out)")
                break
            lines.append(text)
        return "\n".join(reversed(lines))

    def _why_none(self) -> str:
        config = self._broker.config
        if config.unusable:
            return _explained(self._broker.why_not(""))
        return f"no server is configured; the file is {config.path}"


async def _read(uri: str, kind: str, text: Callable[[], str], _: Raw) -> dict[str, Any]:
    await trio.lowlevel.checkpoint()
    try:
        return {"contents": [{"uri": uri, "mimeType": kind, "text": text()}]}
    except UnknownServer as problem:
        near = problem.details.get("near")
        hint = problem.hint if near else f"{manual.SERVERS} names them"
        raise UnknownTool(problem.message, hint=hint, near=near) from None  # no such resource


def _names(kind: str) -> list[str]:
    key = {"resources": "uri", "tools": "name"}.get(kind)
    if key is None:
        return []
    found = [*manual.TOOLS] if kind == "tools" else [*manual.RESOURCES]
    return [msgspec.json.decode(raw)[key] for raw in found]


def _explained(problem: McpdError) -> str:
    """Return all that a model has to know of an error."""
    hint = problem.hint
    for command, instead in _INSTEAD.items():
        if hint is not None and hint.startswith(command):
            hint = instead
    text = f"{problem.message}; {hint}" if hint else problem.message
    stderr = problem.details.get("stderr")
    return clean(f"{text}\nits last words on stderr:\n{stderr}" if stderr else text)


def _summary(row: dict[str, Any]) -> str:
    facts = [str(row["state"])]
    if "tools" in row:
        facts.append(f"{row['tools']} tool{'s' * (row['tools'] != 1)}")
    if "project" in row:
        facts.append(f"for {row['project']}")
    text = f"{row['name']}: {', '.join(facts)}"
    why = "; ".join(row[key] for key in ("reason", "hint") if key in row)
    return clean(f"{text} - {why}" if why else text)


def _page(row: dict[str, Any]) -> str:
    """Return a row as lines, each with one fact."""

    def shown(value: object) -> str:
        return value if isinstance(value, str) else _json(value)

    return clean("\n".join(f"{key}: {shown(value)}" for key, value in row.items()))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _failure(text: str) -> dict[str, Any]:
    return {"content": [_text(text)], "isError": True}
