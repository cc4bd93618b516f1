"""Asks a token endpoint: one POST over TLS or to this machine, no redirects, everything bounded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol
from urllib.parse import urlencode, urlsplit

import trio

from mcpd.config.remote import is_loopback
from mcpd.errors import ConnectFailed, HttpFailed, McpdError, TooLarge, final

from .grant import Reply

MAX_BYTES = 1 << 20
# An authorization server may look into a directory that is slow.
ANSWER_SECONDS = 30.0
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
    # The engine is loaded with the first remote server.
    from .http_client import Client
    from .http_network import Attempt
    from .http_reply import body_of

    said = {
        "Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded", **headers,
        "Accept-Encoding": "identity", "User-Agent": "mcpd",
    }  # fmt: skip
    try:
        client = Client(url, keep_alive=False)
        try:
            with trio.fail_after(ANSWER_SECONDS):
                answer = await client.send("POST", url, said, urlencode(form).encode(), Attempt())
                try:
                    return Reply(
                        status=answer.status,
                        content_type=answer.content_type,
                        retry_after=answer.headers.get("retry-after", ""),
                        body=await body_of(answer, MAX_BYTES),
                    )
                finally:
                    with trio.move_on_after(CLOSE_SECONDS, shield=True):
                        await answer.close()
        finally:
            # What was answered is at hand, and must not be lost here.
            with trio.move_on_after(CLOSE_SECONDS, shield=True):
                await client.close()
    except TooLarge:
        raise final(HttpFailed(f"token endpoint {where} answered with more than {MAX_BYTES} bytes")) from None
    except (McpdError, trio.TooSlowError, OSError, ValueError, ImportError) as problem:
        raise _failed(where, problem) from None


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
    why = str(problem).partition("\n")[0][:200]
    if isinstance(problem, trio.TooSlowError):
        why = f"not within {ANSWER_SECONDS:g} s"
    return ConnectFailed(f"token endpoint {where} did not answer: {why}", may_have_run=False)
