"""Reaches remote servers: their transport, and what they are shown of who asks.

Many have no remote server at all: what it takes is loaded with the first one.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import trio

from mcpd.config.expand import Launch
from mcpd.config.model import Server

from .around import Listener, Surroundings, Transport, declared
from .guard import Guard

if TYPE_CHECKING:
    from .credentials import Keyring


class Remotes:
    """The way to all remote servers of a daemon.

    Args:
        folder: of the credentials.
        guard: starts the commands that print headers.
        nursery: where tokens are renewed; it ends last.
    """

    def __init__(self, folder: str, guard: Guard, nursery: trio.Nursery) -> None:
        self._folder, self._guard, self._nursery = folder, guard, nursery
        self._keyring: Keyring | None = None

    async def connect(self, around: Surroundings, owner: Listener, launch: Launch, server: Server) -> Transport:
        """Open the transport to a server; see `Connect`."""
        from .http import open_http

        if self._keyring is None:
            self._keyring = self._load()
        return await open_http(self._keyring.credentials_of, around, owner, launch, server)

    def secrets(self, launch: Launch) -> frozenset[str]:
        """Return what must not be seen of an entry and of what its server is shown."""
        return declared(launch) if self._keyring is None or launch.url is None else self._keyring.secrets_of(launch)

    def close(self) -> None:
        """Let tokens that are being renewed be renewed, if that takes no longer than a stop."""
        if self._keyring is not None:
            self._keyring.close()

    def _load(self) -> Keyring:
        from .credentials import Keyring
        from .helper import run_helper
        from .vault import Vault

        async def run(launch: Launch) -> dict[str, str]:
            return await run_helper(self._guard, launch)

        return Keyring(Vault(self._folder), run, time.time, self._nursery)
