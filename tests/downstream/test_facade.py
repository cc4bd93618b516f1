"""Search mode: three tools for all tools of all servers."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from mcpd.config.model import Tools
from mcpd.downstream.aggregate import Aggregate
from mcpd.downstream.facade import DIRECT_TOOLS, TOOLS, Facade
from mcpd.downstream.shown import Local, Route, Through
from mcpd.errors import ShuttingDown
from tests.broker.desk import Client
from tests.downstream.crowd import at, changed, client, having, heard, named, names, raw, shown
from tests.downstream.hall import Hall
from tests.upstream.fakes import Script, after

SEARCH: dict[str, Any] = {
    "name": "search_code",
    "title": "Search code",
    "description": "Find code in a repository.",
    "inputSchema": {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}, "any": True},
        "required": ["query"],
    },
}
OWN = [*TOOLS]


def hall_of(nursery: trio.Nursery, **scripts: Script) -> Hall:
    return Hall(nursery, scripts, scope="user")


def facade(hall: Hall, *, auto: bool = False) -> Facade:
    return Facade(hall.broker, Aggregate(hall.broker), auto=auto)


async def call(source: Facade, who: Client, name: str, arguments: object) -> tuple[str, bool]:
    """Call one of the three; return its text, and whether it is an error."""
    found = source.find("tools", name, who)
    assert isinstance(found, Local)
    result = await found.work(raw(arguments))
    (block,) = result["content"]
    return block["text"], result.get("isError", False)


async def found(source: Facade, who: Client, query: str, **more: Any) -> dict[str, Any]:
    text, is_error = await call(source, who, "search_tools", {"query": query, **more})
    assert not is_error
    whole: dict[str, Any] = json.loads(text)
    return whole


async def resolved(source: Facade, who: Client, arguments: object) -> Any:
    through = source.find("tools", "call_tool", who)
    assert isinstance(through, Through)
    there = await through.resolve(raw(arguments))
    return there if isinstance(there, dict) else (there[0], json.loads(bytes(there[1])))


def mistake(there: Any) -> str:
    assert there["isError"]
    text: str = there["content"][0]["text"]
    return text


# -- the list ------------------------------------------------------------------------------------


async def test_there_are_three_tools_whatever_the_servers_have_and_nobody_is_started_for_them(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = hall_of(nursery, a=having("x"))
    source, who = facade(hall), client(hall)

    first = await shown(source, who)
    spawns = hall.spawns
    await found(source, who, "x")
    changed(hall, "a", having("y"))
    await trio.sleep(60)

    assert (names(first), spawns) == (OWN, 0)
    assert await shown(source, who) == first
    assert heard(who) == []


async def test_prompts_and_resources_are_those_of_all(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = hall_of(nursery, a=having(prompts=named("p")), b=having(resources=at("x:1")))
    source, who = facade(hall), client(hall)

    assert names(await shown(source, who, "prompts")) == ["a-p"]
    assert [*names(await shown(source, who, "resources"))] == ["X:1"]
    assert source.find("prompts", "a-p", who) == Route("a", "p")
    assert source.find("resources", "x:1", who) == Route("b", "x:1")
    link = raw({"content": [{"type": "resource_link", "uri": "x:1"}]})
    assert b"mcpd+a:x:1" in bytes(source.result(Route("a", "t"), link, who))
    assert await source.look("resources", "mcpd+a:y", who) == Route("a", "y")


async def test_its_card_says_how_to_find_tools_and_of_whom(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = hall_of(nursery, github=having(), fs=having())

    text = (await facade(hall).card(client(hall))).instructions or ""

    assert all(name in text for name in (*OWN, "github", "fs"))


# -- search_tools --------------------------------------------------------------------------------


async def test_what_is_found_has_the_name_to_call_it_by_and_what_it_takes(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = hall_of(nursery, github=having(SEARCH, "github_other"), fs=having("read"))

    assert await found(facade(hall), client(hall), "search code") == {
        "tools": [
            {
                "name": "github-search_code",
                "title": "Search code",
                "description": "Find code in a repository.",
                "arguments": "query: string, limit?: integer, any?",
            }
        ],
        "total": 1,
    }


async def test_one_server_can_be_searched_and_only_so_many_are_returned(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = hall_of(nursery, a=having("read_x", "read_y"), b=having("read_z"))
    source, who = facade(hall), client(hall)

    one = await found(source, who, "read", server="b")
    few = await found(source, who, "read", limit="1")

    assert [tool["name"] for tool in one["tools"]] == ["b-read_z"]
    assert (len(few["tools"]), few["total"]) == (1, 3)
    assert len((await found(source, who, "read", limit=100_000))["tools"]) == 3


async def test_what_was_not_searched_is_said(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    slow = {**having("read"), "initialize": after(20, {})}
    hall = hall_of(nursery, a=having("read"), b=slow)

    whole = await found(facade(hall), client(hall), "read")

    assert [tool["name"] for tool in whole["tools"]] == ["a-read"]
    assert "server 'b'" in whole["not_searched"][0]


async def test_nothing_found_comes_with_what_else_to_try(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = hall_of(nursery, a=having("read"))

    whole = await found(facade(hall), client(hall), "zebra")

    assert whole == {"tools": [], "total": 0, "hint": "try other words; the servers are a"}


async def test_what_is_denied_is_neither_found_nor_described_nor_called(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"a": having("get", "delete")}, scope="user", tools=Tools(deny=("delete",)))
    source, who = facade(hall), client(hall)

    assert (await found(source, who, "delete"))["tools"] == []
    assert (await call(source, who, "describe_tool", {"server": "a", "tool": "delete"}))[1]
    assert "there is no tool" in mistake(await resolved(source, who, {"name": "a-delete"}))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "search_tools needs {query}: Object missing required field `query`"),
        ({"query": " "}, "query has no words"),
        ({"query": 7}, "search_tools needs {query}: Expected `str`, got `int` - at `.query`"),
        ({"query": "x", "server": "githb"}, "there is no server 'githb'; there is github"),
    ],
)
async def test_a_search_that_makes_no_sense_is_told_to_the_model(
    nursery: trio.Nursery, autojump_clock: MockClock, arguments: object, said: str
) -> None:
    hall = hall_of(nursery, github=having("x"))

    assert await call(facade(hall), client(hall), "search_tools", arguments) == (said, True)


async def test_what_was_known_is_searched_described_and_called_while_no_server_runs(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = hall_of(nursery, a=having(SEARCH))
    source, who = facade(hall), client(hall)
    await found(source, who, "code")
    await hall.place("a").slot.stop()
    hall.by_name["a"] = {**having(SEARCH), "initialize": None}

    assert [tool["name"] for tool in (await found(source, who, "code"))["tools"]] == ["a-search_code"]
    assert not (await call(source, who, "describe_tool", {"name": "a-search_code"}))[1]
    assert await resolved(source, who, {"name": "a-search_code"}) == (Route("a", "search_code"), {})


# -- describe_tool -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked", [{"name": "github-search_code"}, {"server": "github", "tool": "search_code"}, {"name": "github.search_code"}]
)
async def test_a_tool_is_described_whole(nursery: trio.Nursery, autojump_clock: MockClock, asked: object) -> None:
    hall = hall_of(nursery, github=having(SEARCH, "other"))

    text, is_error = await call(facade(hall), client(hall), "describe_tool", asked)

    assert not is_error
    assert json.loads(text) == {**SEARCH, "name": "github-search_code", "title": "github: Search code"}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "the name of the tool is missing; search_tools finds it"),
        ({"name": "github-serch_code"}, "there is no tool 'github-serch_code'; did you mean github-search_code?"),
        ({"server": "github", "tool": "serch_code"}, "server 'github' has no tool 'serch_code'; did you mean search_code?"),
        ({"server": "gh", "tool": "x"}, "there is no server 'gh'; there is github"),
        ({"name": ["x"]}, "describe_tool needs {name}, or {server, tool}: Expected `str | null`, got `array` - at `.name`"),
    ],
)
async def test_a_tool_that_is_not_there_is_answered_with_what_may_be_meant(
    nursery: trio.Nursery, autojump_clock: MockClock, asked: object, said: str
) -> None:
    hall = hall_of(nursery, github=having(SEARCH))

    assert await call(facade(hall), client(hall), "describe_tool", asked) == (said, True)


async def test_a_tool_that_was_there_is_said_to_be_gone(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = hall_of(nursery, a=having("x"))
    source, who = facade(hall), client(hall)
    await found(source, who, "x")
    changed(hall, "a", having("y"))
    await trio.sleep(60)
    await found(source, who, "y")

    text, is_error = await call(source, who, "describe_tool", {"name": "a-x"})

    assert (text, is_error) == ("server 'a' has no tool 'x' any more", True)


# -- call_tool -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({}, {}),
        ({"arguments": None}, {}),
        ({"arguments": {"n": 1.0}}, {"n": 1.0}),
        ({"arguments": '{"n": [1]}'}, {"n": [1]}),
    ],
)
async def test_a_call_goes_to_the_server_with_its_own_arguments(
    nursery: trio.Nursery, autojump_clock: MockClock, given: dict[str, Any], sent: object
) -> None:
    hall = hall_of(nursery, a=having("x"))

    assert await resolved(facade(hall), client(hall), {"name": "a-x", **given}) == (Route("a", "x"), sent)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "a-open_fil"}, "there is no tool 'a-open_fil'; did you mean a-open_file?"),
        ({"name": "a-open_file", "arguments": [1]}, "arguments is an array, and must be an object"),
        ({"name": "a-open_file", "arguments": "no"}, "arguments is a string, and must be an object"),
        ({"name": "a-open_file", "arguments": "7"}, "arguments is a number, and must be an object"),
        ({"arguments": {}}, "the name of the tool is missing; search_tools finds it"),
        ({"name": "call_tool"}, "there is no tool 'call_tool'; search_tools finds others"),
        ([], "call_tool needs {name, arguments}: Expected `object`, got `array`"),
    ],
)
async def test_a_call_that_makes_no_sense_is_told_to_the_model(
    nursery: trio.Nursery, autojump_clock: MockClock, given: object, said: str
) -> None:
    hall = hall_of(nursery, a=having("open_file"))

    assert mistake(await resolved(facade(hall), client(hall), given)) == said


async def test_a_daemon_that_stops_is_no_mistake_of_the_model(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = hall_of(nursery, a=having("x"))
    source, who = facade(hall), client(hall)
    hall.place("a")
    hall.broker.close()

    with pytest.raises(ShuttingDown):
        await call(source, who, "describe_tool", {"server": "a", "tool": "x"})


# -- auto ----------------------------------------------------------------------------------------


async def test_few_tools_are_shown_as_they_are_and_stay_so(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    few = [f"t{number}" for number in range(DIRECT_TOOLS)]
    hall = hall_of(nursery, a=having(*few))
    source, who = facade(hall, auto=True), client(hall)
    before = await source.card(who)

    first = names(await shown(source, who))
    changed(hall, "a", having(*few, "one_more"))
    await trio.sleep(60)

    assert first == [f"a-{name}" for name in few]
    assert len(names(await shown(source, who))) == DIRECT_TOOLS + 1
    assert source.find("tools", "a-t0", who) == Route("a", "t0")
    assert heard(who) == ["a tools"]
    assert "search_tools" in (before.instructions or "")
    assert "search_tools" not in ((await source.card(who)).instructions or "")


async def test_many_tools_are_searched_and_nobody_hears_of_their_changes(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    many = [f"t{number}" for number in range(DIRECT_TOOLS + 1)]
    hall = hall_of(nursery, a=having(*many))
    source, who = facade(hall, auto=True), client(hall)

    first = names(await shown(source, who))
    changed(hall, "a", having("t0"))
    await trio.sleep(60)

    assert first == OWN
    assert names(await shown(source, who)) == OWN
    assert heard(who) == []
    assert await resolved(source, who, {"name": "a-t0"}) == (Route("a", "t0"), {})


async def test_auto_does_not_decide_for_one_list_while_servers_start_that_may_have_many_tools(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    many = having(*(f"t{number}" for number in range(DIRECT_TOOLS)))
    slow: Script = {**many, "initialize": after(5.0, many["initialize"])}  # type: ignore[arg-type]
    hall = Hall(nursery, {"fast": having("t"), "slow": slow}, scope="user")
    source, who = facade(hall, auto=True), client(hall)
    first = await shown(source, who)
    assert (names(first), first.pending) == (["fast-t"], ["slow"])
    await trio.sleep(10)
    assert names(await shown(source, who)) == ["search_tools", "describe_tool", "call_tool"]
