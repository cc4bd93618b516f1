"""Who may send now: places per upstream and per client, first come first served, nobody starved; pure.

Every client gets at most its share of an upstream's places. What is over waits in a queue per client,
and a place that becomes free goes to the next client in turn. An exclusive item has a lane of its own:
it waits until no other client's run, and while it runs no other client's may go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")

PER_CLIENT = 16
# Behind these stands a client that does not wait for its answers.
QUEUED_PER_CLIENT = 256


class Admission(Generic[T]):
    """The places of one upstream.

    Attributes:
        running: how many places are taken.
        queued: how many wait.
    """

    def __init__(
        self,
        places: int,
        per_client: int = PER_CLIENT,
        queued_per_client: int = QUEUED_PER_CLIENT,
        paused: Collection[Hashable] = (),
    ) -> None:
        """Take the limits; `paused` are the clients that get no place for now, which may change at any time."""
        self._paused = paused
        self._places, self._per_client, self._queued_per_client = places, per_client, queued_per_client
        self.running = 0
        self.queued = 0
        self._taken: dict[Hashable, int] = {}
        self._queues: dict[Hashable, deque[T]] = {}
        self._turn: deque[Hashable] = deque()
        self._exclusive: dict[T, Hashable] = {}  # of those that wait, and whose they are
        self._lane: Hashable = None
        self._in_lane = 0

    @property
    def lane(self) -> Hashable:
        """The client whose exclusive item runs; None while there is none."""
        return self._lane if self._in_lane else None

    def admit(self, client: Hashable, item: T, *, exclusive: bool = False) -> bool | None:
        """Take a place: True; else queue for one: False; else (too much is queued already): None."""
        queue = self._queues.get(client)
        taken = self._taken.get(client, 0)
        if (
            queue is None
            and not (exclusive or self._exclusive or self._in_lane)  # as nearly always
            and self.running < self._places
            and taken < self._per_client
            and client not in self._paused
        ):
            self.running += 1
            self._taken[client] = taken + 1
            return True
        if queue is None and self._may_go(client, taken, exclusive) and self._passes(client, exclusive):
            self._take(client, taken, exclusive)
            return True
        # Whether the others leave him his share or not, a client may have so many calls in all.
        if taken + (0 if queue is None else len(queue)) >= self._per_client + self._queued_per_client:
            return None
        if queue is None:
            queue = self._queues[client] = deque()
            self._turn.append(client)
        queue.append(item)
        if exclusive:
            self._exclusive[item] = client
        self.queued += 1
        return False

    def _may_go(self, client: Hashable, taken: int, exclusive: bool) -> bool:
        if self.running >= self._places or taken >= self._per_client or client in self._paused:
            return False
        if self._in_lane and self._lane != client:
            return False
        return not exclusive or self.running == taken

    def _passes(self, client: Hashable, exclusive: bool) -> bool:
        """Whether a newcomer need not wait behind those who wait for the others to have finished."""
        if not self._exclusive or (not exclusive and self._in_lane > 0 and self._lane == client):
            return True
        return all(owner in self._paused for owner in self._exclusive.values())

    def _take(self, client: Hashable, taken: int, exclusive: bool) -> None:
        self.running += 1
        self._taken[client] = taken + 1
        if exclusive:
            self._lane = client
            self._in_lane += 1

    def leave(self, client: Hashable, item: T) -> bool:
        """Leave the queue; False if the item was not in it."""
        queue = self._queues.get(client)
        if queue is None or item not in queue:
            return False
        queue.remove(item)
        self._exclusive.pop(item, None)
        self.queued -= 1
        if not queue:
            self._forget(client)
        return True

    def evict(self, chosen: Callable[[T], bool]) -> list[T]:
        """Remove and return items that wait, to be sent elsewhere; each client's in their order."""
        picked = [(client, item) for client, queue in self._queues.items() for item in queue if chosen(item)]
        for client, item in picked:
            self.leave(client, item)
        return [item for _, item in picked]

    def release(self, client: Hashable, *, exclusive: bool = False) -> T | None:
        """Give a place back; return the item that has got it, if one waits that may have it.

        More may go when an exclusive one has been the last: ask `next` until it gives none.
        """
        self.running -= 1
        self._in_lane -= exclusive
        left = self._taken[client] - 1
        if left:
            self._taken[client] = left
        else:
            del self._taken[client]
        return self.next() if self._turn else None

    def next(self) -> T | None:
        """Return an item that waits and may go now; it has got a place."""
        if self.running >= self._places:
            return None
        for client in self._turn:
            taken, exclusive = self._taken.get(client, 0), self._queues[client][0] in self._exclusive
            if self._may_go(client, taken, exclusive):
                return self._take_turn(client, taken, exclusive)
            if exclusive and not self._in_lane and client not in self._paused:
                return None  # the others have to finish first, and those behind it wait for that, too
        return None

    def _take_turn(self, client: Hashable, taken: int, exclusive: bool) -> T:
        """Let a client's next item in; who has had a turn goes behind all others, who could not keeps his place."""
        queue = self._queues[client]
        item = queue.popleft()
        self._exclusive.pop(item, None)
        self._forget(client)
        if queue:
            self._queues[client] = queue
            self._turn.append(client)
        self.queued -= 1
        self._take(client, taken, exclusive)
        return item

    def _forget(self, client: Hashable) -> None:
        del self._queues[client]
        self._turn.remove(client)
