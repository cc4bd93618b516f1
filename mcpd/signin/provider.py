"""The SDK's OAuth client, with what it leaves open filled in.

Used as it is: discovery of the resource's and the server's metadata, the choice between a published, a registered and
a given client, PKCE, `resource`, `state`, `iss`, the exchange. What it (mcp 2.3.0) does not do, and where that is done:

* it takes the first authorization server that the resource names, also when the configuration names another, and
  registers a new client there (`_select_authorization_server`);
* where the metadata of an authorization server is not to be had, it turns to the MCP server itself, also when another
  one was named (`check_known`);
* it sends PKCE to servers that do not say that they know it, which a client MUST refuse (`_perform_authorization_code_grant`);
* it sends no secret if it is not told with which method (`_perform_authorization`), and lets a server that says nothing
  about a new client choose (`Told.learn`);
* it signs assertions for client credentials only (`_exchange_token_authorization_code`);
* it asks for every scope that the authorization server knows where nobody asked for any (`Told.learn`);
* it drops what came beside an error in the answer, `iss` included (`Conversation.answered`).
"""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import httpx2
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.utils import issuers_match
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata
from pydantic import AnyUrl

from mcpd.errors import Misconfigured

from . import methods
from .entry import Entry
from .problems import SignInFailed
from .urls import shown

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

Sign = Callable[[str], Awaitable[str]]
F = TypeVar("F", bound="Told")


class Told(OAuthClientProvider):
    """What all kinds of sign-in share.

    Attributes:
        entry: of the server.
        told: the last metadata of an authorization server that came, as it came.
        bound_to: the only issuer that the client of the configuration is shown to; None if nobody has said.
    """

    entry: Entry
    told: dict[str, Any]
    bound_to: str | None = None

    @property
    def listed(self) -> dict[str, Any]:
        """The metadata of the authorization server; empty where there is none."""
        return self.told if self.context.oauth_metadata is not None else {}

    @property
    def is_found(self) -> bool:
        """Whether the server has said which authorization server is its own."""
        return self.context.protected_resource_metadata is not None

    def learn(self, metadata: dict[str, Any], challenged_scope: str | None) -> dict[str, Any]:
        """Take note of the metadata of an authorization server; return it as the SDK is to see it."""
        self.told = metadata
        if self.entry.client_id is None:
            method = methods.to_register(methods.offered(metadata), self.entry.auth_method)
            self.context.client_metadata.token_endpoint_auth_method = method  # type: ignore[assignment]  # one of its literals
        resource = self.context.protected_resource_metadata
        if challenged_scope is None and (resource is None or resource.scopes_supported is None):
            # 2025-11-25, "Scope Selection Strategy": then the parameter is left out. The SDK would ask for all of these.
            return {key: value for key, value in metadata.items() if key != "scopes_supported"}
        return metadata

    def _select_authorization_server(self, advertised: list[str]) -> str:
        """Take the configured one; a client that is bound to one server goes to no other (2026-07-28)."""
        wanted = self.entry.issuer or self.bound_to
        if wanted is None:
            return advertised[0]
        for each in advertised:
            if issuers_match(each, wanted):
                return each
        name = self.entry.name
        whose = "its entry names" if self.entry.issuer else "the client of its entry was used at"
        why = f"server {name} wants a sign-in at {shown(advertised[0])}, and {whose} {shown(wanted)}"
        raise SignInFailed(why, server=name, hint=f"if it is right, set oauth.issuer in the entry of {name}")

    def check_known(self) -> None:
        """Refuse to guess the endpoints of an authorization server that somebody has named.

        Those of 2025-03-26 are at the MCP server itself, and only where nothing else was said.

        Raises:
            SignInFailed: It does not describe itself.
        """
        named = self.context.auth_server_url
        if named is not None and self.context.oauth_metadata is None:
            why = f"the authorization server of {self.entry.name}, {shown(named)}, does not say where its endpoints are"
            raise SignInFailed(why, server=self.entry.name)

    async def _perform_authorization(self) -> httpx2.Request:
        """Settle how this client says who it is, now that the server has said what it takes."""
        self.check_known()
        info, entry = self.context.client_info, self.entry
        if info is not None and entry.client_id is not None:
            info.token_endpoint_auth_method = methods.to_use(
                methods.offered(self.listed), entry.auth_method,
                has_secret=entry.client_secret is not None, has_key=entry.private_key is not None and not isinstance(self, SecretFlow),
            )  # fmt: skip
        elif info is not None and info.token_endpoint_auth_method is None and info.client_secret is not None:
            info.token_endpoint_auth_method = methods.DEFAULT
        return await super()._perform_authorization()


