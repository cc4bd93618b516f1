"""What the clients of one slot want to hear, and who is told of what its server notifies.

Nothing here queues: a notification is passed on in the moment in which it comes, to clients that may miss
it. What has to be agreed with the server is asked of the incarnation that is ready and anew of the next
one; it is no use of the server that would keep it from resting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Protocol

import msgspec
import trio
from msgspec import Raw

from mcpd.config.model import Server
from mcpd.errors import CallTimeout, ServerProtocol
from mcpd.mover import Mover
from mcpd.protocol import rawjson, splicing
from mcpd.protocol.jsonrpc import ABSENT, Message
from mcpd.protocol.session import Session
from mcpd.timers import Timers

from .asked import SUBSCRIPTION_ID, Client, Outcome, Run
from .levels import MESSAGE, Levels
from .list_changes import LIST_CHANGED, ListChanges
from .listening import Listen, Listening
from .subscriptions import UPDATED, Subscriptions

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
CANCELLED = "notifications/cancelled"


class Slot(Protocol):
    """An upstream, as its interests see it."""

    server: Server
    dropped: Counter[str]

    async def ready(self) -> Session:
        """Wait until it is ready, starting it; raises McpdError."""

    def wake(self) -> None:
        """Let a task run that was woken in a batch."""


class _Head(msgspec.Struct, gc=False):
    """The members of a notification's `params` that are looked at; absent ones are empty."""

    uri: Raw = ABSENT
    level: Raw = ABSENT
    request_id: Raw = msgspec.field(name="requestId", default=ABSENT)
    notifications: Raw = ABSENT
    meta: Raw = msgspec.field(name="_meta", default=ABSENT)


_HEAD = msgspec.json.Decoder(_Head)


