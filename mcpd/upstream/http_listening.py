"""The stream on which a legacy server says what belongs to no request.

It is asked for once there is a session. A server that has none is not asked again; one that breaks off
is, after the pause that it wants, or after longer and longer ones while nothing comes of it.

Spec: 2025-11-25 basic/transports, "Listening for messages from the server", "Resumability and redelivery".
"""

from __future__ import annotations

import trio

from mcpd.errors import AuthRequired, ConnectFailed, ExchangeLost, McpdError
from mcpd.mover import Mover
from mcpd.protocol.sse import Decoder

from .around import Listener
from .http_failures import Refusal
from .http_lines import deliver, messages
from .http_post import RETRY_SECONDS, listen
from .http_reply import Reply
from .http_talk import Talk

MAX_PAUSE_SECONDS = 60.0
MIN_PAUSE_SECONDS = 0.5


async def keep_listening(talk: Talk, mover: Mover, owner: Listener) -> None:
    """Listen as long as the server has something to listen to."""
    decoder, pause = Decoder(talk.server.limits.message_bytes), RETRY_SECONDS
    while True:
        try:
            reply = await listen(talk, decoder.last_id)
        except AuthRequired:
            return  # the next request says so
        except (ConnectFailed, ExchangeLost):
            pause = min(2 * pause, MAX_PAUSE_SECONDS)
        except McpdError:
            return
        else:
            if isinstance(reply, Refusal):
                return
            decoder = decoder.resumed()
            if not await follow(reply, decoder, mover, owner):
                return
            pause = RETRY_SECONDS if decoder.blocks else min(2 * pause, MAX_PAUSE_SECONDS)
        await trio.sleep(_pause(pause, decoder.retry_ms))


def _pause(own: float, retry_ms: int | None) -> float:
    """Return how long to wait: as the server wants, but no server is asked all the time, for nothing or in vain."""
    if retry_ms is None:
        return own
    return max(retry_ms / 1000, MIN_PAUSE_SECONDS if own == RETRY_SECONDS else own)


async def follow(response: Reply, decoder: Decoder, mover: Mover, owner: Listener) -> bool:
    """Hand over what a stream brings, to its end; return False if it cannot be read on, and must not be asked for again."""
    try:
        async with response:
            async for piece in response.pieces():
                if lines := messages(decoder.feed(piece)):
                    deliver(mover, owner, lines, b"")
    except ExchangeLost:
        pass
    except McpdError:
        return False
    return True
