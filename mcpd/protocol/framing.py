"""The bytes of a pipe or socket in, whole JSON-RPC messages out.

MCP frames a message as one line. Some servers and hosts write the header frames of the language
server protocol instead, so both are read, frame by frame; what a peer was last seen to use is how
it should be written to. Lines that are no JSON (banners, logs) come out like any other: telling
them apart is the work of whoever decodes them.

This module decodes no JSON and moves no bytes.

Spec: 2025-11-25, basic/transports, "stdio".
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

Framing = Literal["newline", "content-length"]

# Enough to find the id of a message whose rest is thrown away.
HEAD_BYTES = 4096
# A header has two short lines; more is a server that logs the HTTP traffic of somebody else.
HEADER_BYTES = 8192
# No message has a length of more digits, and int() refuses the absurd ones with an exception.
LENGTH_DIGITS = 18
BOM = b"\xef\xbb\xbf"


class Overlong(Struct, frozen=True):
    """A message over the limit: it is skipped, and this is all that remains of it.

    Args:
        head: its first bytes, at most `HEAD_BYTES`.
        size: its length if the peer announced it, else None: its end is not there yet.
    """

    head: bytes
    size: int | None = None


def encode_frame(body: bytes, framing: str) -> bytes:
    """Return one message, which must hold no newline, in the framing that its reader uses."""
    if framing == "content-length":
        return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    return body + b"\n"


class _Reading(Enum):
    """What the next bytes belong to."""

    LINE = "line"
    HEADER = "header"  # the lines after a Content-Length line
    BODY = "body"
    REST_OF_LINE = "rest of an overlong line"
    REST_OF_BODY = "rest of an overlong body"


class FrameDecoder:
    """Cut the byte stream of one peer into messages.

    What comes out does not depend on where the reads cut the stream. Of an unfinished message at
    most `max_bytes` are held; one that is longer is reported once, as soon as that is known, and
    skipped to its end, and those after it come out as usual.

    Args:
        max_bytes: the longest message, without its line end, that is handed out.
    """

    def __init__(self, max_bytes: int) -> None:
        self.framing: Framing = "newline"
        self._max_bytes = max_bytes
        self._head_bytes = min(HEAD_BYTES, max_bytes)
        # Whether the next read may be one whole line, and nothing else has to be looked at.
        self._quick = True
        self._reset()

    @property
    def buffered(self) -> int:
        """How many bytes are held of a message that is not whole yet."""
        return len(self._held) + sum(map(len, self._header))

    def feed(self, data: bytes) -> Sequence[bytes | Overlong]:
        """Take what one read returned; give out the messages that are whole now.

        A message may keep its line end, and the blanks after it that JSON allows. It is never
        blank and never begins with a blank or a byte order mark.
        """
        # Nearly every read is exactly one message, and whatever else is done here every call pays.
        if self._quick and data.find(b"\n") == len(data) - 1 <= self._max_bytes and data[:1] == b"{":
            return (data,)
        messages: list[bytes | Overlong] = []
        position = self._step(data, 0, messages) if self._held else 0
        # Once a read: splitting again behind every odd line would be quadratic.
        position = self._take_many(data, position, messages)
        while position < len(data):
            position = self._step(data, position, messages)
        self._quick = self._reading is _Reading.LINE and not self._held and self.framing == "newline"
        return messages

    def finish(self) -> bytes | None:
        """Take the end of the stream; return a last line that has no line end, if there is one.

        A frame or a header that is cut off is dropped: nobody can tell what it was to become.
        """
        line = _trimmed(bytes(self._held)) if self._reading is _Reading.LINE else b""
        self._reset()
        return line or None

    def _reset(self) -> None:
        self._reading = _Reading.LINE
        self._held = bytearray()
        self._header: list[bytes] = []
        self._length = 0  # what the last Content-Length said
        self._missing = 0  # what has not come yet of a body
        self._quick = self.framing == "newline"

    def _take_many(self, data: bytes, position: int, messages: list[bytes | Overlong]) -> int:
        """Take the lines that are plainly messages; return where the first other thing begins."""
        if self._reading is not _Reading.LINE or len(data) - position > self._max_bytes:
            return position
        lines = (data[position:] if position else data).split(b"\n")
        rest = lines.pop()
        if lines and lines[0][:1] == b"{":
            self.framing = "newline"
        for line in lines:
            if line[:1] != b"{":
                return position
            messages.append(line)
            position += len(line) + 1
        self._held += rest
        return len(data)

    def _step(self, data: bytes, position: int, messages: list[bytes | Overlong]) -> int:
        """Take what begins at `position`; return where the next thing begins."""
        if self._reading is _Reading.LINE or self._reading is _Reading.HEADER:
            return self._take_line(data, position, messages)
        if self._reading is _Reading.REST_OF_LINE:
            return self._skip_line(data, position)
        return self._take_body(data, position, messages)

    def _take_line(self, data: bytes, position: int, messages: list[bytes | Overlong]) -> int:
        newline = data.find(b"\n", position)
        end = len(data) if newline < 0 else newline
        if len(self._held) + end - position > self._max_bytes:
            self._held += data[position : position + self._head_bytes]
            self._leave_header(messages)
            messages.append(Overlong(bytes(self._held[: self._head_bytes])))
            self._held = bytearray()
            self._reading = _Reading.REST_OF_LINE
            return end
        line = data[position:end] if position or newline >= 0 else data
        if newline < 0:
            self._held += line
            return end
        if self._held:
            # Blanks go before the one copy, not after it: that would be another.
            self._held += line.rstrip()
            line, self._held = bytes(self._held), bytearray()
        self._accept(_trimmed(line), messages)
        return end + 1

    def _skip_line(self, data: bytes, position: int) -> int:
        newline = data.find(b"\n", position)
        if newline < 0:
            return len(data)
        self._reading = _Reading.LINE
        return newline + 1

    def _take_body(self, data: bytes, position: int, messages: list[bytes | Overlong]) -> int:
        end = min(len(data), position + self._missing)
        self._missing -= end - position
        if self._reading is _Reading.BODY:
            self._gather_body(data[position:end], messages)
        if not self._missing:
            self._reading = _Reading.LINE
        return end

    def _gather_body(self, piece: bytes, messages: list[bytes | Overlong]) -> None:
        if self._length > self._max_bytes:
            self._held += piece
            if len(self._held) >= self._head_bytes:
                messages.append(Overlong(bytes(self._held[: self._head_bytes]), self._length))
                self._held = bytearray()
                self._reading = _Reading.REST_OF_BODY
        elif self._missing:
            self._held += piece
        else:
            if self._held:
                self._held += piece
                piece, self._held = bytes(self._held), bytearray()
            # A line break between two tokens would be the end of a line wherever the message goes next.
            if body := _trimmed(piece.replace(b"\r", b" ").replace(b"\n", b" ")):
                messages.append(body)

    def _accept(self, line: bytes, messages: list[bytes | Overlong]) -> None:
        """Take a whole line without blanks around it."""
        if self._reading is _Reading.HEADER and self._accept_header(line):
            return
        self._leave_header(messages)
        if (length := _content_length(line)) is not None:
            self._header, self._length = [line], length
            self._reading = _Reading.HEADER
        elif line:
            if line[0] in b"{[":
                self.framing = "newline"
            messages.append(line)

    def _accept_header(self, line: bytes) -> bool:
        """Take a line after Content-Length; return False if it shows that this is no header."""
        if not line:
            self.framing = "content-length"
            self._header = []
            self._missing = self._length
            self._reading = _Reading.BODY if self._length else _Reading.LINE
            return True
        name, colon, _ = line.partition(b":")
        if not (colon and name.replace(b"-", b"").isalnum()) or self.buffered + len(line) > HEADER_BYTES:
            return False
        self._header.append(line)
        if (length := _content_length(line)) is not None:
            self._length = length
        return True

    def _leave_header(self, messages: list[bytes | Overlong]) -> None:
        """Hand out as lines what looked like a header and is none."""
        messages += self._header
        self._header = []
        self._reading = _Reading.LINE


def _trimmed(line: bytes) -> bytes:
    line = line.strip()
    return line[len(BOM) :].lstrip() if line.startswith(BOM) else line


def _content_length(line: bytes) -> int | None:
    """Return the number of a Content-Length line, or None if the line is none or has no number."""
    if line[:14].lower() != b"content-length":
        return None
    blank, colon, value = line[14:].partition(b":")
    value = value.strip()
    if blank.strip() or not colon or not value.isdigit() or len(value) > LENGTH_DIGITS:
        return None
    return int(value)
