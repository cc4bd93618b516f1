"""The lists of one upstream on the shelf: what is put there, and what is made of it in the next daemon.

Lists are kept as the server gave them, and filtered when they are read. The revision goes on from where it
was; where the filter is another one, so is the list that is seen, and it gets a revision of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Protocol

import msgspec
import trio

from mcpd.config.expand import Launch
from mcpd.config.model import Server
from mcpd.errors import McpdError

from .listing import Listing
from .policy import Policy
from .shelf import Shelved


class Shelf(Protocol):
    """Where lists outlive the daemon."""

    async def get(self, identity: str, kind: str) -> Shelved | None:
        """Return a list."""

    def put(self, identity: str, kind: str, shelved: Shelved) -> None:
        """Keep a list."""


class Keeping:
    """One upstream's part of the shelf.

    Args:
        policy: filters what is read.
        shelf: where lists are kept, if anywhere.
        identity: names all that the lists may depend on, the credential included; None for nothing that
            may be kept.
    """

    def __init__(self, policy: Policy, shelf: Shelf | None, identity: Callable[[], str | None]) -> None:
        self._policy, self._shelf, self._identity = policy, shelf, identity
        self._recalled: set[str] = set()
        self._recalling = trio.Lock()

    async def recall(self, kind: str) -> Listing | None:
        """Return what an earlier daemon has left, to the first who asks; of no incarnation, and never fresh."""
        if self._shelf is None or kind in self._recalled or (identity := self._identity()) is None:
            return None
        async with self._recalling:
            if kind in self._recalled:
                return None
            shelved = await self._shelf.get(identity, kind)
            self._recalled.add(kind)
        return None if shelved is None else self._read(kind, shelved)

    def _read(self, kind: str, shelved: Shelved) -> Listing:
        items = self._policy.seen(kind, shelved.items)
        found = Listing(
            items=items, names=dict(items), whole=shelved.items, set_aside=shelved.set_aside, revision=shelved.revision
        )
        if shelved.policy != self._policy.globs(kind):
            found.revision += 1
            self.keep(kind, found)
        return found

    def keep(self, kind: str, found: Listing) -> None:
        """Put a whole list on the shelf."""
        if self._shelf is None or (identity := self._identity()) is None:
            return
        shelved = Shelved(
            revision=found.revision, items=found.whole, set_aside=found.set_aside, policy=self._policy.globs(kind)
        )
        self._shelf.put(identity, kind, shelved)


def identity_of(server: Server, expand: Callable[[], Launch], project: str | None = None) -> str | None:
    """Return the digest of all that makes a server list what it lists; None if it cannot be started now.

    `project`: the folder that it is told of as its root, wherever it is started.
    """
    try:
        launch = expand()
    except McpdError:
        return None
    # Of what every child gets, nothing makes another server; what the entry itself sets does.
    declared = {name: launch.env.get(name, "") for name in (*server.env, *server.env_pass)}
    reached = [launch.url, sorted(launch.headers.items()), launch.helper]
    parts = [server.name, launch.argv, launch.cwd, sorted(declared.items()), reached, project]
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()
