"""Every way in which a call can end: what its caller is told, whether it is sent again, whether the server goes.

One client's bad argument, or one call that fails, costs nobody else the server; only silence and an end do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from mcpd.config.model import Timeout
from tests.broker.desk import Desk
from tests.upstream.fakes import LEGACY, MODERN, FakeServer, Reaction, Script, World, dies


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    return World(nursery)


def raw(line: bytes) -> Reaction:
    """Answer with these bytes behind the id."""
    return lambda server, message: server.say_line(b'{"jsonrpc":"2.0","id":%d,%b' % (message["id"], line))


@dataclass(frozen=True)
class Row:
    """What a server does with a call, and what comes of it; a `code` below zero is the server's own."""

    name: str
    reaction: Reaction
    outcome: str
    code: int | None = None
    kind: str | None = None
    may_have_run: bool | None = None
    is_kept: bool = True
    ping: Reaction = None


ROWS = [
    Row("a result", {"content": []}, "done"),
    Row("a tool's own error", {"content": [{"type": "text", "text": "x" * 5000}], "isError": True}, "done"),
    *[Row(f"error {code}", code, "failed", code) for code in (-32600, -32601, -32602, -32603, -32000, -1)],
    Row("no result", raw(b'"result":7}'), "unknown", 13, "server_protocol", may_have_run=True),
    Row("an unknown type", {"resultType": "x"}, "unknown", 13, "server_protocol", may_have_run=True),
    Row("an answer that is no JSON", raw(b'"result":{"a":NaN}}'), "unknown", 13, "server_protocol", may_have_run=True),
    Row("silence, but it lives", None, "unknown", 12, "timeout", may_have_run=True, ping={}),
    Row("silence, but it refuses to say so", None, "unknown", 12, "timeout", may_have_run=True, ping=-32601),
    Row("silence for good", None, "unknown", 12, "timeout", may_have_run=True, is_kept=False),
    Row("its end", dies, "unknown", 11, "server_lost", may_have_run=True, is_kept=False),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_each_way_of_failing_has_its_outcome_and_is_not_tried_again(
    world: World, autojump_clock: MockClock, row: Row
) -> None:
    script: Script = {**LEGACY, "tools/call": row.reaction, "ping": row.ping, "tools/list": {"tools": [{"name": "t"}]}}
    desk = Desk(world, script, LEGACY, timeout=Timeout(call_seconds=4, idle_seconds=0))
    client = desk.client()

    call = client.call()
    told = await client.outcome(call)
    await trio.sleep(60)
    following = await client.outcome(client.call("next")) if not row.is_kept else None

    assert told.get("code") == row.code
    assert told.get("data", {}).get("class") == row.kind
    assert told.get("data", {}).get("may_have_run") == row.may_have_run
    assert client.told[call][0][0] == ("result" if row.outcome == "done" else "error")
    assert desk.outcomes == {row.outcome: 1, **({} if row.is_kept else {"done": 1})}
    assert world.servers[0].calls == ["t"]
    assert [one.ended for one in world.servers] == ([False] if row.is_kept else [True, False])
    assert row.is_kept or following["content"] == []


async def test_the_whole_complaint_of_a_tool_arrives(world: World, autojump_clock: MockClock) -> None:
    complaint: dict[str, Any] = {"content": [{"type": "text", "text": "x" * 5000}, {"type": "y"}], "isError": True}
    client = Desk(world, {**LEGACY, "tools/call": complaint}).client()

    told = await client.outcome(client.call())

    assert {**told, "_meta": None} == {**complaint, "_meta": None}


@pytest.mark.parametrize("script", [LEGACY, MODERN], ids=["legacy", "modern"])
async def test_a_server_is_greeted_once_a_run_however_many_call_it(
    world: World, autojump_clock: MockClock, script: Script
) -> None:
    desk = Desk(world, script)
    for key in range(5):
        client = desk.client(key)
        await client.body(client.call())
    await desk.slot.stop()
    await client.body(client.call())

    greeting = "initialize" if script is LEGACY else "server/discover"
    assert [one.methods.count(greeting) for one in world.servers] == [1, 1]
    assert [len(one.calls) for one in world.servers] == [5, 1]


async def test_each_run_has_the_revision_that_it_agreed_on(world: World, autojump_clock: MockClock) -> None:
    older: Script = {**LEGACY, "initialize": {"protocolVersion": "2024-11-05", "capabilities": {}}}
    desk = Desk(world, LEGACY, older, MODERN)
    seen = []
    for _ in range(3):
        session = await desk.slot.ready()
        seen.append((session.incarnation, session.era, session.revision))
        await desk.slot.stop()

    assert seen == [(1, "legacy", "2025-11-25"), (2, "legacy", "2024-11-05"), (3, "modern", "2026-07-28")]


async def test_no_request_goes_to_a_server_that_was_silent_when_it_was_asked_whether_it_lives(
    world: World, autojump_clock: MockClock
) -> None:
    def hangs_once(server: FakeServer, message: dict[str, Any]) -> None:
        if message["params"]["name"] != "hang":
            server.react(message, {"content": []})

    desk = Desk(world, {**LEGACY, "tools/call": hangs_once, "ping": None}, LEGACY, timeout=Timeout(call_seconds=4))
    client = desk.client()
    assert (await client.error(client.call("hang")))["class"] == "timeout"

    for pause in (0, 1, 6, 60):
        await trio.sleep(pause)
        await client.body(client.call("later"))

    assert [one.calls for one in world.servers] == [["hang"], ["later"] * 4]
