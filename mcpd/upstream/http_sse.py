"""The transport before Streamable HTTP: one stream for all that a server says, and an address for what it is told.

The first event names the address; it must be on the same server, which could aim our messages anywhere
otherwise. When the stream ends the session is over.

Spec: 2024-11-05 basic/transports, "HTTP with SSE".
"""

from __future__ import annotations

from urllib.parse import urljoin

import trio

from mcpd.errors import HttpFailed, McpdError, ServerLost
from mcpd.mover import Mover
from mcpd.protocol.sse import Decoder, Event

from .around import Listener
from .http_failures import Refusal, refused
from .http_lines import deliver, messages
from .http_post import Post, Poster, listen
from .http_reply import Reply, head_of
from .http_talk import Talk, origin


class OldStream:
    """The one stream of a server of the older transport."""

    def __init__(self, talk: Talk, mover: Mover, owner: Listener) -> None:
        self._talk, self._mover, self._owner = talk, mover, owner
        self._decoder = Decoder(talk.server.limits.message_bytes)
        self._named = trio.Event()
        self._address: str | None = None
        self._problem: McpdError | None = None

    async def run(self) -> McpdError:
        """Follow the stream to its end; return what to say then."""
        name = self._talk.server.name
        self._problem = ServerLost(f"server '{name}' ended its stream", server=name)
        try:
            reply = await listen(self._talk, None)
            if isinstance(reply, Refusal):
                self._problem = refused(name, reply, self._talk.redact)
            else:
                await self._follow(reply)
        except McpdError as problem:
            self._problem = problem
        finally:
            self._named.set()
        return self._problem

    async def _follow(self, response: Reply) -> None:
        async with response:
            async for piece in response.pieces():
                events = self._decoder.feed(piece)
                if self._address is None:
                    self._look_for_address(events)
                if lines := messages(events):
                    deliver(self._mover, self._owner, lines, b"")

    def _look_for_address(self, events: list[Event]) -> None:
        where = next((event.data for event in events if event.name == "endpoint"), None)
        if where is None:
            return
        name, url = self._talk.server.name, self._talk.url
        try:
            address = urljoin(url, where.decode().strip())
            there = origin(address)
        except ValueError:
            there = "nowhere"
        if there != origin(url):
            raise HttpFailed(f"server '{name}' wants its messages sent to another server, {there}", server=name)
        self._address = address
        self._named.set()

    async def send(self, poster: Poster, post: Post) -> None:
        """Send a message; its answer comes over the stream.

        Raises:
            McpdError: It was not taken.
        """
        await self._named.wait()
        if self._address is None:
            raise self._problem or HttpFailed("there is no stream", server=self._talk.server.name)
        reply = await poster.opened(post, self._address)
        if not isinstance(reply, Refusal):
            await head_of(reply)
        elif post.id:
            poster.refused(post, reply)
