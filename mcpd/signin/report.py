"""What there is of sign-ins, for people: never a token, a secret, or a part of one."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mcpd.upstream.credential import Credential, resource_of

if TYPE_CHECKING:
    from mcpd.config.model import Server


def row(name: str | None, credential: Credential, now: float | None = None) -> dict[str, Any]:
    """Return what can be told of a credential; `server` is None where no configured one is meant.

    Returns:
        `{server, state: "signed_in" | "expired" | "not_signed_in", resource, issuer, scopes, requested_scopes, client,
        expires_at?, expires_in_seconds?, refreshable, saved_at}`
    """
    now = time.time() if now is None else now
    tokens = credential.tokens
    found: dict[str, Any] = {
        "server": name,
        "state": "not_signed_in",
        "resource": credential.resource,
        "issuer": credential.issuer,
        "scopes": [],
        "requested_scopes": (credential.requested_scope or "").split(),
        "client": credential.client.registration,
        "refreshable": False,
        "saved_at": int(credential.saved_at),
    }
    if tokens is None:
        return found
    is_over = tokens.expires_at is not None and tokens.expires_at <= now
    found["refreshable"] = tokens.refresh_token is not None
    found["scopes"] = (tokens.scope or "").split()
    found["state"] = "expired" if is_over and not found["refreshable"] else "signed_in"
    if tokens.expires_at is not None:
        found["expires_at"] = int(tokens.expires_at)
        found["expires_in_seconds"] = max(0, math.ceil(tokens.expires_at - now))
    return found


def rows(urls: Mapping[str, str], credentials: Iterable[Credential], now: float | None = None) -> list[dict[str, Any]]:
    """Return a row for each remote server, and one for each credential that belongs to none of them.

    Args:
        urls: the servers by name.
        credentials: the newest first.
        now: seconds of the epoch.
    """
    by_resource: dict[str, Credential] = {}
    for credential in credentials:
        by_resource.setdefault(resource_of(credential.resource), credential)
    found, used = [], set()
    for name, url in urls.items():
        resource = resource_of(url)
        if (credential_ := by_resource.get(resource)) is not None:
            found.append(row(name, credential_, now))
            used.add(resource)
        else:
            found.append({"server": name, "state": "not_signed_in", "resource": resource})
    return found + [row(None, one, now) for resource, one in by_resource.items() if resource not in used]


def takes_token(server: Server) -> bool:
    """Whether a server's entry leaves room for a sign-in: it is remote, and has no token of its own."""
    has_own = (
        server.bearer_env is not None
        or server.headers_helper
        or any(name.lower() == "authorization" for name in server.headers)
    )
    return server.url is not None and not has_own
