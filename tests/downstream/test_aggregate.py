"""Several servers as one: names, whose they are, and what is not waited for."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import trio
from msgspec import Raw
from trio.testing import MockClock

from mcpd.config.model import Tools
from mcpd.downstream.aggregate import Aggregate
from mcpd.downstream.shown import Route
from mcpd.errors import Denied, UnknownServer, UnknownTool
from tests.downstream.crowd import at, changed, client, having, heard, items, named, names, raw, shown
from tests.downstream.hall import Hall
from tests.upstream.fakes import DISCOVERED, LEGACY, MODERN, Script, after

SLOW_SECONDS = 5.0


def slow(script: Script, seconds: float = SLOW_SECONDS) -> Script:
    """Return the script of a server that takes its time to start."""
    return {**script, "initialize": after(seconds, script["initialize"])}  # type: ignore[arg-type]


def hall_of(nursery: trio.Nursery, **scripts: Any) -> Hall:
    return Hall(nursery, {name.replace("__", "-"): script for name, script in scripts.items()}, scope="user")


# -- names ---------------------------------------------------------------------------------------


async def test_tools_and_prompts_have_their_servers_name_in_front(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = hall_of(nursery, github=having("github_search", "get.issue", prompts=named("review")), fs=having("read"))
    who, source = client(hall), Aggregate(hall.broker)

    assert names(await shown(source, who)) == ["github-search", "github-get_issue", "fs-read"]
    assert names(await shown(source, who, "prompts")) == ["github-review"]
    assert source.find("tools", "github-get_issue", who) == Route("github", "get.issue")
    assert source.find("prompts", "github-review", who) == Route("github", "review")
    assert source.find("tools", "github-review", who) is None


async def test_only_the_name_and_the_title_of_a_descriptor_are_others(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    tool = '{"inputSchema": {"x": 1.0, "y": 12345678901234567890123, "name": "n"}, "title":"Add \\u00fc", "name":"add", "_meta":{"a":[1e5]}}'
    bare = '{"name":"bare","title":7,"annotations":{"title":"T"}}'
    hall = hall_of(nursery, s=having())
    source, who = Aggregate(hall.broker), client(hall)
    await shown(source, who)
    server = hall.servers[0]
    server.script = {**server.script, "tools/list": None}
    server.say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    await trio.sleep(1)
    (asked,) = [one for one in server.messages if one.get("method") == "tools/list"][1:]
    server.say_line(f'{{"jsonrpc":"2.0","id":{json.dumps(asked["id"])},"result":{{"tools":[{tool},{bare}]}}}}'.encode())
    await trio.sleep(1)

    found = [bytes(one) for one in (await shown(source, who)).items]

    assert found == [
        '{"inputSchema":{"x": 1.0, "y": 12345678901234567890123, "name": "n"},"title":"s: Add ü","name":"s-add",'
        '"_meta":{"a":[1e5]}}'.encode(),
        b'{"name":"s-bare","title":7,"annotations":{"title":"T"}}',
    ]


@pytest.mark.parametrize("style", ["short", "mcp"])
async def test_tools_whose_names_would_be_the_same_are_both_there(
    nursery: trio.Nursery, autojump_clock: MockClock, style: Any
) -> None:
    scripts = {"a-b": having("c"), "a": having("b-c"), "foo": having("bar__baz"), "foo__bar": having("baz")}
    hall = Hall(nursery, scripts, scope="user")
    source, who = Aggregate(hall.broker, style=style), client(hall)

    found = [name for name in names(await shown(source, who)) if not name.startswith(("mcp_resource", "mcp_prompt"))]

    assert len({*found}) == 4
    assert [source.find("tools", name, who) for name in found] == [
        Route("a-b", "c"), Route("a", "b-c"), Route("foo", "bar__baz"), Route("foo__bar", "baz"),
    ]  # fmt: skip


async def test_a_name_of_two_hundred_characters_is_cut_and_found(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = hall_of(nursery, s=having("x" * 200, "x" * 199 + "y"))
    source, who = Aggregate(hall.broker), client(hall)

    one, other = names(await shown(source, who))

    assert len(one) == len(other) == 50
    assert source.find("tools", other, who) == Route("s", "x" * 199 + "y")


async def test_a_separator_and_a_style_can_be_asked_for(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = hall_of(nursery, fs=having("read", capabilities={"tools": {}}))
    who = client(hall)

    assert names(await shown(Aggregate(hall.broker, separator="__"), who)) == ["fs__read"]
    assert names(await shown(Aggregate(hall.broker, style="mcp"), who)) == ["mcp__fs__read"]


async def test_only_the_servers_that_were_asked_for_are_there_in_that_order(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = hall_of(nursery, a=having("t"), b=having("t"), c=having("t"))
    source, who = Aggregate(hall.broker, ["c", "nobody", "a"]), client(hall)

    found = await shown(source, who)

    assert names(found) == ["c-t", "a-t"]
    assert [problem["data"]["class"] for problem in found.problems] == ["unknown_server"]
    assert hall.spawns == 2


async def test_a_list_that_has_not_changed_is_named_the_same(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = hall_of(nursery, a=having("x"), b=having("y"))
    source, who = Aggregate(hall.broker), client(hall)

    assert [await shown(source, who) for _ in range(2)] == [await shown(Aggregate(hall.broker), who)] * 2


# -- names of before -----------------------------------------------------------------------------


async def test_a_name_that_was_published_leads_where_it_did(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = hall_of(nursery, a=having("x"), a__b=having("c"))
    source, who = Aggregate(hall.broker), client(hall)
    assert names(await shown(source, who)) == ["a-x", "a-b-c"]

    changed(hall, "a", having("x", "b-c"))
    await trio.sleep(1)
    found = names(await shown(source, who))

    assert [re.sub("[0-9a-f]{8}$", "#", name) for name in found] == ["a-x", "a-b-c-#", "a-b-c-#"]
    assert source.find("tools", "a-b-c", who) == Route("a-b", "c")


async def test_a_name_that_has_meant_two_things_means_none(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = hall_of(nursery, a=having(), a__b=having())
    source, who = Aggregate(hall.broker), client(hall)
    await shown(source, who)
    for one, other in ((having(), having("c")), (having("b-c"), having()), (having("b-c"), having("c"))):
        changed(hall, "a", one)
        changed(hall, "a-b", other)
        await trio.sleep(60)
        await shown(source, who)

    assert source.find("tools", "a-b-c", who) is None
    with pytest.raises(UnknownTool):
        await source.look("tools", "a-b-c", who)


async def test_a_server_that_is_removed_has_no_names_any_more(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = hall_of(nursery, a=having("open"), b=having("open"))
    source, who = Aggregate(hall.broker), client(hall)
    await shown(source, who)

    hall.broker.reload(hall.config("b"))
    await trio.sleep(1)

    assert heard(who) == ["a tools"]
    assert source.find("tools", "a-open", who) is None
    with pytest.raises(UnknownTool) as caught:
        await source.look("tools", "a-open", who)
    assert "b-open" in caught.value.details["near"]
    assert names(await shown(source, who)) == ["b-open"]


async def test_what_is_denied_is_not_there_and_what_becomes_denied_is_refused(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = hall_of(nursery, a=having("get", "delete"))
    source, who = Aggregate(hall.broker), client(hall)
    await shown(source, who)

    hall.broker.reload(hall.config("a", a={"tools": Tools(deny=("delete",))}))
    await trio.sleep(1)

    assert names(await shown(source, who)) == ["a-get"]
    route = source.find("tools", "a-delete", who)
    assert route == Route("a", "delete")
    with pytest.raises(Denied):
        hall.broker.call(who, b"1", _call(route))
    with pytest.raises(UnknownTool):
        await Aggregate(hall.broker).look("tools", "a-delete", who)


def _call(route: Route) -> Any:
    from mcpd.broker.requests import ToolRequest

    return ToolRequest(server=route.server, tool=route.name)


# -- whose it is ---------------------------------------------------------------------------------


async def test_a_name_of_before_the_daemon_is_found_without_a_list(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = hall_of(nursery, a=having("x"))
    source, who = Aggregate(hall.broker), client(hall)

    assert source.find("tools", "a-x", who) is None
    assert await source.look("tools", "a-x", who) == Route("a", "x")
    assert source.find("tools", "a-x", who) == Route("a", "x")


async def test_a_tool_of_a_server_that_is_still_starting_is_waited_for_and_no_other_server_is(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = hall_of(nursery, one=slow(having("x")), never=slow(having("y"), 29))
    source, who = Aggregate(hall.broker), client(hall)

    assert await source.look("tools", "one-x", who) == Route("one", "x")
    assert trio.current_time() < SLOW_SECONDS + 1
    with pytest.raises(UnknownTool):
        await source.look("tools", "one-y", who)
    assert trio.current_time() < SLOW_SECONDS + 2


@pytest.mark.parametrize("alias", ["mcp__fs__read.it", "mcp__fs__read_it", "fs__read_it", "fs.read.it", "fs_read_it"])
async def test_what_a_model_may_call_a_tool_is_understood(
    nursery: trio.Nursery, autojump_clock: MockClock, alias: str
) -> None:
    hall = hall_of(nursery, fs=having("read.it", "other"))

    assert await Aggregate(hall.broker).look("tools", alias, client(hall)) == Route("fs", "read.it")


async def test_what_may_be_two_tools_is_none(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {"foo": having("bar__baz"), "foo__bar": having("baz")}, scope="user")
    source, who = Aggregate(hall.broker), client(hall)

    with pytest.raises(UnknownTool):
        await source.look("tools", "mcp__foo__bar__baz", who)


@pytest.mark.parametrize("wrong", ["github-serch_code", "serch_code", "mcp__github__serch_code"])
async def test_a_tool_that_is_not_there_is_refused_with_near_names(
    nursery: trio.Nursery, autojump_clock: MockClock, wrong: str
) -> None:
    hall = hall_of(nursery, github=having("search_code"), fs=having("read"))

    with pytest.raises(UnknownTool) as caught:
        await Aggregate(hall.broker).look("tools", wrong, client(hall))

    assert caught.value.hint == "did you mean github-search_code?"


# -- what is not waited for ----------------------------------------------------------------------


async def test_a_server_that_is_ready_soon_is_waited_for_and_no_longer(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = hall_of(nursery, a=slow(having("x"), 0.04))

    found = await shown(Aggregate(hall.broker), client(hall))

    assert (names(found), found.pending, trio.current_time() < 0.1) == (["a-x"], [], True)


async def test_eight_servers_that_never_start_are_waited_for_once_and_all_together(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    dead = {f"s{number}": slow(having("x"), 1000) for number in range(8)}
    hall = Hall(nursery, {"good": having("x"), **dead}, scope="user")
    source, who, begun = Aggregate(hall.broker), client(hall), trio.current_time()

    found = await shown(source, who)
    first = trio.current_time() - begun
    again = [await shown(source, who, kind) for kind in ("tools", "prompts", "resources")]

    assert (names(found), found.pending) == (["good-x"], [*dead])
    assert first == pytest.approx(0.25)
    assert [one.pending for one in again] == [[*dead]] * 3
    assert trio.current_time() - begun == pytest.approx(0.25)


async def test_without_a_window_nobody_is_waited_for_but_what_is_there_is_there(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = hall_of(nursery, a=having("x"), b=slow(having("y")))
    config = hall.config("a", "b")
    daemon = type(config.daemon)(fast_start_ms=0)
    hall.broker.config = type(config)(path="", servers=config.servers, daemon=daemon)
    source, who, begun = Aggregate(hall.broker), client(hall), trio.current_time()

    found = await shown(source, who)
    now = trio.current_time()
    await trio.sleep(1)

    assert (found.items, found.pending, now) == ([], ["a", "b"], begun)
    assert (names(await shown(source, who)), heard(who)) == (["a-x"], ["a tools"])


@pytest.mark.parametrize("scope", ["user", "project", "auto", "client"])
async def test_who_did_not_wait_for_a_server_hears_of_its_list_once_it_is_there(
    nursery: trio.Nursery, autojump_clock: MockClock, scope: str
) -> None:
    hall = Hall(nursery, {"a": having("x"), "b": slow(having("y"))}, scope=scope)
    source, who = Aggregate(hall.broker), client(hall)
    first = await shown(source, who)
    before = [*heard(who)]

    await trio.sleep(SLOW_SECONDS + 1)
    second = await shown(source, who)

    assert (names(first), first.pending, before) == (["a-x"], ["b"], [])
    assert (names(second), second.pending, heard(who)) == (["a-x", "b-y"], [], ["b tools"])


async def test_two_projects_that_wait_for_the_first_start_both_hear_of_their_own_copies(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"a": slow(having("x"))})
    here, there = client(hall, "here"), client(hall, "there")
    for one in (here, there):
        one.seeker = type(one.seeker)(one.key, f"/{one.key}")
        assert (await shown(Aggregate(hall.broker), one)).pending == ["a"]

    await trio.sleep(3 * SLOW_SECONDS)

    assert (heard(here), heard(there)) == (["a tools"], ["a tools"])
    assert names(await shown(Aggregate(hall.broker), there)) == ["a-x"]


@pytest.mark.parametrize("settings", [{}, {"cwd": "/srv"}])
async def test_a_copy_that_turns_out_to_be_everybodys_is_told_of_to_all_who_waited(
    nursery: trio.Nursery, autojump_clock: MockClock, settings: Any
) -> None:
    modern: Script = {**MODERN, "server/discover": after(SLOW_SECONDS, DISCOVERED), "tools/list": {"tools": named("x")}}
    hall = Hall(nursery, {"a": modern}, **settings)
    clients = [client(hall, key) for key in ("one", "two")]
    for one in clients:
        one.seeker = type(one.seeker)(one.key, f"/{one.key}")
        await shown(Aggregate(hall.broker), one)

    await trio.sleep(3 * SLOW_SECONDS)

    assert [heard(one) for one in clients] == [["a tools"], ["a tools"]]


async def test_what_is_known_is_shown_at_once_while_the_server_lists_again(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = hall_of(nursery, a=having("old"))
    source, who = Aggregate(hall.broker), client(hall)
    await shown(source, who)
    changed(hall, "a", {**having("new"), "tools/list": after(SLOW_SECONDS, {"tools": named("new")})})
    await trio.sleep(0.1)

    found = await shown(source, who)
    await trio.sleep(SLOW_SECONDS)

    assert (names(found), found.pending) == (["a-old"], ["a"])
    assert (names(await shown(source, who)), heard(who)) == (["a-new"], ["a tools"])


async def test_the_list_of_a_server_that_has_stopped_is_shown_at_once(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = hall_of(nursery, a=having("x"))
    source, who = Aggregate(hall.broker), client(hall)
    await shown(source, who)
    await hall.place("a").slot.stop()

    found = await shown(source, who)

    assert (names(found), found.pending, hall.spawns) == (["a-x"], [], 1)


async def test_a_server_that_cannot_start_is_a_problem_and_hides_no_other(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    broken: Script = {**LEGACY, "initialize": -32000}
    hall = hall_of(nursery, a=broken, b=having("y"))

    found = await shown(Aggregate(hall.broker), client(hall))

    assert (names(found), found.pending) == (["b-y"], [])
    assert [problem["data"]["server"] for problem in found.problems] == ["a"]


async def test_who_leaves_meanwhile_is_noted_nowhere(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {"a": slow(having("x"))})
    who = client(hall)
    await shown(Aggregate(hall.broker), who)

    hall.mover.batch(lambda: hall.broker.forget(who.key))
    await trio.sleep(SLOW_SECONDS + 1)

    assert heard(who) == []
    assert [guest.key for place in hall.broker.places for guest in place.present] == []


async def test_the_least_of_all_promises_is_passed_on(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    def promising(seconds: int, scope: str) -> Script:
        hints = {"ttlMs": seconds * 1000, "cacheScope": scope, "resultType": "complete"}
        return {**MODERN, "tools/list": {"tools": [], **hints}}

    hall = hall_of(nursery, a=promising(60, "public"), b=promising(20, "public"), c=promising(30, "private"), d=having())
    who = client(hall)
    found = [await shown(Aggregate(hall.broker, asked), who) for asked in (["a", "b"], ["a", "c"], ["a", "d"])]

    assert [(one.ttl_ms, one.is_public) for one in found] == [(20_000, True), (30_000, False), (0, False)]


# -- how it presents itself ----------------------------------------------------------------------


async def test_its_card_is_there_at_once_and_says_how_tools_are_named(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = hall_of(nursery, github=slow(having()), fs=having(says={"instructions": "Paths are\n  absolute."}))
    source, who = Aggregate(hall.broker), client(hall)

    card = await source.card(who)
    await shown(source, who)
    later = await source.card(who)

    assert json.loads(bytes(card.info))["name"] == "mcpd"
    assert {key: json.loads(bytes(value)) for key, value in card.capabilities.items()} == {
        "tools": {"listChanged": True}, "prompts": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True}, "logging": {}, "completions": {},
    }  # fmt: skip
    assert card.instructions == (
        "These are the tools of several MCP servers, named SERVER-TOOL; prompts likewise. The servers are: github, fs."
    )
    assert later.instructions == f"{card.instructions}\n\nfs: Paths are absolute."


async def test_instructions_have_two_kilobytes_at_most_whatever_servers_say(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    says = {"instructions": "Long. é" * 2000}
    many = {f"server-{number:03}": having() for number in range(200)}
    hall = Hall(nursery, {"a": having(says=says), "b": having(says={"instructions": "Short."}), **many}, scope="user")
    source, who = Aggregate(hall.broker), client(hall)
    await shown(source, who)

    text = (await source.card(who)).instructions or ""

    assert 1500 < len(text.encode()) <= 2048
    assert "\n\na: Long. éLong." in text
    assert "\n\nb: Short." in text
    assert re.search(r"server-000, .* and \d+ more\.\n", text)


async def test_of_very_many_servers_those_are_quoted_that_there_is_room_for(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {f"s{n:02}": having(says={"instructions": "Long. " * 99}) for n in range(60)}, scope="user")
    source, who = Aggregate(hall.broker), client(hall)
    await shown(source, who)

    text = (await source.card(who)).instructions or ""

    assert len(text.encode()) <= 2048
    assert all(f"s{n:02}" in text for n in range(60))
    assert re.findall(r"\n\n(s\d\d): Long\. Long", text) == [f"s{n:02}" for n in range(10)]


async def test_if_not_one_server_is_there_it_cannot_be_had(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = hall_of(nursery, github=having())

    with pytest.raises(UnknownServer) as caught:
        await Aggregate(hall.broker, ["gitub"]).card(client(hall))

    assert caught.value.hint == "did you mean github?"
    assert (await Aggregate(Hall(nursery, {}).broker).card(client(hall))).instructions is not None


# -- resources -----------------------------------------------------------------------------------


async def test_a_uri_leads_to_the_server_that_lists_it_or_has_a_template_for_it(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = hall_of(
        nursery,
        a=having(resources=at("x:1", "x:2"), templates=["{+anything}"]),
        b=having(resources=at("x:1", "y:1"), templates=["note:{n}", "same:{x}"]),
        c=having(templates=["same:{x}"]),
    )
    source, who = Aggregate(hall.broker), client(hall)
    found, templates = await shown(source, who, "resources"), await shown(source, who, "templates")

    uris = [item["uri"] for item in items(found)]
    assert uris == ["x:1", "x:2", "mcpd+b:x:1", "y:1"]
    assert items(found)[2] == {"uri": "mcpd+b:x:1", "name": "X:1"}
    assert [item["uriTemplate"] for item in items(templates)][-1] == "mcpd+c:same:{x}"
    led = {uri: source.find("resources", uri, who) for uri in (*uris, "note:7", "z", "mcpd+c:same:5", "mcpd+nobody:x")}
    assert led == {
        "x:1": Route("a", "x:1"), "x:2": Route("a", "x:2"), "mcpd+b:x:1": Route("b", "x:1"), "y:1": Route("b", "y:1"),
        "note:7": Route("b", "note:7"), "z": Route("a", "z"), "mcpd+c:same:5": Route("c", "same:5"),
        "mcpd+nobody:x": Route("a", "mcpd+nobody:x"),
    }  # fmt: skip
    assert source.find("templates", "same:{x}", who) == Route("b", "same:{x}")
    assert source.find("templates", "mcpd+c:same:{x}", who) == Route("c", "same:{x}")


async def test_a_uri_that_nobody_lists_is_of_the_only_server_that_has_resources(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = hall_of(nursery, a=having(capabilities={"tools": {}}), b=having(resources=at("x:1")))
    both = hall_of(nursery, a=having(resources=at("x:1")), b=having(resources=at("x:2")))

    assert await Aggregate(hall.broker).look("resources", "other:1", client(hall)) == Route("b", "other:1")
    with pytest.raises(UnknownTool):
        await Aggregate(both.broker).look("resources", "other:1", client(both))


async def test_a_uri_of_a_server_that_is_still_starting_is_not_taken_for_anothers(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = hall_of(nursery, a=having(resources=at("x:1")), b=slow(having(resources=at("y:1"))))

    assert await Aggregate(hall.broker).look("resources", "y:1", client(hall)) == Route("b", "y:1")


RESULT = {
    "content": [
        {"type": "resource_link", "uri": "x:1", "name": "n"},
        {"type": "resource", "resource": {"uri": "x:1", "text": "x:1"}},
        {"type": "resource_link", "uri": "y:1", "name": "n"},
        {"type": "text", "text": '{"uri":"x:1"}'},
    ],
    "structuredContent": {"uri": "x:1", "n": 1.0},
}


async def test_links_lead_back_to_the_server_that_gave_them(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = hall_of(nursery, a=having(resources=at("x:1")), b=having(resources=at("x:1", "y:1")))
    source, who = Aggregate(hall.broker), client(hall)
    await source.look("resources", "x:1", who)

    result = raw(RESULT)
    given = json.loads(bytes(source.result(Route("b", "t"), result, who)))

    assert [given["content"][0]["uri"], given["content"][1]["resource"]["uri"]] == ["mcpd+b:x:1"] * 2
    given["content"][0]["uri"] = given["content"][1]["resource"]["uri"] = "x:1"
    assert given == RESULT
    for uri in ("mcpd+b:x:1", "y:1"):
        assert source.find("resources", uri, who) == Route("b", uri.removeprefix("mcpd+b:"))
    assert (source.uri("b", "x:1", who), source.uri("a", "x:1", who)) == ("mcpd+b:x:1", "x:1")


@pytest.mark.parametrize(
    "result",
    [
        {"content": [{"type": "text", "text": "no"}]},
        {"content": [{"type": "resource_link", "uri": "x:1"}], "structuredContent": {"uri": "z"}},
        {"contents": [{"uri": "x:1", "text": "t"}]},
        {"messages": [{"role": "user", "content": {"type": "resource", "resource": {"uri": "x:1"}}}]},
        {"content": {"uri": 5}, "contents": "uri", "messages": [None, {"content": [[], 7]}], '"uri"': 1},
        [{"uri": "z"}],
    ],
)
async def test_a_result_in_which_nothing_has_to_change_is_the_same_object(
    nursery: trio.Nursery, autojump_clock: MockClock, result: object
) -> None:
    hall = hall_of(nursery, a=having(resources=at("x:1")), b=having())
    source, who = Aggregate(hall.broker), client(hall)
    await source.look("resources", "x:1", who)
    whole = raw(result)

    assert source.result(Route("a", "t"), whole, who) is whole


async def test_what_was_read_and_what_a_prompt_embeds_leads_back_too(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = hall_of(nursery, a=having(), b=having())
    source, who, route = Aggregate(hall.broker), client(hall), Route("b", "t")

    read = source.result(route, Raw(b'{"contents":[{"uri":"q:1","n":1e2, "a":"\\u00fc"}], "_meta":{"x": 1.50}}'), who)
    prompt = raw({"messages": [{"content": {"type": "resource_link", "uri": "q:1"}}, {"content": [{"type": "text"}]}]})

    assert bytes(read) == b'{"contents":[{"uri":"mcpd+b:q:1","n":1e2,"a":"\\u00fc"}],"_meta":{"x": 1.50}}'
    assert json.loads(bytes(source.result(route, prompt, who)))["messages"][0]["content"]["uri"] == "mcpd+b:q:1"


async def test_a_result_that_cannot_be_read_is_passed_on(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = hall_of(nursery, a=having(), b=having())
    broken = Raw(b'{"contents":[{"uri":"\\ud800"}]}')

    assert Aggregate(hall.broker).result(Route("a", "t"), broken, client(hall)) is broken


async def test_one_server_alone_keeps_its_uris(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = hall_of(nursery, a=having(), b=having())
    source, who = Aggregate(hall.broker, ["a"]), client(hall)
    whole = raw(RESULT)

    assert source.result(Route("a", "t"), whole, who) is whole
    assert source.find("resources", "what:ever", who) == Route("a", "what:ever")


