"""What each server turned out to speak: kept on disk.

Who shares a server depends on its era, so that the next daemon knows before it starts one. Only where
the question itself is costly (silence, an exit) is it not asked again. A memory that cannot be written
costs a slower start, nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import Protocol

import msgspec

from mcpd.config.model import Server

MAX_ENTRIES = 1000


class EraFile:
    """A small JSON file: digest of the entry -> `modern`, `legacy`, or `silent` (legacy, and costly to ask)."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._known: dict[str, str] = {}
        with contextlib.suppress(OSError, msgspec.MsgspecError), open(path, "rb") as file:
            self._known = msgspec.json.decode(file.read(1 << 20), type=dict[str, str])

    def get(self, server: Server) -> str | None:
        """Return what is known."""
        return self._known.get(_digest(server))

    def put(self, server: Server, era: str) -> None:
        """Remember what it is."""
        key = _digest(server)
        if self._known.get(key) == era:
            return
        self._known.pop(key, None)
        self._known[key] = era
        while len(self._known) > MAX_ENTRIES:
            del self._known[next(iter(self._known))]
        with contextlib.suppress(OSError):
            self._write()

    def _write(self) -> None:
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        temporary = f"{self._path}.{os.getpid()}"
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(msgspec.json.encode(self._known))
        os.replace(temporary, self._path)


def _digest(server: Server) -> str:
    """Name an entry by what is started; values of its environment stay out of it."""
    facts = [server.command, server.args, server.url, server.cwd, sorted(server.env), server.protocol]
    parts = msgspec.json.encode(facts)
    return hashlib.sha256(parts).hexdigest()[:32]


class Memory(Protocol):
    """Where eras are remembered."""

    def get(self, server: Server) -> str | None:
        """Return `modern`, `legacy`, `silent`, or None."""

    def put(self, server: Server, era: str) -> None:
        """Remember."""


def remember(eras: Memory, server: Server, era: str, *, costly: bool) -> None:
    """Remember what a server speaks, and whether it was costly to find out."""
    if era == "legacy" and (costly or eras.get(server) == "silent"):
        era = "silent"
    eras.put(server, era)


def known_era(eras: Memory, server: Server) -> str | None:
    """Return what a server spoke last time: `modern`, `legacy` or None."""
    known = eras.get(server)
    return "legacy" if known == "silent" else known


def unasked_era(eras: Memory, server: Server) -> str | None:
    """Return `legacy` where asking again would be costly, else None."""
    return "legacy" if eras.get(server) == "silent" else None
