"""Resources and prompts as tools, by the names that some hosts give them."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from mcpd.downstream.aggregate import Aggregate
from mcpd.downstream.facade import Facade
from mcpd.downstream.shown import Local, Through
from mcpd.errors import ShuttingDown
from tests.downstream.crowd import at, having, items, named, names, raw, shown
from tests.downstream.hall import Hall, Line
from tests.upstream.fakes import Script

ONLY_TOOLS: dict[str, Any] = {"capabilities": {"tools": {}}}
IMAGE = {"type": "image", "data": "AA==", "mimeType": "image/png"}


def hall_of(nursery: trio.Nursery, **scripts: Script) -> Hall:
    return Hall(nursery, scripts, scope="user")


async def result(source: Aggregate, who: Line, name: str, arguments: object) -> dict[str, Any]:
    found = source.find("tools", name, who)
    assert isinstance(found, Local)
    encoded: dict[str, Any] = json.loads(json.dumps(await found.work(raw(arguments)), default=lambda one: json.loads(bytes(one))))
    return encoded


async def test_a_server_has_them_for_what_it_declares_and_for_nothing_else(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    both, resources = having("t"), having("t", capabilities={"tools": {}, "resources": {}})
    hall = hall_of(nursery, a=both, b=having("t", **ONLY_TOOLS), c=resources)

    found = await shown(Aggregate(hall.broker, style="mcp"), Line())

    assert names(found) == [
        "mcp__a__t", "mcp__b__t", "mcp__c__t",
        "mcp_resource__a__list", "mcp_resource__c__list", "mcp_resource__a__read", "mcp_resource__c__read",
        "mcp_prompt__a__list", "mcp_prompt__a__get",
    ]  # fmt: skip
    read = next(item for item in items(found) if item["name"] == "mcp_resource__a__read")
    assert (read["inputSchema"]["required"], read["annotations"]) == (["uri"], {"readOnlyHint": True})
    assert "a" in read["description"].split(" ")[-1]


async def test_without_that_style_there_are_none(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall, who = hall_of(nursery, a=having("t")), Line()
    source = Aggregate(hall.broker)

    assert names(await shown(source, who)) == ["a-t"]
    assert source.find("tools", "mcp_resource__a__list", who) is None


async def test_resources_are_listed_and_read(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    script = {
        **having(resources=at("x:1"), templates=["x:{n}"]),
        "resources/read": {"contents": [{"uri": "x:1", "text": "one"}, {"uri": "x:2", "blob": "AA=="}]},
    }
    hall, who = hall_of(nursery, a=having(resources=at("x:1")), b=script), Line()
    source = Aggregate(hall.broker, style="mcp")
    await shown(source, who)
    await source.look("resources", "x:1", who)

    listed = await result(source, who, "mcp_resource__b__list", {})
    read = await result(source, who, "mcp_resource__b__read", {"uri": "mcpd+b:x:1"})

    assert json.loads(listed["content"][0]["text"]) == {
        "resources": at("x:1"), "resourceTemplates": [{"uriTemplate": "x:{n}", "name": "x:{n}"}],
    }  # fmt: skip
    assert read == {"content": [
        {"type": "resource", "resource": {"uri": "mcpd+b:x:1", "text": "one"}},
        {"type": "resource", "resource": {"uri": "x:2", "blob": "AA=="}},
    ]}  # fmt: skip
    assert hall.latest["b"].got("resources/read") == [{"uri": "x:1"}]


async def test_prompts_are_listed_and_got(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    messages = [{"role": "user", "content": {"type": "text", "text": "Hi"}}, {"role": "assistant", "content": IMAGE}]
    hall = hall_of(nursery, a={**having(prompts=named("greet")), "prompts/get": {"messages": messages}})
    source, who = Aggregate(hall.broker, style="mcp"), Line()
    await shown(source, who)

    listed = await result(source, who, "mcp_prompt__a__list", {})
    got = await result(source, who, "mcp_prompt__a__get", {"name": "greet", "arguments": {"who": "me"}})

    assert json.loads(listed["content"][0]["text"]) == {"prompts": named("greet")}
    assert got == {"content": [
        {"type": "text", "text": "user:"}, {"type": "text", "text": "Hi"}, {"type": "text", "text": "assistant:"}, IMAGE,
    ]}  # fmt: skip
    assert hall.latest["a"].got("prompts/get") == [{"name": "greet", "arguments": {"who": "me"}}]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "uri is missing"),
        ({"uri": 5}, "the arguments do not fit: Expected `str | null`, got `int` - at `$.uri`"),
        ({"uri": "x:1"}, "no"),
    ],
)
async def test_what_goes_wrong_is_told_to_the_model(
    nursery: trio.Nursery, autojump_clock: MockClock, arguments: object, said: str
) -> None:
    hall, who = hall_of(nursery, a={**having(), "resources/read": -32002}), Line()
    source = Aggregate(hall.broker, style="mcp")
    await shown(source, who)

    assert await result(source, who, "mcp_resource__a__read", arguments) == {
        "content": [{"type": "text", "text": said}], "isError": True,
    }  # fmt: skip


async def test_a_prompt_needs_a_name(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall, who = hall_of(nursery, a=having()), Line()
    source = Aggregate(hall.broker, style="mcp")
    await shown(source, who)

    assert (await result(source, who, "mcp_prompt__a__get", {}))["content"][0]["text"] == "name is missing"


async def test_a_daemon_that_stops_is_told_as_such(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall, who = hall_of(nursery, a=having()), Line()
    source = Aggregate(hall.broker, style="mcp")
    await shown(source, who)
    hall.broker.close()

    with pytest.raises(ShuttingDown):
        await result(source, who, "mcp_resource__a__read", {"uri": "x:1"})


async def test_in_search_mode_they_are_called_by_name(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall, who = hall_of(nursery, a=having(resources=at("x:1"))), Line()
    source = Facade(hall.broker, Aggregate(hall.broker, style="mcp"))
    await shown(source, who, "resources")
    through, described = source.find("tools", "call_tool", who), source.find("tools", "describe_tool", who)
    assert isinstance(through, Through)
    assert isinstance(described, Local)

    listed = await through.resolve(raw({"name": "mcp_resource__a__list"}))
    about = await described.work(raw({"name": "mcp_resource__a__list"}))

    assert isinstance(listed, dict)
    assert json.loads(listed["content"][0]["text"])["resources"] == at("x:1")
    assert about["isError"]


async def test_who_gives_up_gives_up_the_request(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall, who = hall_of(nursery, a={**having(), "resources/read": None}), Line()
    source = Aggregate(hall.broker, style="mcp")
    await shown(source, who)

    with trio.move_on_after(1):
        await result(source, who, "mcp_resource__a__read", {"uri": "x:1"})
    await trio.sleep(1)

    assert hall.latest["a"].methods[-2:] == ["resources/read", "notifications/cancelled"]
