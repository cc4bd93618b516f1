"""How one copy of an upstream presents itself: what it has agreed to last, kept for when it does not run.

A host asks for that first, and must not wait for a start to be told what was true a minute ago.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import trio
from msgspec import Raw

from mcpd.protocol.session import Session

from .keeping import Shelf
from .shelf import Shelved

KIND = "session"


class Presenting:
    """The last agreement with a server.

    Args:
        shelf: where it outlives the daemon, if anywhere.
        identity: names all that it may depend on, the credential included; None for nothing that may be kept.
    """

    def __init__(self, shelf: Shelf | None, identity: Callable[[], str | None]) -> None:
        self._shelf, self._identity = shelf, identity
        self._known: Session | None = None
        self._kept = b""
        self._looked = False

    @property
    def known(self) -> Session | None:
        """What is at hand without a look at the disk."""
        return self._known

    async def get(self) -> Session | None:
        """Return the last agreement, of this run of the daemon or an earlier one."""
        await trio.lowlevel.checkpoint()
        if self._known is None and not self._looked and self._shelf is not None:
            if (identity := self._identity()) is None:
                return None
            shelved = await self._shelf.get(identity, KIND)
            self._looked = True
            if self._known is None and shelved is not None:
                self._known = _read(shelved)
        return self._known

    def put(self, session: Session) -> None:
        """Keep an agreement."""
        self._known = session
        kept = msgspec.json.encode(msgspec.structs.replace(session, incarnation=0))
        if self._shelf is None or kept == self._kept or (identity := self._identity()) is None:
            return
        self._kept = kept
        self._shelf.put(identity, KIND, Shelved(revision=1, items=[(KIND, Raw(kept))]))


def _read(shelved: Shelved) -> Session | None:
    try:
        return msgspec.json.decode(shelved.items[0][1], type=Session)
    except (IndexError, msgspec.MsgspecError, RecursionError):
        return None
