"""Asks a token endpoint: one POST over TLS or to this machine, no redirects, everything bounded.

The library is imported when the first token is refreshed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol
from urllib.parse import urlsplit

import trio

from mcpd.config.remote import is_loopback
from mcpd.errors import ConnectFailed, HttpFailed, McpdError, final

from .grant import Reply

MAX_BYTES = 1 << 20
CONNECT_SECONDS = 10.0
# An authorization server may look into a directory that is slow.
READ_SECONDS = 30.0
# What was answered is at hand already when the connection is closed.
CLOSE_SECONDS = 1.0


class Post(Protocol):
    """Sends a form, and returns what is answered."""

    async def __call__(self, url: str, form: Mapping[str, str], headers: Mapping[str, str], *, insecure: bool) -> Reply:
        """Send it.

        Raises:
            ConnectFailed: There was no answer, or none that could be read to its end.
            HttpFailed: It must not be sent there.
        """


async def post(url: str, form: Mapping[str, str], headers: Mapping[str, str], *, insecure: bool) -> Reply:
    """Send a form; `insecure` lets it go over the network in the clear. See `Post`."""
    where = _checked(url, insecure=insecure)
    import httpx2

    said = {"Accept": "application/json", "Accept-Encoding": "identity", **headers}
    try:
        timeout = httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
        client = httpx2.AsyncClient(timeout=timeout, follow_redirects=False)
        try:
            async with client.stream("POST", url, data=dict(form), headers=said) as response:
                return Reply(
                    status=response.status_code,
                    content_type=response.headers.get("content-type", ""),
                    retry_after=response.headers.get("retry-after", ""),
                    body=await _read(response, where),
                )
        finally:
            with trio.move_on_after(CLOSE_SECONDS, shield=True):
                await client.aclose()
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError, ImportError) as problem:
        raise _failed(where, problem) from None


async def _read(response: object, where: str) -> bytes:
    """Return a body as it came."""
    body = bytearray()
    async for piece in response.aiter_raw():  # type: ignore[attr-defined]  # the library's types come with the library
        body += piece
        if len(body) > MAX_BYTES:
            raise final(HttpFailed(f"token endpoint {where} answered with more than {MAX_BYTES} bytes"))
    return bytes(body)


def _checked(url: str, *, insecure: bool) -> str:
    """Return how an endpoint is shown: its origin.

    Raises:
        HttpFailed: Secrets must not be sent there.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise final(HttpFailed("the token endpoint is no URL")) from None
    if not host or not (parts.scheme == "https" or (parts.scheme == "http" and (insecure or is_loopback(host)))):
        raise final(HttpFailed(f"token endpoint {parts.scheme}://{host} is not used: it is not behind TLS"))
    return f"{parts.scheme}://{host}" + (f":{port}" if port is not None else "")


def _failed(where: str, problem: Exception) -> McpdError:
    """Say why there was no answer; what was sent is in none of these texts."""
    why = str(problem).partition("\n")[0][:200] or type(problem).__name__
    return ConnectFailed(f"token endpoint {where} did not answer: {why}", may_have_run=False)
