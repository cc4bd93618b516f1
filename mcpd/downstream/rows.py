"""What status shows: a row per server and a page about the daemon."""

from __future__ import annotations

import os
import time
from typing import Any

import trio

from mcpd.broker.broker import Broker
from mcpd.broker.place import Place
from mcpd.broker.scopes import NOBODY
from mcpd.broker.upstream import Upstream
from mcpd.config.model import Server
from mcpd.errors import McpdError
from mcpd.logs import iso


def _wall(when: float) -> str:
    """Return when a trio time was."""
    return iso(time.time() - (trio.current_time() - when))


def of_all(broker: Broker, *, everything: bool) -> list[dict[str, Any]]:
    """Return the rows in the order of the configuration; disabled servers only on request."""
    config = broker.config
    names = [name for name, server in config.servers.items() if everything or server.enabled]
    return [row for name in (*names, *config.wrong) for row in of_server(broker, name)]


def of_server(broker: Broker, name: str) -> list[dict[str, Any]]:
    """Return the rows of one server, one for each copy that has something to show.

    Raises:
        McpdError: There is no such server in the configuration, or the configuration cannot be used.
    """
    if (upstream := broker.upstreams.get(name)) is not None:
        return [of(place) for place in worth_showing(upstream)] or [_unused(upstream)]
    server, why = broker.config.servers.get(name), broker.why_not(name)
    if server is None and name not in broker.config.wrong:
        raise why
    return [_dead(name, "misconfigured" if server is None or server.enabled else "disabled", why, server)]


def worth_showing(upstream: Upstream) -> list[Place]:
    """Return the copies that run or have something to tell."""
    return [
        place
        for place in upstream.places.values()
        if not place.is_stopped or place.slot.outcomes or place.clients
    ]


def _unused(upstream: Upstream) -> dict[str, Any]:
    """Return the row of a server that nobody has used: its last copy's, or what its entry says."""
    last = next(reversed(upstream.places.values()), None)
    return of(last if last is not None else upstream.place_for(NOBODY))


def of(place: Place) -> dict[str, Any]:
    """Return the row of one server."""
    slot, server = place.slot, place.server
    row: dict[str, Any] = {
        "name": server.name,
        "state": slot.state.value,
        "transport": server.transport,
        "target": server.target,
        "scope": place.scope.kind,
    }
    if place.project is not None:
        row["project"] = place.project
    current, session = slot.current, slot.session
    if current is not None and current.pid is not None:
        row["pid"] = current.pid
    if session is not None:
        row["era"], row["revision"] = session.era, session.revision
    if (listing := place.catalog.known("tools")) is not None:
        row["tools"] = len(listing.items)
        held = [f"tool '{name[:100]}' is held back: its definition has changed; mcpd approvals" for name in listing.held]
        notes = [*held, *listing.set_aside, *([listing.incomplete] if listing.incomplete else [])]
        if (problem := place.catalog.problem("tools")) is not None:
            notes.insert(0, problem.message)
        if listing.held:
            row["held_back"] = len(listing.held)
        if notes:
            row["tools_problems"] = notes[:10]
    row |= {
        "clients": len(place.clients),
        "served": place.served,
        "calls": sum(slot.outcomes.values()),
        "in_flight": place.admission.running,
        "queued": place.admission.queued,
        "incarnation": slot.incarnations,
        "since": _wall(slot.since),
    }
    if place.catalog.counts:
        row["lists"] = dict(place.catalog.counts)
    if asking := len(place.routing.open) + len(place.asking):
        row["asking"] = asking
    if slot.outcomes:
        row["outcomes"] = dict(slot.outcomes)
    if dropped := dict(slot.dropped + (current.channel.counts if current is not None else slot.dropped.__class__())):
        row["dropped"] = dropped
    if slot.problem is not None:
        row["reason"] = slot.problem.message
        if row["state"] == "needs_auth":
            row["hint"] = slot.problem.hint or f"mcpd login {server.name}"
    if (left := slot.retry_after_seconds) is not None:
        row["retry_after_seconds"] = round(left, 2)
    return row


def _dead(name: str, state: str, why: McpdError, server: Server | None) -> dict[str, Any]:
    return {
        "name": name,
        "state": state,
        "transport": server.transport if server else "",
        "target": server.target if server else "",
        "scope": server.scope if server else "",
        "clients": 0,
        "served": 0,
        "calls": 0,
        "in_flight": 0,
        "incarnation": 0,
        "reason": why.message,
        **({"hint": why.hint} if why.hint else {}),
    }


# Open for life: when there are no descriptors left is when an administrator looks.
_statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def rss_bytes() -> int:
    """Return how much memory the daemon has."""
    return int(os.pread(_statm, 200, 0).split()[1]) * _PAGE_BYTES
