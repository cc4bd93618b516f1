"""The questions that are with one client: requests of the daemon, and the answers that come back.

Their ids are strings `s1`, `s2` …, so that none is taken for one of the client's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec

from mcpd.broker.asking import Question
from mcpd.protocol import jsonrpc
from mcpd.protocol.jsonrpc import NotJsonRpc


class Questions:
    """The open questions of a connection; `send` queues a line for the client."""

    def __init__(self, send: Callable[[bytes], None], counters: Counter[str]) -> None:
        self._send, self._counters = send, counters
        self._open: dict[bytes, Question] = {}
        self._last = 0

    def begin_at(self, number: int) -> None:
        """Give the next question this number, unless a later one was given already."""
        self._last = max(self._last, number - 1)

    def ask(self, question: Question) -> None:
        """Send a question."""
        self._last += 1
        question.id = f"s{self._last}"
        request_id = b'"%b"' % question.id.encode()
        self._open[request_id] = question
        self._send(jsonrpc.request(request_id, msgspec.json.encode(question.method), question.params))

    def withdraw(self, question: Question, reason: str) -> None:
        """Say that an answer is not wanted any more; one that comes all the same is dropped. Idempotent."""
        if self._open.pop(b'"%b"' % question.id.encode(), None) is not None:
            params = msgspec.json.encode({"requestId": question.id, "reason": reason})
            self._send(jsonrpc.notification("notifications/cancelled", params))

    def take(self, line: bytes) -> bool:
        """Take a line without a method if it is an answer; say whether it is.

        One to a question that is not open, or not any more, is counted and dropped.
        """
        try:
            message = jsonrpc.decode(line)
        except NotJsonRpc:
            return False
        question = self._open.pop(bytes(message.id), None)
        if question is None:
            if not message.result and not message.error:
                return False
            self._counters["late_answers"] += 1
            return True
        if message.result and not (message.error and bytes(message.result) == b"null"):
            question.answered(message.result)  # some write both, and null for what there is not
        elif message.error:
            question.refused(message.error)
        else:
            question.left()
        return True

    def leave(self) -> None:
        """The client has left: nobody will answer."""
        while self._open:
            self._open.popitem()[1].left()
