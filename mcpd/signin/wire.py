"""The requests of a sign-in: where they may go, how much may come back.

The SDK's flow says what to ask and reads the answers; it is driven by hand, so that each request is looked at before it
leaves and each answer before the flow sees it.
"""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import httpx2
import trio

from mcpd import __version__
from mcpd.upstream.http_reply import reason

from .entry import Entry
from .problems import SignInFailed, Unreachable
from .urls import UnfitUrl, checked, host_of, is_inside, shown

# Metadata, a registration, a token: none is near this.
MAX_BODY_BYTES = 1 << 20
# A body in all its parts, not only from one part to the next.
EXCHANGE_SECONDS = 30.0
# A body is handed on decoded and whole.
_DROPPED = ("content-encoding", "content-length", "transfer-encoding")


class Wire:
    """Sends requests for one server's sign-in.

    Args:
        entry: of that server.
        client: sends them; follows no redirect.
    """

    def __init__(self, entry: Entry, client: httpx2.AsyncClient) -> None:
        self._entry, self._client = entry, client
        self._trusted = {host_of(url) for url in (entry.url, entry.issuer or "")}
        self._allowed: set[str] = set()

    async def status(self, request: httpx2.Request) -> tuple[int, str | None]:
        """Return the status and the challenge of an answer whose body nobody needs.

        Raises:
            Unreachable: There is none.
        """
        response = await self._send(request)
        await response.aclose()
        return response.status_code, response.headers.get("www-authenticate")

    async def exchange(self, request: httpx2.Request) -> httpx2.Response:
        """Return an answer with its whole body.

        Raises:
            SignInFailed: The request must not be sent, or too much came back.
            Unreachable: There is no answer.
        """
        await self._check(str(request.url))
        request.headers.setdefault("Accept", "application/json")
        response = await self._send(request)
        try:
            body = await self._body(response)
        finally:
            await response.aclose()
        headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in _DROPPED]
        whole = httpx2.Response(response.status_code, headers=headers, content=body, request=request)
        # The flow follows it where it stays within its origin.
        whole.next_request = response.next_request
        return whole

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        request.headers.setdefault("User-Agent", f"mcpd/{__version__}")
        try:
            with trio.fail_after(EXCHANGE_SECONDS):
                return await self._client.send(request, stream=True, auth=None, follow_redirects=False)
        except trio.TooSlowError:
            raise self._unreachable(request, f"no answer within {EXCHANGE_SECONDS:g} s") from None
        except httpx2.HTTPError as error:
            raise self._unreachable(request, reason(error)) from None

    async def _body(self, response: httpx2.Response) -> bytes:
        body = bytearray()
        try:
            with trio.fail_after(EXCHANGE_SECONDS):
                async for part in response.aiter_bytes(65536):
                    body += part
                    if len(body) > MAX_BODY_BYTES:
                        where = shown(str(response.url))
                        raise SignInFailed(f"{where} answers with over {MAX_BODY_BYTES} bytes", server=self._entry.name)
        except trio.TooSlowError:
            raise self._unreachable(response.request, f"no whole answer within {EXCHANGE_SECONDS:g} s") from None
        except httpx2.HTTPError as error:
            raise self._unreachable(response.request, reason(error)) from None
        return bytes(body)

    def _unreachable(self, request: httpx2.Request, why: str) -> Unreachable:
        return Unreachable(f"{shown(str(request.url))} cannot be reached: {why}", server=self._entry.name)

    async def _check(self, url: str) -> None:
        """Raise `SignInFailed` for an address that a server must not send us to."""
        try:
            checked(url, insecure=self._entry.insecure)
        except UnfitUrl as problem:
            raise SignInFailed(
                f"the sign-in of {self._entry.name} is stopped: {problem}", server=self._entry.name
            ) from None
        host = host_of(url)
        if host in self._trusted or host in self._allowed:
            return
        if is_inside(await _addresses(host)) and not is_inside(await _addresses(host_of(self._entry.url))):
            raise SignInFailed(
                f"the sign-in of {self._entry.name} is stopped: {shown(url)} is inside a network that the server is not in",
                server=self._entry.name, hint=f"if it is right, set oauth.issuer in the entry of {self._entry.name}",
            )  # fmt: skip
        self._allowed.add(host)


async def _addresses(host: str) -> list[str]:
    """Return the addresses of a host; none if that cannot be told here, as behind a proxy."""
    try:
        found = await trio.socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [str(sockaddr[0]) for *_, sockaddr in found]


def is_metadata_of_server(url: httpx2.URL) -> bool:
    """Whether this is where an authorization server describes itself (RFC 8414, OpenID Connect Discovery)."""
    path = urlsplit(str(url)).path
    return "/.well-known/oauth-authorization-server" in path or "/.well-known/openid-configuration" in path
