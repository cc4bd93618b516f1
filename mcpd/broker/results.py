"""Keeps the remainders of results that were cut, for the clients that come back for more.

A handle is a capability: who has it may fetch, if the result was filed for them. What is filed for
nobody in particular is for whoever has the handle, as the one-shot command line needs it: its
connection is gone before `mcpd fetch` comes.

This module has no clock and no randomness: the caller passes both in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from mcpd.errors import HandleExpired

if TYPE_CHECKING:
    from collections.abc import Hashable

    from mcpd.protocol.bounding import Whole

MAX_BYTES = 64 << 20
KEEP_SECONDS = 600.0
# What filing costs besides the result: very many tiny results must not add up unseen.
ENTRY_BYTES = 1024


class _Entry(Struct):
    whole: Whole
    owner: Hashable
    filed_at: float
    cost_bytes: int
    next_offset: int


class ResultStore:
    """Results under handles, each for `keep_seconds`, and `max_bytes` of memory in all.

    Attributes:
        held_bytes: about how much memory is taken.
        dropped: how many results had to go, or could not be filed, for want of room.

    Args:
        max_bytes: what all results together may take; the oldest goes first.
        keep_seconds: how long a handle lives, counted from its filing.
    """

    def __init__(self, max_bytes: int = MAX_BYTES, keep_seconds: float = KEEP_SECONDS) -> None:
        self.held_bytes = 0
        self.dropped = 0
        self._max_bytes = max_bytes
        self._keep_seconds = keep_seconds
        # In the order of filing, and so of age.
        self._entries: dict[str, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, whole: Whole, owner: Hashable, now: float, token: str, next_offset: int = 0) -> str:
        """File a result and return its handle.

        A result that is larger than the whole store is not kept: its handle is expired at once, and the
        others stay.

        Args:
            whole: the result.
            owner: who alone may fetch it; None for whoever has the handle.
            now: the present time; never less than at an earlier call.
            next_offset: where a reader that names no offset goes on.
            token: unguessable and never used before, such as `secrets.token_urlsafe()` gives.
        """
        self.expire(now)
        # A token may begin with a dash, which a command line takes for an option.
        handle = f"r{token}"
        self._remove(handle)
        entry = _Entry(whole, owner, now, whole.held_bytes + ENTRY_BYTES, next_offset)
        if entry.cost_bytes > self._max_bytes:
            self.dropped += 1
            return handle
        while self.held_bytes + entry.cost_bytes > self._max_bytes:
            self._remove(next(iter(self._entries)))
            self.dropped += 1
        self._entries[handle] = entry
        self.held_bytes += entry.cost_bytes
        return handle

    def get(self, handle: str, owner: Hashable, now: float) -> tuple[Whole, int]:
        """Return the result behind a handle, which stays filed, and where its reader goes on.

        Raises:
            HandleExpired: There is none, or none any more, or it is somebody else's: an answer that told
                these apart would tell others that a handle exists.
        """
        entry = self._entries.get(handle)
        if entry is None or self._is_old(entry, now) or entry.owner not in (None, owner):
            raise self._expired()
        return entry.whole, entry.next_offset

    def turn(self, handle: str, next_offset: int) -> None:
        """Note where the reader of a handle goes on."""
        if entry := self._entries.get(handle):
            entry.next_offset = next_offset

    def forget(self, owner: Hashable) -> None:
        """Drop what was filed for an owner that has left. What is for whoever has the handle stays."""
        if owner is None:
            return
        for handle in [handle for handle, entry in self._entries.items() if entry.owner == owner]:
            self._remove(handle)

    def expire(self, now: float) -> None:
        """Drop what is too old."""
        while self._entries:
            handle = next(iter(self._entries))
            if not self._is_old(self._entries[handle], now):
                return
            self._remove(handle)

    def _is_old(self, entry: _Entry, now: float) -> bool:
        return now - entry.filed_at >= self._keep_seconds

    def _remove(self, handle: str) -> None:
        if entry := self._entries.pop(handle, None):
            self.held_bytes -= entry.cost_bytes

    def _expired(self) -> HandleExpired:
        lives = f"{self._keep_seconds:g} seconds"
        if self._keep_seconds >= 60:
            lives = f"{self._keep_seconds / 60:g} minutes"
        return HandleExpired(
            f"no result is kept under this handle: handles live {lives}, less if many large results follow",
            hint="make the call again, with a larger max_bytes (--max-bytes) if all of it is needed",
        )
