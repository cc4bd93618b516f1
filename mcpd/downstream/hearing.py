"""What an MCP client hears without asking each time: changes of lists and resources, and the log.

A legacy client hears of lists from `notifications/initialized` on and of resources that it has subscribed
to; a modern one hears what its open listens ask for, marked with the id of the listen.

Spec: 2024-11-05 … 2025-11-25 "Subscriptions", "List Changed Notification"; 2026-07-28
basic/patterns/subscriptions.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import trio
from msgspec import Raw

from mcpd.broker.asked import SUBSCRIPTION_ID
from mcpd.broker.asking import SERVER_KEY
from mcpd.broker.interests import ACKNOWLEDGED
from mcpd.broker.subscriptions import MAX_URIS, UPDATED
from mcpd.broker.visits import COMPLETE
from mcpd.errors import BadRequest, McpdError
from mcpd.protocol import rawjson
from mcpd.protocol.jsonrpc import ABSENT

from .shown import Route

if TYPE_CHECKING:
    from mcpd.broker.broker import Broker
    from mcpd.broker.place import Place

    from .face import Face

LISTS = {
    "toolsListChanged": "tools",
    "promptsListChanged": "prompts",
    "resourcesListChanged": "resources",
}
_CHANGED = {f"notifications/{capability}/list_changed": capability for capability in LISTS.values()}
VISITS_FROM = "2025-11-25"


class Filter(msgspec.Struct):
    """`notifications` of a subscriptions/listen; what is malformed is not wanted."""

    toolsListChanged: Raw = ABSENT
    promptsListChanged: Raw = ABSENT
    resourcesListChanged: Raw = ABSENT
    resourceSubscriptions: Raw = ABSENT


@dataclass
class Listen:
    """What one open listen is told: capabilities whose lists it hears of, and uris as it has written them."""

    lists: set[str] = field(default_factory=set)
    uris: dict[str, Route] = field(default_factory=dict)


class _Subscribing:
    """One resources/subscribe under way; it is over when `scope` is cancelled, and then nothing is subscribed."""

    def __init__(self, uri: str) -> None:
        self.uri, self.scope = uri, trio.CancelScope()


class Hearing:
    """What one client hears."""

    def __init__(self, face: Face, broker: Broker, *, resumed: bool) -> None:
        self._face, self._broker, self._resumed = face, broker, resumed
        self._initialized = False
        self._offered = frozenset[str]()
        self._listens: dict[bytes, Listen] = {}
        self._subscribed: dict[str, Route] = {}
        self._under_way = weakref.WeakSet[_Subscribing]()
        # How many listens and subscriptions want each, those included that are still being agreed on.
        self._claims = Counter[Route]()

    def close(self) -> None:
        """Take back all that is wanted: the client goes on in another way, or not at all. Idempotent."""
        for one in self._under_way:
            self._give_up(one)
        self._want_no_more([route for route, count in self._claims.items() for _ in range(count)])

    # -- a legacy client -------------------------------------------------------------------------

    def opened(self) -> None:
        """A legacy session begins; what an earlier one has subscribed to goes on."""
        self._initialized, self._offered = False, frozenset()

    def presented(self, capabilities: Iterable[str]) -> None:
        """The client is told what there is."""
        self._offered = frozenset(capabilities)
        self._catch_up()

    def initialized(self) -> None:
        """The client is ready to hear."""
        if not self._initialized:
            self._initialized = True
            self._catch_up()

    def _catch_up(self) -> None:
        """Tell one that has lost an earlier daemon that all may have changed, once it knows what there is."""
        if self._initialized and self._resumed:
            for method, capability in _CHANGED.items():
                if capability in self._offered:
                    self._face.connection.hear(method, b"{}")

    def subscribing(self, uri: str) -> Callable[[], Awaitable[object]]:
        """Return what lets the client hear of a resource, unless it wants no more before that is agreed on.

        That raises McpdError if the server offers no subscriptions, has refused, or cannot be had.
        """
        one = _Subscribing(uri)
        self._under_way.add(one)

        async def work() -> object:
            with one.scope:
                route = await self._want(uri)
                if one.scope.cancel_called:  # just when the server had agreed
                    self._want_no_more([route])
                    return {}
                before, self._subscribed[uri] = self._subscribed.get(uri), route
                if before is not None:
                    self._want_no_more([before])
                if self._resumed:
                    self._face.connection.hear(UPDATED, msgspec.json.encode({"uri": uri}))
            return {}

        return work

    def unsubscribe(self, uri: str) -> None:
        """Let it hear of it no more, whatever has become of its wish so far."""
        for one in self._under_way:
            if one.uri == uri:
                self._give_up(one)
        if (route := self._subscribed.pop(uri, None)) is not None:
            self._want_no_more([route])

    def _give_up(self, one: _Subscribing) -> None:
        self._face.connection.wake()
        one.scope.cancel()

    # -- a modern client -------------------------------------------------------------------------

    async def listen(self, request_id: bytes, wanted: Filter, capabilities: Iterable[str]) -> None:
        """Acknowledge a listen and stay with it until it is cancelled.

        Raises:
            BadRequest: It wants too much.
        """
        uris = _uris(wanted.resourceSubscriptions)
        if len(uris) > MAX_URIS:
            raise BadRequest(f"resourceSubscriptions has {len(uris)} resources, and must not have more than {MAX_URIS}")
        listen, offered = Listen(), set(capabilities)
        for name, capability in LISTS.items():
            if bytes(getattr(wanted, name)) == b"true" and capability in offered:
                listen.lists.add(capability)
        try:
            for uri in uris:
                try:
                    listen.uris[uri] = await self._want(uri)
                except McpdError:
                    continue  # the client sees that it is not among what is acknowledged
            self._acknowledge(request_id, listen, wanted)
            await trio.sleep_forever()
        finally:
            if self._listens.get(request_id) is listen:  # its id may be that of another one by now
                del self._listens[request_id]
            self._want_no_more(listen.uris.values())

    def _acknowledge(self, request_id: bytes, listen: Listen, wanted: Filter) -> None:
        honoured: dict[str, object] = {name: True for name, capability in LISTS.items() if capability in listen.lists}
        if wanted.resourceSubscriptions:
            honoured["resourceSubscriptions"] = sorted(listen.uris)
        self._tell(request_id, ACKNOWLEDGED, {"notifications": honoured})
        self._listens[request_id] = listen
        if self._resumed:
            for capability in listen.lists:
                self._tell(request_id, f"notifications/{capability}/list_changed", {})
            for uri in listen.uris:
                self._tell(request_id, UPDATED, {"uri": uri})

    def _tell(self, listen_id: bytes, method: str, members: dict[str, object]) -> None:
        """Send what belongs to one listen; tasks call this, too."""
        body = msgspec.json.encode({**members, "_meta": {SUBSCRIPTION_ID: Raw(listen_id)}})
        self._face.batch(lambda: self._face.connection.hear(method, body))

    # -- agreeing with servers -------------------------------------------------------------------

    async def _want(self, uri: str) -> Route:
        face, connection = self._face, self._face.connection
        route = face.source.find("resources", uri, connection) or await face.source.look("resources", uri, connection)
        if not isinstance(route, Route):
            raise BadRequest("changes of this resource are not told")

        async def subscribed(place: Place) -> None:
            await place.interests.subscribed(connection, route.name)

        self._claims[route] += 1
        agreed = False
        try:
            await self._broker.at(route.server, connection, subscribed)
            agreed = True
        finally:
            if not agreed:
                self._want_no_more([route])
        return route

    def _want_no_more(self, routes: Iterable[Route]) -> None:
        """Take back a claim on each of these; what nobody wants any more the servers need not tell."""
        connection = self._face.connection
        for route in routes:
            if not self._claims[route]:
                del self._claims[route]  # all were taken back before
                continue
            self._claims[route] -= 1
            if self._claims[route]:
                continue
            del self._claims[route]
            # Of who has left nothing is noted any more, and a look at his copy would make one.
            if route.server in self._broker.upstreams and not connection.closed:
                interests = self._broker.resolve(route.server, connection.seeker).interests
                self._face.batch(partial(interests.unsubscribe, connection, route.name))

    # -- what comes ------------------------------------------------------------------------------

    def notified(self, method: str, params: bytes) -> None:
        """Pass on what a server, or the daemon, has to tell, to whom it concerns."""
        if method == UPDATED:
            self._updated(params)
        elif (capability := _CHANGED.get(method)) is not None:
            if self._initialized:
                self._face.connection.hear(method, params)
            for listen_id, listen in self._listens.items():
                if capability in listen.lists:
                    self._face.connection.hear(method, _marked(params, listen_id))
        elif method == COMPLETE:
            if (self._face.revision or "") >= VISITS_FROM:
                self._face.connection.hear(method, params)
        else:
            self._face.connection.hear(method, params)

    def _updated(self, params: bytes) -> None:
        """Tell of a resource under the uris that it was asked for by."""
        members = rawjson.members(Raw(params), "the notification")
        meta = rawjson.members(members["_meta"], "`_meta`") if "_meta" in members else {}
        route = Route(rawjson.string(meta.get(SERVER_KEY, ABSENT)) or "", rawjson.string(members.get("uri", ABSENT)) or "")
        for uri in _names_of(route, self._subscribed):
            self._face.connection.hear(UPDATED, _renamed(members, uri))
        for listen_id, listen in self._listens.items():
            for uri in _names_of(route, listen.uris):
                self._face.connection.hear(UPDATED, _marked(_renamed(members, uri), listen_id))


def _names_of(route: Route, uris: Mapping[str, Route]) -> list[str]:
    return [uri for uri, one in uris.items() if one == route]


def _renamed(members: Mapping[str, Raw], uri: str) -> bytes:
    return msgspec.json.encode({**members, "uri": uri})


def _marked(params: bytes, listen_id: bytes) -> bytes:
    members = rawjson.members(Raw(params), "the notification")
    meta = rawjson.members(members["_meta"], "`_meta`") if "_meta" in members else {}
    members["_meta"] = Raw(msgspec.json.encode(meta | {SUBSCRIPTION_ID: Raw(listen_id)}))
    return msgspec.json.encode(members)


def _uris(raw: Raw) -> list[str]:
    try:
        return list(dict.fromkeys(msgspec.json.decode(raw, type=list[str]))) if raw else []
    except (msgspec.MsgspecError, RecursionError):
        return []
