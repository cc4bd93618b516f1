"""One message on its way to a remote server, and what comes back over the stream of its POST.

The answer is JSON, or a stream that may carry other messages before it. Once it is there the stream is
left, whether the server ends it or not. A stream of a legacy session that breaks off before the answer
is gone on with where its events had ids; without ids the request is lost. A request that has failed
concerns nobody else.

Spec: 2025-11-25 and 2026-07-28 basic/transports, "Streamable HTTP".
"""

from __future__ import annotations

from collections.abc import Mapping

import trio

from mcpd.errors import ConnectFailed, ExchangeLost, McpdError
from mcpd.mover import Mover
from mcpd.protocol import evidence
from mcpd.protocol.jsonrpc import Message
from mcpd.protocol.sse import Decoder, Event

from .around import Listener
from .http_failures import Refusal, essence, named, no_message, refused
from .http_lines import answers, deliver, messages, one_line
from .http_mirroring import is_mismatch, learned
from .http_network import Attempt
from .http_reply import Reply, body_of, head_of
from .http_session import STREAM
from .http_talk import Talk

# How long a server may take to end a stream that has carried the answer; then its connection is given up.
LINGER_SECONDS = 0.25
# Where a server does not say how long to wait before a stream is gone on with.
RETRY_SECONDS = 1.0
# A server that wants no pause at all is not asked without one.
MIN_RETRY_SECONDS = 0.05
# A stream that is gone on with this often and never says anything has nothing to say.
MAX_IDLE_RESUMES = 5
# What comes back for a notification is nothing, or not worth waiting for.
TELL_SECONDS = 30.0


class Post:
    """One message that is being sent.

    Attributes:
        body: the message; also the handle by which it is known.
        id: of a request, as JSON; empty for notifications and answers.
        scope: cancelling it is the end of the exchange; the server sees its connection close.
    """

    __slots__ = ("attempt", "body", "id", "message", "method", "scope")

    def __init__(self, body: bytes, message: Message) -> None:
        self.body, self.message = body, message
        self.method = message.method or ""
        self.id = bytes(message.id) if self.method else b""
        self.attempt = Attempt()
        self.scope = trio.CancelScope()


