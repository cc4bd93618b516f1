"""Clients of the demo server over real pipes."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = str(Path(__file__).parents[2] / "mcpd" / "demo.py")
VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
MODERN = {VERSION: "2026-07-28", CAPABILITIES: {}}


class Client:
    """One demo process and the two ends of its pipes."""

    def __init__(self, *, meta=None, **popen):
        self._ids = itertools.count(1)
        self._meta = meta
        self.process = subprocess.Popen(
            [sys.executable, PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **popen
        )

    def write(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, method, params=None, **more):
        self.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params or {}, **more}).encode() + b"\n")

    def start(self, method, params=None, *, meta=None):
        """Send a request and return its id."""
        identity = next(self._ids)
        meta = {**(self._meta or {}), **(meta or {})}
        self.send(method, {**(params or {}), **({"_meta": meta} if meta else {})}, id=identity)
        return identity

    def read(self):
        return json.loads(self.process.stdout.readline())

    def request(self, method, params=None, **more):
        identity = self.start(method, params, **more)
        answer = self.read()
        assert answer["id"] == identity
        return answer

    def call(self, tool, arguments=None, **more):
        return self.request("tools/call", {"name": tool, "arguments": arguments or {}}, **more)["result"]

    def text(self, tool, arguments=None, **more):
        result = self.call(tool, arguments, **more)
        assert "isError" not in result
        return result["content"][0]["text"]

    def initialize(self, revision="2025-11-25", **capabilities):
        params = {
            "protocolVersion": revision,
            "capabilities": capabilities,
            "clientInfo": {"name": "t", "version": "1"},
        }
        result = self.request("initialize", params)["result"]
        self.send("notifications/initialized")
        return result

    def end(self):
        """Close stdin and return what else was said, and the exit status."""
        self.process.stdin.close()
        rest = self.process.stdout.read()
        assert self.process.stderr.read() == b""
        return [json.loads(line) for line in rest.splitlines()], self.process.wait()

    def close(self):
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if not pipe.closed:
                pipe.close()
        self.process.wait()


@pytest.fixture
def start():
    clients = []

    def start_client(**more):
        clients.append(Client(**more))
        return clients[-1]

    yield start_client
    for client in clients:
        client.close()


@pytest.fixture
def program():
    """The path of the server's file."""
    return PROGRAM


@pytest.fixture
def legacy(start):
    client = start()
    client.initialize()
    return client


@pytest.fixture
def modern(start):
    return start(meta=MODERN)


@pytest.fixture(params=["legacy", "modern"])
def client(request):
    """A client of either era."""
    return request.getfixturevalue(request.param)
