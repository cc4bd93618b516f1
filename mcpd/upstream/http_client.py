"""What httpx2 and its engine do for us: one pool of connections to one server, and its errors in our words.

The engine is used as it is; only what has to go through a proxy goes through all of httpx2, which knows
the proxies of the environment. Nothing else imports either, and this module is imported when the first
remote server is used.
"""

from __future__ import annotations

import functools
import ssl
from collections.abc import AsyncIterable, Mapping
from typing import TYPE_CHECKING, Self, cast
from urllib.parse import SplitResult, quote, urlsplit
from urllib.request import getproxies_environment

import httpcore2

from mcpd.config.remote import is_loopback
from mcpd.errors import ConnectFailed, ExchangeLost, HttpFailed

from .http_network import Attempt, Backend, current
from .http_reply import Reply, reason

if TYPE_CHECKING:
    import httpx2

CONNECT_SECONDS = 10.0
# Servers close what is idle after 5 seconds or more: a connection that is about to be closed is a trap.
IDLE_SECONDS = 4.0
MAX_IDLE = 64

_TIMEOUT = {"connect": CONNECT_SECONDS, "read": None, "write": None, "pool": None}
_BROKEN: tuple[type[Exception], ...] = (
    httpcore2.NetworkError,
    httpcore2.TimeoutException,
    httpcore2.ProtocolError,
    httpcore2.ProxyError,
    httpcore2.UnsupportedProtocol,
    OSError,
    ValueError,
)


@functools.cache
def _trusting() -> ssl.SSLContext:
    """The authorities of the system, or those that SSL_CERT_FILE or SSL_CERT_DIR name; reading them takes a while."""
    return httpcore2.default_ssl_context()


class _Body:
    """The one piece of a request's body."""

    def __init__(self, body: bytes) -> None:
        self._left = [body]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()


class Client:
    """The connections to one server. It knows no cookies and follows nowhere.

    Proxies are taken from the environment, but never for this machine itself.
    """

    def __init__(self, url: str, *, keep_alive: bool = True) -> None:
        parts = urlsplit(url)
        context = _trusting() if parts.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        idle = MAX_IDLE if keep_alive else 0
        self._broken = _BROKEN
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=context,
            max_connections=None,
            max_keepalive_connections=idle,
            keepalive_expiry=IDLE_SECONDS,
            network_backend=Backend(),
        )
        self._proxied: httpx2.AsyncClient | None = None
        if not is_loopback(parts.hostname or "") and set(getproxies_environment()) - {"no"}:
            import httpx2

            self._broken = (*_BROKEN, httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError)
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=idle, keepalive_expiry=IDLE_SECONDS)
            self._proxied = httpx2.AsyncClient(verify=context, trust_env=True, timeout=None, limits=limits)

    async def send(
        self, verb: str, url: str, headers: Mapping[str, str], body: bytes | None, attempt: Attempt
    ) -> Reply:
        """Send a request and return the head of its answer.

        Raises:
            ConnectFailed: Nothing was sent.
            ExchangeLost: No answer came.
            HttpFailed: A header cannot be sent.
        """
        try:
            raw = [(name.encode("ascii"), value.encode("utf-8")) for name, value in headers.items()]
            if self._proxied is None:
                return await self._send(verb, url, raw, body, attempt)
            return await self._send_proxied(self._proxied, verb, url, raw, body, attempt)
        except httpcore2.LocalProtocolError as problem:
            raise HttpFailed(f"the request cannot be sent: {reason(problem)}", may_have_run=False) from None
        except self._broken as problem:
            raise broken(problem, began=attempt.began) from None

    async def _send(
        self, verb: str, url: str, headers: list[tuple[bytes, bytes]], body: bytes | None, attempt: Attempt
    ) -> Reply:
        target = _address(url)
        if not any(name.lower() == b"host" for name, _ in headers):
            headers.insert(0, (b"Host", _host(url)))
        if body is not None:
            headers.append((b"Content-Length", b"%d" % len(body)))
        attempt.head = b"" if body else None
        request = httpcore2.Request(
            verb.encode(), target, headers=headers, content=None if body is None else _Body(body),
            extensions={"timeout": _TIMEOUT},
        )  # fmt: skip
        token = current.set(attempt)
        try:
            response = await self._pool.handle_async_request(request)
        finally:
            current.reset(token)
        return Reply(response.status, response.headers, cast("AsyncIterable[bytes]", response.stream), response.aclose, self._broken)

    async def _send_proxied(
        self,
        client: httpx2.AsyncClient,
        verb: str,
        url: str,
        headers: list[tuple[bytes, bytes]],
        body: bytes | None,
        attempt: Attempt,
    ) -> Reply:
        import httpx2

        extensions = {"timeout": _TIMEOUT, "trace": attempt.trace}
        request = httpx2.Request(verb, url, headers=headers, content=body, extensions=extensions)
        response = await client.send(request, stream=True)
        return Reply(response.status_code, response.headers.raw, cast("AsyncIterable[bytes]", response.stream), response.aclose, self._broken)

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.aclose()
        if self._proxied is not None:
            await self._proxied.aclose()


@functools.lru_cache(maxsize=256)
def _address(url: str) -> httpcore2.URL:
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return httpcore2.URL(
        scheme=parts.scheme.encode("ascii"), host=_ascii(parts), port=parts.port, target=_quoted(target)
    )


@functools.lru_cache(maxsize=256)
def _host(url: str) -> bytes:
    parts = urlsplit(url)
    host = _ascii(parts)
    if b":" in host:
        host = b"[%b]" % host
    return host if parts.port is None else b"%b:%d" % (host, parts.port)


def _ascii(parts: SplitResult) -> bytes:
    """Return the name of a host as it is looked up."""
    host = parts.hostname or ""
    return host.encode("ascii" if host.isascii() else "idna")


def _quoted(target: str) -> bytes:
    """Return a path and query with nothing in it that cannot stand in a request."""
    return quote(target, safe="!#$%&'()*+,/:;=?@[]~").encode("ascii")


def broken(problem: Exception, *, began: bool) -> ConnectFailed | ExchangeLost:
    """Return what to say of a request that got no answer."""
    if began:
        return ExchangeLost(f"the connection ended before an answer: {reason(problem)}", may_have_run=True)
    if isinstance(problem, httpcore2.TimeoutException):
        return ConnectFailed(f"no connection within {CONNECT_SECONDS:g} s", may_have_run=False)
    return ConnectFailed(f"no connection: {reason(problem)}", may_have_run=False)
