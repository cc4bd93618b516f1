"""What servers and the daemon said lately, for operators: `mcpd/logs`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from mcpd.broker.broker import Broker
from mcpd.broker.place import Place
from mcpd.logs import Log, iso

MAX_LINES = 5000


class LogParams(Struct):
    """`params` of mcpd/logs."""

    server: str | None = None
    tail: int = 50
    follow: bool = False


class Tail:
    """Reads the rings of stderr and the daemon's own events, with secrets taken out."""

    def __init__(self, broker: Broker, log: Log) -> None:
        self._broker, self._log = broker, log

    def lines(self, p: LogParams) -> dict[str, list[dict[str, Any]]]:
        """Return the last lines, oldest first.

        Raises:
            UnknownServer: There is no such server.
        """
        found: list[tuple[float, dict[str, Any]]] = []
        for place in self._places(p.server):
            found += self._of(place)
        for when, text in self._log.recent:
            if _concerns(text, p.server):
                found.append((when, _line(when, p.server or "mcpd", "daemon", text)))
        found.sort(key=lambda line: line[0])
        last = min(max(p.tail, 0), MAX_LINES)
        return {"lines": [line for _, line in found[-last:]] if last else []}

    def _places(self, name: str | None) -> list[Place]:
        return [*(self._broker.places if name is None else self._broker.upstream(name).places.values())]

    def _of(self, place: Place) -> list[tuple[float, dict[str, Any]]]:
        latest, name, project = place.slot.latest, place.server.name, place.project
        if latest is None:
            return []
        held = latest.ring.lines()
        clean = latest.redact.lines(text for _, text in held)
        lines = zip(held, clean, strict=True)
        return [(when, _line(when, name, "stderr", text, project)) for (when, _), text in lines if text]

    def follow(self, p: LogParams, tell: Callable[[dict[str, Any]], None]) -> Callable[[], None]:
        """Tell every new line and event; return what ends that."""
        self._places(p.server)  # an unknown name is refused
        undo = self._follow_servers(p.server, tell), self._follow_daemon(p.server, tell)

        def stop() -> None:
            for one in undo:
                one()

        return stop

    def _follow_daemon(self, server: str | None, tell: Callable[[dict[str, Any]], None]) -> Callable[[], None]:
        def on_event(text: str) -> None:
            if _concerns(text, server):
                tell(_line(time.time(), server or "mcpd", "daemon", text))

        self._log.followers.add(on_event)
        return lambda: self._log.followers.discard(on_event)

    def _follow_servers(self, server: str | None, tell: Callable[[dict[str, Any]], None]) -> Callable[[], None]:
        followers = self._broker.followers

        def on_line(name: str, project: str | None, text: str) -> None:
            if server in (None, name):
                tell(_line(time.time(), name, "stderr", text, project))

        followers.add(on_line)
        return lambda: followers.discard(on_line)


def _concerns(text: str, server: str | None) -> bool:
    """Whether an event of the daemon is about a server, or any will do."""
    return server is None or f"upstream={server} " in f"{text} "


def _line(when: float, server: str, stream: str, text: str, project: str | None = None) -> dict[str, Any]:
    about = {} if project is None else {"project": project}
    return {"time": iso(when), "server": server, **about, "stream": stream, "text": text}
