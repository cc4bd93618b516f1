"""One side of a JSON-RPC connection, without I/O: ids, pending calls, late and stray answers.

Every id on the wire is minted here, as an integer that counts up and is never used again, so that no
client's id ever reaches a server and no answer can belong to two calls. A call that is given up
leaves a tombstone: its late answer is counted, not delivered.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from enum import Enum
from typing import Generic, TypeVar

from msgspec import Raw

from . import jsonrpc
from .jsonrpc import Message, NotJsonRpc

Call = TypeVar("Call")

# A server that answers this much later than it was told to stop is not worth remembering.
MAX_TOMBSTONES = 4096
# Of an id that can be one of ours.
MAX_DIGITS = 18
# What is answered without an id because the id could not be read.
UNREADABLE = (jsonrpc.PARSE_ERROR, jsonrpc.INVALID_REQUEST)


class Kind(Enum):
    """What a line turned out to be."""

    RESULT = "result"
    ERROR = "error"
    BROKEN = "broken"  # an answer to a pending call that is no answer: neither result nor error
    GARBLED = "garbled"  # cannot be decoded, but names a pending call: a good answer may still follow
    REQUEST = "request"
    NOTIFICATION = "notification"
    LATE = "late"  # an answer to a call that was given up: counted
    IGNORED = "ignored"  # unknown or duplicate answers, and lines that are no JSON-RPC: counted


_IGNORED_MESSAGE = Message()


class Peer(Generic[Call]):
    """The pending calls of one connection."""

    def __init__(self) -> None:
        self.pending: dict[bytes, Call] = {}
        self.counts: Counter[str] = Counter()
        self._tombstones: OrderedDict[bytes, None] = OrderedDict()
        self._last_id = 0
        self._was_late = False

    def register(self, call: Call) -> bytes:
        """File a call and return its new id, as JSON."""
        self._last_id += 1
        new_id = b"%d" % self._last_id
        self.pending[new_id] = call
        return new_id

    def abandon(self, call_id: bytes) -> Call | None:
        """Give a call up: its answer, should it come, will be dropped and counted as late."""
        call = self.pending.pop(call_id, None)
        if call is not None:
            self._tombstones[call_id] = None
            if len(self._tombstones) > MAX_TOMBSTONES:
                self._tombstones.popitem(last=False)
        return call

    def take_all(self) -> list[Call]:
        """Remove and return every pending call: the connection has ended."""
        calls = list(self.pending.values())
        self.pending.clear()
        return calls

    def receive(self, line: bytes | bytearray) -> tuple[Kind, Call | None, Message]:
        """Say what a line is, and whose.

        Returns:
            The kind; the call that is now answered (RESULT, ERROR, BROKEN: it is no longer pending) or
            named (GARBLED: it still is); the message.
        """
        try:
            message = jsonrpc.decode(line)
        except NotJsonRpc as problem:
            return self._undecodable(line, problem)
        if message.method:
            return (Kind.REQUEST if message.id else Kind.NOTIFICATION), None, message
        call = self.pending.pop(bytes(message.id), None)
        if call is None:
            call = self._lenient(message)
            if call is None:
                return (Kind.LATE if self._was_late else Kind.IGNORED), None, message
        if message.result and not (message.error and bytes(message.result) == b"null"):
            return Kind.RESULT, call, message
        if message.error:
            return Kind.ERROR, call, message
        return self._no_answer(call, message)

    def _lenient(self, message: Message) -> Call | None:
        """Find the call of an answer whose id is not literally one of ours, or count the stray."""
        found, self._was_late = bytes(message.id), False
        if not (message.result or message.error):
            self.counts["noise"] += 1
            return None
        if len(found) > 2 and found[:1] == b'"' and found[1:-1].isdigit():
            found = found[1:-1]  # some servers turn a number into a string; no other id can be meant
            if (call := self.pending.pop(found, None)) is not None:
                return call
        if found in (b"", b"null") and self._is_for_the_only_one(message):
            return self.pending.popitem()[1]
        if found in self._tombstones:
            del self._tombstones[found]
            self.counts["late"] += 1
            self._was_late = True
        elif found.isdigit() and len(found) <= MAX_DIGITS and 0 < int(found) <= self._last_id:
            self.counts["duplicate"] += 1
        else:
            self.counts["unknown"] += 1
        return None

    def _is_for_the_only_one(self, message: Message) -> bool:
        """Whether an error without an id says that our one request could not be read."""
        if not message.error or len(self.pending) != 1 or self._tombstones:
            return False
        return jsonrpc.read_error(message.error).code in UNREADABLE

    def _no_answer(self, call: Call, message: Message) -> tuple[Kind, Call | None, Message]:
        if message.jsonrpc:
            return Kind.BROKEN, call, message
        # A structured log line with an `id` of its own: not JSON-RPC, the call goes on.
        self.pending[bytes(message.id)] = call
        self.counts["noise"] += 1
        return Kind.IGNORED, None, message

    def _undecodable(self, line: bytes | bytearray, problem: NotJsonRpc) -> tuple[Kind, Call | None, Message]:
        self.counts["noise"] += 1
        if line[:1] == b"{" and (found := jsonrpc.guess_id(line)) in self.pending:
            return Kind.GARBLED, self.pending[found], Message(id=Raw(found), method=str(problem))
        return Kind.IGNORED, None, _IGNORED_MESSAGE
