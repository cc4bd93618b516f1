"""A slot with its interests over one scripted server, and clients that keep what they hear."""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import Any

import trio

from mcpd.broker.asked import SUBSCRIPTION_ID, Outcome
from mcpd.broker.audience import Audience
from mcpd.broker.interests import Interests
from mcpd.broker.parties import Plain
from mcpd.protocol.jsonrpc import Message
from mcpd.upstream.incarnation import Incarnation
from mcpd.upstream.observer import Observer
from mcpd.upstream.supervisor import Slot
from tests.upstream.fakes import (
    DISCOVERED,
    INITIALIZED,
    LEGACY,
    MODERN,
    NEVER_SECONDS,
    FakeServer,
    Reaction,
    Script,
    World,
    server,
)

CAN_ALL = {
    "resources": {"subscribe": True, "listChanged": True},
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "logging": {},
}


def acknowledges(server: FakeServer, message: dict[str, Any]) -> None:
    """Acknowledge a listen as it is."""
    acknowledge(server, message, message["params"]["notifications"])


def acknowledge(server: FakeServer, message: dict[str, Any], notifications: object) -> None:
    params = {"notifications": notifications, "_meta": {SUBSCRIPTION_ID: message["id"]}}
    server.say({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params})


def legacy(capabilities: object = CAN_ALL, **reactions: Reaction) -> Script:
    """Return the script of a legacy server that agrees to everything; `_` stands for `/`."""
    agrees: dict[str, Reaction] = {"resources/subscribe": {}, "resources/unsubscribe": {}, "logging/setLevel": {}}
    initialize = {**INITIALIZED, "capabilities": capabilities}
    named = {name.replace("_", "/"): reaction for name, reaction in reactions.items()}
    return {**LEGACY, "initialize": initialize, **agrees, **named}


def modern(listen: Reaction = acknowledges, capabilities: object = CAN_ALL) -> Script:
    """Return the script of a modern server."""
    return {**MODERN, "server/discover": {**DISCOVERED, "capabilities": capabilities}, "subscriptions/listen": listen}


class Ear(Plain):
    """A client that keeps what it hears: (method, params)."""

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.bodies: list[bytes] = []
        self.heard: list[tuple[str, Any]] = []

    def notified(self, method: str, params: bytes) -> None:
        self.bodies.append(params)
        self.heard.append((method, json.loads(params)))

    @property
    def uris(self) -> list[str]:
        """The uris of the updates that it heard."""
        return [params["uri"] for method, params in self.heard if method == "notifications/resources/updated"]

    @property
    def messages(self) -> list[str]:
        """The data of the log messages that it heard."""
        return [params["data"] for method, params in self.heard if method == "notifications/message"]


class Hearing(Observer):
    """Lets interests know of each incarnation that is ready, and of what it says."""

    def __init__(self, interests: Interests, slot: Slot) -> None:
        self.interests, self.slot = interests, slot

    def on_ready(self, incarnation: Incarnation) -> None:
        self.interests.on_ready(incarnation)

    def on_notification(self, incarnation: Incarnation, message: Message) -> None:
        if incarnation is self.slot.current:
            self.interests.on_notification(message)


class Ears:
    """The interests of one slot and what is around them.

    Attributes:
        lists: the lists that the catalog was told have changed.
        audience: who hears of lists.
        sole: the only client with a request in flight that carries a level.
    """

    def __init__(self, world: World, *scripts: Script | Exception, **settings: Any) -> None:
        self.world, self.lists = world, list[str]()
        self.sole: Ear | None = None
        self.audience = Audience()
        world.scripts = list(scripts)
        self.slot = Slot(server(**settings), world.around)
        self.interests = Interests(
            self.slot,
            world.timers,
            world.mover,
            list_changed=self.lists.append,
            sole_requester=lambda: self.sole,
            hearers=lambda capability: self.audience.of("fake", capability),
        )
        self.slot.observer = Hearing(self.interests, self.slot)

    @property
    def server(self) -> FakeServer:
        """The server that runs now."""
        return self.world.servers[-1]

    @property
    def dropped(self) -> dict[str, int]:
        return dict(self.slot.dropped)

    def sent(self, method: str) -> list[dict[str, Any]]:
        """The requests and notifications of a method that the running server got."""
        return [one for one in self.server.messages if one.get("method") == method]

    @property
    def asked(self) -> list[str]:
        """What the running server was asked about uris: `+uri`, `-uri`."""
        signs = {"resources/subscribe": "+", "resources/unsubscribe": "-"}
        messages = self.server.messages
        return [signs[one["method"]] + one["params"]["uri"] for one in messages if one["method"] in signs]

    @property
    def listens(self) -> list[Any]:
        """The filters of all listens that the running server got, in order."""
        return [one["params"]["notifications"] for one in self.sent("subscriptions/listen")]

    @property
    def listen_ids(self) -> list[int]:
        return [one["id"] for one in self.sent("subscriptions/listen")]

    @property
    def cancelled(self) -> list[int]:
        return [one["params"]["requestId"] for one in self.sent("notifications/cancelled")]

    def notify(self, kind: str, listen: object = None, **params: Any) -> None:
        """Let the running server notify, on a listen if one is given."""
        if listen is not None:
            params["_meta"] = {SUBSCRIPTION_ID: listen, **params.get("_meta", {})}
        self.server.say({"jsonrpc": "2.0", "method": f"notifications/{kind}", "params": params})

    def updated(self, uri: str, listen: object = None) -> None:
        """Let the running server say that a resource has changed."""
        self.notify("resources/updated", listen, uri=uri)

    async def granted(self, outcome: Outcome) -> None:
        """Wait until a wish is granted."""
        with trio.fail_after(NEVER_SECONDS):
            await outcome.wait()

    async def subscribe(self, ear: Ear, *uris: str) -> None:
        """Subscribe and wait until the server has agreed."""
        for uri in uris:
            await self.interests.subscribed(ear, uri)

    async def restart(self) -> None:
        """Let the server die, and wait until the next one is ready."""
        before = len(self.world.servers)
        self.server.die()
        with trio.fail_after(NEVER_SECONDS):
            await trio.lowlevel.checkpoint()
            while len(self.world.servers) == before or self.slot.session is None:
                await trio.sleep(1)
                await self.slot.start()
