"""An authorization server and the MCP server that it protects, in threads of the test, as well or ill behaved as told.

The browser is `BROWSER`: it opens the page and goes where it is sent, as a user does who is signed in there already.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import secrets
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

BROWSER = """\
import os, sys, urllib.request
with open(os.environ["OPENED"], "a") as file:
    print(sys.argv[1], file=file)
urllib.request.urlopen(sys.argv[1], timeout=30).read()
"""
MODERN = "2026-07-28"
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("read", "write")]


class Authority:
    """Both servers.

    Attributes:
        origin: of both; the MCP server is at `/mcp`.
        requests: all that came, as (method, path, fields), the browser's and the client's.
        metadata: members to put into the metadata of the authorization server; None takes one out.
        resource: the same for that of the resource; no metadata at all if it is None.
        needs: the scopes that a tool needs, and `*` for everything else.
        withheld: scopes that are asked for in vain.
        is_greedy: every challenge names one more scope.
        naming: the statuses whose challenge names the scopes; that of a 403 names only those of the tool itself.
        calls: the tools that were run.
        answers: what the authorization endpoint adds to, or changes in, its answers.
        revocation: the status of the revocation endpoint.
        seconds: how long an access token is good for.
    """

    def __init__(self, origin: str) -> None:
        self.origin = self.issuer = origin
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.metadata: dict[str, Any] = {}
        self.resource: dict[str, Any] | None = {}
        self.needs: dict[str, set[str]] = {}
        self.withheld: set[str] = set()
        self.is_greedy = False
        self.naming = {401, 403}
        self.calls: list[str] = []
        self.answers: dict[str, str] = {}
        self.revocation = 200
        self.seconds = 7300
        self.clients: dict[str, dict[str, Any]] = {}
        self.tokens: dict[str, str] = {}
        self.codes: dict[str, dict[str, str]] = {}

    @property
    def url(self) -> str:
        """Of the MCP server."""
        return f"{self.origin}/mcp"

    @property
    def _described_at(self) -> str:
        """Where the authorization server describes itself, unless it does not."""
        return "/.well-known/oauth-authorization-server" if self.issuer.count("/") == 2 else "nowhere"

    def seen(self, path: str) -> list[dict[str, str]]:
        """Return the fields of all requests to a path."""
        return [fields for _, where, fields in self.requests if where == path]

    # -- what is answered, as (status, headers, body) ----------------------------------------------

    def answer(self, method: str, target: str, headers: Any, body: bytes) -> tuple[int, dict[str, str], Any]:
        """Return the answer to any request."""
        parts = urlsplit(target)
        text = body.decode() if headers.get("content-type", "").startswith("application/x-www-form") else parts.query
        fields = dict(parse_qsl(text))
        path = parts.path.removesuffix("/mcp") if parts.path.startswith("/.well-known/") else parts.path
        if (basic := headers.get("authorization", "")).startswith("Basic "):
            user, _, password = base64.b64decode(basic[6:]).decode().partition(":")
            fields |= {"basic_id": unquote(user), "basic_secret": unquote(password)}
        if path == "/register":
            fields = json.loads(body)
        self.requests.append((method, parts.path, fields))
        routes: dict[str, Callable[[], tuple[int, dict[str, str], Any]]] = {
            "/mcp": lambda: self._mcp(headers, body),
            "/.well-known/oauth-protected-resource": self._resource_metadata,
            self._described_at: self._server_metadata,
            "/register": lambda: self._register(fields),
            "/authorize": lambda: self._authorize(fields),
            "/token": lambda: self._token(fields),
            "/revoke": lambda: (self.revocation, {}, {}),
        }
        return routes.get(path, lambda: (404, {}, {}))()

    def _mcp(self, headers: Any, body: bytes) -> tuple[int, dict[str, str], Any]:
        message = json.loads(body)
        tool = message.get("params", {}).get("name", "*")
        granted = self.tokens.get(headers.get("authorization", "").removeprefix("Bearer "))
        common = self.needs.get("*", set())
        wanted = self.needs.get(tool, common)
        if granted is None:
            return 401, {"WWW-Authenticate": self._challenge(401, common)}, {}
        if not wanted | common <= set(granted.split()):
            return 403, {"WWW-Authenticate": self._challenge(403, wanted, 'error="insufficient_scope"')}, {}
        result: dict[str, Any] = {"resultType": "complete"}
        match message["method"]:
            case "server/discover":
                result |= {
                    "supportedVersions": [MODERN],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "protected", "version": "1"},
                    "ttlMs": 0,
                    "cacheScope": "private",
                }
            case "tools/list":
                result |= {"tools": TOOLS, "ttlMs": 0, "cacheScope": "private"}
            case "tools/call":
                self.calls.append(tool)
                result |= {"content": [{"type": "text", "text": f"{tool} with {granted}"}]}
        return 200, {}, {"jsonrpc": "2.0", "id": message.get("id"), "result": result}

    def _challenge(self, status: int, wanted: set[str], *more: str) -> str:
        members = list(more)
        wanted = wanted | ({f"more-{len(self.requests)}"} if self.is_greedy else set())
        if self.resource is not None:
            members.append(f'resource_metadata="{self.origin}/.well-known/oauth-protected-resource/mcp"')
        if wanted and status in self.naming:
            members.append(f'scope="{" ".join(sorted(wanted))}"')
        return f"Bearer {', '.join(members)}"

    def _resource_metadata(self) -> tuple[int, dict[str, str], Any]:
        if self.resource is None:
            return 404, {}, {}
        return 200, {}, {"resource": self.url, "authorization_servers": [self.issuer], **self.resource}

    def _server_metadata(self) -> tuple[int, dict[str, str], Any]:
        whole = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/token",
            "registration_endpoint": f"{self.origin}/register",
            "revocation_endpoint": f"{self.origin}/revoke",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            **self.metadata,
        }
        return 200, {}, {key: value for key, value in whole.items() if value is not None}

    def _register(self, fields: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        client = {**fields, "client_id": f"client-{len(self.clients) + 1}"}
        if fields.get("token_endpoint_auth_method") != "none":
            client["client_secret"] = secrets.token_urlsafe(12)
        self.clients[client["client_id"]] = client
        return 201, {}, client

    def _authorize(self, fields: dict[str, str]) -> tuple[int, dict[str, str], Any]:
        code = secrets.token_urlsafe(12)
        self.codes[code] = fields
        answer = {"code": code, "state": fields["state"], **self.answers}
        answer = {key: value for key, value in answer.items() if value}
        return 302, {"Location": f"{fields['redirect_uri']}?{urlencode(answer)}"}, {}

    def _token(self, fields: dict[str, str]) -> tuple[int, dict[str, str], Any]:
        asked: dict[str, str] | None = {}
        if fields["grant_type"] == "authorization_code":
            asked = self.codes.pop(fields["code"], None)
            digest = hashlib.sha256(fields["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            if asked is None or asked["code_challenge"] != challenge or asked["redirect_uri"] != fields["redirect_uri"]:
                return 400, {}, {"error": "invalid_grant", "error_description": "that code is not good"}
        words = (asked or {}).get("scope", fields.get("scope", "")).split()
        scope = " ".join(word for word in words if word not in self.withheld)
        token = f"access-{secrets.token_urlsafe(16)}"
        self.tokens[token] = scope
        refresh = f"refresh-{secrets.token_urlsafe(16)}"
        granted = {"access_token": token, "token_type": "bearer", "refresh_token": refresh, "expires_in": self.seconds}
        return 200, {}, {**granted, **({"scope": scope} if scope else {})}


@contextlib.contextmanager
def authority() -> Iterator[Authority]:
    """Run both servers."""

    class Handler(BaseHTTPRequestHandler):
        def _do(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            status, headers, body = found.answer(self.command, self.path, self.headers, self.rfile.read(length))
            data = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {
                "Content-Type": "application/json",
                **headers,
                "Content-Length": str(len(data)),
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = _do

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found = Authority(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
