"""One sign-in, from the server's challenge to the tokens: the SDK's flow, driven without an MCP session.

The flow is a generator of requests that is sent the answers. Its first answer is the challenge: that of the server to
one plain request without a token or, where the daemon has got one already, that one again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx2
from mcp.client.auth import OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.client.auth.utils import validate_authorization_response_iss
from mcp.shared.auth import AuthorizationCodeResult
from msgspec import Struct
from pydantic import ValidationError

from mcpd.protocol.challenge import parse_challenge

from . import scopes
from .entry import Entry
from .problems import SignInFailed, said
from .provider import CodeFlow, KeyFlow, SecretFlow
from .urls import UnfitUrl, checked
from .user import User
from .wire import Wire, is_metadata_of_server

NEWEST_REVISION = "2026-07-28"
Flow = CodeFlow | SecretFlow | KeyFlow


class Challenge(Struct, frozen=True, kw_only=True):
    """What a server, or the user, wants of a sign-in.

    Attributes:
        status: 401, or 403 for more scopes; another one if the server wants nothing at all.
        scope: what is wanted; None where that is to be found out.
        resource_metadata: where the server describes itself.
    """

    status: int = 401
    scope: str | None = None
    resource_metadata: str | None = None

    @property
    def is_step_up(self) -> bool:
        """Whether there is a token that is good, but for too little."""
        return self.status == 403

    def response(self, request: httpx2.Request) -> httpx2.Response:
        """Return it as the flow reads it."""
        members = {"scope": self.scope, "resource_metadata": self.resource_metadata}
        if self.is_step_up:
            members["error"] = "insufficient_scope"
        value = ", ".join(f'{name}="{text}"' for name, text in members.items() if text)
        status = 403 if self.is_step_up else 401
        return httpx2.Response(status, headers={"WWW-Authenticate": f"Bearer {value}"}, request=request)


def challenge_of(details: Mapping[str, Any]) -> Challenge:
    """Return the challenge in the parameters of a header, or in the daemon's error `auth_required`."""
    step_up = details.get("error") == "insufficient_scope"
    where = details.get("resource_metadata")
    return Challenge(
        status=403 if step_up else 401,
        scope=scopes.joined(details.get("scopes")),
        resource_metadata=where if isinstance(where, str) and _is_fit(where) else None,
    )


