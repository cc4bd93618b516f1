"""The requests that wait for an upstream to become ready, in the order in which they came."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from mcpd.errors import McpdError

from .exchange import Exchange


class Waiting:
    """The waiting room of one slot."""

    def __init__(self) -> None:
        self._exchanges: dict[Exchange, None] = {}

    def __bool__(self) -> bool:
        return bool(self._exchanges)

    def add(self, exchange: Exchange) -> None:
        """Let one in."""
        self._exchanges[exchange] = None

    def leave(self, exchange: Exchange) -> bool:
        """Let one go that does not want to wait any more; False if it is not here."""
        return self._exchanges.pop(exchange, self) is None

    def put_back(self, exchanges: Iterable[Exchange]) -> None:
        """Let some in again, before those who came after them."""
        self._exchanges = {**dict.fromkeys(exchanges), **self._exchanges}

    def pick(self, chosen: Callable[[Exchange], bool]) -> list[Exchange]:
        """Let some go, in the order in which they came."""
        picked = [one for one in self._exchanges if chosen(one)]
        for one in picked:
            del self._exchanges[one]
        return picked

    def take(self) -> Iterator[Exchange]:
        """Empty the room; whoever comes in meanwhile waits for the next time."""
        waiting, self._exchanges = self._exchanges, {}
        return iter(waiting)

    def fail(self, problem: McpdError) -> None:
        """Send all away with an error."""
        fail_all(self.take(), problem)


def fail_all(exchanges: Iterable[Exchange], problem: McpdError) -> None:
    """Give requests one and the same error."""
    for exchange in exchanges:
        exchange.on_failure(problem)
