"""The transport to a remote server: whole JSON-RPC messages over HTTP, one POST each.

It knows of MCP what the transport has to know: sessions, streams, headers, and that a cancelled request
of 2026-07-28 is one whose stream is closed. The library that speaks HTTP is loaded with the first server.

Spec: 2024-11-05 … 2026-07-28 basic/transports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
import trio
from msgspec import Raw, Struct

from mcpd.config.expand import Launch
from mcpd.config.model import Server
from mcpd.errors import AuthRequired, McpdError
from mcpd.protocol import evidence, jsonrpc
from mcpd.protocol.jsonrpc import ABSENT

from .around import Credentials, Listener, Surroundings

if TYPE_CHECKING:
    from .http_post import Post, Poster
    from .http_sse import OldStream
    from .http_talk import Talk

INITIALIZED = "notifications/initialized"
CANCELLED = "notifications/cancelled"
HANDSHAKE = ("server/discover", "initialize")
# Requests follow the notification that opens the session, but not for ever.
OPENING_SECONDS = 5.0
DELETE_SECONDS = 2.0
CLOSE_SECONDS = 1.0
# Others are being answered when a credential has run out: they may still be.
PARTING_SECONDS = 5.0
# What a message costs while it is on its way, beside its bytes.
MESSAGE_BYTES = 1024


class _Cancelled(Struct):
    requestId: Raw = ABSENT


class HttpTransport:
    """One session with a remote server.

    Attributes:
        over: no message will come any more.
        problem: why, if it was not asked to end.
        counts: notifications and answers of ours that did not arrive.
    """

    pid = None

    def __init__(self, around: Surroundings, owner: Listener, talk: Talk, poster: Poster) -> None:
        self.over = self._ended = self._killed = False
        self.problem: Exception | None = None
        self.counts: Counter[str] = Counter()
        self._around, self._mover, self._owner = around, around.mover, owner
        self._talk, self._poster = talk, poster
        self._posts: dict[int, Post] = {}  # by the identity of the body
        self._requests: dict[bytes, Post] = {}
        self._handshake: list[Post] | None = []
        self._opened: trio.Event | None = None
        self._old: OldStream | None = None
        self._signed_out: AuthRequired | None = None
        self._tasks: trio.Nursery | None = None
        talk.on_signed_out = self._sign_out

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        """Hold the tasks of all exchanges until the end."""
        async with trio.open_nursery() as self._tasks:
            task_status.started()
            await trio.sleep_forever()

    # -- what is sent ----------------------------------------------------------------------------

    @property
    def backlog_bytes(self) -> int:
        """How much of what the server is told, or answered, has not been taken by it yet."""
        return sum(len(post.body) + MESSAGE_BYTES for post in self._posts.values() if not post.id)

    def send(self, body: bytes) -> bytes:
        """Begin to send one message; return the handle to ask `untouched` or `withdraw` about it."""
        if self.over or self._tasks is None:
            return body
        from .http_post import Post

        message = jsonrpc.decode(body)
        if message.method == CANCELLED and self._cancel(message.params):
            return body
        post = Post(body, message)
        self._posts[id(body)] = post
        if post.id:
            self._requests[post.id] = post
        self._note_phase(post)
        self._tasks.start_soon(self._run, post)
        self._mover.leave = True
        return body

    def _note_phase(self, post: Post) -> None:
        """Once the session is agreed, what else was asked for that is of no interest any more."""
        if self._handshake is None:
            return
        if post.method in HANDSHAKE:
            self._handshake.append(post)
            return
        for asked in self._handshake:
            asked.scope.cancel()
        self._handshake = None
        if post.method == INITIALIZED:
            self._opened = trio.Event()

    def _cancel(self, params: Raw) -> bool:
        """Give a request up; return whether the end of its exchange says all there is to say.

        Spec: 2026-07-28, closing the stream is the cancel; before, it means nothing, and the server is told.
        """
        try:
            request_id = bytes(msgspec.json.decode(params, type=_Cancelled).requestId)
        except (msgspec.MsgspecError, RecursionError):
            return False
        if (post := self._requests.get(request_id)) is not None:
            post.scope.cancel()
            self._mover.leave = True
        return self._talk.session.revision is None and self._old is None

    def untouched(self, frame: bytes) -> bool:
        """Whether the write of a message has not begun."""
        post = self._posts.get(id(frame))
        return post is not None and post.body is frame and not post.attempt.began

    def withdraw(self, frame: bytes) -> bool:
        """Take back a message whose write has not begun."""
        if not self.untouched(frame):
            return False
        self._posts[id(frame)].scope.cancel()
        self._forget(self._posts[id(frame)])
        self._mover.leave = True
        return True

    def _forget(self, post: Post) -> None:
        self._posts.pop(id(post.body), None)
        if post.id and self._requests.get(post.id) is post:
            del self._requests[post.id]

    # -- one message -----------------------------------------------------------------------------

    async def _run(self, post: Post) -> None:
        try:
            with post.scope:
                if post.id:
                    await self._ask(post)
                else:
                    await self._tell(post)
        finally:
            self._forget(post)
            if post.method == INITIALIZED and self._opened is not None:
                self._opened.set()
        if post.method == INITIALIZED and self._old is None:
            from .http_listening import keep_listening

            await keep_listening(self._talk, self._mover, self._owner)
        if self._signed_out is not None:
            self._part()

    async def _ask(self, post: Post) -> None:
        if self._opened is not None and not self._opened.is_set():
            with trio.move_on_after(OPENING_SECONDS):
                await self._opened.wait()
        try:
            if self._old is not None:
                await self._old.send(self._poster, post)
            elif post.method == "initialize" and self._talk.server.allow_legacy_sse:
                await self._initialize(post)
            else:
                await self._poster.ask(post)
        except McpdError as problem:
            self._poster.fail(post, problem)

    async def _tell(self, post: Post) -> None:
        if self._old is not None:
            try:
                await self._old.send(self._poster, post)
            except McpdError as problem:
                self._note_untold(post, problem.message)
        elif (why := await self._poster.tell(post)) is not None:
            self._note_untold(post, why)

    def _note_untold(self, post: Post, why: str) -> None:
        self.counts["untold"] += 1
        if self.counts["untold"] == 1:
            self._around.log.warning(
                "upstream.untold", upstream=self._talk.server.name, method=post.method or "answer", problem=why
            )

    # -- the older transport ---------------------------------------------------------------------

    async def _initialize(self, post: Post) -> None:
        """Ask for a session; where this is not the transport for that, turn to the older one."""
        from .http_failures import Refusal
        from .http_sse import OldStream

        reply = await self._poster.opened(post)
        if not isinstance(reply, Refusal):
            await self._poster.read(post, reply)
        elif reply.status in evidence.OTHER_TRANSPORT and not evidence.is_modern(reply.body) and self._tasks:
            self._old = OldStream(self._talk, self._mover, self._owner)
            self._tasks.start_soon(self._follow_old, self._old)
            await self._old.send(self._poster, post)
        else:
            self._poster.refused(post, reply)

    async def _follow_old(self, old: OldStream) -> None:
        problem = await old.run()
        self.problem = problem
        self._mover.batch(self._finish)

    # -- the end ---------------------------------------------------------------------------------

    def _sign_out(self, problem: AuthRequired) -> None:
        """End, because nobody is let in any more; those that are being answered have a moment for that."""
        if self._signed_out is None:
            self._signed_out = self.problem = problem
            self._around.timers.after(PARTING_SECONDS, self._leave)

    def _part(self) -> None:
        if all(post.method == "subscriptions/listen" for post in self._requests.values()):
            self._mover.batch(self._leave)

    def _leave(self) -> None:
        if not self.over:
            self.problem = self._signed_out
            self._finish()

    def _finish(self) -> None:
        if not self.over:
            self.over = True
            self._owner.on_over()

    def kill(self) -> None:
        """End now, without any politeness."""
        self._killed = True
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()
        self._mover.batch(self._finish)

    async def exits_within(self, seconds: float) -> bool:
        """Say whether it has ended: there is no process to wait for."""
        await trio.lowlevel.checkpoint()
        return self.over

    async def end(self, eof_seconds: float, term_seconds: float) -> str | None:
        """Break off what is in flight, give the session back, close all connections; bounded and shielded. Idempotent."""
        if self._ended:
            return None
        self._ended = self.over = True
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            if not self._killed and self._signed_out is None:
                with trio.move_on_after(DELETE_SECONDS):
                    await self._talk.give_back()
            with trio.move_on_after(CLOSE_SECONDS):
                await self._talk.close()
        return None


async def open_http(
    credentials_of: Callable[[Server, Launch, Surroundings], Credentials],
    around: Surroundings,
    owner: Listener,
    launch: Launch,
    server: Server,
) -> HttpTransport:
    """Open the transport to a remote server; nothing is sent yet.

    Raises:
        McpdError: Its credentials cannot be had.
    """
    from .http_post import Poster
    from .http_talk import Talk

    talk = Talk(server, launch.url or "", launch.secrets, credentials_of(server, launch, around))
    transport = HttpTransport(around, owner, talk, Poster(talk, around.mover, owner))
    await around.nursery.start(transport.run)
    return transport
