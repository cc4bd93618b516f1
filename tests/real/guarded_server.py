"""A server made with the official Python SDK (`mcp` 2.3) that is reached over HTTP and wants a token.

    python guarded_server.py ISSUER SECRET

Its authorization server, of which it is the client `resource-server`, says what a token is worth, each
time that one is shown. The first line on stdout is its address.
"""

from __future__ import annotations

import socket
import sys

import httpx2
import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer


class Introspection:
    """Asks the authorization server (RFC 7662)."""

    def __init__(self, issuer: str, secret: str) -> None:
        self._url, self._auth = f"{issuer}/token/introspection", ("resource-server", secret)
        self._http = httpx2.AsyncClient(trust_env=False)

    async def verify_token(self, token: str) -> AccessToken | None:
        answer = await self._http.post(self._url, data={"token": token}, auth=self._auth)
        said = answer.raise_for_status().json()
        if not said["active"]:
            return None
        return AccessToken(
            token=token,
            client_id=said["client_id"],
            scopes=said["scope"].split(),
            expires_at=said["exp"],
            resource=said["aud"],
            subject=said["sub"],
        )


def main(issuer: str, secret: str) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    settings = AuthSettings(
        issuer_url=issuer, resource_server_url=url, required_scopes=["echo"], validate_token_resource=True
    )
    server = MCPServer("guarded", auth=settings, token_verifier=Introspection(issuer, secret))

    @server.tool()
    def echo(text: str) -> str:
        return text

    @server.tool()
    def who() -> str:
        token = get_access_token()
        return f"{token.subject} by {token.client_id}" if token else "nobody"

    print(url, flush=True)
    uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="warning")).run(sockets=[listening])


main(*sys.argv[1:])
