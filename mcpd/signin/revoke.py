"""Tell an authorization server that tokens are not wanted any more.

Spec: RFC 7009, 2.
"""

from __future__ import annotations

from base64 import b64encode
from urllib.parse import quote

import httpx2
import trio

from mcpd.upstream.credential import Credential

from .entry import Entry
from .problems import said
from .urls import UnfitUrl, checked

# Nobody waits long for what is only a courtesy.
REVOKE_SECONDS = 10.0


def revoke(credential: Credential, entry: Entry | None) -> str | None:
    """Revoke the tokens of a credential; return what has gone wrong, None if nothing has or there is nowhere to ask.

    Args:
        credential: it may have no tokens.
        entry: of its server, whose secret may be needed; None if it is not configured any more.
    """
    if credential.endpoints.revocation is None or credential.tokens is None:
        return None
    tokens = credential.tokens
    # The refresh token first: with it go the others that came from it.
    kinds = {"refresh_token": tokens.refresh_token, "access_token": tokens.access_token}
    return trio.run(_revoke, credential, credential.endpoints.revocation, entry, kinds)


async def _revoke(
    credential: Credential, endpoint: str, entry: Entry | None, kinds: dict[str, str | None]
) -> str | None:
    try:
        checked(endpoint, insecure=entry is not None and entry.insecure)
        with trio.fail_after(REVOKE_SECONDS):
            async with httpx2.AsyncClient(timeout=REVOKE_SECONDS, follow_redirects=False) as client:
                for kind, token in kinds.items():
                    if token is None:
                        continue
                    fields, headers = authenticated(credential, entry, {"token": token, "token_type_hint": kind})
                    request = httpx2.Request("POST", endpoint, data=fields, headers=headers)
                    response = await client.send(request, stream=True, auth=None)
                    await response.aclose()
                    if response.status_code != 200:
                        return f"HTTP {response.status_code}"
    except UnfitUrl as problem:
        return str(problem)
    except trio.TooSlowError:
        return f"no answer within {REVOKE_SECONDS:g} s"
    except httpx2.HTTPError as error:
        return said(str(error)) or type(error).__name__
    return None


def authenticated(
    credential: Credential, entry: Entry | None, fields: dict[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the fields and headers of a request by the client of a credential (RFC 6749, 2.3.1)."""
    client = credential.client
    secret = entry.client_secret if client.registration == "static" and entry is not None else client.client_secret
    if secret is None or client.token_endpoint_auth_method in (None, "none", "private_key_jwt"):
        return {**fields, "client_id": client.client_id}, {}
    if client.token_endpoint_auth_method == "client_secret_post":  # noqa: S105  # the name of a method
        return {**fields, "client_id": client.client_id, "client_secret": secret}, {}
    pair = f"{quote(client.client_id, safe='')}:{quote(secret, safe='')}"
    return fields, {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}
