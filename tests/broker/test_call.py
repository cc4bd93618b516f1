"""The one outcome of a call: what the client is told, and how it is counted."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from mcpd.config.model import Limits
from tests.broker.desk import Desk
from tests.upstream.fakes import LEGACY, MODERN, FakeServer, Reaction, Script, World, dies

REFUSES: Script = {"server/discover": -32601, "initialize": -32000}


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    return World(nursery)


def says(text: str) -> Script:
    """Return the script of a server whose answer to a call is this JSON: `"result":…` or `"error":…`."""

    def answer(server: FakeServer, message: dict[str, Any]) -> None:
        server.say_line(b'{"jsonrpc":"2.0","id":%d,%b}' % (message["id"], text.encode()))

    return {**LEGACY, "tools/call": answer}


# -- what is sent --------------------------------------------------------------------------------


async def test_the_arguments_go_to_the_server_bit_exact(world: World, autojump_clock: MockClock) -> None:
    client = Desk(world).client()

    await client.body(client.call("add", '{ "a" : 1.50, "b":"é" }'))

    assert (
        world.servers[0].written[-1]
        == (
            '{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"add","arguments":{ "a" : 1.50, "b":"é" }}}\n'
        ).encode()
    )


async def test_what_a_client_says_besides_passes_but_for_what_is_the_brokers(
    world: World, autojump_clock: MockClock
) -> None:
    client = Desk(world, MODERN).client()
    meta = {"traceparent": "00-1", "io.modelcontextprotocol/protocolVersion": "2024-11-05", "progressToken": "mine"}

    await client.body(client.call(meta=meta))

    message = world.servers[0].messages[-1]
    assert message["params"]["_meta"] == {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "mcpd", "version": "0.1.0"},
        "progressToken": message["id"],
        "traceparent": "00-1",
    }


# -- results -------------------------------------------------------------------------------------


async def test_a_result_is_passed_on_bit_exact_with_its_view(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, says(r'"result":{"content":[ ],"x":1.50,"y":"\u00e9"}'))
    client = desk.client()

    body = await client.body(client.call())

    assert body == (
        rb'{"content":[ ],"x":1.50,"y":"\u00e9",'
        rb'"_meta":{"mcpd/view":{"incarnation":1,"bytes":37,"shown":37,"truncated":false}}}'
    )
    assert (desk.outcomes, desk.places) == ({"done": 1}, (0, 0))


async def test_a_tool_that_says_that_it_failed_is_done(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, {**LEGACY, "tools/call": {"content": [], "isError": True}})
    client = desk.client()

    assert (await client.outcome(client.call()))["isError"] is True
    assert desk.outcomes == {"done": 1}


async def test_a_result_keeps_the_meta_that_it_has(world: World, autojump_clock: MockClock) -> None:
    client = Desk(world, {**LEGACY, "tools/call": {"content": [], "_meta": {"a": 1}}}).client()

    meta = (await client.outcome(client.call()))["_meta"]

    assert sorted(meta) == ["a", "mcpd/view"]


async def test_a_result_names_the_incarnation_that_gave_it(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world)
    client = desk.client()
    await client.body(client.call())
    await desk.slot.stop()

    result = await client.outcome(client.call())

    assert result["_meta"]["mcpd/view"]["incarnation"] == 2


async def test_a_long_result_is_cut_and_its_rest_is_kept_under_a_handle(
    world: World, autojump_clock: MockClock
) -> None:
    text = "0123456789" * 10
    desk = Desk(world, {**LEGACY, "tools/call": {"content": [{"type": "text", "text": text}]}})
    client = desk.client()

    result = await client.outcome(client.call(max_bytes=15))

    assert result["content"] == [{"type": "text", "text": "012345678901234"}]
    view = result["_meta"]["mcpd/view"]
    handle = view.pop("handle")
    assert view == {
        "incarnation": 1, "bytes": 100, "shown": 15, "truncated": True, "offset": 0, "nextOffset": 15,
    }  # fmt: skip
    assert desk.store.get(handle, None, trio.current_time())[0].bytes == 100
    assert desk.outcomes == {"done": 1}


async def test_a_result_whose_text_fits_needs_no_handle(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, {**LEGACY, "tools/call": {"content": [{"type": "text", "text": "short"}]}})
    client = desk.client()

    result = await client.outcome(client.call(max_bytes=5))

    assert result["content"] == [{"type": "text", "text": "short"}]
    assert result["_meta"]["mcpd/view"]["truncated"] is False
    assert "handle" not in result["_meta"]["mcpd/view"]
    assert len(desk.store) == 0


async def test_of_a_result_that_is_over_its_limit_only_so_much_is_kept(world: World, autojump_clock: MockClock) -> None:
    text = "0123456789" * 10
    script = {**LEGACY, "tools/call": {"content": [{"type": "text", "text": text}]}}
    desk = Desk(world, script, limits=Limits(result_bytes=40))
    client = desk.client()

    result = await client.outcome(client.call(max_bytes=15))

    view = result["_meta"]["mcpd/view"]
    assert (view["bytes"], view["kept"], view["shown"]) == (100, 40, 15)
    assert desk.store.get(view["handle"], None, trio.current_time())[0].bytes == 40


# -- results of another type ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", ['"complete"', "null"])
async def test_a_result_may_say_that_it_is_complete(world: World, autojump_clock: MockClock, kind: str) -> None:
    desk = Desk(world, says(f'"result":{{"resultType":{kind},"content":[]}}'))
    client = desk.client()

    assert (await client.outcome(client.call()))["content"] == []
    assert desk.outcomes == {"done": 1}


async def test_a_server_that_asks_for_input_is_told_of_as_that(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, says('"result":{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{}}}}'))
    client = desk.client()

    error = await client.error(client.call("ask"))

    assert error == {
        "code": 34,
        "class": "input_required",
        "message": "server 'fake' asks for input that this client cannot give",
        "server": "fake",
        "hint": "call it from a terminal, with --elicit, or from a host that can ask its user",
        "may_have_run": True,
    }
    assert desk.outcomes == {"unknown": 1}


@pytest.mark.parametrize("kind", ['"task"', '"Complete"', "1", "true", "{}", '"' + "x" * 1000 + '"'])
async def test_a_result_of_an_unknown_type_is_no_result(world: World, autojump_clock: MockClock, kind: str) -> None:
    desk = Desk(world, says(f'"result":{{"resultType":{kind},"content":[]}}'))
    client = desk.client()

    error = await client.error(client.call())

    assert (error["code"], error["class"], error["server"]) == (13, "server_protocol", "fake")
    assert len(error["message"]) < 120
    assert desk.outcomes == {"unknown": 1}


# -- errors --------------------------------------------------------------------------------------


async def test_an_error_of_the_upstream_passes_through_bit_exact(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, says(r'"error":{ "code" : -5, "message":"\u00e9", "data":{"a":1.50}}'))
    client = desk.client()

    assert await client.body(client.call()) == rb'{ "code" : -5, "message":"\u00e9", "data":{"a":1.50}}'
    assert (desk.outcomes, desk.places) == ({"failed": 1}, (0, 0))


@pytest.mark.parametrize(("on_rpc_error", "spawns"), [("keep", 1), ("retire", 2)])
async def test_an_error_of_the_upstream_ends_it_only_if_its_entry_says_so(
    world: World, autojump_clock: MockClock, on_rpc_error: str, spawns: int
) -> None:
    client = Desk(world, {**LEGACY, "tools/call": -32000}, on_rpc_error=on_rpc_error).client()

    for _ in range(2):
        assert (await client.error(client.call()))["code"] == -32000

    assert world.spawns == spawns


@pytest.mark.parametrize(
    "answer",
    [
        '"result":null',
        '"result":[]',
        '"result":"done"',
        '"result":{"content":[],"_meta":7}',
        '"result":{"content":[{"type":"text","text":"\udcff"}]}',
    ],
)
async def test_a_result_that_is_none_is_told_of_as_that(world: World, autojump_clock: MockClock, answer: str) -> None:
    text = answer.encode("utf-8", "surrogateescape")
    desk = Desk(world, {**LEGACY, "tools/call": lambda one, asked: one.say_line(b'{"id":%d,%b}' % (asked["id"], text))})
    client = desk.client()

    error = await client.error(client.call())

    assert (error["code"], error["class"], error["server"], error["may_have_run"]) == (
        13, "server_protocol", "fake", True,
    )  # fmt: skip
    assert (desk.outcomes, desk.places) == ({"unknown": 1}, (0, 0))


async def test_a_call_that_is_lost_may_have_run(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, {**LEGACY, "tools/call": dies})
    client = desk.client()

    assert await client.outcome(client.call()) == {
        "code": 11,
        "message": "server 'fake' ended (exit status 0)",
        "data": {"class": "server_lost", "server": "fake", "may_have_run": True},
    }
    assert (desk.outcomes, desk.places) == ({"unknown": 1}, (0, 0))


async def test_a_call_whose_server_does_not_start_was_not_sent(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world, REFUSES)
    client = desk.client()

    assert await client.outcome(client.call()) == {
        "code": 10,
        "message": "server 'fake' could not be started: it refused initialize: no (code -32000)",
        "data": {"class": "server_unavailable", "server": "fake", "hint": "mcpd logs fake", "may_have_run": False},
    }
    assert (desk.outcomes, desk.places) == ({"not_sent": 1}, (0, 0))


async def test_every_kind_of_outcome_is_counted(world: World, autojump_clock: MockClock) -> None:
    reactions = iter(list[Reaction]([{"content": []}, -32000, {"content": []}, dies]))

    def react(server: FakeServer, message: dict[str, Any]) -> None:
        server.react(message, next(reactions))

    desk = Desk(world, {**LEGACY, "tools/call": react}, REFUSES)
    client = desk.client()

    for _ in range(5):
        await client.body(client.call())

    assert desk.outcomes == {"done": 2, "failed": 1, "unknown": 1, "not_sent": 1}
    assert [len(told) for told in client.told.values()] == [1] * 5


async def test_an_outcome_leaves_no_deadline_behind(world: World, autojump_clock: MockClock) -> None:
    desk = Desk(world)
    client = desk.client()
    await client.body(client.call())
    before = len(world.timers)

    for _ in range(10):
        await client.body(client.call())

    assert len(world.timers) == before


async def test_a_result_is_json_whatever_it_holds(world: World, autojump_clock: MockClock) -> None:
    client = Desk(world, says('"result":{"content":[{"type":"text","text":"\\u0000 \\ud83d\\ude00"}]}')).client()

    body = await client.body(client.call())

    assert json.loads(body)["content"][0]["text"] == "\0 😀"


async def test_a_call_that_is_over_holds_on_to_nothing_that_it_carried(world: World, autojump_clock: MockClock) -> None:
    client = Desk(world).client()
    call = client.call("add", '{"text":"%s"}' % ("x" * 1000))

    await client.body(call)

    assert call.over
    assert len(bytes(call.request.arguments)) + len(call.frame) < 100
