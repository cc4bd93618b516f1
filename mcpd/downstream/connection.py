"""One client on the socket: lines in, answers out, and what it has asked for.

The reader that got a line files the request, decides, and puts bytes into outboxes; only a request that
has to wait for something becomes a task. A client that stops reading is read from no more, and is closed
when that lasts; a client that half-closes still gets its answers; one that leaves cancels its requests.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
import trio
from msgspec import Raw

from mcpd.broker.asking import Question
from mcpd.broker.call import Call
from mcpd.broker.parties import Parts, Plain
from mcpd.broker.scopes import Seeker
from mcpd.errors import McpdError, Overloaded, StaleSession
from mcpd.mover import Mover
from mcpd.protocol import capabilities, jsonrpc
from mcpd.protocol.capabilities import NOTHING
from mcpd.protocol.jsonrpc import Request

from .handler import Control
from .inbox import Inbox
from .questions import Questions
from .tasks import Refusal, Tasks, Work
from .visitor import Hello, Visitor

if TYPE_CHECKING:
    from .face import Face

# With this much unread a client is not asked for more.
HIGH_WATER_BYTES = 1 << 20
STALLED_SECONDS = 30.0
# A result that is longer is not copied once more for its envelope.
COPY_BYTES = 1 << 16
# Of one client at a time; behind these stands one that does not wait for its answers.
MAX_REQUESTS = 4096


class Connection(Plain):
    """A connected client.

    Attributes:
        key: its number; what counts as one client for shares.
        visitor: who it is.
        capabilities: what it can be asked; `capabilities_json` is the same for an upstream.
        log_level: from which level on it wants to hear what all servers log that it uses.
        withdraw: tells it that an answer to a question is not wanted any more.
        calls: what it has asked for and not been told yet, by the id as it wrote it.
        lasting: what it has asked for that is answered only when it ends.
        tasks: those of its requests that had to wait for something, and those that last.
        face: how it is spoken to in MCP, once it has spoken so itself.
    """

    def __init__(self, key: int, sock: socket.socket, mover: Mover, control: Control, nursery: trio.Nursery) -> None:
        self.key = key
        self.visitor = Visitor(key, sock)
        self.capabilities, self.capabilities_json = NOTHING, b"{}"
        self.log_level: str | None = None
        self.questions = Questions(self.send, control.counters)
        self.withdraw = self.questions.withdraw
        self.calls: dict[bytes, Call | trio.CancelScope] = {}
        self.face: Face | None = None
        self.followers: list[Callable[[], None]] = []
        self.closed = False
        self._control, self._mover = control, mover
        self.tasks = Tasks(self, mover, nursery, control)
        self.lasting = self.tasks.lasting
        self._inbox = Inbox(self)
        self._room: trio.Event | None = None
        self._last = False  # nothing more is read; what is owed is written, then it is closed
        fd = sock.detach()
        self._stream = mover.open(fd, fd, self._on_bytes, self._on_end, self._on_crash)

    # -- what it says ----------------------------------------------------------------------------

    def _on_bytes(self, data: bytes) -> None:
        self._inbox.feed(data)
        self.work_off()

    def work_off(self) -> None:
        """Handle what has been read, as long as the client takes what it is told."""
        inbox, frames = self._inbox, self._inbox.frames
        while frames and not self.closed:
            if self._stream.out_bytes > HIGH_WATER_BYTES:
                self._hold()
                return
            if not inbox.take():
                self._leave_when_done()
                return

    def is_in_use(self, request_id: bytes) -> bool:
        """Whether a request of that id is waited for."""
        return request_id in self.calls or request_id in self.lasting

    def request(self, request_id: bytes, message: Request) -> None:
        """Take a request."""
        try:
            if len(self.calls) + len(self.lasting) >= MAX_REQUESTS:
                raise Overloaded(f"this client waits for {MAX_REQUESTS} answers already", may_have_run=False)
            self._control.request(self, request_id, message)
        except McpdError as problem:
            self.send(jsonrpc.refusal(request_id, msgspec.json.encode(problem.to_error())))
        except OSError as problem:  # the system has run out of something
            self.refuse(request_id, jsonrpc.INTERNAL_ERROR, f"mcpd cannot do this now: {problem.strerror}")

    def notification(self, message: Request) -> None:
        """Take a notification."""
        if message.method == "notifications/cancelled":
            with contextlib.suppress(msgspec.MsgspecError, RecursionError, KeyError):
                self.cancel(bytes(msgspec.json.decode(message.params, type=dict[str, Raw])["requestId"]))
        elif self.face is not None:
            self.face.on_notification(message)

    def cancel(self, request_id: bytes) -> None:
        """Give up one request at the client's wish; it is not answered."""
        call = self.calls.pop(request_id, None)
        if isinstance(call, Call):
            call.cancel("the client cancelled it")
        elif call is not None:
            self._mover.leave = True
            call.cancel()
        else:
            self.tasks.end(request_id)

    # -- writing ---------------------------------------------------------------------------------

    def send(self, line: bytes) -> None:
        """Queue one line, given without its newline."""
        self._stream.write(b"%b\n" % line)

    def refuse(self, request_id: bytes, code: int, message: str) -> None:
        """Answer a request with an error of the protocol."""
        self.send(jsonrpc.refusal(request_id, jsonrpc.error_body(code, message)))

    def answer(self, request_id: bytes, result: object) -> None:
        """Answer a request with a result that is still to be encoded."""
        self.calls.pop(request_id, None)
        self.send(jsonrpc.answer(request_id, msgspec.json.encode(result)))
        self.settle()

    def answered(self, call: Call, parts: Parts) -> None:
        """Pass a call's result on."""
        self.calls.pop(request_id := call.request_id, None)
        if len(parts) == 1 and len(parts[0]) <= COPY_BYTES:
            # As `jsonrpc.answer` and `send` have it, in one step: this is where most answers pass.
            self._stream.write(b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (request_id, parts[0]))  # type: ignore[str-format]
        else:
            self._stream.write_all((b'{"jsonrpc":"2.0","id":%b,"result":' % request_id, *parts, b"}\n"))
        if self._stream.out_bytes > HIGH_WATER_BYTES:
            self._hold()
        if self._last or self._room is not None:
            self.settle()

    def refused(self, call: Call, error: bytes) -> None:
        """Pass a call's error on."""
        self.calls.pop(call.request_id, None)
        self.send(jsonrpc.refusal(call.request_id, error))
        self.settle()

    def progressed(self, call: Call, params: bytes) -> None:
        """Pass progress on, unless the client does not read: progress can be missed."""
        self.hear("notifications/progress", params)

    def notify(self, method: str, params: object) -> None:
        """Send a notification that may be missed by a client that does not read."""
        self.hear(method, msgspec.json.encode(params))

    def notified(self, method: str, params: bytes) -> None:
        """Pass a notification on; it may be missed by a client that does not read."""
        if self.face is not None:
            self.face.hearing.notified(method, params)
        else:
            self.hear(method, params)

    def hear(self, method: str, params: bytes) -> None:
        """Send a notification just as it is; it may be missed, likewise."""
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
        self.questions.begin_at(hello.first_question)
        if self.face is not None:
            self.face.close()
            self.face = None
        if not turns:
            return
        for request_id, call in list(self.calls.items()):
            if isinstance(call, Call):
                call.go_stale()
            else:
                self._mover.leave = True
                call.cancel()
                self.tasks.failed(request_id, StaleSession.of_turn().to_error(), call)
        self._control.turned(self)

    @property
    def knows_server(self) -> bool:
        """Whether it has to do with one server only."""
        return self.face is not None and self.face.source.alone

    def ask(self, question: Question) -> None:
        """Put a question to the client; if it has left meanwhile, or cannot be asked any more, that is the outcome."""
        if self.closed or self._last or (self.face is not None and not self.face.can_be_asked):
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
            await self._change()

    async def room(self) -> None:
        """Wait until the client has read so far that something large may be made for it, or has left."""
        while self._stream.out_bytes > HIGH_WATER_BYTES and not self.closed:
            await self._change()

    async def _change(self) -> None:
        """Wait until something was answered, or read by the client."""
        if self._room is None:
            self._room = trio.Event()
        self._stream.on_room = self._on_room
        await self._room.wait()

    @property
    def buffered(self) -> int:
        """How many bytes of an unfinished line are held."""
        return self._inbox.buffered

    # -- requests that wait ----------------------------------------------------------------------

    def start(self, request_id: bytes, work: Work, *, refusal: Refusal = McpdError.to_error, lasts: bool = False) -> None:
        """Run a request that has to wait as a task; its return value is the result.

        Args:
            request_id: as the client wrote it.
            work: what there is to do; bytes are a result that is JSON already.
            refusal: words an error for the client.
            lasts: nobody waits for its answer, so that it keeps no connection open.
        """
        self.tasks.start(request_id, work, refusal, lasts=lasts)

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
        self.work_off()
        if self._last:
            self.settle()
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
        self.questions.leave()  # nothing more is heard from it
        if self.face is not None:
            self.face.half_closed()
        self.settle()

    def settle(self) -> None:
        """Close once nothing is owed to a client that sends no more."""
        if self._room is not None:
            self._room.set()
            self._room = None
        if not self._last or self.calls or self._inbox:
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
        self.tasks.close()
        self.questions.leave()
        if self.face is not None:
            self.face.close()
        self._mover.leave = True
        self._control.left(self)
