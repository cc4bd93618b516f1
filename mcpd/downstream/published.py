"""What the things of several servers are called for one connection, now and before.

A host may call by a list that it got a while ago. So names that have been published lead to what they have
meant as long as they have meant one thing only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Raw

from mcpd.protocol import names
from mcpd.protocol.names import Pair

# Of names that are not published any more; the oldest are forgotten first.
MAX_FORMER = 4096

Items = list[tuple[str, Raw]]


class Published:
    """The names of one kind of thing.

    Attributes:
        names: of each, in the order of the servers.

    Args:
        mint: makes them.
    """

    def __init__(self, mint: Callable[[Iterable[Pair]], dict[Pair, str]]) -> None:
        self.names: dict[Pair, str] = {}
        self._mint = mint
        self._lists: list[tuple[str, Items]] = []
        self._pairs: dict[str, Pair] = {}
        self._former: dict[str, Pair | None] = {}
        self._by_letters: dict[str, list[Pair]] = {}

    @property
    def lists(self) -> Sequence[tuple[str, Items]]:
        """The lists that the names are of, by server."""
        return self._lists

    def take(self, lists: list[tuple[str, Items]]) -> None:
        """Name what is on these lists; nothing is done for the same ones as before."""
        before = self._lists
        if len(before) == len(lists) and all(
            one is other and server == name for (server, one), (name, other) in zip(before, lists, strict=True)
        ):
            return
        self._lists = lists
        self.names = self._mint([Pair(server, name) for server, items in lists for name, _ in items])
        pairs = {name: pair for pair, name in self.names.items()}
        for name, pair in self._pairs.items():
            if pairs.get(name) != pair:
                self._former[name] = pair if self._former.get(name, pair) == pair else None
        while len(self._former) > MAX_FORMER:
            del self._former[next(iter(self._former))]
        self._pairs = pairs
        self._by_letters = {}

    def find(self, name: str) -> Pair | None:
        """Return what is published under a name, or was."""
        return self._pairs.get(name) or self._former.get(name)

    def called(self, name: str) -> Pair | None:
        """Return what models may call so, if that is one thing only."""
        if not self._by_letters:  # a name that is like none is looked for more than once
            for pair in self.names:
                self._by_letters.setdefault(names.letters("".join(pair)), []).append(pair)
        letters = names.letters(name)
        likely = [self._by_letters.get(one, []) for one in dict.fromkeys((letters, letters.removeprefix("mcp")))]
        meant = [pair for pairs in likely for pair in pairs if name in names.aliases(pair)]
        return meant[0] if len(meant) == 1 else None
