"""The MCP face of a connection: sessions of both eras, and whose rules a request goes by."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.downstream.hall import Hall
from tests.downstream.host import META, Host, hosts
from tests.upstream.fakes import LEGACY, MODERN, Script, after

TOOL = {"name": "echo", "inputSchema": {"type": "object"}}
INFO = {"name": "fake", "version": "7"}
SERVER: Script = {
    **LEGACY,
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}, "resources": {"subscribe": True}},
        "serverInfo": INFO,
        "instructions": "Be kind.",
    },
    "tools/list": {"tools": [TOOL]},
    "tools/call": {"content": [{"type": "text", "text": "hi"}]},
    "resources/subscribe": {},
    "resources/unsubscribe": {},
}
TEXT = {"content": [{"type": "text", "text": "hi"}]}


async def test_a_server_presents_itself_to_a_legacy_host_as_it_does_to_us(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    with hosts(Hall(nursery, {"one": SERVER})) as (host,):
        shown = await host.initialize("2025-06-18")
        call = host.send("tools/call", {"name": "echo", "arguments": {}})

        assert shown["protocolVersion"] == "2025-06-18"
        assert (shown["serverInfo"], shown["instructions"]) == (INFO, "Be kind.")
        assert shown["capabilities"].keys() == {"tools", "resources"}
        assert (await host.result(host.send("tools/list")))["tools"] == [TOOL]
        assert await host.result(call) == TEXT


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "1999-01-01", "2026-07-28"])
async def test_a_revision_that_is_known_is_agreed_to_and_any_other_is_answered_with_the_newest(
    nursery: trio.Nursery, autojump_clock: MockClock, version: str
) -> None:
    with hosts(Hall(nursery, {"one": SERVER})) as (host,):
        expected = "2025-11-25" if version in ("1999-01-01", "2026-07-28") else version
        assert (await host.initialize(version))["protocolVersion"] == expected


async def test_a_host_that_probes_first_and_opens_a_session_after_that_is_served_in_both_eras(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    with hosts(Hall(nursery, {"one": SERVER})) as (host,):
        found = await host.result(host.modern("server/discover"))
        assert found["supportedVersions"] == ["2026-07-28"]
        assert found["_meta"]["io.modelcontextprotocol/serverInfo"] == INFO
        await host.initialize()
        await host.initialize("2025-06-18")
        old = await host.result(host.send("tools/call", {"name": "echo"}))
        new = await host.result(host.modern("tools/call", {"name": "echo"}))
        assert (old, new["resultType"], new["content"]) == (TEXT, "complete", TEXT["content"])


async def test_what_is_sent_behind_initialize_without_waiting_belongs_to_the_session(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    with hosts(Hall(nursery, {"one": {**SERVER, "initialize": after(3, SERVER["initialize"])}})) as (host,):  # type: ignore[arg-type]
        first = host.send("initialize", {"protocolVersion": "2025-11-25"})
        call = host.send("tools/call", {"name": "echo"})
        host.end_input()
        assert await host.result(call) == TEXT
        assert (await host.result(first))["serverInfo"] == INFO


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("tools/list", None, -32602),
        ("tools/list", {"_meta": {"progressToken": 1}}, -32602),
        ("tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}, -32602),
        ("tools/list", {"_meta": META | {"io.modelcontextprotocol/clientCapabilities": []}}, -32602),
        ("tools/list", {"_meta": META | {"io.modelcontextprotocol/protocolVersion": "2026-01-01"}}, -32022),
        ("tools/list", {"_meta": 3}, -32602),
        ("tools/list", [], -32602),
        ("tools/list", {"_meta": META, "cursor": "x"}, -32602),
        ("tools/call", {"_meta": META, "name": 7}, -32602),
        ("tools/call", {"_meta": META, "name": "echo", "arguments": [1]}, -32602),
        ("initialize", {"_meta": META}, -32601),
        ("ping", {"_meta": META}, -32601),
        ("logging/setLevel", {"_meta": META, "level": "info"}, -32601),
        ("resources/subscribe", {"_meta": META, "uri": "x:y"}, -32601),
        ("server/nothing", {"_meta": META}, -32601),
        ("server/nothing", None, -32602),
    ],
)
async def test_what_makes_no_sense_is_refused_at_once_and_starts_no_server(
    nursery: trio.Nursery, autojump_clock: MockClock, method: str, params: Any, code: int
) -> None:
    hall = Hall(nursery, {"one": SERVER})
    with hosts(hall) as (host,):
        assert (await host.error(host.send(method, params)))["code"] == code
    assert not hall.spawns


async def test_a_ping_needs_no_session(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    with hosts(Hall(nursery, {"one": SERVER})) as (host,):
        assert await host.result(host.send("ping")) == {}
        await host.initialize()
        assert await host.result(host.send("ping")) == {}


async def test_a_server_that_is_slow_to_start_is_presented_by_a_guess_and_then_as_it_is(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"one": {**SERVER, "server/discover": after(9, -32601)}})
    with hosts(hall) as (host,):
        began = trio.current_time()
        guessed = await host.result(host.modern("server/discover"))
        assert trio.current_time() - began < 5
        assert "tools" in guessed["capabilities"]
        assert (await host.result(host.send("initialize", {})))["serverInfo"]["name"] == "one"
        assert (await host.result(host.modern("tools/list")))["tools"] == [TOOL]
        assert (await host.result(host.send("initialize", {})))["serverInfo"] == INFO
    assert hall.spawns == 1


async def test_a_server_that_cannot_be_started_says_so_in_the_handshake(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    from mcpd.errors import ServerUnavailable

    with hosts(Hall(nursery, {"one": ServerUnavailable("no such command: /fake")}), {}, {"server": "onee"}) as (one, other):
        error = await one.error(one.send("initialize", {}))
        assert (error["code"], error["data"]["class"]) == (10, "server_unavailable")
        assert "/fake" in error["message"]
        unknown = await other.error(other.send("initialize", {}))
        assert (unknown["code"], unknown["data"]["class"]) == (1, "unknown_server")
        assert "did you mean one?" in unknown["message"]


async def test_arrays_of_messages_are_taken_in_the_one_revision_that_has_them(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    batch = (
        b'[{"jsonrpc":"2.0","id":"a","method":"ping"},{"jsonrpc":"2.0","id":"b","method":"tools/call",'
        b'"params":{"name":"echo"}},7,[],{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}]\n'
    )
    with hosts(Hall(nursery, {"one": SERVER}), {}, {}) as (new, old):
        await new.initialize()
        new.line(batch)
        assert (await new.error(None))["code"] == -32600
        await old.initialize("2025-03-26")
        old.line(batch)
        assert await old.result("a") == {}
        assert await old.result("b") == TEXT
        assert (await old.error(None))["code"] == -32600
        old.line(b"[]\n")
        assert (await old.error(None))["code"] == -32600


async def test_a_slow_tool_is_waited_for_as_long_as_its_server_is_there(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"one": {**SERVER, "tools/call": after(400, TEXT)}})
    with hosts(hall) as (host,):
        await host.initialize()
        assert await host.result(host.send("tools/call", {"name": "echo"})) == TEXT
    assert hall.servers[0].methods.count("ping") >= 5


async def test_a_call_of_a_server_that_hangs_ends_with_an_error_that_says_what_may_have_happened(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"one": {**SERVER, "tools/call": None, "ping": None}})
    with hosts(hall) as (host,):
        await host.initialize()
        began = trio.current_time()
        error = await host.error(host.send("tools/call", {"name": "echo"}))
        assert error["data"]["may_have_run"] is True
        assert "may have run" in error["message"]
        assert trio.current_time() - began < 60


async def test_a_cancelled_call_is_cancelled_at_the_server_and_not_answered(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"one": {**SERVER, "tools/call": after(5, TEXT)}})
    with hosts(hall) as (host,):
        await host.initialize()
        call = host.send("tools/call", {"name": "echo"}, id="c")
        await trio.sleep(1)
        host.notify("notifications/cancelled", {"requestId": "c"})
        await trio.sleep(60)
        assert not host.has_answer(call)
        assert hall.servers[0].got("notifications/cancelled")


async def test_a_client_of_the_socket_is_no_mcp_client_until_it_says_so(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    with hosts(Hall(nursery, {"one": SERVER})) as (host,):
        result = await host.result(host.send("mcpd/call", {"server": "one", "tool": "echo"}))
        assert "mcpd/view" in result["_meta"]
        assert host.connection.face is None


async def test_requests_of_the_daemon_are_numbered_from_where_the_client_says(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    from tests.downstream.host import asks_then

    hall = Hall(nursery, {"one": {**SERVER, "tools/call": asks_then(TEXT)}})
    with hosts(hall, {"first_question": 17}) as (host,):
        await host.initialize(elicitation={})
        call = host.send("tools/call", {"name": "echo"})
        question = await host.note("elicitation/create")
        assert (question["id"], question["params"]["message"]) == ("s17", "sure?")
        host.respond("s17", {"action": "decline"})
        assert await host.result(call) == TEXT


def _names(host: Host) -> list[str]:
    host.look()
    return [note["method"] for note in host.notes]


async def test_a_host_that_has_lost_an_earlier_daemon_hears_that_all_may_have_changed(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    with hosts(Hall(nursery, {"one": SERVER}), {"resumed": True}, {}) as (host, fresh):
        await host.initialize()
        await fresh.initialize()
        await host.result(host.send("resources/subscribe", {"uri": "x:y"}))
        lists = [f"notifications/{kind}/list_changed" for kind in ("tools", "resources")]  # there are no prompts
        assert sorted(_names(host)) == sorted([*lists, "notifications/resources/updated"])
        assert _names(fresh) == []


async def test_a_modern_server_is_shown_to_both_eras(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    found = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "resultType": "complete"}
    modern: Script = {**MODERN, "server/discover": found, "tools/call": {**TEXT, "resultType": "complete"}}
    with hosts(Hall(nursery, {"one": modern})) as (host,):
        new = await host.result(host.modern("tools/call", {"name": "echo"}))
        await host.initialize()
        old = await host.result(host.send("tools/call", {"name": "echo"}))
        assert (old, new["resultType"]) == (TEXT, "complete")


async def test_a_host_with_little_room_gets_shorter_descriptions_and_others_whole_ones(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    long = {**TOOL, "description": "It echoes. " * 50}
    hall = Hall(nursery, {"one": {**SERVER, "tools/list": {"tools": [long]}}})
    with hosts(hall, {"description_bytes": 40}, {}) as (small, large):
        await small.initialize()
        await large.initialize()
        (seen,) = (await small.result(small.send("tools/list")))["tools"]
        assert (len(seen["description"].encode()), seen["inputSchema"]) == (40, TOOL["inputSchema"])
        assert (await large.result(large.send("tools/list")))["tools"] == [long]


async def test_a_search_over_one_server_is_a_search(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    with hosts(Hall(nursery, {"one": SERVER}), {"mode": "search"}) as (host,):
        await host.initialize()
        tools = (await host.result(host.send("tools/list")))["tools"]
        assert [tool["name"] for tool in tools] == ["search_tools", "describe_tool", "call_tool"]


def test_a_daemon_has_nothing_of_it_before_somebody_speaks_mcp() -> None:
    program = "import sys, mcpd.daemon; print([name for name in sys.modules if name.endswith(('.face', '.shaping'))])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
