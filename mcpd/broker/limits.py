"""Who may send now: places per upstream and per client, first come first served, nobody starved; pure.

Every client gets at most its share of an upstream's places. What is over waits in a queue per client,
and a place that becomes free goes to the next client in turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable
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

    def admit(self, client: Hashable, item: T) -> bool | None:
        """Take a place: True; else queue for one: False; else (too much is queued already): None."""
        queue = self._queues.get(client)
        taken = self._taken.get(client, 0)
        if queue is None and self.running < self._places and taken < self._per_client and client not in self._paused:
            self.running += 1
            self._taken[client] = taken + 1
            return True
        # Whether the others leave him his share or not, a client may have so many calls in all.
        if taken + (0 if queue is None else len(queue)) >= self._per_client + self._queued_per_client:
            return None
        if queue is None:
            queue = self._queues[client] = deque()
            self._turn.append(client)
        queue.append(item)
        self.queued += 1
        return False

    def leave(self, client: Hashable, item: T) -> bool:
        """Leave the queue; False if the item was not in it."""
        queue = self._queues.get(client)
        if queue is None or item not in queue:
            return False
        queue.remove(item)
        self.queued -= 1
        if not queue:
            self._forget(client)
        return True

    def release(self, client: Hashable) -> T | None:
        """Give a place back; return the item that has got it, if one waits that may have it."""
        self.running -= 1
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
            taken = self._taken.get(client, 0)
            if taken < self._per_client and client not in self._paused:
                return self._take_turn(client, taken)
        return None

    def _take_turn(self, client: Hashable, taken: int) -> T:
        """Let a client's next item in; who has had a turn goes behind all others, who could not keeps his place."""
        queue = self._queues[client]
        item = queue.popleft()
        self._forget(client)
        if queue:
            self._queues[client] = queue
            self._turn.append(client)
        self.queued -= 1
        self.running += 1
        self._taken[client] = taken + 1
        return item

    def _forget(self, client: Hashable) -> None:
        del self._queues[client]
        self._turn.remove(client)
