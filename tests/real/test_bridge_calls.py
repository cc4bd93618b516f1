"""What the SDKs' clients get through a bridge, in both eras from servers of both: the same as through the socket."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.wire import text_of
from tests.integration.world import until
from tests.real.bridges import KINDS, NEWEST, OLDER, Kind, plain
from tests.real.eras import LISTS, MODERN

if TYPE_CHECKING:
    from tests.real.bridges import Bridged, SdkHost

NOTE = {"uri": "note://first"}
ARGUMENTS = {"name": "Ann", "tone": "kind"}
PROMPT = {"type": "ref/prompt", "name": "greeting"}
TEMPLATE = {"type": "ref/resource", "uri": "note://{name}"}
# The same request through the socket and through the bridge.
SAME = {
    "a text": ("mcpd/call", {"tool": "echo", "arguments": {"text": "naïve ☂"}}),
    "structured": ("mcpd/call", {"tool": "measure", "arguments": {"text": "four"}}),
    "a picture": ("mcpd/call", {"tool": "picture"}),
    "a link": ("mcpd/call", {"tool": "link", "arguments": {"uri": "note://first"}}),
    "a failure": ("mcpd/call", {"tool": "fail"}),
    "a prompt": ("mcpd/prompt", {"name": "greeting", "arguments": ARGUMENTS}),
    "a resource": ("mcpd/read", NOTE),
    "bytes by a template": ("mcpd/read", {"uri": "draft://any"}),
    "a completion": ("mcpd/complete", {"ref": PROMPT, "argument": {"name": "name", "value": "r"}}),
    "a completion of a template": ("mcpd/complete", {"ref": TEMPLATE, "argument": {"name": "name", "value": ""}}),
}
METHODS = {
    "mcpd/call": "tools/call",
    "mcpd/prompt": "prompts/get",
    "mcpd/read": "resources/read",
    "mcpd/complete": "completion/complete",
}


def as_mcp(method: str, params: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a request of the socket in the words of MCP."""
    return METHODS[method], {"name" if key == "tool" else key: value for key, value in params.items()}


# -- what is agreed ------------------------------------------------------------------------------


def test_the_host_gets_the_revision_that_it_offers_and_the_server_as_it_is(host: SdkHost) -> None:
    assert host.agreed["protocolVersion"] == host.kind.revision
    assert (host.agreed["serverInfo"]["name"], host.agreed["serverInfo"]["version"]) == ("sdk", "1")
    assert {"tools", "prompts", "resources", "completions", "logging"} <= set(host.agreed["capabilities"])
    assert host.agreed["capabilities"]["resources"]["subscribe"] is True


@pytest.mark.parametrize("kind", OLDER)
def test_a_host_of_an_older_revision_gets_that_one(bridged: Bridged, kind: str, server: str) -> None:
    host = bridged.kept(OLDER[kind], server)

    assert host.agreed["protocolVersion"] == OLDER[kind].revision
    assert host.call("echo", text="from long ago") == "from long ago"
    measured = host.ask("tools/call", {"name": "measure", "arguments": {"text": "four"}})
    assert json.loads(text_of(measured)) == {"length": 4}
    assert ("structuredContent" in measured) == (OLDER[kind].revision >= "2025-06-18")
    for method, key, beginning in LISTS.values():
        listed = host.names("templates" if "templates" in method else method.split("/")[0], method, key)
        assert listed[: len(beginning)] == beginning


def test_a_host_that_finds_out_with_a_bridge_to_throw_away_finds_the_modern_revision(
    bridged: Bridged, server: str
) -> None:
    # That is what the second SDK in TypeScript does if it is not told the revision.
    with bridged.start(Kind("typescript", "auto"), server) as host:
        assert host.agreed["protocolVersion"] == MODERN
        assert host.call("echo", text="found") == "found"


def test_a_bridge_needs_to_know_nothing_but_its_home(bridged: Bridged, server: str) -> None:
    env = {"HOME": bridged.env["HOME"], "MCPD_NO_AUTOSTART": "1", "PYTHONPATH": bridged.env["PYTHONPATH"]}
    with bridged.start(Kind("python", NEWEST), server, env=env) as host:
        assert host.call("echo", text="at home") == "at home"


