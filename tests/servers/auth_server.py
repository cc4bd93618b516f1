"""An authorization server that rotates and revokes, and the MCP server that it protects, at one origin.

Standard library alone. In a test: `with serving() as both:`, whose attributes tell what came and decide how it behaves;
by hand: `python auth_server.py [PORT] [SECONDS]`. The MCP server, at `/mcp`, speaks both eras and has the tools `echo`
and `admin`, which needs a scope of its own.

A refresh token is good once. The second use of one revokes all that ever came of its sign-in, as OAuth 2.1 (4.3.1)
has it: whoever races for a refresh, or loses what one has brought, is found out.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import secrets
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

LEGACY, MODERN = "2025-11-25", "2026-07-28"
TOOLS = [
    {"name": "echo", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}},
    {"name": "admin", "inputSchema": {"type": "object"}},
]
DISCOVERED = {
    "resultType": "complete", "supportedVersions": [MODERN], "capabilities": {"tools": {}},
    "serverInfo": {"name": "guarded", "version": "1"}, "ttlMs": 0, "cacheScope": "private",
}  # fmt: skip


@dataclass
class Grant:
    """What one token stands for; `family` is the sign-in that it came of."""

    client_id: str
    scope: str
    family: int
    expires_at: float = 0.0
    is_spent: bool = False


@dataclass
class Code:
    """An authorization code, good once."""

    client_id: str
    redirect_uri: str
    challenge: str
    scope: str


@dataclass
class Answer:
    """An answer over HTTP; `body` is sent as JSON, None as nothing."""

    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


class Both:
    """The two servers, without their sockets.

    Attributes:
        origin: of both.
        eras: what the MCP server speaks: `legacy`, `modern` or both.
        seconds: how long an access token is good for.
        rotates: a refresh brings another refresh token, and the old one is spent.
        token_seconds: how long the token endpoint takes.
        fails: how many requests of the token endpoint are answered with a 503 first.
        answering: while it is cleared, no tool is answered.
        asked: the requests of the token endpoint, as (grant, status).
        calls: the tokens that tools were called with, and the status that came of it.
        revoked: the families that were revoked because a token was used twice.
    """

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.eras = {"legacy", "modern"}
        self.seconds = 3600.0
        self.rotates = True
        self.token_seconds = 0.0
        self.fails = 0
        self.answering = threading.Event()
        self.answering.set()
        self.asked: list[tuple[str, int]] = []
        self.calls: list[tuple[str, int]] = []
        self.revoked: set[int] = set()
        self._lock = threading.Lock()
        self._clients: dict[str, dict[str, Any]] = {}
        self._codes: dict[str, Code] = {}
        self._access: dict[str, Grant] = {}
        self._refresh: dict[str, Grant] = {}
        self._families = 0

    @property
    def resource(self) -> str:
        return f"{self.origin}/mcp"

    # -- for tests -------------------------------------------------------------------------------

    def register(self, **metadata: Any) -> dict[str, Any]:
        """Register a client."""
        method = metadata.setdefault("token_endpoint_auth_method", "none")
        client = {**metadata, "client_id": f"client-{secrets.token_hex(4)}"}
        if method != "none":
            client |= {"client_secret": secrets.token_urlsafe(12), "client_secret_expires_at": 0}
        self._clients[client["client_id"]] = client
        return client

    def sign_in(self, client_id: str, scope: str = "mcp") -> dict[str, Any]:
        """Grant tokens, as the end of a sign-in does."""
        self._families += 1
        return self._tokens(Grant(client_id, scope, self._families))

    def expire(self) -> None:
        """Let no access token be good any more."""
        for grant in self._access.values():
            grant.expires_at = 0.0

    def is_alive(self, refresh_token: str) -> bool:
        """Whether a refresh token would still bring something."""
        grant = self._refresh.get(refresh_token)
        return grant is not None and not grant.is_spent and grant.family not in self.revoked

    # -- the authorization server ----------------------------------------------------------------

    def answer(self, method: str, target: str, headers: Any, body: bytes) -> Answer:
        """Answer any request."""
        path, _, query = target.partition("?")
        match method, path:
            case _, "/mcp":
                return self._mcp(method, headers, body)
            case "GET", "/.well-known/oauth-protected-resource" | "/.well-known/oauth-protected-resource/mcp":
                return Answer(200, {"resource": self.resource, "authorization_servers": [self.origin]})
            case "GET", "/.well-known/oauth-authorization-server":
                return Answer(200, self._metadata())
            case "POST", "/register":
                with self._lock:
                    return Answer(201, self.register(**json.loads(body)))
            case "GET", "/authorize":
                with self._lock:
                    return self._authorize(dict(parse_qsl(query)))
            case "POST", "/token":
                return self._token(headers, dict(parse_qsl(body.decode())))
            case "POST", "/revoke":
                with self._lock:
                    return self._revoke(dict(parse_qsl(body.decode())))
            case _:
                return Answer(404, {"error": "not_found"})

    def _metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.origin,
            **{f"{name}_endpoint": f"{self.origin}/{path}" for name, path in (
                ("authorization", "authorize"), ("token", "token"), ("registration", "register"), ("revocation", "revoke"),
            )},
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": True,
        }  # fmt: skip

    def _authorize(self, asked: dict[str, str]) -> Answer:
        """Send the browser back at once: its user is signed in here, and agrees."""
        client_id, back = asked.get("client_id", ""), asked.get("redirect_uri", "")
        is_known = client_id in self._clients or client_id.startswith("https://")  # a published client
        if not is_known or urlsplit(back).hostname not in ("127.0.0.1", "localhost"):
            return Answer(400, {"error": "invalid_request"})
        if asked.get("code_challenge_method") != "S256" or asked.get("resource") != self.resource:
            return Answer(400, {"error": "invalid_request"})
        code = secrets.token_urlsafe(12)
        self._codes[code] = Code(client_id, back, asked["code_challenge"], asked.get("scope", "mcp"))
        said = {"code": code, "iss": self.origin, **({"state": asked["state"]} if "state" in asked else {})}
        return Answer(302, None, {"Location": f"{back}?{urlencode(said)}"})

    def _token(self, headers: Any, form: dict[str, str]) -> Answer:
        time.sleep(self.token_seconds)  # a server that is slow: nobody waits for this one
        with self._lock:
            if self.fails:
                self.fails -= 1
                answer = Answer(503)
            elif (client := self._client(headers, form)) is None:
                answer = Answer(401, {"error": "invalid_client"})
            else:
                answer = self._granted(client, form)
            self.asked.append((form.get("grant_type", ""), answer.status))
            return answer

    def _client(self, headers: Any, form: dict[str, str]) -> str | None:
        """Return who asks, if that is proved."""
        client_id, secret = form.get("client_id", ""), form.get("client_secret")
        if (basic := headers.get("Authorization", "")).startswith("Basic "):
            client_id, _, secret = base64.b64decode(basic[6:]).decode().partition(":")
            client_id, secret = unquote(client_id), unquote(secret)
        known = self._clients.get(client_id)
        if known is None:
            return client_id if client_id.startswith("https://") else None
        return client_id if known.get("client_secret") == secret else None

    def _granted(self, client_id: str, form: dict[str, str]) -> Answer:
        match form.get("grant_type"):
            case "authorization_code":
                code = self._codes.pop(form.get("code", ""), None)
                verifier = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
                proof = base64.urlsafe_b64encode(verifier).rstrip(b"=").decode()
                if code is None or (code.client_id, code.redirect_uri, code.challenge) != (
                    client_id, form.get("redirect_uri"), proof,
                ):  # fmt: skip
                    return Answer(400, {"error": "invalid_grant"})
                return Answer(200, self.sign_in(client_id, code.scope))
            case "refresh_token":
                return self._refreshed(client_id, form.get("refresh_token", ""))
            case "client_credentials" if "client_secret" in self._clients.get(client_id, {}):
                tokens = self.sign_in(client_id, form.get("scope", "mcp"))
                return Answer(200, {key: value for key, value in tokens.items() if key != "refresh_token"})
            case _:
                return Answer(400, {"error": "unsupported_grant_type"})

    def _refreshed(self, client_id: str, token: str) -> Answer:
        grant = self._refresh.get(token)
        if grant is None or grant.client_id != client_id or grant.family in self.revoked:
            return Answer(400, {"error": "invalid_grant"})
        if grant.is_spent:
            self.revoked.add(grant.family)
            return Answer(400, {"error": "invalid_grant"})
        if not self.rotates:
            return Answer(200, self._tokens(grant, refreshes=False))
        grant.is_spent = True
        return Answer(200, self._tokens(Grant(client_id, grant.scope, grant.family)))

    def _tokens(self, grant: Grant, *, refreshes: bool = True) -> dict[str, Any]:
        access, refresh = f"at-{secrets.token_urlsafe(24)}", f"rt-{secrets.token_urlsafe(24)}"
        for old in self._access.values():
            if old.family == grant.family:
                old.expires_at = 0.0  # one at a time
        self._access[access] = Grant(grant.client_id, grant.scope, grant.family, time.time() + self.seconds)
        tokens = {"access_token": access, "token_type": "Bearer", "expires_in": self.seconds, "scope": grant.scope}
        if refreshes:
            self._refresh[refresh] = grant
            tokens["refresh_token"] = refresh
        return tokens

    def _revoke(self, form: dict[str, str]) -> Answer:
        token = form.get("token", "")
        if (grant := self._refresh.get(token) or self._access.get(token)) is not None:
            self.revoked.add(grant.family)
        return Answer(200)

    # -- the MCP server --------------------------------------------------------------------------

    def _mcp(self, method: str, headers: Any, body: bytes) -> Answer:
        if method != "POST":
            return Answer(405, None, {"Allow": "POST"})
        message = json.loads(body)
        name, params = message.get("method"), message.get("params") or {}
        is_admin = name == "tools/call" and params.get("name") == "admin"
        token = headers.get("Authorization", "").removeprefix("Bearer ")
        refusal = self._refusal(token, is_admin)
        if name == "tools/call":
            self.calls.append((token, refusal.status if refusal is not None else 200))
        if refusal is not None:
            return refusal
        if "id" not in message:
            return Answer(202)
        if name == "tools/call":
            self.answering.wait(30)
        result = self._result(name, params)
        outcome = {"error": {"code": -32601, "message": "no such method"}} if result is None else {"result": result}
        return Answer(200, {"jsonrpc": "2.0", "id": message["id"], **outcome})

    def _refusal(self, token: str, is_admin: bool) -> Answer | None:
        with self._lock:
            grant = self._access.get(token)
            metadata = f'resource_metadata="{self.origin}/.well-known/oauth-protected-resource/mcp"'
            if not token:
                return Answer(401, None, {"WWW-Authenticate": f'Bearer {metadata}, scope="mcp"'})
            if grant is None or grant.family in self.revoked or grant.expires_at <= time.time():
                return Answer(401, None, {"WWW-Authenticate": f'Bearer error="invalid_token", {metadata}'})
            if is_admin and "admin" not in grant.scope.split():
                wanted = f'Bearer error="insufficient_scope", scope="admin", {metadata}'
                return Answer(403, None, {"WWW-Authenticate": wanted})
        return None

    def _result(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        is_modern = "io.modelcontextprotocol/protocolVersion" in params.get("_meta", {})
        more = {"resultType": "complete"} if is_modern else {}
        if is_modern is not ("modern" in self.eras) and len(self.eras) == 1:
            return None
        match method:
            case "server/discover" if "modern" in self.eras:
                return DISCOVERED
            case "initialize":
                server = {"name": "guarded", "version": "1"}
                return {"protocolVersion": LEGACY, "capabilities": {"tools": {}}, "serverInfo": server}
            case "ping":
                return {}
            case "tools/list":
                return {"tools": TOOLS, **({"ttlMs": 0, "cacheScope": "private"} if is_modern else {}), **more}
            case "tools/call":
                text = str(params.get("arguments", {}).get("text", params["name"]))
                return {"content": [{"type": "text", "text": text}], **more}
            case _:
                return None


class Server(ThreadingHTTPServer):
    """A socket for both; fifty clients come at once."""

    request_queue_size = 256
    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.both = Both(f"http://127.0.0.1:{self.server_port}")


class Handler(BaseHTTPRequestHandler):
    """Hands requests to both, and writes each answer in one go."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def _do(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        answer = self.server.both.answer(self.command, self.path, self.headers, body)
        data = b"" if answer.body is None else json.dumps(answer.body).encode()
        headers = {"Content-Length": str(len(data)), "Content-Type": "application/json", **answer.headers}
        lines = [f"HTTP/1.1 {answer.status} x", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        with contextlib.suppress(OSError):  # it may have been killed, which is what some tests are about
            self.wfile.write("\r\n".join(lines).encode() + data)

    do_GET = do_POST = do_DELETE = _do  # names of the library

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def serving() -> Iterator[Both]:
    """Serve in threads of this process."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.both
        finally:
            server.both.answering.set()
            server.shutdown()
            thread.join()


def main(port: str = "0", seconds: str = "3600") -> None:
    """Serve until interrupted."""
    with Server(int(port)) as server, contextlib.suppress(KeyboardInterrupt):
        server.both.seconds = float(seconds)
        print(server.both.resource, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
