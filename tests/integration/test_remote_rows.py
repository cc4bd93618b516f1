"""What the lists say of remote servers: where they are, what they want, and nothing that is secret."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from tests.integration.world import World


class Closed(BaseHTTPRequestHandler):
    """Lets nobody in."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Bearer scope="read write"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_DELETE = do_POST

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def closed() -> Iterator[str]:
    """Have a server that wants a sign-in; yield its host and port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Closed) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_remote_server_that_wants_a_sign_in_says_so_everywhere(world: World) -> None:
    with closed() as host:
        world.configure({"far": {"url": f"http://ann:hunter2@{host}/mcp?key=hunter3"}})

        done = world.run("call", "far", "any", "--json")

        assert done.status == 3
        assert (done.error["class"], done.error["hint"]) == ("auth_required", "mcpd login far")
        (row,) = world.run("get", "far", "--json").out.splitlines()
        found = json.loads(row)
        assert found["state"] == "needs_auth"
        assert found["hint"] == "mcpd login far"
        assert (found["transport"], found["target"], found["scope"]) == ("http", f"http://{host}/mcp", "user")
        said = [world.run(*argv).out for argv in (("ls",), ("status",), ("status", "far"), ("get", "far"), ("why", "far"))]
        assert said[0] == f"far\tneeds_auth\thttp\thttp://{host}/mcp\n"
        assert all("mcpd login far" in text for text in said[1:4])
        assert not [text for text in (*said, row, done.err, world.log()) if "hunter" in text]


def test_why_tells_what_keeps_remote_servers_apart_and_shows_no_value(world: World) -> None:
    world.configure("""
        [servers.far]
        url = "http://127.0.0.1:1/mcp"
        headers = { X-Team = "hunter2" }
        bearer_env = "FAR_TOKEN"
        headers_helper = ["far-token", "hunter3"]
    """)
    world.env["FAR_TOKEN"] = "hunter4"

    why = world.run("why", "far", "--json").json

    assert (why["scope"], why["because"]) == ("user", "it is remote: it keeps no state of a connection")
    fields = {each["field"]: each["value"] for each in why["fields"]}
    assert fields["url"] == "http://127.0.0.1:1/mcp"
    assert fields["headers.X-Team"] == "(a value)"
    assert fields["bearer_env"] == "FAR_TOKEN"
    assert "cwd" not in fields
    assert "hunter" not in str(why)


def test_a_remote_server_that_is_not_there_is_no_sign_in(world: World) -> None:
    world.configure({"far": {"url": "http://127.0.0.1:1/mcp"}})

    done = world.run("call", "far", "any", "--json")

    assert (done.status, done.error["class"]) == (4, "connect")
    row = world.row("far")
    assert (row["transport"], row["target"]) == ("http", "http://127.0.0.1:1/mcp")
    assert row["state"] in ("backoff", "failed", "stopped")


def test_a_server_over_the_network_in_the_clear_is_refused(world: World) -> None:
    world.configure({"far": {"url": "http://far.example/mcp"}})

    done = world.run("call", "far", "any", "--json")

    assert (done.status, done.error["class"]) == (9, "misconfigured")
    assert "in the clear" in done.error["message"]
    assert "insecure = true" in done.error["hint"]
