"""The answer to an HTTP request: its head at once, its body as it comes, uncompressed, and never more than is allowed.

Spec: RFC 9110 8.4 (content codings); only gzip is asked for.
"""

from __future__ import annotations

import contextlib
import os
import re
import ssl
import zlib
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Self

import trio

from mcpd.errors import ExchangeLost, TooLarge

# Of a body that is only read to have the connection back, or for a few words of it.
EXCERPT_BYTES = 1 << 16
# What one step of uncompressing yields at most.
STEP_BYTES = 1 << 20
LENGTH_DIGITS = 18
CLOSE_SECONDS = 1.0
# As they stand at the end of what h11 says; no redactor knows a secret that is spelled so.
_BYTES = re.compile(r":? (?:bytearray\()?b['\"].*", re.DOTALL)


class Reply:
    """The head of an answer, whose body is still to be read, and which has to be closed.

    Attributes:
        status: its number.
        headers: by their names in lower case; several of one name in one.
        stream: the body as it travels.
        broken: what reading it may raise.
    """

    __slots__ = ("_close", "_pieces", "broken", "headers", "status", "stream")

    def __init__(
        self,
        status: int,
        headers: Iterable[tuple[bytes, bytes]],
        stream: AsyncIterable[bytes],
        close: Callable[[], Awaitable[None]],
        broken: tuple[type[Exception], ...],
    ) -> None:
        self.status, self.stream, self.broken, self._close = status, stream, broken, close
        self._pieces: AsyncIterator[bytes] | None = None
        self.headers: dict[str, str] = {}
        for key, value in headers:
            name, text = key.decode("latin-1").lower(), value.decode("latin-1")
            self.headers[name] = f"{self.headers[name]}, {text}" if name in self.headers else text

    @property
    def content_type(self) -> str:
        """Of the body, with parameters; empty if it is not said."""
        return self.headers.get("content-type", "")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *reason: object) -> None:
        with trio.move_on_after(CLOSE_SECONDS, shield=True):
            await self.close()

    async def close(self) -> None:
        """Give the connection back, or close it where the answer has not ended. Idempotent."""
        with trio.move_on_after(CLOSE_SECONDS, shield=True):
            if isinstance(self._pieces, AsyncGenerator):
                await self._pieces.aclose()
            await self._close()

    def pieces(self) -> Pieces:
        """Return the body, piece by piece; it can be read once."""
        self._pieces = self.stream.__aiter__()
        return Pieces(self, self._pieces)


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


class Pieces:
    """A body as it comes, uncompressed in steps of at most a megabyte.

    To iterate raises ExchangeLost where it breaks off, or cannot be uncompressed.
    """

    def __init__(self, reply: Reply, travelling: AsyncIterator[bytes]) -> None:
        self._broken, self._travelling = reply.broken, travelling
        self._coding = reply.headers.get("content-encoding", "identity").strip().lower()
        self._inflater = _Inflater() if self._coding in ("gzip", "x-gzip") else None
        self._steps: Iterator[bytes] = iter(())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._inflater is None and self._coding not in ("identity", ""):
            what = f"the answer comes in a coding that was not asked for, {self._coding[:40]}"
            raise ExchangeLost(what, may_have_run=True)
        try:
            while (step := next(self._steps, None)) is None:
                piece = await anext(self._travelling)
                if self._inflater is None:
                    return piece
                self._steps = self._inflater.steps(piece)
        except zlib.error as problem:
            raise ExchangeLost(f"the answer cannot be uncompressed: {problem}", may_have_run=True) from None
        except self._broken as problem:
            raise ExchangeLost(f"the answer broke off: {reason(problem)}", may_have_run=True) from None
        return step


async def body_of(reply: Reply, max_bytes: int) -> bytes:
    """Read a whole body.

    Raises:
        TooLarge: It is longer than that.
        ExchangeLost: It broke off, or cannot be uncompressed.
    """
    announced = reply.headers.get("content-length", "")
    too_large = announced.isdigit() and (len(announced) > LENGTH_DIGITS or int(announced) > max_bytes)
    parts: list[bytes] = []
    size = 0
    if not too_large:
        async for piece in reply.pieces():
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
    async with reply:
        with contextlib.suppress(ExchangeLost):
            async for piece in reply.pieces():
                parts.append(piece)
                size += len(piece)
                if size >= EXCERPT_BYTES:
                    break
    return b"".join(parts)[:EXCERPT_BYTES]


def reason(problem: BaseException) -> str:
    """Say what is at the bottom of an error, without the bytes that it complains of: they may be secret."""
    while True:
        if isinstance(problem, BaseExceptionGroup):
            problem = problem.exceptions[0]
        elif isinstance(problem, ssl.SSLCertVerificationError):
            return f"the certificate cannot be trusted: {problem.verify_message}"
        elif (below := problem.__cause__ or problem.__context__) is not None:
            problem = below
        else:
            break
    if isinstance(problem, ssl.SSLError):  # its errno is none of the system's
        return f"no TLS: {(problem.reason or 'it failed').replace('_', ' ').lower()}"
    if isinstance(problem, OSError) and problem.errno and problem.strerror:
        text = os.strerror(problem.errno) if problem.errno > 0 else problem.strerror  # trio's says too much
        return text[:1].lower() + text[1:]
    return _BYTES.sub("", str(problem)).rstrip(".") or type(problem).__name__