# -- what is the same through the socket ---------------------------------------------------------


@pytest.mark.parametrize("kind", LISTS)
def test_lists_are_the_same_as_through_the_socket(bridged: Bridged, host: SdkHost, server: str, kind: str) -> None:
    method, key, beginning = LISTS[kind]
    member = "resourceTemplates" if kind == "templates" else kind
    with bridged.host() as other:
        expected = other.ask(f"mcpd/{kind}", {"server": server, "limit": 100})["items"]
    listed = host.ask(method)

    assert [item[key] for item in listed[member]][: len(beginning)] == beginning
    assert listed[member] == [{name: value for name, value in item.items() if name != "server"} for item in expected]
    assert listed.get("nextCursor") is None


@pytest.mark.parametrize("what", SAME)
def test_results_are_the_same_as_through_the_socket(bridged: Bridged, host: SdkHost, server: str, what: str) -> None:
    method, params = SAME[what]
    with bridged.host() as other:
        expected = other.ask(method, {"server": server, **params})

    assert plain(host.ask(*as_mcp(method, params))) == plain(expected)


def test_errors_of_a_server_are_the_same_as_through_the_socket(bridged: Bridged, host: SdkHost, server: str) -> None:
    with bridged.host() as other:
        refused = other.fail("mcpd/call", {"server": server, "tool": "refuse"})
        early = other.fail("mcpd/prompt", {"server": server, "name": "farewell", "arguments": ARGUMENTS})

    for error, method, params in (
        (refused, "tools/call", {"name": "refuse"}),
        (early, "prompts/get", {"name": "farewell", "arguments": ARGUMENTS}),
    ):
        found = host.fail(method, params)
        assert (found["code"], found["data"]) == (error["code"], error["data"])
        # The first SDK in TypeScript writes the number before it.
        assert found["message"].endswith(error["message"])


def test_what_does_not_exist_is_an_error_in_the_numbers_of_the_hosts_era(host: SdkHost) -> None:
    missing = host.fail("resources/read", {"uri": "note://none"})
    # The second SDK in TypeScript makes one number of both.
    is_new = host.kind.is_modern or (host.kind.sdk, host.kind.generation) == ("typescript", 2)
    assert (missing["code"], missing["data"]) == (-32602 if is_new else -32002, {"uri": "note://none"})
    assert host.fail("tools/call", {"name": "no-such-tool"})["code"] == -32602
    assert host.fail("prompts/get", {"name": "no-such-prompt"})["code"] == -32602


@pytest.mark.parametrize("kind", KINDS)
def test_a_modern_server_learns_what_the_host_can_do_and_no_more(bridged: Bridged, kind: str) -> None:
    with bridged.start(KINDS[kind], "modern", can=["elicitation"]) as host:
        assert list(json.loads(host.call("capabilities"))) == ["elicitation"]


# -- while it works ------------------------------------------------------------------------------


def test_progress_of_a_call_reaches_the_host(host: SdkHost) -> None:
    # The SDKs in TypeScript lose what comes at once with the answer.
    call = host.begin("climb", {"steps": 3}, progressToken="t")
    told = [host.expect("notifications/progress", before=call)["params"] for _ in range(3)]
    assert host.call("give_up") == "done"

    assert text_of(host.wait(call)["result"]) == "at the top"
    assert [(each["progress"], each["total"], each["message"]) for each in told] == [
        (step, 3, f"step {step}") for step in (1, 2, 3)
    ]
    assert host.settled() == []


def test_a_call_that_the_host_gives_up_is_cancelled_at_the_server(bridged: Bridged, host: SdkHost, server: str) -> None:
    record = bridged.records[server]
    call = host.begin("wait", progressToken="t")
    host.expect("notifications/progress", before=call)
    number = record.calls("wait")[-1]["id"]
    host.cancel(call)

    assert "error" in host.wait(call)
    until(lambda: any(each["params"]["requestId"] == number for each in record.heard("notifications/cancelled")))
    assert host.settled() == []


def test_a_ping_is_answered(bridged: Bridged, host: SdkHost) -> None:
    if host.kind.is_modern:
        # The SDKs know that there is none any more.
        assert "error" in host.wait(host.send("ping"))
    else:
        assert host.ask("ping") == {}
