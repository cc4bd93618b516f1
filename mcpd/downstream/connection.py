"""One client on the socket: lines in, answers out, and what it has asked for.

The reader that got a line files the request, decides, and puts bytes into outboxes; only a request that
has to wait for something becomes a task. A client that stops reading is read from no more, and is closed
when that lasts; a client that half-closes still gets its answers; one that leaves cancels its requests.
"""

from __future__ import annotations

import contextlib
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import trio
from msgspec import Raw

from mcpd.broker.asking import Question
from mcpd.broker.call import Call
from mcpd.broker.parties import Parts
from mcpd.broker.scopes import Seeker
from mcpd.errors import McpdError, Overloaded, StaleSession, TooLarge, first_leaf
from mcpd.mover import Mover
from mcpd.protocol import capabilities, jsonrpc
from mcpd.protocol.capabilities import NOTHING
from mcpd.protocol.framing import FrameDecoder, Overlong
from mcpd.protocol.jsonrpc import NotJsonRpc, Request

from .handler import Control
from .questions import Questions
from .visitor import Hello, Visitor

MAX_LINE_BYTES = 64 * 1024 * 1024
# With this much unread a client is not asked for more.
HIGH_WATER_BYTES = 1 << 20
STALLED_SECONDS = 30.0
# Of one client at a time; behind these stands one that does not wait for its answers.
MAX_REQUESTS = 4096


