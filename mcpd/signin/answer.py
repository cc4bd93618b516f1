"""What an authorization server sends back through the browser, in the query of the redirect URI.

Spec: RFC 6749, 4.1.2; RFC 9207 for `iss`, which errors carry, too.
"""

from __future__ import annotations

import hmac
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct

# A code and a state are short; more than this is no answer.
MAX_QUERY_CHARS = 16384
_MEMBERS = ("state", "code", "iss", "error", "error_description")


class Answer(Struct, frozen=True, kw_only=True):
    """A code, or an error, for the request that `state` names."""

    state: str
    code: str | None = None
    iss: str | None = None
    error: str | None = None
    error_description: str | None = None

    def __repr__(self) -> str:
        return f"Answer(error={self.error!r})"

    def is_for(self, state: str | None) -> bool:
        """Whether this answers the request with that state."""
        return state is not None and hmac.compare_digest(self.state.encode(), state.encode())


def read_query(query: str) -> Answer | None:
    """Return the answer in a query; None where there is none, or a member is there twice."""
    if len(query) > MAX_QUERY_CHARS:
        return None
    found = parse_qs(query, keep_blank_values=True)
    if any(len(found.get(name, ())) > 1 for name in _MEMBERS):
        return None
    members = {name: found[name][0] for name in _MEMBERS if name in found}
    if not members.get("state") or not (members.get("code") or members.get("error")):
        return None
    return Answer(**members)


def read_pasted(text: str) -> Answer | None:
    """Return the answer in what a user has copied: the address of the last page, or its query alone."""
    text = text.strip().strip("\"'<>")
    try:
        return read_query(urlsplit(text).query if "?" in text else text)
    except ValueError:
        return None