class CodeFlow(Told):
    """A user signs in, in a browser."""

    async def _perform_authorization_code_grant(self) -> tuple[str, str]:
        challenges = self.listed.get("code_challenge_methods_supported")
        knows = isinstance(challenges, list) and "S256" in challenges
        # The rule is of 2025-11-25, and those before it have servers without any list; and some big ones know PKCE
        # and do not say so: whoever configures their issuer vouches for it.
        excused = challenges is None and (not self.listed or not self.is_found or self.entry.issuer is not None)
        if not knows and not excused:
            raise SignInFailed(
                f"the authorization server of {self.entry.name} does not say that it supports PKCE with S256",
                server=self.entry.name, hint=f"if you know that it does, set oauth.issuer in the entry of {self.entry.name}",
            )  # fmt: skip
        return await super()._perform_authorization_code_grant()

    async def _exchange_token_authorization_code(self, auth_code: str, code_verifier: str) -> httpx2.Request:
        request = await super()._exchange_token_authorization_code(auth_code, code_verifier)
        info = self.context.client_info
        if info is None or info.token_endpoint_auth_method != "private_key_jwt":  # noqa: S105  # the name of a method
            return request
        audience = str(self.listed.get("issuer") or self.context.auth_server_url)
        fields = dict(parse_qsl(request.read().decode()))
        fields |= {"client_assertion": await signer(self)(audience), "client_assertion_type": ASSERTION_TYPE}
        return httpx2.Request("POST", request.url, data=fields)


class SecretFlow(Told, ClientCredentialsOAuthProvider):
    """A client signs in by itself, with a secret."""


class KeyFlow(Told, PrivateKeyJWTOAuthProvider):
    """A client signs in by itself, with a key."""


def with_user(
    entry: Entry,
    storage: Any,
    redirect_uri: str,
    show: Callable[[str], Awaitable[None]],
    answered: Callable[[], Awaitable[AuthorizationCodeResult]],
) -> CodeFlow:
    """Return the flow of a user with a browser, who comes back to the redirect URI."""
    metadata = OAuthClientMetadata(
        redirect_uris=[AnyUrl(redirect_uri)],
        client_name="mcpd",
        # The SDK's default asks for a refresh token, and for `offline_access` where the server has that.
        grant_types=["authorization_code", "refresh_token"],
        application_type="native",
    )
    flow = CodeFlow(entry.url, metadata, storage, show, answered, entry.client_metadata_url)
    return _begun(flow, entry)


def _begun(flow: F, entry: Entry) -> F:
    flow.entry, flow.told = entry, {}
    # For servers that name none; one that they name takes its place.
    flow.context.auth_server_url = entry.issuer
    return flow


def client_alone(entry: Entry, storage: Any) -> SecretFlow | KeyFlow:
    """Return the flow of a client that needs no user."""
    uses_key = entry.auth_method == "private_key_jwt" or entry.client_secret is None
    with warnings.catch_warnings():
        # Of a missing issuer; whoever wants the binding configures it.
        warnings.simplefilter("ignore")
        if uses_key:

            async def sign(audience: str) -> str:
                return await signer(flow)(audience)

            flow = KeyFlow(entry.url, storage, entry.client_id or "", sign, entry.scopes, entry.issuer)
            return _begun(flow, entry)
        secret = SecretFlow(
            entry.url,
            storage,
            entry.client_id or "",
            entry.client_secret or "",
            scope=entry.scopes,
            issuer=entry.issuer,
        )
    return _begun(secret, entry)


def signer(flow: Told) -> Sign:
    """Return what signs an assertion for an audience with the configured key (RFC 7523).

    Raises:
        Misconfigured: It is no key that signs.
    """
    entry = flow.entry
    pem, client = entry.private_key or "", entry.client_id or ""
    listed = methods.offered(flow.listed, "token_endpoint_auth_signing_alg_values_supported")
    algorithm = methods.algorithm(kind_of_key(pem), listed)
    if algorithm is None:
        why = f"oauth.private_key of server {entry.name} is no private key in PEM that can sign"
        raise Misconfigured(why, server=entry.name, key="oauth.private_key")
    return SignedJWTParameters(
        issuer=client, subject=client, signing_key=pem, signing_algorithm=algorithm
    ).create_assertion_provider()


def kind_of_key(pem: str) -> str:
    """Return which kind of key a text holds, empty if none that can sign."""
    try:
        key = load_pem_private_key(pem.encode(), None)
    except (ValueError, TypeError):
        return ""
    match key:
        case RSAPrivateKey():
            return "RSA"
        case EllipticCurvePrivateKey():
            return {"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}.get(key.curve.name, "")
        case Ed25519PrivateKey():
            return "Ed25519"
    return ""