class Conversation:
    """Drives a flow.

    Args:
        entry: of the server.
        wire: sends its requests.
        flow: the SDK's.
        explicit: the scopes that the user has asked for.
    """

    def __init__(self, entry: Entry, wire: Wire, flow: Flow, explicit: str | None) -> None:
        self._entry, self._wire, self._flow, self._explicit = entry, wire, flow, explicit
        self._wanted = Challenge()

    async def run(self, asked: Challenge | None, earlier: str | None) -> None:
        """Bring the flow to its tokens, which are in its context then.

        Args:
            asked: the challenge that there has been already.
            earlier: the scopes that were asked for before, which more of them must not lose.

        Raises:
            McpdError: It did not come to that.
        """
        request = self._first_request()
        challenge = asked or await self._challenge(request)
        if challenge.is_step_up:
            # The flow adds what is challenged to this.
            self._flow.context.client_metadata.scope = scopes.union(earlier, self._explicit)
        elif self._explicit is not None:
            challenge = Challenge(
                status=challenge.status, scope=self._explicit, resource_metadata=challenge.resource_metadata
            )
        self._wanted = challenge
        try:
            await self._drive(request)
        except (OAuthFlowError, ValidationError, httpx2.InvalidURL) as problem:
            raise self._failed(problem) from None

    async def _drive(self, request: httpx2.Request) -> None:
        flow = self._flow.async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            response = self._wanted.response(request)
            while (outgoing := await flow.asend(response)) is not request:
                self._check_asked(outgoing)
                response = self._seen(outgoing, await self._wire.exchange(outgoing))
        finally:
            await flow.aclose()

    def _first_request(self) -> httpx2.Request:
        """Return what any server of its era would answer, and answers with a challenge."""
        modern = not self._entry.is_legacy
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "server/discover" if modern else "ping"}
        headers = {**self._entry.headers, "Accept": "application/json, text/event-stream"}
        if modern:
            headers |= {"MCP-Protocol-Version": NEWEST_REVISION, "Mcp-Method": "server/discover"}
            body["params"] = {
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": NEWEST_REVISION,
                    "io.modelcontextprotocol/clientInfo": {"name": "mcpd", "version": "1"},
                    "io.modelcontextprotocol/clientCapabilities": {},
                }
            }
        return httpx2.Request("POST", self._entry.url, json=body, headers=headers)

    async def _challenge(self, request: httpx2.Request) -> Challenge:
        """Ask the server."""
        status, header = await self._wire.status(request)
        if status not in (401, 403):
            return Challenge(status=status)
        asked = parse_challenge(header or "").params
        details = {**asked, "scopes": asked.get("scope", "").split()}
        return challenge_of(details)

    def _check_asked(self, outgoing: httpx2.Request) -> None:
        """Raise if there is nothing to sign in to: neither the server nor the user says so, or nobody says where."""
        if outgoing.method == "POST":  # a registration, or already the token
            self._flow.check_known()
        if self._wanted.status in (401, 403) or self._flow.is_found or self._entry.issuer is not None:
            return
        if is_metadata_of_server(outgoing.url):
            name = self._entry.name
            why = f"server {name} does not ask for a sign-in: it answers with HTTP {self._wanted.status}"
            raise SignInFailed(why, server=name, hint=f"mcpd start {name}")

    def _seen(self, outgoing: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        """Return an answer as the flow is to see it."""
        if response.status_code != 200 or not is_metadata_of_server(outgoing.url):
            return response
        try:
            metadata = json.loads(response.content)
        except (ValueError, RecursionError):
            return response
        if not isinstance(metadata, dict):
            return response
        shown = self._flow.learn(metadata, self._wanted.scope)
        return response if shown is metadata else httpx2.Response(200, json=shown, request=outgoing)

    def _failed(self, problem: Exception) -> SignInFailed:
        """Return what to tell of an error of the SDK; its own words may hold a token, or pages of them."""
        name = self._entry.name
        match problem:
            case OAuthRegistrationError():
                hint = (
                    f"register a client with redirect URI http://127.0.0.1:PORT/callback there, and set client_id "
                    f"(client_secret) and redirect_port in oauth of the entry of {name}"
                )
                return SignInFailed(
                    f"{name}'s authorization server registers no client: {_refusal(problem)}", server=name, hint=hint
                )
            case OAuthTokenError():
                return SignInFailed(f"{name}'s authorization server gives no token: {_refusal(problem)}", server=name)
            case OAuthFlowError():
                # The SDK's words for a resource that is not the entry's.
                is_other = str(problem).startswith("Protected resource ")
                address = f"put the address that the server goes by into url of server {name}" if is_other else None
                return SignInFailed(f"the sign-in to {name} failed: {said(str(problem))}", server=name, hint=address)
        return SignInFailed(
            f"the sign-in to {name} failed: what came cannot be used ({type(problem).__name__})", server=name
        )


async def answered(flow: CodeFlow, user: User) -> AuthorizationCodeResult:
    """Return the answer of the authorization server, once it has come through the browser.

    The SDK looks at the issuer of an answer with a code; one with an error has to be from the right one, too (RFC 9207, 2.4).

    Raises:
        SignInFailed: It is an error.
    """
    answer = await user.answer()
    if answer.error is not None or answer.code is None:
        validate_authorization_response_iss(answer.iss, flow.context.oauth_metadata)
        name = flow.entry.name
        why = said(": ".join(filter(None, (answer.error, answer.error_description))))
        raise SignInFailed(f"the authorization server of {name} refused the sign-in: {why}", server=name)
    return AuthorizationCodeResult(code=answer.code, state=answer.state, iss=answer.iss)


def _refusal(problem: Exception) -> str:
    """Return the error that a server has answered with, which the SDK puts behind its status."""
    head, brace, rest = str(problem).partition("{")
    try:
        found = json.loads(brace + rest)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict) and isinstance(error := found.get("error"), str):
        described = found.get("error_description")
        return said(f"{error}: {described}" if isinstance(described, str) else error)
    # The status, without the body: a page, or a token.
    return said(head.partition("): ")[0].partition("\n")[0].partition("<")[0].replace(" failed (", " failed: "))


def _is_fit(url: str) -> bool:
    """Whether it may be put into a challenge for the flow, which then asks for it; where it leads is looked at then."""
    try:
        checked(url, insecure=True)
    except UnfitUrl:
        return False
    return '"' not in url
