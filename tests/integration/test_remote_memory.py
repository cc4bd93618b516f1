"""What remote servers cost a daemon that has none: nothing. And one that has: little, and nothing of the SDK."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.world import REPOSITORY, open_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.world import World

SERVER = REPOSITORY / "tests/bench/http_server.py"
# httpx2, its engine, and what they need: what is used of them is there with the first remote server.
CLIENT = frozenset({"httpx2", "httpcore2", "h11"})
# What would each cost more than all that the daemon is.
NEVER = frozenset({"pydantic", "mcp", "starlette"})
MOST_BYTES = 15_000_000


@dataclass(frozen=True)
class Sight:
    """What a daemon was at one moment.

    Attributes:
        imported: the packages that it had imported, each by its first name.
        resident: its memory, in bytes.
    """

    imported: frozenset[str]
    resident: int


@dataclass(frozen=True)
class Seen:
    """A daemon that has served a local server, then a remote one, then one that wants a token."""

    local: Sight
    remote: Sight
    signed_in: Sight
    renewals: int


@pytest.fixture(scope="module")
def seen() -> Iterator[Seen]:
    """Watch a daemon with every one of the forbidden packages within its reach."""
    for world in open_world():
        # An import that is only tried succeeds here, and so it shows.
        bait = world.path / "bait"
        for name in NEVER:
            (bait / name).mkdir(parents=True)
            (bait / name / "__init__.py").touch()
        # With this, Python writes a line to stderr for each module that is imported, at the moment of its import.
        telling = {"PYTHONPATH": f"{bait}:{world.env['PYTHONPATH']}", "PYTHONPROFILEIMPORTTIME": "1"}
        with _server() as plain, _server() as guarded, _issuer() as issuer:
            world.configure({"demo": None, "plain": {"url": f"{plain}/json"}, "guarded": {"url": f"{guarded}/sse"}})
            _keep_expired(world, f"{guarded}/sse", issuer.url)
            world.daemon(env={**world.env, **telling})
            sights = [_call(world, name) for name in ("demo", "plain", "guarded")]
            yield Seen(*sights, renewals=issuer.asked)


def test_the_http_client_is_imported_with_the_first_remote_server(seen: Seen) -> None:
    assert "trio" in seen.local.imported
    assert CLIENT & seen.local.imported == set()
    assert CLIENT & seen.remote.imported


def test_nothing_of_the_sdk_is_ever_imported_not_even_to_renew_a_token(seen: Seen) -> None:
    assert seen.renewals == 1
    assert seen.signed_in.imported & NEVER == set()


def test_the_first_remote_server_adds_little_memory(seen: Seen) -> None:
    assert seen.remote.resident - seen.local.resident < MOST_BYTES
    assert seen.signed_in.resident - seen.local.resident < MOST_BYTES


def _call(world: World, name: str) -> Sight:
    """Have the daemon use a server, and look at it."""
    assert world.call(name, "echo", "text=hi") == "hi"
    (pid,) = world.daemons()
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    resident = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS:"))
    lines = [line for line in world.log().splitlines() if line.startswith("import time:")]
    modules = (line.rpartition("|")[2].strip() for line in lines)
    return Sight(frozenset(module.partition(".")[0] for module in modules), resident)


@contextmanager
def _server() -> Iterator[str]:
    """Run a server that answers to everybody; give its address."""
    argv = (sys.executable, "-I", "-S", str(SERVER))
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin
        assert child.stdout
        try:
            yield f"http://127.0.0.1:{child.stdout.readline().strip()}"
        finally:
            child.stdin.close()


class _Issuer(ThreadingHTTPServer):
    """A token endpoint that takes any refresh token."""

    asked = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Endpoint(BaseHTTPRequestHandler):
    server: _Issuer

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked += 1
        tokens = {"access_token": "new", "refresh_token": "next", "token_type": "Bearer", "expires_in": 3600}
        body = json.dumps(tokens).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing: what is on stderr is the tests'."""


@contextmanager
def _issuer() -> Iterator[_Issuer]:
    with _Issuer(("127.0.0.1", 0), _Endpoint) as issuer:
        thread = threading.Thread(target=issuer.serve_forever)
        thread.start()
        try:
            yield issuer
        finally:
            issuer.shutdown()
            thread.join()


def _keep_expired(world: World, resource: str, issuer: str) -> None:
    """Leave the credential of somebody who signed in long ago."""
    credential = {
        "version": 1,
        "resource": resource,
        "issuer": issuer,
        "client": {"client_id": "me", "token_endpoint_auth_method": "none", "registration": "static"},
        "endpoints": {"token": f"{issuer}/token"},
        "tokens": {"access_token": "old", "refresh_token": "first", "token_type": "Bearer", "expires_at": 1},
        "saved_at": 1,
    }
    folder = world.path / "home/.local/state/mcpd/credentials"
    folder.mkdir(parents=True)
    for each in (folder, folder.parent):
        each.chmod(0o700)
    name = hashlib.sha256(f"{issuer}\n{resource}".encode()).hexdigest()[:40]
    path = folder / f"{name}.json"
    path.write_text(json.dumps(credential))
    path.chmod(0o600)
