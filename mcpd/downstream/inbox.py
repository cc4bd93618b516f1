"""What one client has sent: bytes to lines, lines to requests, notifications and answers.

What cannot be read is refused at once, with its id where that can be told; a line without end is the last
that is read.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from mcpd.errors import TooLarge
from mcpd.protocol import jsonrpc
from mcpd.protocol.framing import FrameDecoder, Overlong
from mcpd.protocol.jsonrpc import NotJsonRpc

if TYPE_CHECKING:
    from .connection import Connection

MAX_LINE_BYTES = 64 * 1024 * 1024
MAX_ID_BYTES = 1024
# They are handled in one go, and others wait meanwhile.
MAX_BATCH = 4096


class Inbox:
    """What a connection has sent.

    Attributes:
        frames: the lines that are not handled yet.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._decoder = FrameDecoder(MAX_LINE_BYTES)
        self.frames: deque[bytes | Overlong] = deque()

    def __bool__(self) -> bool:
        return bool(self.frames)

    @property
    def buffered(self) -> int:
        """How many bytes of an unfinished line are held."""
        return self._decoder.buffered

    def feed(self, data: bytes) -> None:
        """Take in what was read."""
        self.frames += self._decoder.feed(data)

    def take(self) -> bool:
        """Handle one line; False if nothing behind it can be read."""
        frame = self.frames.popleft()
        if isinstance(frame, Overlong):
            problem = TooLarge(f"a line is longer than {MAX_LINE_BYTES} bytes")
            request_id = self._id_of(frame.head, whole=False)
            self._connection.send(jsonrpc.refusal(request_id, msgspec.json.encode(problem.to_error())))
            return False
        try:
            if not frame.isascii():
                frame.decode()  # what is no UTF-8 must not reach a server that others use
            if frame[:1] == b"[":
                self._on_batch(frame)
            else:
                self._on_message(frame)
        except UnicodeDecodeError as problem:
            why = f"not UTF-8: {problem.reason} at {problem.start}"
            self._connection.refuse(self._id_of(frame), jsonrpc.PARSE_ERROR, why)
        except NotJsonRpc as problem:
            why = f"not a JSON-RPC message: {problem}"
            self._connection.refuse(self._id_of(frame), jsonrpc.PARSE_ERROR, why)
        return True

    def _on_batch(self, line: bytes) -> None:
        """Take the messages of an array one by one, where the client's revision has batches."""
        face = self._connection.face
        if face is None or not face.has_batches:
            why = "an array of messages is no message of this revision"
            self._connection.refuse(b"null", jsonrpc.INVALID_REQUEST, why)
            return
        messages = jsonrpc.decode_batch(line)
        if not 0 < len(messages) <= MAX_BATCH:
            why = f"an array of {len(messages)} messages: it must have 1 to {MAX_BATCH}"
            self._connection.refuse(b"null", jsonrpc.INVALID_REQUEST, why)
            return
        for one in messages:
            try:
                self._on_message(bytes(one))
            except NotJsonRpc as problem:
                self._connection.refuse(b"null", jsonrpc.INVALID_REQUEST, f"not a JSON-RPC message: {problem}")

    def _on_message(self, line: bytes) -> None:
        message = jsonrpc.decode_request(line)
        connection, request_id = self._connection, bytes(message.id)
        if not message.method:
            if not connection.questions.take(line):
                connection.refuse(request_id or b"null", jsonrpc.INVALID_REQUEST, "a request needs a method")
        elif not request_id:
            connection.notification(message)
        elif request_id[:1] not in b'"-0123456789' or len(request_id) > MAX_ID_BYTES:
            connection.refuse(b"null", jsonrpc.INVALID_REQUEST, "an id must be a string or a number")
        elif request_id in connection.calls or request_id in connection.lasting:
            connection.refuse(request_id, jsonrpc.INVALID_REQUEST, "this id is still in use")
        else:
            connection.request(request_id, message)

    def _id_of(self, line: bytes, *, whole: bool = True) -> bytes:
        """Return the id of a line that cannot be read; null if it shows none, or that of another request."""
        found = jsonrpc.guess_id(line, whole=whole, strings=True)
        return b"null" if found is None or self._connection.is_in_use(found) else found
