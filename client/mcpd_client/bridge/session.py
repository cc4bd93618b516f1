"""What a bridge remembers of the conversation between its host and the daemon, without I/O.

It knows what waits to be sent, what is in flight, and what a next daemon has to be told so that the host need
not notice that there was another one. What is certain not to have reached a daemon, or may safely run twice, is
sent again; anything else is answered with an error, so that nothing runs twice.
"""

from collections import deque

from mcpd_client.bridge import answers, lines
from mcpd_client.bridge.answers import Failure
from mcpd_client.bridge.entry import LISTEN, Entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpd_client.bridge.lines import Message

OWN_IDS = "mcpd-bridge-"
INITIALIZED = "notifications/initialized"
CANCELLED = "notifications/cancelled"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
# How many `subscriptions/listen` wait for a daemon; each is open for as long as the host likes.
MAX_WAITING_LISTENS = 16
# Hosts give a server five seconds to answer the first request.
PATIENCE_SECONDS = 3.5
# How many buffers one system call takes.
BATCH_LINES = 64
BATCH_BYTES = 131072


class Session:
    """The state between a host and whichever daemon there is.

    Attributes:
        queue: what waits to be sent, in order.
        queued_bytes: how much that is.
        resumed: whether the host believes in a session that the next daemon knows nothing of.
        is_turned_down: whether the last line says that the host gets no session.
        next_question: a number for a daemon to begin with, so that the host never sees one of its ids twice.
    """

    def __init__(self, name: str, version: str) -> None:
        self.queue: deque[Entry] = deque()
        self.queued_bytes = 0
        self.resumed = False
        self.next_question = 1
        self._info = f'{{"name":{lines.text_of(name)},"version":{lines.text_of(version)}}}'
        self._sent_of_first = 0
        self._in_flight: dict[str, Entry] = {}
        self._questions: dict[str, str | int | float] = {}
        self._own: dict[str, str] = {}
        self._next_own = 1
        self._initialize = ""
        self._is_initialized = False
        self._is_refused = False
        self.is_turned_down = False
        self._level = ""
        self._subscribed: dict[str, str] = {}

    @property
    def wants_daemon(self) -> bool:
        """Whether somebody waits for an answer that only a daemon can give."""
        return any(entry.ids and entry.method != LISTEN for entry in self.queue)

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is still to come, other than the end of a subscription."""
        return self.wants_daemon or any(entry.method != LISTEN for entry in self._in_flight.values())

    def from_host(self, line: bytes, now: float, *, is_reachable: bool) -> bool:
        """Take a line of the host.

        Args:
            line: with its line end.
            now: the time, for `overdue`.
            is_reachable: whether there is a daemon or will soon be; if not, only requests are kept.

        Returns:
            Whether it is a request: somebody waits for an answer.
        """
        message = lines.look(line)
        if message.kind == lines.REQUEST and message.id is not None:
            if message.method == "initialize":
                self._is_initialized = False
            if self._is_refused and message.method not in ("initialize", "server/discover"):
                for entry in self._handshake():
                    self._put(entry)
            self._put(Entry(line, ids=(message.id,), method=message.method, since=now))
            return True
        if message.kind == lines.BATCH:
            ids = [item.id for item in message.items if item.kind == lines.REQUEST and item.id is not None]
            for item in message.items:
                if item.kind == lines.ANSWER:
                    self._questions.pop(lines.key_of(item.id), None)
            if ids or is_reachable:
                self._put(Entry(line, ids=ids))
            return bool(ids)
        if self._is_wanted(message, line) and is_reachable:
            self._put(Entry(line, method=message.method))
        return False

    def from_daemon(self, line: bytes) -> bytes | None:
        """Take a line of the daemon; return what the host gets of it, None if it is not for the host."""
        message = lines.look(line)
        self.is_turned_down = False
        if message.kind == lines.ANSWER:
            return line if self._is_hosts(message) else None
        if message.kind == lines.REQUEST and message.id is not None:
            self._questions[lines.key_of(message.id)] = message.id
            self._count_question(message.id)
        elif message.kind == lines.BATCH:
            for item in message.items:
                self._is_hosts(item)
        elif message.method == CANCELLED:
            self._forget(answers.member(line, "requestId"))
        elif message.method == ACKNOWLEDGED:
            return self._acknowledged(line)
        return line

    def parts(self) -> list[memoryview]:
        """Return what to send next, as much as one system call can take."""
        parts: list[memoryview] = []
        size = 0
        for entry in self.queue:
            parts.append(memoryview(entry.line)[self._sent_of_first :] if not parts else memoryview(entry.line))
            size += len(entry.line)
            if len(parts) == BATCH_LINES or size > BATCH_BYTES:
                break
        return parts

    def sent(self, size: int) -> None:
        """Note that `size` bytes of the queue have been written; a line counts when all of it has."""
        size += self._sent_of_first
        while self.queue and size >= len(self.queue[0].line):
            entry = self.queue.popleft()
            size -= len(entry.line)
            self.queued_bytes -= len(entry.line)
            entry.sendings += 1
            for request_id in entry.ids:
                self._in_flight[lines.key_of(request_id)] = entry
            if not entry.may_repeat:
                entry.line = b""
        self._sent_of_first = size

    def resume(self) -> None:
        """Put before all that waits what a daemon has to be told of the session so far; nothing for the first one."""
        entries = self._handshake() if self._initialize else []
        if entries and not any(entry.method == "initialize" for entry in self.queue):
            self._replace_queue([entry for entry in self.queue if entry.method != INITIALIZED])
        if self._level:
            entries.append(self._own_request("logging/setLevel", self._level))
        entries += [self._own_request("resources/subscribe", params) for params in self._subscribed.values()]
        for entry in reversed(entries):
            self.queue.appendleft(entry)
            self.queued_bytes += len(entry.line)

    def lost(self) -> list[bytes]:
        """Note that the daemon is gone; return what the host is told: at most one error for each request."""
        told = [answers.withdrawal(request_id) for request_id in self._questions.values()]
        again: list[Entry] = []
        for entry in dict.fromkeys(self._in_flight.values()):
            if entry.may_repeat:
                again.append(entry)
            else:
                open_ids = [each for each in entry.ids if self._in_flight.get(lines.key_of(each)) is entry]
                told += [answers.lost(each, may_have_run=True) for each in open_ids]
        self._questions.clear()
        self._in_flight.clear()
        self._own.clear()
        self._is_refused = False
        self._sent_of_first = 0
        self.resumed = True
        # The rest was about things that have gone with that daemon.
        kept = [*again, *(entry for entry in self.queue if entry.ids and not entry.is_own)]
        handshakes = [place for place, entry in enumerate(kept) if entry.method == "initialize"]
        if handshakes and self._is_initialized:
            # The host said so without waiting for the answer, and will not say it again.
            kept.insert(handshakes[-1] + 1, Entry(lines.notification_line(INITIALIZED), method=INITIALIZED))
        self._replace_queue(kept)
        return told

    def fail(self, failure: Failure) -> list[bytes]:
        """Answer all that waits, since there is no daemon to be had; a subscription goes on waiting."""
        told: list[bytes] = []
        kept: list[Entry] = []
        for entry in self.queue:
            if entry.ids and entry.method == LISTEN and len(kept) < MAX_WAITING_LISTENS:
                kept.append(entry)
            elif (answer := self._stand_in(entry)) is not None:
                told.append(answer)
            else:
                told += [failure.answer(request_id) for request_id in entry.ids if not entry.is_own]
        self._replace_queue(kept)
        return told

    def overdue(self, now: float) -> list[bytes]:
        """Answer what has waited so long that the host may give up, where an answer can be had without a daemon."""
        told: list[bytes] = []
        kept: list[Entry] = []
        for entry in self.queue:
            is_due = entry.ids and now >= entry.since + PATIENCE_SECONDS
            answer = self._stand_in(entry) if is_due else None
            if answer is None:
                kept.append(entry)
            else:
                told.append(answer)
        if told:
            self._replace_queue(kept)
        return told

    def next_overdue(self) -> float | None:
        """Return when `overdue` will have something to say, None if it will not."""
        waiting = [entry for entry in self.queue if entry.ids and entry.method in answers.STAND_INS]
        return min((entry.since + PATIENCE_SECONDS for entry in waiting), default=None)

    def refuse_all(self) -> list[bytes]:
        """Answer all that is open after the daemon was lost, with an error; nothing is sent any more."""
        told = self.lost()
        told += [
            answers.lost(request_id, may_have_run=entry.sendings > 0)
            for entry in self.queue
            for request_id in entry.ids
        ]
        self._replace_queue([])
        return told

    def _put(self, entry: Entry) -> None:
        self.queue.append(entry)
        self.queued_bytes += len(entry.line)

    def _replace_queue(self, entries: "Iterable[Entry]") -> None:
        self.queue = deque(entries)
        self.queued_bytes = sum(len(entry.line) for entry in self.queue)

    def _is_wanted(self, message: "Message", line: bytes) -> bool:
        """Tell whether a line of the host that is no request is any of the daemon's business."""
        if message.kind == lines.ANSWER:
            # One to a question that is not open was to a daemon that has gone, or comes too late.
            return self._questions.pop(lines.key_of(message.id), None) is not None
        if message.method == INITIALIZED:
            self._is_initialized = True
        elif message.method == CANCELLED:
            return not self._take_back(answers.member(line, "requestId"))
        return True

    def _take_back(self, request_id: object) -> bool:
        """Forget a request that the host does not want any more; return whether no daemon has seen any of it."""
        key = lines.key_of(request_id)
        for position, entry in enumerate(self.queue):
            if [lines.key_of(each) for each in entry.ids] == [key]:
                if position == 0 and self._sent_of_first:
                    entry.ids = ()
                    return False
                del self.queue[position]
                self.queued_bytes -= len(entry.line)
                return True
        self._in_flight.pop(key, None)
        return False

    def _is_hosts(self, message: "Message") -> bool:
        """Note an answer of the daemon; tell whether it is for the host."""
        key = lines.key_of(message.id)
        if (method := self._own.pop(key, None)) is not None:
            self._is_refused = message.is_error if method == "initialize" else self._is_refused
            return False
        if (entry := self._in_flight.pop(key, None)) is not None:
            if not message.is_error:
                self._settle(entry)
            self.is_turned_down = message.is_error and entry.method == "initialize"
        return True

    def _settle(self, entry: Entry) -> None:
        """Note what a daemon has agreed to."""
        match entry.method:
            case "initialize":
                self._initialize, self._is_refused = entry.params or "{}", False
            case "logging/setLevel":
                self._level = entry.params
            case "resources/subscribe" if uri := _uri(entry.params):
                self._subscribed[uri] = entry.params
            case "resources/unsubscribe":
                self._subscribed.pop(_uri(entry.params), None)

    def _forget(self, request_id: object) -> None:
        """The daemon has withdrawn a question, or ended a subscription of the host."""
        key = lines.key_of(request_id)
        if self._questions.pop(key, None) is None and (entry := self._in_flight.get(key)) and entry.method == LISTEN:
            del self._in_flight[key]

    def _acknowledged(self, line: bytes) -> bytes | None:
        meta = answers.member(line, "_meta")
        entry = self._in_flight.get(lines.key_of(meta.get(SUBSCRIPTION_ID))) if isinstance(meta, dict) else None
        if entry is None:
            return line
        was, entry.acknowledged = entry.acknowledged, True
        return None if was else line

    def _count_question(self, request_id: str | int | float) -> None:
        if isinstance(request_id, str) and request_id[:1] == "s" and request_id[1:].isdigit():
            self.next_question = max(self.next_question, int(request_id[1:]) + 1)

    def _handshake(self) -> list[Entry]:
        self._is_refused = False
        entries = [self._own_request("initialize", self._initialize)]
        if self._is_initialized:
            entries.append(Entry(lines.notification_line(INITIALIZED)))
        return entries

    def _own_request(self, method: str, params: str) -> Entry:
        request_id = f"{OWN_IDS}{self._next_own}"
        self._next_own += 1
        self._own[lines.key_of(request_id)] = method
        entry = Entry(lines.request_line(request_id, method, params))
        entry.is_own = True
        return entry

    def _stand_in(self, entry: Entry) -> bytes | None:
        """Answer for the daemon, where that can be done without knowing anything; None where it cannot."""
        if not entry.ids or entry.method not in answers.STAND_INS:
            return None
        if entry.method == "initialize":
            self._settle(entry)
        # To a ping there is no more than the answer.
        self.resumed = self.resumed or entry.method != "ping"
        return answers.stand_in(entry.method, entry.ids[0], entry.line, self._info)


def _uri(params: str) -> str:
    value = lines.parse(params.encode("utf-8", "replace"))
    uri = value.get("uri") if isinstance(value, dict) else None
    return uri if isinstance(uri, str) else ""
