"""The four lists as clients get them: in pages, whole by name, and with what could not be had."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from mcpd.broker.broker import Broker
from mcpd.broker.results import ResultStore
from mcpd.config.model import Config
from mcpd.downstream.lists import ListParams, Lists
from mcpd.errors import BadRequest, InvalidPage, McpdError, UnknownTool
from tests.broker.desk import Desk
from tests.downstream.hall import Line
from tests.upstream.fakes import INITIALIZED, LEGACY, MODERN, FakeServer, Script, World, server

ALL = {"tools": {}, "prompts": {}, "resources": {}}
KINDS = ("tools", "prompts", "resources", "templates")
PAGE_BYTES = 65_536
CLIENT: Any = Line()
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"n": {"$ref": "#/$defs/n"}, "x": {"const": 12345678901234567890123}},
    "$defs": {"n": {"type": "integer", "exclusiveMinimum": 1.0}},
    "unevaluatedProperties": False,
}
TOOL = {"name": "add", "description": "Add", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}}
PROMPT = {"name": "greet", "arguments": [{"name": "who", "description": "whom", "required": True}, {"name": "how"}]}
RESOURCE = {"uri": "note:1", "name": "One", "mimeType": "text/plain", "size": 7}
TEMPLATE = {"uriTemplate": "note:{number}", "name": "Any", "description": "any note"}


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    return World(nursery)


def offers(**results: list[dict[str, Any]]) -> Script:
    """Return the script of a server with these tools, prompts, resources and templates."""
    methods = {"templates": ("resources/templates/list", "resourceTemplates")}
    listed = {method: {key: results[kind]} for kind in results for method, key in
              [methods.get(kind, (f"{kind}/list", kind))]}  # fmt: skip
    return {**LEGACY, "initialize": {**INITIALIZED, "capabilities": ALL}, **listed}


def lists_of(world: World, script: Script, **settings: Any) -> Lists:
    return Lists(Desk(world, script, **settings).broker)


async def page(lists: Lists, kind: str = "tools", server: str | None = "fake", **params: Any) -> dict[str, Any]:
    """Return a page as it goes over the socket."""
    encoded = msgspec.json.encode(await lists.page(kind, ListParams(server=server, **params), CLIENT))
    assert params.get("name") or len(encoded) <= PAGE_BYTES
    found: dict[str, Any] = json.loads(encoded)
    return found


async def pages(lists: Lists, **params: Any) -> list[dict[str, Any]]:
    """Return all pages of the tools."""
    found = [await page(lists, **params)]
    while (offset := found[-1]["nextOffset"]) is not None:
        found.append(await page(lists, offset=offset, **params))
    return found


def tools(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"name": f"t{number}", "inputSchema": {}, **more} for number in range(count)]


def names(*found: Mapping[str, Any]) -> list[str]:
    return [item["name"] for one in found for item in one["items"]]


# -- what a page has -----------------------------------------------------------------------------


async def test_every_kind_has_its_whole_descriptors_and_the_name_of_the_server(
    world: World, autojump_clock: MockClock
) -> None:
    lists = lists_of(world, offers(tools=[TOOL], prompts=[PROMPT], resources=[RESOURCE], templates=[TEMPLATE]))

    for kind, item in zip(KINDS, (TOOL, PROMPT, RESOURCE, TEMPLATE), strict=True):
        found = await page(lists, kind)
        assert found.pop("revision") > 0
        assert found == {
            "items": [{"server": "fake", **item}], "total": 1, "shown": 1, "nextOffset": None, "truncated": False,
        }  # fmt: skip


async def test_a_server_cannot_pass_its_items_off_as_those_of_another(world: World, autojump_clock: MockClock) -> None:
    lists = lists_of(world, offers(tools=[{**TOOL, "server": "other"}]))

    assert (await page(lists))["items"] == [{"server": "fake", **TOOL}]


async def test_a_list_of_seven_hundred_tools_in_forty_pages_is_whole(world: World, autojump_clock: MockClock) -> None:
    everything = tools(700)

    def answer(one: FakeServer, message: dict[str, Any]) -> None:
        number = int(message["params"].get("cursor", "0"))
        more = {"nextCursor": str(number + 1)} if number < 39 else {}
        share = everything[number * 18 : (number + 1) * 18]
        one.react(message, {"tools": share, **more})

    lists = lists_of(world, {**LEGACY, "tools/list": answer})

    found = await pages(lists, limit=100)

    assert names(*found) == [tool["name"] for tool in everything]
    assert [one["total"] for one in found] == [700] * 7
    assert [one.get("incomplete") for one in found] == [None] * 7


async def test_a_thousand_names_are_found_even_if_no_descriptor_fits_a_page(
    world: World, autojump_clock: MockClock
) -> None:
    # Over a page each where it counts, and not over the bound of all together.
    big = {number: {"inputSchema": {"x": "y" * 70_000}} for number in range(0, 1000, 5)}
    lists = lists_of(world, offers(tools=[{**tool, **big.get(n, {})} for n, tool in enumerate(tools(1000))]))

    found = await pages(lists, limit=100)

    assert names(*found) == [f"t{number}" for number in range(1000)]
    omitted = [item["name"] for one in found for item in one["items"] if item.get("descriptorOmitted")]
    assert omitted == [f"t{number}" for number in big]
    assert [item for one in found for item in one["items"] if ("inputSchema" in item) is (item["name"] in omitted)] == []


async def test_the_first_of_very_many_come_with_how_many_there_are(world: World, autojump_clock: MockClock) -> None:
    found = await page(lists_of(world, offers(tools=tools(1000))))

    assert (names(found), found["total"], found["shown"], found["truncated"]) == (
        [f"t{number}" for number in range(20)], 1000, 20, True,
    )  # fmt: skip


async def test_the_revision_shows_that_a_list_has_changed_between_two_pages(
    world: World, autojump_clock: MockClock
) -> None:
    grown = iter([tools(30), tools(31)])

    def answer(one: FakeServer, message: dict[str, Any]) -> None:
        one.react(message, {"tools": next(grown)})

    told = {**INITIALIZED, "capabilities": {"tools": {"listChanged": True}}}
    lists = lists_of(world, {**LEGACY, "initialize": told, "tools/list": answer})
    first, same = await page(lists), await page(lists)

    world.servers[0].say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    second = await page(lists, offset=20)

    assert first == same
    assert (first["total"], second["total"], second["revision"] > first["revision"]) == (30, 31, True)


def promises(seconds: float, scope: str) -> Script:
    """Return the script of a modern server that says for how long, and for whom, its list is good."""
    hints = {"ttlMs": int(seconds * 1000), "cacheScope": scope}
    return {**MODERN, "tools/list": {"tools": [TOOL], "resultType": "complete", **hints}}


async def test_what_is_left_of_a_servers_promise_is_passed_on(world: World, autojump_clock: MockClock) -> None:
    lists = lists_of(world, promises(60, "public"))

    first = await page(lists)
    await trio.sleep(20)
    later = await page(lists)

    assert [(one["ttlMs"], one["cacheScope"]) for one in (first, later)] == [(60_000, "public"), (40_000, "public")]


async def test_a_private_list_is_passed_on_as_private(world: World, autojump_clock: MockClock) -> None:
    assert (await page(lists_of(world, promises(60, "private"))))["cacheScope"] == "private"


async def test_nothing_is_promised_for_a_server_that_promises_nothing(world: World, autojump_clock: MockClock) -> None:
    assert not {"ttlMs", "cacheScope"} & (await page(lists_of(world, offers(tools=[TOOL])))).keys()


# -- one by name ---------------------------------------------------------------------------------


async def test_one_whole_descriptor_is_to_be_had_by_its_name(world: World, autojump_clock: MockClock) -> None:
    huge = {"name": "huge", "inputSchema": {"x": "y" * 900_000}}
    lists = lists_of(world, offers(tools=[TOOL, huge], prompts=[PROMPT], resources=[RESOURCE], templates=[TEMPLATE]))
    asked = {"tools": "huge", "prompts": "greet", "resources": "note:1", "templates": "note:{number}"}

    found = {kind: (await page(lists, kind, name=name))["items"] for kind, name in asked.items()}

    assert found == {
        kind: [{"server": "fake", **item}]
        for kind, item in zip(KINDS, (huge, PROMPT, RESOURCE, TEMPLATE), strict=True)
    }
    assert (await page(lists))["items"][1] == {"server": "fake", "name": "huge", "descriptorOmitted": True}


async def test_one_that_is_over_a_mebibyte_is_set_aside_and_said_to_be(world: World, autojump_clock: MockClock) -> None:
    lists = lists_of(world, offers(tools=[TOOL, {"name": "huge", "inputSchema": {"x": "y" * 1_100_000}}]))

    found = await page(lists)

    assert names(found) == ["add"]
    (said,) = found["set_aside"]
    assert re.fullmatch(r"fake: item 2: it has 11000\d\d bytes, more than 1 MiB", said)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_name_that_is_not_there_is_answered_with_near_ones(
    world: World, autojump_clock: MockClock, kind: str
) -> None:
    everything = offers(tools=[TOOL], prompts=[PROMPT], resources=[RESOURCE], templates=[TEMPLATE])
    near = {"tools": "add", "prompts": "greet", "resources": "note:1", "templates": "note:{number}"}[kind]

    with pytest.raises(UnknownTool) as caught:
        await page(lists_of(world, everything), kind, name=near[1:])

    assert near in caught.value.to_error()["data"]["near"]
    assert "did you mean" in (caught.value.hint or "")


# -- what is asked wrong -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "kind"),
    [
        ({"offset": -1}, InvalidPage),
        ({"offset": 1001}, InvalidPage),
        ({"limit": 0}, InvalidPage),
        ({"limit": 101}, InvalidPage),
        ({"name": "add", "offset": 1}, BadRequest),
        ({"name": "add", "limit": 1}, BadRequest),
        ({"name": "add", "server": None}, BadRequest),
    ],
)
async def test_a_page_that_cannot_be_is_refused_and_starts_nothing(
    world: World, autojump_clock: MockClock, params: dict[str, Any], kind: type[Exception]
) -> None:
    lists = lists_of(world, offers(tools=[TOOL]))

    with pytest.raises(kind):
        await page(lists, **{"server": "fake", **params})

    assert world.spawns == 0


async def test_an_offset_past_the_end_has_an_empty_page(world: World, autojump_clock: MockClock) -> None:
    found = await page(lists_of(world, offers(tools=[TOOL])), offset=1000)

    assert (found["items"], found["total"], found["nextOffset"], found["truncated"]) == ([], 1, None, False)


# -- several servers -----------------------------------------------------------------------------


async def test_one_server_that_cannot_list_does_not_hide_the_others(world: World, autojump_clock: MockClock) -> None:
    world.scripts = [offers(tools=[TOOL]), {"server/discover": -32601, "initialize": -32000}, offers(tools=tools(2))]
    entries = {name: msgspec.structs.replace(server(), name=name) for name in ("a", "b", "c")}
    broker = Broker(Config(path="config.toml", servers=entries), world.around, ResultStore())
    for name in entries:  # one after the other, so that each has its own script
        with contextlib.suppress(McpdError):
            await broker.resolve(name, CLIENT.seeker).slot.start()

    found = await page(Lists(broker), server=None)

    assert [(item["server"], item["name"]) for item in found["items"]] == [("a", "add"), ("c", "t0"), ("c", "t1")]
    assert [problem["data"]["server"] for problem in found["problems"]] == ["b"]
    assert found["total"] == 3


async def test_a_tool_that_is_removed_is_gone_from_all_lists_though_nobody_insists(
    world: World, autojump_clock: MockClock
) -> None:
    script = offers(tools=[*tools(2), TOOL])
    lists = lists_of(world, script)
    for asked in ("fake", None):
        assert names(await page(lists, server=asked)) == ["t0", "t1", "add"]

    world.servers[0].script = {**script, "tools/list": {"tools": tools(2)}}
    world.servers[0].say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    await wait_all_tasks_blocked()

    assert world.servers[0].methods.count("tools/list") == 2  # it was fetched before anybody asked again
    for asked in ("fake", None):
        assert names(await page(lists, server=asked)) == ["t0", "t1"]
    assert world.servers[0].methods.count("tools/list") == 2
    with pytest.raises(UnknownTool):
        await page(lists, name="add")


async def test_a_list_of_a_server_that_is_down_is_said_to_be_old_and_a_call_brings_it_back(
    world: World, autojump_clock: MockClock
) -> None:
    desk = Desk(world, offers(tools=[TOOL]))
    lists = Lists(desk.broker)
    await page(lists)
    await desk.slot.stop()

    found = await page(lists)
    assert (names(found), found["stale_servers"], world.spawns) == (["add"], ["fake"], 1)

    client = desk.client()
    assert "content" in await client.outcome(client.call("add"))
    assert "stale" not in await page(lists)
