"""What is said to a token endpoint, and what its answer means. No network here, and no time but what is given.

Spec: RFC 6749, 2.3.1, 4.4, 5 and 6; RFC 7523, 2.2; RFC 8707, 2.2.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, quote

import msgspec
from msgspec import Struct

from mcpd.config.model import OAuth

from .credential import Client, Credential, Tokens, is_sendable

ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
# What is longer than this is no promise, and would not fit into a time.
MAX_EXPIRES_SECONDS = 10 * 365 * 24 * 3600.0
# Of these an authorization server says that they pass.
_PASSING = ("temporarily_unavailable", "server_error", "slow_down")
_code = re.compile(r"[A-Za-z0-9_.-]{1,64}").fullmatch


class Reply(Struct, frozen=True, kw_only=True):
    """An answer of a token endpoint; `retry_after` is its header."""

    status: int
    content_type: str = ""
    retry_after: str = ""
    body: bytes = b""

    def __repr__(self) -> str:
        return f"Reply({self.status})"


class Granted(Struct, frozen=True, kw_only=True):
    """It gave a token."""

    access_token: str
    token_type: str
    refresh_token: str | None
    scope: str | None
    expires_in: float | None

    def __repr__(self) -> str:
        return f"Granted({self.token_type})"


class Denied(Struct, frozen=True):
    """It said no, with an error code that is fit to be shown; asking again changes nothing."""

    error: str


class Unclear(Struct, frozen=True, kw_only=True):
    """It said nothing about the grant; `passing`: it may later, after so many seconds if it said so."""

    why: str
    passing: bool
    after_seconds: float | None = None


def read_reply(reply: Reply) -> Granted | Denied | Unclear:
    """Return what an answer means; whatever it is, it is one of the three."""
    said = f"HTTP {reply.status}"
    if reply.status >= 500 or reply.status == 429:
        return Unclear(why=said, passing=True, after_seconds=_seconds(reply.retry_after))
    fields = _fields(reply)
    # Some send errors with 200.
    if isinstance(error := fields.get("error"), str) and error:
        if error in _PASSING:
            return Unclear(why=f"{said}, {error}", passing=True, after_seconds=_seconds(reply.retry_after))
        return Denied(error if _code(error) else "an error without a proper name")
    if reply.status == 401:
        return Denied("invalid_client")
    if not 200 <= reply.status < 300:
        return Unclear(why=said, passing=False)
    token, kind = fields.get("access_token"), fields.get("token_type")
    if not isinstance(token, str) or not is_sendable(token):
        return Unclear(why=f"{said} without a token", passing=False)
    if isinstance(kind, str) and kind.lower() != "bearer":
        return Unclear(why=f"{said} with a token that is no bearer token", passing=False)
    return Granted(
        access_token=token, token_type="Bearer", refresh_token=_text(fields, "refresh_token"),  # noqa: S106  # no secret
        scope=_text(fields, "scope"), expires_in=_seconds(fields.get("expires_in")),
    )  # fmt: skip


def renewed(credential: Credential, granted: Granted, now: float) -> Credential:
    """Return a credential with what was granted; what the answer left out is as before (RFC 6749, 5.1 and 6)."""
    old = credential.tokens
    tokens = Tokens(
        access_token=granted.access_token,
        token_type=granted.token_type,
        refresh_token=granted.refresh_token or (old.refresh_token if old else None),
        scope=granted.scope if granted.scope is not None else old.scope if old else None,
        expires_at=None if granted.expires_in is None else now + granted.expires_in,
    )
    return msgspec.structs.replace(credential, tokens=tokens)


def refresh_form(credential: Credential) -> dict[str, str]:
    """Return the form that asks for a new token; the scope is left out, which means the same as before."""
    token = credential.tokens.refresh_token if credential.tokens else None
    return {"grant_type": "refresh_token", "refresh_token": token or "", **_resource(credential)}


def client_form(credential: Credential, scope: str | None) -> dict[str, str]:
    """Return the form with which a client asks for a token of its own."""
    return {"grant_type": "client_credentials", **({"scope": scope} if scope else {}), **_resource(credential)}


def method_of(client: Client, oauth: OAuth) -> str:
    """Return how the client says who it is: as its entry or its registration says, else with its secret if it has one."""
    if oauth.auth_method != "auto":
        return oauth.auth_method
    default = "client_secret_basic" if secret_of(client, oauth) else "none"
    known = ("none", "client_secret_basic", "client_secret_post", "private_key_jwt")
    return next((each for each in known if each == client.token_endpoint_auth_method), default)


def secret_of(client: Client, oauth: OAuth) -> str | None:
    """Return the client's secret; the entry's is that of the client that the entry names."""
    is_its = oauth.client_id in (None, client.client_id)
    return (oauth.client_secret if is_its else None) or client.client_secret


def signed(
    form: Mapping[str, str], client: Client, oauth: OAuth, assertion: str | None = None
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the form and the headers of a request, with which the client says who it is.

    `assertion`: a signed one, for a client that authenticates with a key.
    """
    whole = {**form, "client_id": client.client_id}
    secret = secret_of(client, oauth) or ""
    match method_of(client, oauth):
        case "client_secret_basic":
            pair = f"{quote(client.client_id, safe='')}:{quote(secret, safe='')}"
            return whole, {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}
        case "client_secret_post":
            return {**whole, "client_secret": secret}, {}
        case "private_key_jwt":
            return {**whole, "client_assertion_type": ASSERTION, "client_assertion": assertion or ""}, {}
        case _:
            return whole, {}


def _resource(credential: Credential) -> dict[str, str]:
    asked = credential.resource if credential.resource_indicator is None else credential.resource_indicator
    return {"resource": asked} if asked else {}


def _fields(reply: Reply) -> Mapping[str, Any]:
    """Return the members of an answer; empty if it has none."""
    if "x-www-form-urlencoded" in reply.content_type.lower():
        return dict(parse_qsl(reply.body.decode("utf-8", "replace")))
    try:
        fields = msgspec.json.decode(reply.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _text(fields: Mapping[str, Any], key: str) -> str | None:
    return value if isinstance(value := fields.get(key), str) and value else None


def _seconds(value: object) -> float | None:
    """Return a time to come, also from a text; None where it is none."""
    if not isinstance(value, (int, float, str)) or isinstance(value, bool):
        return None
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        return None
    return min(seconds, MAX_EXPIRES_SECONDS) if seconds > 0 and not math.isnan(seconds) else None