class Interests:
    """The interests in one slot.

    Args:
        slot: the upstream.
        timers: for limits and pauses.
        mover: for what is said outside of a reader.
        list_changed: the catalog, told that the server has changed its "tools", "prompts" or "resources"
            (which means the templates, too).
        sole_requester: returns the only client with a request in flight that carries a log level, if
            there is exactly one.
        hearers: returns who is to hear that the "tools", "prompts" or "resources" have changed.
    """

    def __init__(
        self,
        slot: Slot,
        timers: Timers,
        mover: Mover,
        *,
        list_changed: Callable[[str], None],
        sole_requester: Callable[[], Client | None],
        hearers: Callable[[str], Iterable[Client]],
    ) -> None:
        server, counts = slot.server, slot.dropped
        self._slot, self._mover, self._counts = slot, mover, counts
        self._session: Session | None = None
        self._lists = ListChanges(server, timers, counts, list_changed, hearers)
        self._resources = Subscriptions(server, timers, counts, slot.wake)
        self._levels = levels = Levels(server, timers, counts, slot.wake, sole_requester)

        self.leveled: Mapping[Hashable, object] = levels.clients

    # -- what clients want -----------------------------------------------------------------------

    @property
    def wanted(self) -> bool:
        """Whether a client has subscribed to a resource, which only a running server can tell of."""
        return bool(self._resources)

    def subscribe(self, client: Client, uri: str) -> Outcome:
        """Let a client hear of a resource; the outcome is known when the server has agreed.

        A server that is not running is not started for it; `subscribed` does that.

        Raises:
            BadRequest: The server offers no subscriptions, or the uri is none.
            Overloaded: The client has too many.
        """
        return self._resources.subscribe(client, uri)

    async def subscribed(self, client: Client, uri: str) -> None:
        """Subscribe, starting the upstream if it has to be, and return when the server has agreed.

        Raises:
            McpdError: It offers no subscriptions, it refused, it could not be started, it did not answer.
        """
        await self._slot.ready()
        await trio.lowlevel.checkpoint_if_cancelled()  # from here on a wish that is given up has to be taken back
        server, found = self._slot.server, list[Outcome]()
        self._mover.batch(lambda: found.append(self.subscribe(client, uri)))
        seconds = server.timeout.call_seconds
        try:
            with trio.move_on_after(seconds) as limit:
                await found[0].wait()
        finally:
            if not found[0].known:
                self._mover.batch(lambda: self._resources.withdraw(client.key, uri, found[0]))
        if limit.cancelled_caught:
            why = f"server '{server.name}' did not agree to a subscription within {seconds:g} s"
            raise CallTimeout(why, server=server.name)

    def unsubscribe(self, client: Client, uri: str) -> None:
        """Let a client hear of a resource no more. Idempotent."""
        self._resources.unsubscribe(client.key, uri)

    def leave(self, key: Hashable) -> list[str]:
        """Forget the subscriptions of a client that goes to another copy, and return what it takes along."""
        uris = self._resources.of(key)
        self._resources.forget(key)
        return uris

    def take_over(self, client: Client, uris: list[str]) -> None:
        """Let a client hear of resources that it heard of from another copy, as soon as this one runs."""
        self._resources.take_over(client, uris)

    def level(self, client: Client, level: str | None) -> None:
        """Let a client hear log messages of this level and above, or none.

        Raises:
            BadRequest: There is no such level.
        """
        self._levels.level(client, level)

    async def level_agreed(self) -> None:
        """Wait until the server has been told from which level on it is to log."""
        await self._levels.agreed()

    def level_of(self, key: Hashable) -> str | None:
        """Return the level that a client's requests to a modern server are to carry."""
        return self._levels.level_of(key)

    def forget(self, key: Hashable) -> None:
        """Forget a client that has left."""
        self._resources.forget(key)
        self._levels.forget(key)

    # -- what the catalog wants ------------------------------------------------------------------

    def hear_lists(self, kinds: Iterable[str]) -> None:
        """Listen for changes of these lists from now on. Idempotent."""
        self._lists.hear(kinds)

    def hears_changes(self, kind: str) -> bool:
        """Whether the server tells of changes of a list now; else it has to be fetched now and then."""
        return self._lists.hears(kind)

    def changed(self, kind: str, revision: int) -> None:
        """Tell the clients that have asked for a list that there is a new one."""
        self._mover.batch(lambda: self._lists.changed(kind, revision))

    # -- what the upstream tells -----------------------------------------------------------------

    def on_ready(self, one: Run) -> None:
        """Agree with a new incarnation on what is wanted."""
        self._session = one.session
        self._lists.begin(one)
        self._resources.begin(one)
        self._levels.begin(one)

    def on_notification(self, message: Message) -> bool:
        """Pass on what the server notifies; what nobody may hear is counted and dropped.

        Returns:
            Whether it was a notification for those who are interested; others are left alone.
        """
        method = message.method or ""
        if method not in _OURS:
            return False
        try:
            return self._route(method, message.params or Raw(b"{}"))
        except ServerProtocol:
            self._counts["malformed_notification"] += 1
            return True

    def _route(self, method: str, params: Raw) -> bool:
        head = rawjson.decode(_HEAD, params, "the notification", "an object")
        if method == CANCELLED:
            listening, listen = self._find(head.request_id)
            if listening is not None and listen is not None:
                listening.ended(listen)
            return listen is not None
        if method == MESSAGE:
            self._levels.message(rawjson.string(head.level), params)
        elif self._session is not None and self._session.modern:
            self._listened(method, head, params)
        elif method == UPDATED:
            self._resources.updated(rawjson.string(head.uri) or "", params, None)
        elif method in LIST_CHANGED:
            self._lists.notified(LIST_CHANGED[method], params, None)
        return True

    def _listened(self, method: str, head: _Head, params: Raw) -> None:
        """Take what belongs to an open listen, and to no other."""
        listening, listen = self._find(splicing.meta_members(head.meta).get(SUBSCRIPTION_ID, ABSENT))
        if listening is None or listen is None:
            self._counts["foreign_subscription"] += 1
        elif method == ACKNOWLEDGED:
            listening.acknowledged(listen, head.notifications)
        elif method == UPDATED and listening is self._resources.listening:
            self._resources.updated(rawjson.string(head.uri) or "", params, listen)
        elif LIST_CHANGED.get(method) in listen.wanted and listening is self._lists.listening:
            self._lists.notified(LIST_CHANGED[method], params, listen)
        else:
            self._counts["foreign_subscription"] += 1  # not what that one listens for

    def _find(self, subscription: Raw) -> tuple[Listening | None, Listen | None]:
        found = bytes(subscription)
        if found[:1] == b'"' and found[1:-1].isdigit():
            found = found[1:-1]  # some servers turn a number into a string
        for listening in (self._lists.listening, self._resources.listening):
            if (listen := listening.find(found)) is not None:
                return listening, listen
        return None, None


_OURS = {MESSAGE, UPDATED, ACKNOWLEDGED, CANCELLED, *LIST_CHANGED}