class Poster:
    """Sends the messages of one transport, and hands over what comes back."""

    def __init__(self, talk: Talk, mover: Mover, owner: Listener) -> None:
        self._talk, self._mover, self._owner = talk, mover, owner
        self._limit = talk.server.limits.message_bytes

    async def tell(self, post: Post) -> str | None:
        """Send a notification or an answer; return why that failed, if it did."""
        talk = self._talk
        with trio.move_on_after(TELL_SECONDS):
            try:
                reply = await talk.open("POST", talk.session.headers(post.message), post.body, post.attempt)
            except McpdError as problem:
                return problem.message
            if isinstance(reply, Refusal):
                return refused(talk.server.name, reply, talk.redact).message
            await head_of(reply)
            return None
        return f"no answer within {TELL_SECONDS:g} s"

    async def ask(self, post: Post) -> None:
        """Send a request, and see it through to its answer.

        Raises:
            McpdError: There is none.
        """
        reply = await self.opened(post)
        if isinstance(reply, Refusal) and is_mismatch(post.method, reply) and await learned(self._talk, post.message):
            reply = await self.opened(post)
        if isinstance(reply, Refusal):
            self.refused(post, reply)
        else:
            await self.read(post, reply)

    async def opened(self, post: Post, url: str | None = None) -> Reply | Refusal:
        """Send a request; return what came back."""
        talk = self._talk
        return await talk.open(
            "POST",
            talk.session.headers(post.message),
            post.body,
            post.attempt,
            repeatable=post.method != "tools/call",
            url=url,
        )

    # -- no answer -------------------------------------------------------------------------------

    def fail(self, post: Post, problem: McpdError) -> None:
        """Fail a request, and nothing else."""
        self._mover.batch(lambda: self._owner.on_failed(post.id, problem))

    def refused(self, post: Post, refusal: Refusal) -> None:
        """Conclude from a status that is not 2xx."""
        session, status, body = self._talk.session, refusal.status, refusal.body
        if post.method == "server/discover" and session.revision is None:
            line = evidence.of_probe(status, body, post.id)
        else:
            line = evidence.error_in(body, post.id)
        if session.id is not None and post.method != "initialize" and evidence.forgot_session(status, body):
            session.forgotten = True
            self._mover.batch(lambda: self._owner.on_forgotten(post.id))
        elif line is not None:
            self.hand_over(line, post.id)
        else:
            problem = refused(self._talk.server.name, refusal, self._talk.redact, self._hint(post, status))
            self.fail(post, problem)

    def _hint(self, post: Post, status: int) -> str | None:
        if post.method == "initialize" and status in evidence.OTHER_TRANSPORT:
            return "check url in its entry; an older server may need allow_legacy_sse = true there"
        return None

    # -- an answer -------------------------------------------------------------------------------

    async def read(self, post: Post, response: Reply) -> None:
        """Read the answer to a request.

        Raises:
            McpdError: There is none.
        """
        kind = essence(response.content_type)
        async with response:
            if kind == STREAM:
                await self._follow_to_answer(post, response)
            elif kind == "application/json" or kind.endswith("+json") or not kind:
                await self._take_body(post, response)
            else:
                self._no_message(post, response, await head_of(response))

    def _no_message(self, post: Post, response: Reply, body: bytes) -> None:
        status, kind = response.status, response.content_type
        if post.method == "server/discover" and self._talk.session.revision is None:
            line = evidence.of_probe(status, b"", post.id)
            if line is not None:
                self.hand_over(line, post.id)
                return
        self.fail(post, no_message(self._talk.server.name, status, kind, body, self._talk.redact))

    async def _take_body(self, post: Post, response: Reply) -> None:
        try:
            body = await body_of(response, self._limit)
        except McpdError as problem:
            what = named(response.status, response.content_type)
            problem.message = f"{what}, but {problem.message}"
            raise self._talk.named(problem) from None
        line = one_line(body)
        if answers(line, post.id):
            self._talk.session.learn(post.method, line, response.headers)
            self.hand_over(line, post.id)
            return
        if line[:1] in (b"{", b"["):
            # An error without an id answers this request, what else could it be; others know what is nearly right.
            self.hand_over(evidence.error_in(line, post.id) or line, post.id)
        self._no_message(post, response, body)

    def hand_over(self, line: bytes, origin: bytes) -> None:
        """Hand over one message."""
        self._mover.batch(lambda: self._owner.on_message(line, origin))

    # -- streams ---------------------------------------------------------------------------------

    async def _follow_to_answer(self, post: Post, response: Reply) -> None:
        """Follow a stream, and those that go on with it, until the answer is there.

        Raises:
            McpdError: It will not come.
        """
        decoder, headers, idle = Decoder(self._limit), response.headers, 0
        while not await self._follow(post, response, decoder, headers):
            idle = 0 if decoder.blocks else idle + 1
            if decoder.last_id is None or self._talk.session.revision is None or idle > MAX_IDLE_RESUMES:
                raise self._ended(response)
            decoder = decoder.resumed()
            response = await self._resumed(decoder, self._ended(response))

    def _ended(self, response: Reply) -> ExchangeLost:
        kind = f"HTTP {response.status}, {STREAM}"
        problem = ExchangeLost(f"the stream ended without the answer ({kind})", may_have_run=True)
        self._talk.named(problem)
        return problem

    async def _follow(self, post: Post, response: Reply, decoder: Decoder, headers: Mapping[str, str]) -> bool:
        """Hand over what a stream brings, to its end; return whether the answer was in it."""
        is_answered = False
        try:
            with trio.CancelScope() as limit:
                async with response:
                    async for piece in response.pieces():
                        if (events := decoder.feed(piece)) and self._take(events, post, headers):
                            is_answered = True
                            limit.deadline = trio.current_time() + LINGER_SECONDS
        except ExchangeLost:
            pass  # a stream that breaks off is a stream that ends
        except McpdError as problem:
            problem.may_have_run = True
            raise self._talk.named(problem) from None
        return is_answered

    def _take(self, events: list[Event], post: Post, headers: Mapping[str, str]) -> bool:
        """Hand over the messages among some events; return whether one is the answer."""
        lines = messages(events)
        answer = next((line for line in lines if answers(line, post.id)), None)
        if answer is not None:
            self._talk.session.learn(post.method, answer, headers)
        deliver(self._mover, self._owner, lines, post.id)
        return answer is not None

    async def _resumed(self, decoder: Decoder, lost: ExchangeLost) -> Reply:
        """Ask for the rest of a stream, after the pause that the server wants.

        Raises:
            ExchangeLost: There is none.
        """
        for _ in range(MAX_IDLE_RESUMES):
            await trio.sleep(pause(decoder, RETRY_SECONDS))
            try:
                reply = await listen(self._talk, decoder.last_id)
            except (ConnectFailed, ExchangeLost):
                continue
            except McpdError as problem:
                problem.may_have_run = True
                raise
            if isinstance(reply, Refusal):
                lost.message += f", and cannot be gone on with (HTTP {reply.status})"
                raise lost
            return reply
        raise lost


def pause(decoder: Decoder, seconds: float) -> float:
    """Return how long to wait before a stream is asked for again; `seconds` where the server has not said."""
    return seconds if decoder.retry_ms is None else max(decoder.retry_ms / 1000, MIN_RETRY_SECONDS)


async def listen(talk: Talk, last_id: bytes | None, url: str | None = None) -> Reply | Refusal:
    """Open a stream by GET, the server's own or the rest of another; an answer that is no stream is a refusal.

    Raises:
        McpdError: as `Talk.open`.
    """
    headers = {"Accept": STREAM, **talk.session.legacy_headers()}
    if last_id is not None:
        headers["Last-Event-ID"] = last_id.decode("utf-8", "replace")
    reply = await talk.open("GET", headers, url=url)
    if isinstance(reply, Refusal) or essence(reply.content_type) == STREAM:
        return reply
    await reply.close()
    return Refusal(reply.status, reply.content_type, b"")
