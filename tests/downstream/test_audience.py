"""Who has asked for a list hears when it is another one, whatever has made it so: a reload, or another copy."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from mcpd.broker.scopes import Seeker
from mcpd.config.model import Config, Tools
from mcpd.downstream.lists import ListParams, Lists
from tests.broker.desk import Client
from tests.broker.ears import legacy, modern
from tests.downstream.hall import Hall
from tests.upstream.fakes import Script

TOOL = {"name": "t", "inputSchema": {}}
LISTS: Script = {
    **legacy(),
    "tools/list": {"tools": [TOOL]}, "prompts/list": {"prompts": []},
    "resources/list": {"resources": []}, "resources/templates/list": {"resourceTemplates": []},
}  # fmt: skip
NO_TOOLS = {"tools": Tools(deny=("*",))}


@pytest.fixture
async def hall(nursery: trio.Nursery) -> Hall:
    return Hall(nursery, {"one": LISTS, "two": LISTS}, scope="user")


def client(hall: Hall, key: str, project: str | None = None) -> Client:
    one = Client(hall, key)  # type: ignore[arg-type]  # it looks at nothing of it
    one.seeker = Seeker(key, project)
    return one


async def listed(hall: Hall, who: Client, kind: str = "tools", server: str | None = "one") -> int:
    """Return the revision of a list."""
    found: Any = await Lists(hall.broker).page(kind, ListParams(server=server), who)
    return int(found["revision"])


def reload(hall: Hall, config: Config) -> None:
    hall.broker.reload(config)


def heard(who: Client) -> list[str]:
    """Return the lists that a client has heard of, as `server kind`."""
    return [f"{params['_meta']['mcpd/server']} {method.split('/')[1]}" for method, params in who.notices]


def told(who: Client) -> int:
    """Return the revision that a client was told last."""
    revision: int = who.notices[-1][1]["_meta"]["mcpd/revision"]
    return revision


async def test_a_changed_entry_is_told_once_for_each_kind_that_was_asked_for(hall: Hall, autojump_clock: MockClock) -> None:
    a, b, all_, none = (client(hall, key) for key in ("a", "b", "all", "none"))
    await listed(hall, a, "tools")
    await listed(hall, a, "resources")
    await listed(hall, a, "templates")
    await listed(hall, b, "prompts", "two")
    await listed(hall, all_, "tools", None)
    await listed(hall, all_, "tools", "one")

    reload(hall, hall.config("one", "two", one=NO_TOOLS))
    await trio.sleep(60)

    assert [heard(one) for one in (a, b, all_, none)] == [["one tools", "one resources"], [], ["one tools"], []]


async def test_the_new_copy_tells_those_who_asked_the_one_before(hall: Hall, autojump_clock: MockClock) -> None:
    a, b = client(hall, "a"), client(hall, "b")
    before = await listed(hall, a)
    reload(hall, hall.config("one", "two", one={"env": {"NEW": "1"}}))
    first = told(a)
    now = await listed(hall, b)

    hall.servers[-1].script = {**LISTS, "tools/list": {"tools": []}}
    hall.servers[-1].say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    await trio.sleep(60)

    assert before < first <= now < told(a) == told(b)
    assert (heard(a), heard(b)) == (["one tools"] * 2, ["one tools"])


async def test_who_asked_for_all_hears_of_servers_that_come_and_go(hall: Hall, autojump_clock: MockClock) -> None:
    all_, named = client(hall, "all"), client(hall, "named")
    await listed(hall, all_, "tools", None)
    await listed(hall, named, "tools", "two")

    hall.by_name["three"] = LISTS
    reload(hall, hall.config("one", "two", "three"))
    added = heard(all_)
    reload(hall, hall.config("one", "three"))
    removed = heard(all_)
    reload(hall, hall.config("one", "two", "three"))
    await trio.sleep(60)

    assert (added, removed) == (["three tools"], ["three tools", "two tools"])
    assert [params["_meta"]["mcpd/revision"] for _, params in named.notices] == [2, 3]


async def test_what_is_added_tells_who_asked_for_all_of_its_changes(hall: Hall, autojump_clock: MockClock) -> None:
    all_, other = client(hall, "all"), client(hall, "other")
    await listed(hall, all_, "tools", None)
    hall.by_name["three"] = LISTS
    reload(hall, hall.config("one", "two", "three"))
    await listed(hall, other, "tools", "three")

    hall.servers[-1].script = {**LISTS, "tools/list": {"tools": []}}
    hall.servers[-1].say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    await trio.sleep(60)

    assert heard(all_) == ["three tools"] * 2


async def test_who_has_left_and_who_has_no_part_in_a_copy_hear_nothing(hall: Hall, autojump_clock: MockClock) -> None:
    hall = Hall(hall.nursery, {"one": LISTS}, scope="project")
    gone, here, there = client(hall, "gone", "/p"), client(hall, "here", "/p"), client(hall, "there", "/q")
    for one in (there, gone, here):
        await listed(hall, one)
    hall.broker.forget("gone")

    hall.servers[-1].script = {**LISTS, "tools/list": {"tools": []}}
    hall.servers[-1].say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    await trio.sleep(60)

    assert [heard(one) for one in (gone, here, there)] == [[], ["one tools"], []]


async def test_who_turns_to_another_project_hears_of_that_ones_copy_only_if_he_asked_for_all(
    hall: Hall, autojump_clock: MockClock
) -> None:
    hall = Hall(hall.nursery, {"one": LISTS}, scope="project")
    named, all_, other = client(hall, "named", "/p"), client(hall, "all", "/p"), client(hall, "other", "/q")
    await listed(hall, named, "tools")
    await listed(hall, all_, "tools", None)
    for one in (named, all_):
        one.seeker = Seeker(one.key, "/q")
        hall.mover.batch(lambda one=one: hall.broker.turn(one))  # type: ignore[misc]
    await listed(hall, other)

    hall.servers[-1].script = {**LISTS, "tools/list": {"tools": []}}
    hall.servers[-1].say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    await trio.sleep(60)

    assert (heard(named), heard(all_)) == ([], ["one tools"])


@pytest.mark.parametrize("eras", [(modern(), legacy()), (legacy(), modern())])
async def test_who_is_another_copys_when_a_server_speaks_another_era_is_told_so(
    nursery: trio.Nursery, autojump_clock: MockClock, eras: tuple[Script, Script]
) -> None:
    hall = Hall(nursery, {"one": {**LISTS, **eras[0]}})
    clients = [client(hall, name, f"/{name}") for name in ("a", "b")]
    for one in clients:
        await listed(hall, one)
    await hall.broker.resolve("one", clients[0].seeker).slot.stop()
    before = [heard(one) for one in clients]

    hall.by_name["one"] = {**LISTS, **eras[1]}
    await hall.broker.resolve("one", clients[0].seeker).run()
    await trio.sleep(60)

    assert before == [[], []]
    assert [heard(one) for one in clients] == [["one tools"], ["one tools"]]
    for one in clients:
        assert await listed(hall, one) >= told(one) > 1


async def test_whose_copy_stays_the_same_whatever_it_speaks_is_told_nothing(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"one": {**LISTS, **modern()}}, cwd="/srv")
    own = client(hall, "a")
    await listed(hall, own)
    await hall.place("one").slot.stop()

    hall.by_name["one"] = LISTS
    await hall.place("one").slot.ready()
    await trio.sleep(60)

    assert heard(own) == []


async def test_who_is_still_waiting_for_his_first_list_is_told_nothing(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"one": LISTS})
    hall.memory.eras["one"] = "modern"
    hall.broker.reload(hall.config())
    hall.broker.reload(hall.config("one"))
    own = client(hall, "a", "/a")

    await listed(hall, own)
    await trio.sleep(60)

    assert heard(own) == []
