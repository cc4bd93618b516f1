"""The answer to an HTTP request: its head at once, its body as it comes, uncompressed, and never more than is allowed.

Spec: RFC 9110 8.4 (content codings); only gzip is asked for.
"""

from __future__ import annotations

import os
import ssl
import zlib
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing

from mcpd.errors import ExchangeLost, TooLarge

# Of a body that is only read to have the connection back, or for a few words of it.
EXCERPT_BYTES = 1 << 16
# What one step of uncompressing yields at most.
STEP_BYTES = 1 << 20
LENGTH_DIGITS = 18


class Reply:
    """The head of an answer, whose body is still to be read, and which has to be closed.

    Attributes:
        status: its number.
        headers: by their names in lower case; several of one name in one.
        stream: the body as it travels.
        broken: what reading it may raise.
    """

    __slots__ = ("_close", "broken", "headers", "status", "stream")

    def __init__(
        self,
        status: int,
        headers: Iterable[tuple[bytes, bytes]],
        stream: AsyncIterable[bytes],
        close: Callable[[], Awaitable[None]],
        broken: tuple[type[Exception], ...],
    ) -> None:
        self.status, self.stream, self.broken, self._close = status, stream, broken, close
        self.headers: dict[str, str] = {}
        for key, value in headers:
            name, text = key.decode("latin-1").lower(), value.decode("latin-1")
            self.headers[name] = f"{self.headers[name]}, {text}" if name in self.headers else text

    @property
    def content_type(self) -> str:
        """Of the body, with parameters; empty if it is not said."""
        return self.headers.get("content-type", "")

    async def close(self) -> None:
        """Give the connection back, or close it where the answer has not ended. Idempotent."""
        await self._close()


class _Inflater:
    """Uncompresses gzip, also several in a row."""

    def __init__(self) -> None:
        self._one = zlib.decompressobj(zlib.MAX_WBITS | 16)

    def steps(self, data: bytes) -> Iterator[bytes]:
        """Yield what some bytes hold, bounded; raises zlib.error."""
        while data:
            if self._one.eof:
                self._one = zlib.decompressobj(zlib.MAX_WBITS | 16)
            if step := self._one.decompress(data, STEP_BYTES):
                yield step
            data = self._one.unused_data if self._one.eof else self._one.unconsumed_tail


async def pieces(reply: Reply) -> AsyncGenerator[bytes, None]:
    """Yield a body as it comes, uncompressed in steps of at most a megabyte.

    Raises:
        ExchangeLost: It broke off, or cannot be uncompressed.
    """
    coding = reply.headers.get("content-encoding", "identity").strip().lower()
    inflater = _Inflater() if coding in ("gzip", "x-gzip") else None
    if inflater is None and coding not in ("identity", ""):
        raise ExchangeLost(f"the answer comes in a coding that was not asked for, {coding[:40]}", may_have_run=True)
    stream = reply.stream.__aiter__()
    try:
        async for piece in stream:
            if inflater is None:
                yield piece
            else:
                for step in inflater.steps(piece):
                    yield step
    except zlib.error as problem:
        raise ExchangeLost(f"the answer cannot be uncompressed: {problem}", may_have_run=True) from None
    except reply.broken as problem:
        raise ExchangeLost(f"the answer broke off: {reason(problem)}", may_have_run=True) from None
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()


async def body_of(reply: Reply, max_bytes: int) -> bytes:
    """Read a whole body.

    Raises:
        TooLarge: It is longer than that.
        ExchangeLost: as `pieces`.
    """
    announced = reply.headers.get("content-length", "")
    too_large = announced.isdigit() and (len(announced) > LENGTH_DIGITS or int(announced) > max_bytes)
    parts: list[bytes] = []
    size = 0
    if not too_large:
        async with aclosing(pieces(reply)) as stream:
            async for piece in stream:
                parts.append(piece)
                size += len(piece)
                if size > max_bytes:
                    too_large = True
                    break
    if too_large:
        raise TooLarge(f"the answer is longer than {max_bytes} bytes (limits.message_bytes)", may_have_run=True)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def head_of(reply: Reply) -> bytes:
    """Read the beginning of a body, as far as it comes, and close the answer."""
    parts: list[bytes] = []
    size = 0
    try:
        async with aclosing(pieces(reply)) as stream:
            async for piece in stream:
                parts.append(piece)
                size += len(piece)
                if size >= EXCERPT_BYTES:
                    break
    except ExchangeLost:
        pass
    finally:
        await reply.close()
    return b"".join(parts)[:EXCERPT_BYTES]


def reason(problem: BaseException) -> str:
    """Say what is at the bottom of an error."""
    while True:
        if isinstance(problem, BaseExceptionGroup):
            problem = problem.exceptions[0]
        elif isinstance(problem, ssl.SSLCertVerificationError):
            return f"the certificate cannot be trusted: {problem.verify_message}"
        elif (below := problem.__cause__ or problem.__context__) is not None:
            problem = below
        else:
            break
    if isinstance(problem, OSError) and problem.errno and problem.strerror:
        text = os.strerror(problem.errno) if problem.errno > 0 else problem.strerror  # trio's says too much
        return text[:1].lower() + text[1:]
    return str(problem).rstrip(".") or type(problem).__name__
