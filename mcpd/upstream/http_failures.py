"""What is said of HTTP answers that are none: the status, the content type, and a few words of the body."""

from __future__ import annotations

import re
from typing import NamedTuple

from mcpd.config.redact import Redactor
from mcpd.errors import HttpFailed

EXCERPT_CHARS = 200
# Much more is not looked at for secrets either: half a secret would not be found.
MAX_TEXT = 20_000

_TAG = re.compile(r"<[^<>]*>")
_GAP = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


class Refusal(NamedTuple):
    """An answer that is no message: a status other than 2xx, with the beginning of its body."""

    status: int
    content_type: str
    body: bytes
    retry_after_seconds: float | None = None

    @property
    def may_have_run(self) -> bool:
        """Whether the server may have done what it was asked: behind a gateway's 5xx, but not after its own 4xx."""
        return self.status >= 500 and self.status != 503


def essence(content_type: str) -> str:
    """Return a content type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def excerpt(body: bytes, redact: Redactor) -> str:
    """Return the first words of a body, without markup, control characters and secrets."""
    text = body[:MAX_TEXT].decode("utf-8", "replace")
    text = redact.text(_GAP.sub(" ", _TAG.sub(" ", text) if "<" in text[:1000] else text).strip())
    return text if len(text) <= EXCERPT_CHARS else text[:EXCERPT_CHARS].rstrip() + " …"


def named(status: int, content_type: str) -> str:
    """Name an answer."""
    kind = essence(content_type)[:80]
    return f"HTTP {status} ({kind})" if kind else f"HTTP {status}"


def refused(server: str, refusal: Refusal, redact: Redactor, hint: str | None = None) -> HttpFailed:
    """Return the error of a request that got no message for an answer."""
    words = excerpt(refusal.body, redact)
    return HttpFailed(
        f"server '{server}' answered {named(refusal.status, refusal.content_type)}" + (f": {words}" if words else ""),
        server=server,
        hint=hint,
        retry_after_seconds=refusal.retry_after_seconds,
        may_have_run=refusal.may_have_run,
    )


def no_message(server: str, status: int, content_type: str, body: bytes, redact: Redactor) -> HttpFailed:
    """Return the error of a request whose answer is no message, although its status says that all is well."""
    words = excerpt(body, redact)
    return HttpFailed(
        f"server '{server}' answered {named(status, content_type)} with no JSON-RPC message in it"
        + (f": {words}" if words else ": it is empty" if not body else ""),
        server=server,
        may_have_run=True,
    )