class Connection:
    """A connected client.

    Attributes:
        key: its number; what counts as one client for shares.
        visitor: who it is.
        capabilities: what it can be asked; `capabilities_json` is the same for an upstream.
        log_level: from which level on it wants to hear what all servers log that it uses.
        withdraw: tells it that an answer to a question is not wanted any more.
        calls: what it has asked for and not been told yet, by the id as it wrote it.
    """

    def __init__(self, key: int, sock: socket.socket, mover: Mover, control: Control, nursery: trio.Nursery) -> None:
        self.key = key
        self.visitor = Visitor(key, sock)
        self.capabilities, self.capabilities_json = NOTHING, b"{}"
        self.log_level: str | None = None
        self.questions = Questions(self.send, control.counters)
        self.withdraw = self.questions.withdraw
        self.calls: dict[bytes, Call | trio.CancelScope] = {}
        self.followers: list[Callable[[], None]] = []
        self.closed = False
        self._control, self._nursery, self._mover = control, nursery, mover
        self._decoder = FrameDecoder(MAX_LINE_BYTES)
        self._frames: deque[bytes | Overlong] = deque()
        self._room: trio.Event | None = None
        self._last = False  # nothing more is read; what is owed is written, then it is closed
        fd = sock.detach()
        self._stream = mover.open(fd, fd, self._on_bytes, self._on_end, self._on_crash)

    # -- reading ---------------------------------------------------------------------------------

    def _on_bytes(self, data: bytes) -> None:
        self._frames += self._decoder.feed(data)
        self._work_off()

    def _work_off(self) -> None:
        """Handle what has been read, as long as the client takes what it is told."""
        frames = self._frames
        while frames and not self.closed:
            if self._stream.out_bytes > HIGH_WATER_BYTES:
                self._hold()
                return
            frame = frames.popleft()
            if isinstance(frame, Overlong):
                self._too_long(frame)
                return
            self._on_line(frame)

    def _on_line(self, line: bytes) -> None:
        try:
            if not line.isascii():
                line.decode()  # what is no UTF-8 must not reach a server that others use
            message = jsonrpc.decode_request(line)
        except UnicodeDecodeError as problem:
            self._refuse(self._id_of(line), jsonrpc.PARSE_ERROR, f"not UTF-8: {problem.reason} at {problem.start}")
            return
        except NotJsonRpc as problem:
            self._refuse(self._id_of(line), jsonrpc.PARSE_ERROR, f"not a JSON-RPC message: {problem}")
            return
        request_id = bytes(message.id)
        if not message.method:
            if not self.questions.take(line):
                self._refuse(request_id or b"null", jsonrpc.INVALID_REQUEST, "a request needs a method")
        elif not request_id:
            self._notified(message)
        elif request_id[:1] not in b'"-0123456789' or len(request_id) > 1024:
            self._refuse(b"null", jsonrpc.INVALID_REQUEST, "an id must be a string or a number")
        elif request_id in self.calls:
            self._refuse(request_id, jsonrpc.INVALID_REQUEST, "this id is still in use")
        elif len(self.calls) >= MAX_REQUESTS:
            full = Overloaded(f"this client waits for {MAX_REQUESTS} answers already", may_have_run=False)
            self.send(jsonrpc.refusal(request_id, msgspec.json.encode(full.to_error())))
        else:
            try:
                self._control.request(self, request_id, message)
            except McpdError as problem:
                self.send(jsonrpc.refusal(request_id, msgspec.json.encode(problem.to_error())))
            except OSError as problem:  # the system has run out of something
                self._refuse(request_id, jsonrpc.INTERNAL_ERROR, f"mcpd cannot do this now: {problem.strerror}")

    def _notified(self, message: Request) -> None:
        if message.method != "notifications/cancelled":
            return
        with contextlib.suppress(msgspec.MsgspecError, RecursionError, KeyError):
            self.cancel(bytes(msgspec.json.decode(message.params, type=dict[str, Raw])["requestId"]))

    def cancel(self, request_id: bytes) -> None:
        """Give up one request at the client's wish; it is not answered."""
        call = self.calls.pop(request_id, None)
        if isinstance(call, Call):
            call.cancel("the client cancelled it")
        elif call is not None:
            self._mover.leave = True
            call.cancel()

    def _too_long(self, frame: Overlong) -> None:
        problem = TooLarge(f"a line is longer than {MAX_LINE_BYTES} bytes")
        request_id = self._id_of(frame.head, whole=False)
        self.send(jsonrpc.refusal(request_id, msgspec.json.encode(problem.to_error())))
        self._leave_when_done()

    def _id_of(self, line: bytes, *, whole: bool = True) -> bytes:
        """Return the id of a line that cannot be read; null if it shows none, or that of another request."""
        found = jsonrpc.guess_id(line, whole=whole, strings=True)
        return b"null" if found is None or found in self.calls else found

    def _refuse(self, request_id: bytes, code: int, message: str) -> None:
        self.send(jsonrpc.refusal(request_id, jsonrpc.error_body(code, message)))

    # -- writing ---------------------------------------------------------------------------------

    def send(self, line: bytes) -> None:
        """Queue one line, given without its newline."""
        self._stream.write(b"%b\n" % line)

    def answer(self, request_id: bytes, result: object) -> None:
        """Answer a request with a result that is still to be encoded."""
        self.calls.pop(request_id, None)
        self.send(jsonrpc.answer(request_id, msgspec.json.encode(result)))
        self._settle()

    def answered(self, call: Call, parts: Parts) -> None:
        """Pass a call's result on."""
        self.calls.pop(request_id := call.request_id, None)
        if len(parts) == 1:
            self.send(jsonrpc.answer(request_id, parts[0]))  # type: ignore[arg-type]  # a single part is bytes
        else:
            self._stream.write_all((b'{"jsonrpc":"2.0","id":%b,"result":' % request_id, *parts, b"}\n"))
        if self._stream.out_bytes > HIGH_WATER_BYTES:
            self._hold()
        if self._last or self._room is not None:
            self._settle()

    def refused(self, call: Call, error: bytes) -> None:
        """Pass a call's error on."""
        self.calls.pop(call.request_id, None)
        self.send(jsonrpc.refusal(call.request_id, error))
        self._settle()

    def progressed(self, call: Call, params: bytes) -> None:
        """Pass progress on, unless the client does not read: progress can be missed."""
        self.notified("notifications/progress", params)

    def notify(self, method: str, params: object) -> None:
        """Send a notification that may be missed by a client that does not read."""
        self.notified(method, msgspec.json.encode(params))

    def notified(self, method: str, params: bytes) -> None:
        """Pass a notification on; it may be missed by a client that does not read."""
        if self._stream.out_bytes < HIGH_WATER_BYTES:
            self.send(jsonrpc.notification(method, params))
        else:
            self._control.counters["missed_notifications"] += 1

    # -- who it is, and what it can be asked -----------------------------------------------------

    @property
    def seeker(self) -> Seeker:
        """Which copy of an upstream is its own."""
        return self.visitor.known or self.visitor.seeker

    def greet(self, hello: Hello) -> None:
        """Take what the client says about itself; with another project a new epoch begins.

        What it has asked for in the old one is refused: it must not act, or be answered, in the new one.
        """
        turns = self.visitor.greet(hello, is_bound=bool(self.calls))
        self.capabilities = capabilities.read(hello.capabilities)
        self.capabilities_json = self.capabilities.to_json()
        if not turns:
            return
        for request_id, call in list(self.calls.items()):
            if isinstance(call, Call):
                call.go_stale()
            else:
                self._mover.leave = True
                call.cancel()
                self._failed(request_id, StaleSession.of_turn().to_error(), call)
        self._control.turned(self)

    def ask(self, question: Question) -> None:
        """Put a question to the client; if it has left meanwhile, that is the outcome."""
        if self.closed:
            question.left()
        else:
            self.questions.ask(question)

    @property
    def has_room(self) -> bool:
        """Whether a notification would be sent now."""
        return self._stream.out_bytes < HIGH_WATER_BYTES

    def wake(self) -> None:
        """Let a task run that was woken in a batch."""
        self._mover.leave = True

    def stalled(self, now: float) -> bool:
        """Whether the client has not read for so long, with a full outbox, that it is to be closed."""
        return self._stream.out_bytes > HIGH_WATER_BYTES and now - self._stream.wrote_at > STALLED_SECONDS

    async def flushed(self) -> None:
        """Wait until the client has been told all that it waits for, or has left."""
        while (self.calls or self._stream.out_bytes) and not self.closed:
            self._room = self._room or trio.Event()
            self._stream.on_room = self._on_room
            await self._room.wait()

    @property
    def buffered(self) -> int:
        """How many bytes of an unfinished line are held."""
        return self._decoder.buffered

    # -- requests that wait ----------------------------------------------------------------------

    def start(self, request_id: bytes, work: Callable[[], Awaitable[object]]) -> None:
        """Run a request that has to wait as a task; its return value is the result."""
        scope = trio.CancelScope()
        self.calls[request_id] = scope
        self._mover.leave = True
        self._nursery.start_soon(self._serve, request_id, scope, work)

    async def _serve(self, request_id: bytes, scope: trio.CancelScope, work: Callable[[], Awaitable[object]]) -> None:
        with scope:
            try:
                await trio.lowlevel.checkpoint_if_cancelled()  # of what is given up already nothing is done
                result = await work()
                if self.calls.get(request_id) is scope:  # else it was cancelled in the same moment
                    self._mover.batch(lambda: self.answer(request_id, result))
            except* McpdError as group:
                error = first_leaf(group).to_error()
                self._mover.batch(lambda: self._failed(request_id, error, scope))
            # One of the three places that catch everything: a bug in one request costs that request.
            except* Exception as group:  # noqa: BLE001
                self._control.crashed(self, first_leaf(group))
                body = {"code": jsonrpc.INTERNAL_ERROR, "message": "mcpd failed to handle this request; see its log"}
                self._mover.batch(lambda: self._failed(request_id, body, scope))

    def _failed(self, request_id: bytes, error: dict[str, Any], scope: trio.CancelScope) -> None:
        if self.calls.get(request_id) is not scope:
            return  # it has been answered, or is not wanted; the id may be another request's by now
        del self.calls[request_id]
        self.send(jsonrpc.refusal(request_id, msgspec.json.encode(error)))
        self._settle()

    # -- the end ---------------------------------------------------------------------------------

    def _hold(self) -> None:
        """Ask no more of the servers, and read no more, until the client has taken what is queued for it."""
        self._control.pause(self)
        self._stream.on_room = self._on_room
        self._stream.pause()

    def _on_room(self) -> None:
        self._stream.on_room = None
        if self._room is not None:
            self._room.set()
            self._room = None
        self._control.resume(self)
        self._work_off()
        if self._last:
            self._settle()
        elif self._stream.on_room is None:
            self._stream.resume()

    def _on_end(self, gone: bool) -> None:
        if gone:
            self.close()
        else:
            self._leave_when_done()

    def _on_crash(self, problem: Exception) -> None:
        self._control.crashed(self, problem)
        self.close()

    def _leave_when_done(self) -> None:
        self._last = True
        self._stream.pause()
        self._settle()

    def _settle(self) -> None:
        """Close once nothing is owed to a client that sends no more."""
        if self._room is not None:
            self._room.set()
            self._room = None
        if not self._last or self.calls or self._frames:
            return
        if self._stream.out_bytes:
            self._stream.on_room = self._on_room
        else:
            self.close()

    def close(self) -> None:
        """Close the connection and cancel what it asked for. Idempotent."""
        if self.closed:
            return
        self.closed = True
        self._stream.close()
        self._on_room()
        for call in list(self.calls.values()):
            if isinstance(call, Call):
                call.cancel("the client has left")
            else:
                call.cancel()
        self.calls.clear()
        self.questions.leave()
        self._mover.leave = True
        self._control.left(self)
