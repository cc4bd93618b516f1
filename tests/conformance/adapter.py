"""One run of a client scenario of the conformance suite: `python -m tests.conformance.adapter [--mcpd PATH] URL`.

The suite starts it with the address of its server, and the name of the scenario in the environment. It drives that
server through a daemon of its own, by commands that a user could type, and leaves nothing behind.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.integration.world import REPOSITORY, Done, World

SERVER = "s"
# How the suite calls what it puts into the environment.
GIVEN = "MCP_CONFORMANCE_"
CIMD = "https://conformance-test.local/client-metadata.json"
# Of one command, on a machine that does ten things at once.
PATIENCE_SECONDS = 40.0
# Here a client that signs in has been taken in.
REFUSED = {
    "auth/resource-mismatch", "auth/metadata-issuer-mismatch", "auth/iss-supported-missing", "auth/iss-wrong-issuer",
    "auth/iss-unexpected", "auth/iss-normalized",
}  # fmt: skip
SIGN_IN_NEEDED, TOOL_FAILED = 3, 5


class Failed(Exception):
    """A command has ended otherwise than it has to."""


class Client:
    """A user of one server.

    Args:
        world: where the daemon lives.
        mcpd: the command.
        context: what the scenario gives its client.
    """

    def __init__(self, world: World, mcpd: str, context: Mapping[str, Any]) -> None:
        self._world = world
        self._mcpd = mcpd
        self.context = context

    def run(self, *argv: str, stdin: str = "", expect: tuple[int, ...] = (0,)) -> Done:
        """Run a command of mcpd.

        Raises:
            Failed: its exit code is none of the expected ones, or it has not come to an end.
        """
        print("$ mcpd", shlex.join(argv), f"<<< {stdin}" if stdin else "", flush=True)
        try:
            done = self._world.run(*argv, stdin=stdin, command=(self._mcpd,))
        except subprocess.TimeoutExpired as late:
            raise Failed(f"mcpd {shlex.join(argv)}: no end within {late.timeout:g} s") from None
        print(done.out, done.err, f"exit {done.status}", sep="", flush=True)
        if done.status not in expect:
            raise Failed(f"mcpd {shlex.join(argv)}: exit {done.status}, not {expect}")
        return done

    def tools(self) -> list[dict[str, Any]]:
        """List the tools."""
        items: list[dict[str, Any]] = self.run("tools", SERVER, "--all", "--json").json["items"]
        return items

    def call(self, tool: str, arguments: object = None, *more: str, expect: tuple[int, ...] = (0,)) -> Done:
        """Call a tool; the arguments go in as they are, by stdin."""
        return self.run("call", SERVER, tool, "--args", "@-", *more, stdin=json.dumps(arguments or {}), expect=expect)

    def login(self, *, expect: tuple[int, ...] = (0,)) -> None:
        """Sign in."""
        self.run("login", SERVER, "--browser-cmd", self._world.env["BROWSER"], expect=expect)


def initialize(client: Client) -> None:
    client.tools()


def tools_call(client: Client) -> None:
    client.tools()
    client.call("add_numbers", {"a": 5, "b": 3})


def sse_retry(client: Client) -> None:
    client.tools()
    client.call("test_reconnection")


def elicitation_defaults(client: Client) -> None:
    # The first command starts the server, which is told then whether anybody can be asked.
    client.call("test_client_elicitation_defaults", {}, "--elicit", "accept-defaults")


def request_metadata(client: Client) -> None:
    # The server says that it has no tools, and so none is called.
    client.tools()
    client.call("add_numbers", {"a": 5, "b": 3}, "--elicit", "decline", expect=(0, TOOL_FAILED))


def standard_headers(client: Client) -> None:
    for tool in client.tools():
        client.call(tool["name"])
    for resource in client.run("resources", SERVER, "--json").json["items"]:
        client.run("read", SERVER, resource["uri"])
    for prompt in client.run("prompts", SERVER, "--json").json["items"]:
        client.run("prompt", SERVER, prompt["name"])


def custom_headers(client: Client) -> None:
    names = {tool["name"] for tool in client.tools()}
    for call in client.context["toolCalls"]:
        if call["name"] in names:
            client.call(call["name"], call["arguments"])


def invalid_tool_headers(client: Client) -> None:
    for tool in client.tools():
        schema = tool["inputSchema"]
        client.call(tool["name"], {name: _dummy(schema["properties"][name]) for name in schema.get("required", ())})


def _dummy(schema: Mapping[str, Any]) -> object:
    return {"string": "x", "object": {}, "array": [], "number": 1.5, "integer": 1}.get(schema.get("type", ""))


def schema_preservation(client: Client) -> None:
    schemas = {tool["name"]: tool["inputSchema"] for tool in client.tools()}
    client.call("json_schema_echo", {"schema": schemas["json_schema_2020_12_tool"]})


def request_state(client: Client) -> None:
    client.tools()
    for name in ("echo_state", "unrelated", "no_state", "no_result_type"):
        client.call(f"test_mrtr_{name}", {}, "--elicit", '{"confirmed": true}')


def sign_in(client: Client) -> None:
    client.login()
    client.tools()
    client.call("test-tool", {}, "--login")


def be_refused(client: Client) -> None:
    client.login(expect=(SIGN_IN_NEEDED,))


def never_be_let_in(client: Client) -> None:
    client.call("test-tool", {}, "--login", expect=(SIGN_IN_NEEDED,))


def move(client: Client) -> None:
    # After the sign-in the server belongs to another authorization server, which a call has to cope with.
    client.login()
    client.call("test-tool", {}, "--login")
    client.tools()


STEPS: dict[str, Callable[[Client], None]] = {
    "initialize": initialize,
    "json-schema-ref-no-deref": initialize,
    "tools_call": tools_call,
    "sse-retry": sse_retry,
    "elicitation-sep1034-client-defaults": elicitation_defaults,
    "request-metadata": request_metadata,
    "http-standard-headers": standard_headers,
    "http-custom-headers": custom_headers,
    "http-invalid-tool-headers": invalid_tool_headers,
    "json-schema-2020-12-preservation": schema_preservation,
    "sep-2322-client-request-state": request_state,
    "auth/scope-retry-limit": never_be_let_in,
    "auth/authorization-server-migration": move,
    **dict.fromkeys(REFUSED, be_refused),
}


def oauth(scenario: str, context: Mapping[str, Any]) -> dict[str, object]:
    """Return how to sign in, where that is not to be found out; secrets stay in the environment."""
    if scenario == "auth/basic-cimd":
        return {"client_metadata_url": CIMD}
    found: dict[str, object] = {key: context[key] for key in ("client_id", "issuer") if key in context}
    if "client_secret" in context:
        found["client_secret"] = "${CLIENT_SECRET}"
    if "private_key_pem" in context:
        found |= {"private_key": "${PRIVATE_KEY}", "auth_method": "private_key_jwt"}
    if scenario.startswith("auth/client-credentials"):
        found["grant"] = "client_credentials"
    return found


def prepare(world: World, url: str, scenario: str, context: Mapping[str, Any], protocol: str | None) -> None:
    """Write the configuration, and put what it names into the environment.

    Args:
        world: where the daemon will live.
        url: of the suite's server.
        scenario: the name.
        context: what the scenario gives its client.
        protocol: the revision that the entry demands; None if it is to be found out.
    """
    # The command under test brings its own code along.
    del world.env["PYTHONPATH"]
    for key, variable in (("client_secret", "CLIENT_SECRET"), ("private_key_pem", "PRIVATE_KEY")):
        if key in context:
            world.env[variable] = context[key]
    hook = world.path / "browser"
    words = shlex.join([sys.executable, str(REPOSITORY / "tests/conformance/browser.py")])
    hook.write_text(f'#!/bin/sh\nexec {words} "$@" >> {world.path}/browser.log 2>&1\n')
    hook.chmod(0o700)
    world.env["BROWSER"] = str(hook)
    entry: dict[str, object] = {"url": url}
    if settings := oauth(scenario, context):
        entry["oauth"] = settings
    if protocol is not None:
        entry["protocol"] = protocol
    world.configure({SERVER: entry})


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.adapter", description=__doc__)
    parser.add_argument("--mcpd", default=str(Path(sys.prefix) / "bin/mcpd"), help="the command under test")
    parser.add_argument("--pin", action="store_true", help="let the entry name the revision")
    parser.add_argument("url", help="where the suite's server is")
    given = parser.parse_args(argv)
    # Whoever ends this run wants all that it has started to end, too.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    scenario = os.environ[f"{GIVEN}SCENARIO"]
    context = json.loads(os.environ.get(f"{GIVEN}CONTEXT", "{}"))
    steps = STEPS.get(scenario, sign_in if scenario.startswith("auth/") else None)
    if steps is None:
        print(f"nothing is known of the scenario {scenario}", file=sys.stderr)
        return 2
    with World(patience_seconds=PATIENCE_SECONDS) as world:
        prepare(world, given.url, scenario, context, os.environ[f"{GIVEN}PROTOCOL_VERSION"] if given.pin else None)
        try:
            steps(Client(world, given.mcpd, context))
        except Failed as failed:
            print(failed, world.log(), _browsed(world), sep="\n", file=sys.stderr)
            return 1
    return 0


def _browsed(world: World) -> str:
    log = world.path / "browser.log"
    return log.read_text() if log.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
