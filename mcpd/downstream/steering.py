"""Starting, stopping and restarting a server for whoever asks: all its copies stop, his own starts."""

from __future__ import annotations

import trio

from mcpd.broker.broker import Broker
from mcpd.broker.parties import Guest
from mcpd.broker.place import Place
from mcpd.broker.upstream import Upstream
from mcpd.errors import McpdError


class Steering:
    """Moves servers. Every method raises UnknownServer, Denied or Misconfigured where there is no such server."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def start(self, name: str, guest: Guest) -> Place:
        """Start the copy that is a client's, whatever has failed before; return it when it is ready.

        Other copies that wait for a sign-in may start again, too.

        Raises:
            McpdError: It could not be started.
        """

        async def start(place: Place) -> Place:
            await place.slot.start()
            return place

        place = self._broker.resolve(name, guest.seeker)
        place.meet(guest)
        for other in self._broker.upstream(name).places.values():
            if other is not place:
                other.slot.let_in()  # a sign-in is one for all copies
        problem: McpdError | None = None
        try:
            await place.slot.start()
        except McpdError as one:
            problem = one
        await trio.lowlevel.checkpoint_if_cancelled()  # who has left meanwhile gets no other copy
        if problem is not None and self._broker.resolve(name, guest.seeker) is place:
            raise problem
        return await self._broker.at(name, guest, start)

    async def stop(self, name: str) -> tuple[Place, int]:
        """Stop all copies; return one to show, and how many they were."""
        upstream = self._broker.upstream(name)
        copies = sum(not place.is_stopped for place in upstream.places.values())
        await self._stop_all(upstream)
        return upstream.main(), copies

    async def restart(self, name: str, guest: Guest) -> Place:
        """Stop all copies, then start those that ran and the client's own; return that when it is ready.

        Raises:
            McpdError: One could not be started.
        """
        upstream = self._broker.upstream(name)
        self._broker.resolve(name, guest.seeker).meet(guest)
        running = [place for place in upstream.places.values() if not place.is_stopped]
        await self._stop_all(upstream)
        async with trio.open_nursery() as nursery:
            for place in running:
                if upstream.settled(place):
                    nursery.start_soon(place.slot.start)
        return await self.start(name, guest)

    async def _stop_all(self, upstream: Upstream) -> None:
        self._broker.refuse_held(upstream.server.name)
        async with trio.open_nursery() as nursery:
            for place in list(upstream.places.values()):
                nursery.start_soon(place.slot.stop)
