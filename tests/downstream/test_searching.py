"""`mcpd/search`: over all servers, without waiting for the slow ones."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from mcpd.config.model import Tools
from mcpd.downstream.searching import Search, SearchParams
from mcpd.errors import McpdError
from tests.downstream.hall import Hall, Line
from tests.upstream.fakes import INITIALIZED, LEGACY, Script, after

TELLS = {**INITIALIZED, "capabilities": {"tools": {"listChanged": True}}}


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {}, **more}


def offers(*tools: dict[str, Any], **script: Any) -> Script:
    """Return the script of a server with these tools."""
    return {**LEGACY, "initialize": TELLS, "tools/list": {"tools": list(tools)}, **script}


async def search(hall: Hall, query: str, **params: Any) -> Any:
    line = Line()
    Search(hall.broker).handle(line, b"1", SearchParams(query, **params))  # type: ignore[arg-type]  # a fake
    return await line.result()


async def refused(hall: Hall, query: str, **params: Any) -> McpdError:
    with pytest.raises(McpdError) as caught:
        await search(hall, query, **params)
    return caught.value


def names(result: Any) -> list[str]:
    return [f"{item['server']}.{item['name']}" for item in result["items"]]


async def test_the_tools_of_all_servers_are_found_best_first(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    described = tool("post", title="Send mail", description="To one address.")
    hall = Hall(nursery, {"one": offers(tool("other"), described), "two": offers(tool("mail_send"), tool("x"))})

    result = await search(hall, "send mail")

    assert names(result) == ["two.mail_send", "one.post"]
    best, second = result["items"]
    assert second == {
        "server": "one",
        "name": "post",
        "title": "Send mail",
        "description": "To one address.",
        "score": second["score"],
    }
    assert set(best) == {"server", "name", "score"}
    assert 0 < second["score"] < best["score"] <= 1
    assert set(result) == {"items", "total"}
    assert result["total"] == 2


async def test_nothing_found_is_no_error(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {"one": offers(tool("a"))})

    assert await search(hall, "zebra") == {"items": [], "total": 0}
    assert await search(Hall(nursery, {}), "zebra") == {"items": [], "total": 0}


async def test_only_so_many_are_returned_and_all_are_counted(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {"one": offers(*(tool(f"get_{number}") for number in range(30)))})

    assert (len((await search(hall, "get"))["items"]), len((await search(hall, "get", limit=3))["items"])) == (10, 3)
    assert (await search(hall, "get", limit=3))["total"] == 30


async def test_one_server_is_searched_alone(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {"one": offers(tool("mail")), "two": offers(tool("mail"))})

    assert names(await search(hall, "mail", server="two")) == ["two.mail"]
    assert hall.spawns == 1


async def test_what_is_denied_is_not_found(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {"one": offers(tool("mail_read"), tool("mail_delete"))}, tools=Tools(deny=("*_delete",)))

    assert names(await search(hall, "mail")) == ["one.mail_read"]


async def test_a_changed_list_is_searched_as_it_is_now(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {"one": offers(tool("old_thing"))})
    assert names(await search(hall, "thing")) == ["one.old_thing"]
    hall.servers[0].script = offers(tool("new_thing"))

    hall.servers[0].say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})

    assert names(await search(hall, "thing")) == ["one.new_thing"]


async def test_a_list_is_indexed_once(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {"one": offers(tool("thing"))})
    await search(hall, "thing")
    listing = hall.place("one").catalog.known("tools")
    assert listing is not None
    index = listing.index

    await search(hall, "thing")

    assert index is not None
    assert listing.index is index


# -- servers that are slow or broken -------------------------------------------------------------


async def test_a_slow_server_is_not_waited_for_and_is_there_the_next_time(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    slow = offers(**{"tools/list": after(10, {"tools": [tool("mail")]})})
    hall = Hall(nursery, {"slow": slow, "quick": offers(tool("mail"))})
    began = trio.current_time()

    result = await search(hall, "mail")

    assert trio.current_time() - began == pytest.approx(2)
    assert names(result) == ["quick.mail"]
    (problem,) = result["problems"]
    assert problem["message"] == "server 'slow' did not list its tools within 2 s; it is searched once it has"
    assert problem["data"] == {"class": "timeout", "server": "slow", "hint": "search again in a moment"}
    await trio.sleep(10)
    assert names(await search(hall, "mail")) == ["slow.mail", "quick.mail"]
    assert hall.spawns == 2


async def test_what_was_known_of_a_slow_server_is_searched_and_marked(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"one": offers(tool("mail"))})
    await search(hall, "mail")
    hall.servers[0].script = offers(**{"tools/list": after(10, {"tools": [tool("post")]})})
    hall.servers[0].say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})

    for params in {}, {"server": "one"}:
        result = await search(hall, "mail", **params)

        assert names(result) == ["one.mail"]
        assert result["stale"] is True
        assert "problems" not in result


async def test_of_a_server_that_was_stopped_the_last_list_is_searched(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"one": offers(tool("mail"))})
    await search(hall, "mail")
    await hall.place("one").slot.stop()

    result = await search(hall, "mail")

    assert (names(result), result["stale"], hall.spawns) == (["one.mail"], True, 1)


async def test_one_slow_server_that_was_asked_for_by_name_is_waited_for(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    slow = offers(**{"tools/list": after(10, {"tools": [tool("mail")]})})
    hall = Hall(nursery, {"slow": slow})

    assert names(await search(hall, "mail", server="slow")) == ["slow.mail"]


async def test_a_broken_server_is_named_and_hurts_no_other(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    broken: Script = {"server/discover": -32601, "initialize": -32000}
    hall = Hall(nursery, {"broken": broken, "good": offers(tool("mail"))})

    result = await search(hall, "mail")

    assert names(result) == ["good.mail"]
    assert [problem["data"]["server"] for problem in result["problems"]] == ["broken"]
    assert (await refused(hall, "mail", server="broken")).server == "broken"


# -- what servers say ----------------------------------------------------------------------------


async def test_strange_descriptors_are_searched_by_what_they_have(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    strange = [
        tool("a_thing", title=7, description=["x"]),
        tool("b_thing", annotations={"title": "Old title"}),
        tool("c_thing", annotations="x", description=None),
    ]
    hall = Hall(nursery, {"one": offers(*strange)})

    items = (await search(hall, "thing"))["items"]

    assert [set(item) - {"server", "name", "score"} for item in items] == [set(), {"title"}, set()]
    assert names(await search(hall, "old title")) == ["one.b_thing"]


async def test_long_texts_are_cut_and_an_answer_is_never_longer_than_a_page(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    wordy = [tool(f"thing_{number:03}{'n' * 3000}", title="t" * 999, description="é" * 9999) for number in range(40)]
    hall = Hall(nursery, {"one": offers(*wordy)})

    result = await search(hall, "thing", limit=40)

    assert 10 < len(result["items"]) < 40
    assert result["total"] == 40
    assert result["items"][0]["title"] == "t" * 199 + "…"
    assert result["items"][0]["description"] == "é" * 499 + "…"


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "params", "message"),
    [
        (" \n", {}, "mcpd/search: query has no words"),
        ("x" * 1001, {}, "mcpd/search: query is longer than 1000 characters"),
        ("x", {"limit": 0}, "limit is 0, and must be 1 to 100"),
        ("x", {"limit": 101}, "limit is 101, and must be 1 to 100"),
        ("x", {"server": "onee"}, "there is no server 'onee'"),
    ],
)
async def test_what_makes_no_sense_is_refused_and_starts_no_server(
    nursery: trio.Nursery, autojump_clock: MockClock, query: str, params: dict[str, Any], message: str
) -> None:
    hall = Hall(nursery, {"one": offers(tool("x"))})

    assert (await refused(hall, query, **params)).message == message
    assert hall.spawns == 0
