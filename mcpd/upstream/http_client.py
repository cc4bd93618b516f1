"""What httpx2 does for us: one pool of connections to one server, and its errors in our words.

Nothing else imports httpx2, and this module is imported when the first remote server is used.
"""

from __future__ import annotations

import functools
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from urllib.parse import urlsplit

import httpx2

from mcpd.config.remote import is_loopback
from mcpd.errors import ConnectFailed, ExchangeLost, HttpFailed, TooLarge

CONNECT_SECONDS = 10.0
# Servers close what is idle after 5 seconds or more: a connection that is about to be closed is a trap.
IDLE_SECONDS = 4.0
MAX_IDLE = 64
# Of a body that is only read to have the connection back, or for a few words of it.
EXCERPT_BYTES = 1 << 16

_TIMEOUT = {"connect": CONNECT_SECONDS, "read": None, "write": None, "pool": None}
_BROKEN = (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError, ValueError)

Response = httpx2.Response


class Attempt:
    """What has become of one request so far.

    Attributes:
        began: its write has begun: the server may have it.
        fresh: its connection was made for it.
    """

    __slots__ = ("began", "fresh")

    def __init__(self) -> None:
        self.began = self.fresh = False

    async def trace(self, event: str, info: Mapping[str, httpx2.Request]) -> None:
        """Take note of what the library does."""
        if event == "http11.send_request_headers.started":
            self.began |= info["request"].method != b"CONNECT"  # type: ignore[comparison-overlap]  # of httpcore2
        elif event == "connection.connect_tcp.started":
            self.fresh = True


@functools.cache
def _trusting() -> ssl.SSLContext:
    """The authorities of the system, or those that SSL_CERT_FILE or SSL_CERT_DIR name; reading them takes a while."""
    return httpx2.create_ssl_context()


class Client:
    """The connections to one server. It knows no cookies and follows nowhere.

    Proxies are taken from the environment, but never for this machine itself.
    """

    def __init__(self, url: str, *, keep_alive: bool = True) -> None:
        parts = urlsplit(url)
        context = _trusting() if parts.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._client = httpx2.AsyncClient(
            verify=context,
            trust_env=not is_loopback(parts.hostname or ""),
            timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
            limits=httpx2.Limits(
                max_connections=None,
                max_keepalive_connections=MAX_IDLE if keep_alive else 0,
                keepalive_expiry=IDLE_SECONDS,
            ),
        )

    async def send(
        self, verb: str, url: str, headers: Mapping[str, str], body: bytes | None, attempt: Attempt
    ) -> Response:
        """Send a request and return the head of its answer, whose body is still to be read; the caller closes it.

        Raises:
            ConnectFailed: Nothing was sent.
            ExchangeLost: No answer came.
            HttpFailed: A header cannot be sent.
        """
        try:
            raw = [(name.encode("ascii"), value.encode("utf-8")) for name, value in headers.items()]
            extensions = {"timeout": _TIMEOUT, "trace": attempt.trace}
            request = httpx2.Request(verb, url, headers=raw, content=body, extensions=extensions)
            return await self._client.send(request, stream=True)
        except httpx2.LocalProtocolError as problem:
            raise HttpFailed(f"the request cannot be sent: {problem}", may_have_run=False) from None
        except _BROKEN as problem:
            raise broken(problem, began=attempt.began) from None

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()


async def pieces(response: Response) -> AsyncGenerator[bytes, None]:
    """Yield a body as it comes, uncompressed in steps of at most a megabyte.

    Raises:
        ExchangeLost: It broke off, or cannot be uncompressed.
    """
    try:
        async with aclosing(response.aiter_bytes()) as stream:
            async for piece in stream:
                yield piece
    except httpx2.DecodingError as problem:
        raise ExchangeLost(f"the answer cannot be uncompressed: {problem}", may_have_run=True) from None
    except _BROKEN as problem:
        raise ExchangeLost(f"the answer broke off: {reason(problem)}", may_have_run=True) from None


async def body_of(response: Response, max_bytes: int) -> bytes:
    """Read a whole body.

    Raises:
        TooLarge: It is longer than that.
        ExchangeLost: as `pieces`.
    """
    announced = response.headers.get("content-length", "")
    too_large = len(announced) > 18 or (announced.isdigit() and int(announced) > max_bytes)
    parts: list[bytes] = []
    size = 0
    if not too_large:
        async with aclosing(pieces(response)) as stream:
            async for piece in stream:
                parts.append(piece)
                size += len(piece)
                if size > max_bytes:
                    too_large = True
                    break
    if too_large:
        raise TooLarge(f"the answer is longer than {max_bytes} bytes (limits.message_bytes)", may_have_run=True)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def head_of(response: Response) -> bytes:
    """Read the beginning of a body, as far as it comes, and close the answer."""
    parts: list[bytes] = []
    try:
        async with aclosing(pieces(response)) as stream:
            async for piece in stream:
                parts.append(piece)
                if sum(map(len, parts)) >= EXCERPT_BYTES:
                    break
    except ExchangeLost:
        pass
    finally:
        await response.aclose()
    return b"".join(parts)[:EXCERPT_BYTES]


def broken(problem: Exception, *, began: bool) -> ConnectFailed | ExchangeLost:
    """Return what to say of a request that got no answer."""
    if began:
        return ExchangeLost(f"the connection ended before an answer: {reason(problem)}", may_have_run=True)
    if isinstance(problem, httpx2.TimeoutException):
        return ConnectFailed(f"no connection within {CONNECT_SECONDS:g} s", may_have_run=False)
    return ConnectFailed(f"no connection: {reason(problem)}", may_have_run=False)


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
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror[:1].lower() + problem.strerror[1:]
    return str(problem).rstrip(".") or type(problem).__name__
