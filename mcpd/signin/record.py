"""From what the SDK's flow knows to the credential that is kept, and back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from mcpd.upstream.credential import VERSION, Client, Credential, Endpoints, Tokens, is_sendable, resource_of

from .callback import HOST, PATH
from .entry import Entry
from .problems import SignInFailed
from .urls import origin_of

if TYPE_CHECKING:
    from .conversation import Flow

# A registration that ends in the middle of a sign-in is none.
SPARE_SECONDS = 600.0


class Storage:
    """What the SDK's flow keeps its things in: it begins with a client at most, and what it gets is read from its context.

    Args:
        client: who we are for the authorization server already.
    """

    def __init__(self, client: OAuthClientInformationFull | None = None) -> None:
        self._client = client

    async def get_tokens(self) -> OAuthToken | None:
        """Return none: whoever signs in wants new ones."""
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Do nothing."""

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the client that there is."""
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Do nothing."""


def given(entry: Entry, redirect_uri: str) -> OAuthClientInformationFull | None:
    """Return the client of the configuration."""
    if entry.client_id is None:
        return None
    return OAuthClientInformationFull.model_validate(
        {"client_id": entry.client_id, "client_secret": entry.client_secret, "redirect_uris": [redirect_uri]}
    )


def registered(earlier: Credential | None, redirect_uri: str) -> OAuthClientInformationFull | None:
    """Return the client that was registered before, bound to the server that has done it, if it can be used again."""
    if earlier is None or not is_reusable(earlier.client) or earlier.client.redirect_uri != redirect_uri:
        return None
    client = earlier.client
    members: dict[str, Any] = {"client_id": client.client_id, "client_secret": client.client_secret}
    members |= {"token_endpoint_auth_method": client.token_endpoint_auth_method, "issuer": earlier.issuer}
    return OAuthClientInformationFull.model_validate({**members, "redirect_uris": [redirect_uri]})


def is_reusable(client: Client) -> bool:
    """Whether a registration still holds, and says for which port it is."""
    ends = client.client_secret_expires_at
    return (
        client.registration == "dynamic"
        and port_of(client) is not None
        and (not ends or client.client_secret is None or ends > time.time() + SPARE_SECONDS)
    )


def port_of(client: Client) -> int | None:
    """Return the port that a client was registered with."""
    try:
        parts = urlsplit(client.redirect_uri or "")
        return parts.port if parts.hostname == HOST and parts.path == PATH else None
    except ValueError:
        return None


def credential_of(entry: Entry, flow: Flow) -> Credential:
    """Return what a flow has come to.

    Raises:
        SignInFailed: Not one that can be used.
    """
    context = flow.context
    tokens, info, metadata = context.current_tokens, context.client_info, context.oauth_metadata
    if tokens is None or info is None or not is_sendable(tokens.access_token):
        raise SignInFailed(f"{entry.name}'s authorization server gives a token that cannot be sent", server=entry.name)
    indicator = context.get_resource_url() if context.should_include_resource_param(context.protocol_version) else ""
    granted = Tokens(
        access_token=tokens.access_token,
        token_type=tokens.token_type,
        refresh_token=tokens.refresh_token,
        scope=tokens.scope,
        expires_at=context.token_expiry_time,
    )
    return Credential(
        version=VERSION,
        resource=resource_of(entry.url),
        issuer=str(metadata.issuer) if metadata else context.auth_server_url or origin_of(entry.url),
        client=_client_of(entry, info),
        endpoints=Endpoints(
            token=flow._get_token_endpoint(),  # what it has just used
            revocation=str(metadata.revocation_endpoint) if metadata and metadata.revocation_endpoint else None,
            authorization=str(metadata.authorization_endpoint) if metadata else None,
        ),
        tokens=granted,
        requested_scope=context.client_metadata.scope,
        resource_indicator=indicator,
        saved_at=time.time(),
    )


def _client_of(entry: Entry, info: OAuthClientInformationFull) -> Client:
    if entry.client_id is not None:
        # Its secrets stay where the configuration has them from.
        return Client(
            client_id=info.client_id, token_endpoint_auth_method=info.token_endpoint_auth_method, registration="static"
        )
    if info.client_id == entry.client_metadata_url:
        return Client(client_id=info.client_id, token_endpoint_auth_method="none", registration="cimd")  # noqa: S106
    return Client(
        client_id=info.client_id,
        client_secret=info.client_secret,
        client_secret_expires_at=info.client_secret_expires_at,
        token_endpoint_auth_method=info.token_endpoint_auth_method,
        registration="dynamic",
        redirect_uri=str(info.redirect_uris[0]) if info.redirect_uris else None,
    )
