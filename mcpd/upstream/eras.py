"""Which servers are silent, or leave, when they are asked whether they are modern: kept on disk.

Only such a costly answer is worth remembering; all others come at once. A memory that cannot be
written costs a slower start, nothing else.
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
    """A small JSON file: digest of the entry -> era."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._known: dict[str, str] = {}
        with contextlib.suppress(OSError, msgspec.MsgspecError), open(path, "rb") as file:
            self._known = msgspec.json.decode(file.read(1 << 20), type=dict[str, str])

    def get(self, server: Server) -> str | None:
        """Return `legacy` if that is known, else None."""
        return self._known.get(_digest(server))

    def put(self, server: Server, era: str | None) -> None:
        """Remember an era, or forget it."""
        key = _digest(server)
        if self._known.get(key) == era:
            return
        self._known.pop(key, None)
        if era is not None:
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
    parts = msgspec.json.encode([server.command, server.args, server.url, server.cwd, sorted(server.env)])
    return hashlib.sha256(parts).hexdigest()[:32]


class Memory(Protocol):
    """Where eras are remembered."""

    def put(self, server: Server, era: str | None) -> None:
        """Remember, or forget."""


def remember(eras: Memory, server: Server, era: str, *, costly: bool) -> None:
    """Remember what it cost to find out; forget what was true once."""
    if era == "modern":
        eras.put(server, None)
    elif costly:
        eras.put(server, "legacy")
