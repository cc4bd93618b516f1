"""Which lists somebody wants to hear changes of: the catalog, and clients that have asked for them.

Resources and templates are two lists with one notification.

Spec: list_changed of 2024-11-05 … 2025-11-25; 2026-07-28 basic/patterns/subscriptions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import msgspec
from msgspec import Raw

from mcpd.config.model import Server
from mcpd.errors import McpdError
from mcpd.protocol.session import Session
from mcpd.timers import Timer, Timers

from .asked import Client, Run
from .audience import notice
from .listening import Listen, Listening

# Our word for a list -> the kind that the protocol tells of.
KINDS = {"tools": "tools", "prompts": "prompts", "resources": "resources", "templates": "resources"}
# The notification -> that kind.
LIST_CHANGED = {f"notifications/{kind}/list_changed": kind for kind in ("tools", "prompts", "resources")}
# Resources and templates that have changed together are told together.
TOGETHER_SECONDS = 0.05


class ListChanges:
    """The lists of one slot; the host of their listen.

    Args:
        server: whose.
        timers: for pauses.
        counts: where refusals are counted.
        list_changed: told of each change that the server notifies: tools, prompts, or resources (which
            means the templates, too).
        hearers: returns the clients that are to hear of a change of one of those.
    """

    def __init__(
        self,
        server: Server,
        timers: Timers,
        counts: Counter[str],
        list_changed: Callable[[str], None],
        hearers: Callable[[str], Iterable[Client]],
    ) -> None:
        self._server, self._timers, self._list_changed, self._hearers = server, timers, list_changed, hearers
        self._cared = set[str]()
        self._session: Session | None = None
        self._told: dict[str, int] = {}
        self._together: Timer | None = None
        self._revision = 0
        self.listening = Listening(timers, counts, self, across=False)

    # -- what is wanted --------------------------------------------------------------------------

    def hear(self, kinds: Iterable[str]) -> None:
        """Listen for changes of these lists from now on."""
        cared = self._cared | {KINDS[kind] for kind in kinds}
        if cared != self._cared:
            self._cared = cared
            self.listening.look()

    def hears(self, kind: str) -> bool:
        """Whether the server tells of changes of a list now."""
        session = self._session
        if session is None:
            return False
        if session.modern:
            return KINDS[kind] in self.listening.heard
        return session.declares(KINDS[kind], "listChanged")

    def begin(self, one: Run | None) -> None:
        """Go on with an incarnation that is ready."""
        self._session = session = one.session if one is not None else None
        self.listening.begin(one if session is not None and session.modern else None)

    def wanted(self) -> frozenset[str]:
        """Return the lists to listen for: those that the server says it tells of."""
        session = self._session
        if session is None:
            return frozenset()
        return frozenset(kind for kind in self._cared if session.declares(kind, "listChanged"))

    def filter(self, keys: frozenset[str]) -> object:
        """Return what to listen for."""
        return {f"{kind}ListChanged": True for kind in sorted(keys)}

    def honoured(self, acknowledged: Raw) -> frozenset[str]:
        """Return what the server tells of."""
        try:
            members = msgspec.json.decode(acknowledged, type=dict[str, Raw])
        except (msgspec.MsgspecError, RecursionError):
            return frozenset()
        return frozenset(
            kind for kind in self._cared if bytes(members.get(f"{kind}ListChanged", Raw(b"false"))) == b"true"
        )

    def agreed(self, keys: frozenset[str]) -> None:
        """Nobody waits for that."""

    def refused(self, keys: frozenset[str], problem: McpdError | None) -> None:
        """Nor for that: `hears` says it."""

    # -- what the server tells -------------------------------------------------------------------

    def notified(self, kind: str, params: Raw, listen: Listen | None) -> None:
        """Take a change from the server; from a legacy one also if it did not say that it tells."""
        if listen is None or self.listening.brings(listen, kind, params):
            self._list_changed(kind)

    def tell(self, key: str, params: bytes | None) -> None:
        """Tell of a change that has waited."""
        self._list_changed(key)

    def missed(self, keys: frozenset[str]) -> None:
        """These may have changed."""
        for kind in keys:
            self._list_changed(kind)

    # -- what clients hear -----------------------------------------------------------------------

    def changed(self, kind: str, revision: int) -> None:
        """Tell those who have asked for a list that there is a new one."""
        if self._told.get(kind) == revision:
            return
        self._told[kind] = revision  # each list counts its own
        if KINDS[kind] != "resources":
            self._send(KINDS[kind], revision)
            return
        self._revision = max(self._revision, revision)
        if self._together is None:
            self._together = self._timers.after(TOGETHER_SECONDS, self._send_together)

    def _send_together(self) -> None:
        self._together = None
        self._send("resources", self._revision)

    def _send(self, kind: str, revision: int) -> None:
        method, params = notice(self._server.name, kind, revision)
        for client in self._hearers(kind):
            client.notified(method, params)
