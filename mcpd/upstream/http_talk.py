"""One request to a remote server, until there is an answer that can be read: who asks, where to, and once more.

What is sent again has not run: it came to another address of the same server, without a credential that
holds, too early, or over a connection that the server had already given up.

Spec: 2025-11-25 basic/authorization; RFC 9110 9.2.2 (idempotent methods), 10.2.3 (Retry-After), 15.4 (redirects).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from urllib.parse import urljoin, urlsplit

import trio

from mcpd.config.model import Server
from mcpd.config.redact import Redactor
from mcpd.errors import AuthRequired, ExchangeLost, HttpFailed, McpdError
from mcpd.protocol.http_headers import retry_after

from .around import Credentials
from .http_client import Client
from .http_failures import Refusal
from .http_network import Attempt
from .http_reply import Reply, head_of
from .http_session import HttpSession, combined

MAX_HOPS = 5
MAX_RENEWALS = 2
# A pause that is shorter is waited for, once.
MAX_PAUSE_SECONDS = 2.0
# The body of a refusal is there at once, or it is done without.
REFUSAL_SECONDS = 2.0
# A server that drops this many connections in a row instead of using them again gets a new one for each request.
MAX_DROPPED = 2

_KEPT = (307, 308)
_REDIRECTS = (300, 301, 302, 303, *_KEPT)


class Talk:
    """What all requests to one server have in common.

    Attributes:
        session: what was learned of the server.
        on_signed_out: called when a credential does not hold and there is no other.
    """

    def __init__(self, server: Server, url: str, secrets: frozenset[str], credentials: Credentials) -> None:
        self.server, self.url, self.credentials = server, url, credentials
        self.session = HttpSession()
        self.on_signed_out: Callable[[AuthRequired], None] = lambda problem: None
        self._secrets = secrets
        self._client = Client(url)
        self._earlier: Client | None = None
        self._dropped = 0

    @property
    def redact(self) -> Redactor:
        """Takes secrets out of what a server says: those of the entry, and those that it is shown now."""
        return Redactor(self._secrets | self.credentials.secrets)

    async def open(
        self,
        verb: str,
        protocol: Mapping[str, str],
        body: bytes | None = None,
        attempt: Attempt | None = None,
        *,
        repeatable: bool = True,
        url: str | None = None,
    ) -> Reply | Refusal:
        """Send a request; return its answer to be read and closed, or what was said instead of one.

        Args:
            verb: the method of HTTP.
            protocol: the headers that are not the user's to say.
            body: to send.
            attempt: takes note of how far it has come.
            repeatable: it does no harm when it comes twice.
            url: where to, if not to the server's URL.

        Raises:
            AuthRequired: Somebody has to sign in.
            ConnectFailed: Nothing was sent.
            ExchangeLost: No answer came.
            HttpFailed: It was sent away, or in a circle.
        """
        attempt = attempt if attempt is not None else Attempt()
        target, hops, renewals, has_waited = url or self.url, 0, 0, False
        while True:
            shown = await self._shown()
            response = await self._send(verb, target, combined(shown, protocol), body, attempt, repeatable=repeatable)
            status = response.status
            if 200 <= status < 300:
                return response
            refusal = await _read(response)
            attempt.began = refusal.may_have_run
            if status in _REDIRECTS and (where := response.headers.get("location")) is not None:
                hops += 1
                target = self._followed(status, target, where, hops)
            elif status in (401, 403) and renewals < MAX_RENEWALS:
                renewals += 1
                challenge = response.headers.get("www-authenticate", "")
                if not await self._renewed(status, challenge, shown):
                    return refusal
            elif _is_soon(refusal) and not has_waited:
                has_waited = True
                await trio.sleep(refusal.retry_after_seconds or 0.0)
            else:
                return refusal

    async def _send(
        self, verb: str, url: str, headers: dict[str, str], body: bytes | None, attempt: Attempt, *, repeatable: bool
    ) -> Reply:
        """Send it, once more if the server dropped the connection that it came on and it bears that."""
        for tries in itertools.count(1):
            attempt.fresh = False
            try:
                response = await self._client.send(verb, url, headers, body, attempt)
            except ExchangeLost as problem:
                if not attempt.fresh:
                    self._note_dropped()
                if attempt.fresh or not repeatable or tries > MAX_DROPPED:
                    raise self.named(problem) from None
            except McpdError as problem:
                raise self.named(problem) from None
            else:
                if not attempt.fresh and self._earlier is None:
                    self._dropped = 0
                return response
        raise AssertionError("there is no last try")

    def _note_dropped(self) -> None:
        """Note that the server did not use a connection again that it had kept open."""
        self._dropped += 1
        if self._dropped == MAX_DROPPED:
            self._earlier, self._client = self._client, Client(self.url, keep_alive=False)

    async def _shown(self) -> Mapping[str, str]:
        try:
            return await self.credentials.headers()
        except AuthRequired as problem:
            self._signed_out(problem)
            raise

    async def _renewed(self, status: int, challenge: str, shown: Mapping[str, str]) -> bool:
        """Get other credentials; what a 403 wants more of concerns one request, a 401 concerns all."""
        try:
            renewed = await self.credentials.renew(status, challenge, shown)
        except AuthRequired as problem:
            problem.server, problem.may_have_run = self.server.name, False
            if status == 401:
                self._signed_out(problem)
            raise
        if not renewed and status == 401:
            name = self.server.name
            wanted = AuthRequired(
                f"server '{name}' wants a sign-in (HTTP 401)", hint=f"mcpd login {name}", login=f"mcpd login {name}"
            )
            self._signed_out(wanted)
            raise wanted
        return renewed

    def _signed_out(self, problem: AuthRequired) -> None:
        problem.server, problem.may_have_run = self.server.name, False
        self.on_signed_out(problem)

    def _followed(self, status: int, url: str, where: str, hops: int) -> str:
        """Return where a redirect leads, if that is the same server.

        Raises:
            HttpFailed: It must not be followed.
        """
        name = self.server.name
        try:
            target = urljoin(url, where)
            there = origin(target)
        except ValueError:
            target, there = "", "nowhere"
        if status not in _KEPT or not target or there != origin(url):
            if there == origin(url):
                there += urlsplit(target).path
            why, hint = f"redirects to {there} (HTTP {status})", f"put the new address into url of server {name}"
        elif hops > MAX_HOPS:
            why, hint = f"redirects more than {MAX_HOPS} times (HTTP {status})", None
        else:
            return target
        raise HttpFailed(f"server '{name}' {self.redact.text(why)}", server=name, hint=hint, may_have_run=False)

    def named(self, problem: McpdError) -> McpdError:
        """Say of an error whose it is, without secrets."""
        problem.server = self.server.name
        problem.message = self.redact.text(f"server '{self.server.name}': {problem.message}")
        return problem

    async def give_back(self) -> None:
        """Tell the server that its session is over, if it has one; what comes of that is its own affair."""
        if self.session.id is None or self.session.forgotten:
            return
        try:
            reply = await self.open("DELETE", self.session.legacy_headers())
        except McpdError:
            return
        if not isinstance(reply, Refusal):
            await reply.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()
        if self._earlier is not None:
            await self._earlier.close()


def origin(url: str) -> str:
    """Return scheme, host and port of a URL; raises ValueError if it has none."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    if port is None or not parts.hostname:
        raise ValueError("no address of a server")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    standard = (parts.scheme, port) in (("http", 80), ("https", 443))
    return f"{parts.scheme}://{host}" + ("" if standard else f":{port}")


async def _read(response: Reply) -> Refusal:
    """Read the beginning of a refusal, and give its connection back."""
    body = b""
    with trio.move_on_after(REFUSAL_SECONDS):
        body = await head_of(response)
    pause = retry_after(response.headers.get("retry-after", ""), time.time())
    return Refusal(response.status, response.content_type, body, pause)


def _is_soon(refusal: Refusal) -> bool:
    pause = refusal.retry_after_seconds
    return refusal.status in (429, 503) and pause is not None and pause <= MAX_PAUSE_SECONDS
