"""A stream of server-sent events in, whole events out.

Lines end with CR LF, LF or CR, and nothing else: the line separators of Unicode are text. An event that
the stream breaks off in is none, and its id is not remembered. One event is bounded; the stream is not.

Spec: WHATWG HTML, "Server-sent events", 9.2.6; MCP 2025-11-25 basic/transports for what ids and `retry` mean.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from mcpd.errors import TooLarge

BOM = b"\xef\xbb\xbf"
# A pause of more milliseconds than this has digits for is no pause but an end.
RETRY_DIGITS = 9

_LINE_END = re.compile(rb"\r\n|\n|\r")


class Event(NamedTuple):
    """One event: its name, `message` where it has none, and its data."""

    name: str
    data: bytes


class Decoder:
    """Takes the bytes of one stream as they come.

    Attributes:
        last_id: the id to resume after; None if no event had one. It stays when an event has none of its own.
        retry_ms: how long the server wants us to wait before we come again, if it has said so.
        blocks: how many blocks of fields have ended, events or not: whether anything comes at all.
    """

    def __init__(self, max_bytes: int, before: Decoder | None = None) -> None:
        """Begin a stream; one that goes on where another broke off goes on from what that one had."""
        self.last_id: bytes | None = before.last_id if before is not None else None
        self.retry_ms: int | None = before.retry_ms if before is not None else None
        self.blocks = 0
        self._max_bytes = max_bytes
        self._held: list[bytes] = []  # of the line whose end is still to come
        self._held_bytes = 0
        self._head = b""  # what may be a byte order mark
        self._is_at_start = True
        self._skip_newline = False
        self._name = b""
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._id: bytes | None = None

    def resumed(self) -> Decoder:
        """Return the decoder of the stream that goes on where this one broke off."""
        return Decoder(self._max_bytes, self)

    def feed(self, data: bytes) -> list[Event]:
        """Take the next bytes; return the events that end in them.

        Raises:
            TooLarge: An event is over the limit; the stream cannot be read on.
        """
        if self._is_at_start:
            data = self._without_mark(data)
        if self._skip_newline and data:
            self._skip_newline = False
            if data[:1] == b"\n":
                data = data[1:]
        if not data:
            return []
        if b"\r" in data:
            first, *lines = _LINE_END.split(data)
            self._skip_newline = data.endswith(b"\r")
        else:
            first, *lines = data.split(b"\n")
        if not lines:
            self._hold(first)
            return []
        if self._held:
            self._hold(first)
            first = b"".join(self._held)
            self._held.clear()
            self._held_bytes = 0
        events: list[Event] = []
        rest = lines.pop()
        self._take(first, events)
        for line in lines:
            self._take(line, events)
        self._hold(rest)
        return events

    def _without_mark(self, data: bytes) -> bytes:
        """Return the bytes without the mark that a stream may begin with; it may come in parts."""
        data = self._head + data
        if len(data) < len(BOM) and BOM.startswith(data):
            self._head = data
            return b""
        self._head, self._is_at_start = b"", False
        return data.removeprefix(BOM)

    def _hold(self, part: bytes) -> None:
        if part:
            self._held.append(part)
            self._held_bytes += len(part)
            self._check(self._held_bytes + self._data_bytes)

    def _check(self, size: int) -> None:
        if size > self._max_bytes:
            raise TooLarge(f"an event is longer than {self._max_bytes} bytes (limits.message_bytes)")

    def _take(self, line: bytes, events: list[Event]) -> None:
        if not line:
            self._dispatch(events)
            return
        field, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if field == b"data":
            self._data.append(value)
            self._data_bytes += len(value) + 1
            self._check(self._data_bytes)
        elif field == b"event":
            self._name = value
        elif field == b"id" and b"\0" not in value:
            self._id = value
        elif field == b"retry" and value.isdigit() and len(value) <= RETRY_DIGITS:
            self.retry_ms = int(value)

    def _dispatch(self, events: list[Event]) -> None:
        self.blocks += 1
        if self._id is not None:
            self.last_id = self._id or None  # an empty one takes it back
        if self._data:
            name = self._name.decode("utf-8", "replace") or "message"
            events.append(Event(name, b"\n".join(self._data)))
        self._name = b""
        self._data, self._data_bytes = [], 0
