"""`mcpd/events`: what has happened, and how things are, to whoever comes when."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
import trio
from msgspec import Raw
from trio.testing import MockClock, wait_all_tasks_blocked

from mcpd.broker.requests import ToolRequest
from mcpd.downstream.events import EventParams, Watch, tell_reload
from mcpd.errors import McpdError, UnknownServer
from mcpd.events import KEPT_EVENTS
from tests.broker.desk import Client
from tests.downstream.hall import Hall, Line
from tests.upstream.fakes import LEGACY, Script, dies

REFUSES: Script = {"server/discover": -32601, "initialize": -32000}
FAILURE = "server 'one' could not be started: it refused initialize: no (code -32000)"
DIES: Script = {**LEGACY, "tools/call": dies}


def ask(hall: Hall, line: Line | None = None, **params: Any) -> Any:
    """Return the answer to mcpd/events."""
    line = line or Line()
    Watch(hall.broker).handle(line, b"1", EventParams(**params))  # type: ignore[arg-type]  # a fake
    return line.results[-1]


def following(hall: Hall, **params: Any) -> Line:
    """Return a client that follows."""
    line = Line()
    ask(hall, line, follow=True, **params)
    return line


def heard(line: Line) -> list[dict[str, Any]]:
    """Return the events that a client was told, without their times."""
    assert {method for method, _ in line.notes} <= {"mcpd/event"}
    return [{name: value for name, value in event.items() if name != "time"} for _, event in line.notes]


def states(events: list[dict[str, Any]]) -> list[str]:
    return [f"{one['server']} {one['state']}" for one in events if one["event"] == "state"]


async def run(hall: Hall, server: str = "one") -> None:
    await hall.place(server).slot.ready()


def call(hall: Hall, server: str = "one", tool: str = "t", arguments: str = "{}") -> None:
    hall.mover.batch(
        lambda: hall.broker.call(
            Client(hall, 7),  # type: ignore[arg-type]  # it looks at nothing of it
            b"1",
            ToolRequest(server=server, tool=tool, arguments=Raw(arguments.encode())),
        )
    )


# -- what has happened ---------------------------------------------------------------------------


async def test_the_last_events_are_told_oldest_first(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {"one": LEGACY, "two": LEGACY})
    await run(hall, "one")
    await run(hall, "two")

    answer = ask(hall)

    assert set(answer) == {"events"}
    assert states(answer["events"]) == ["one starting", "one ready", "two starting", "two ready"]
    assert states(ask(hall, tail=1)["events"]) == ["two ready"]
    assert states(ask(hall, server="one")["events"]) == ["one starting", "one ready"]
    assert ask(hall, tail=0) == ask(hall, tail=-3) == {"events": []}
    assert datetime.fromisoformat(answer["events"][0]["time"]).tzinfo is not None


async def test_only_so_many_events_are_kept(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {"one": LEGACY})
    for number in range(KEPT_EVENTS + 10):
        hall.broker.events.tell("list_changed", "one", revision=number)

    events = ask(hall, tail=10**6)["events"]

    assert [one["revision"] for one in events] == list(range(10, KEPT_EVENTS + 10))


async def test_what_concerns_no_one_server_is_told_with_each(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {"one": LEGACY, "two": LEGACY})
    hall.broker.events.tell("config", None, added=[])
    hall.broker.events.tell("list_changed", "two", kind="tools")

    (event,) = ask(hall, server="one")["events"]

    assert (event["event"], "server" in event) == ("config", False)


async def test_an_unknown_server_is_refused_and_a_disabled_one_is_not(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"one": LEGACY, "two": LEGACY}, enabled=False)

    with pytest.raises(UnknownServer):
        ask(hall, server="onee", follow=True)
    assert ask(hall, server="one") == {"events": []}
    assert not hall.broker.events.followed


# -- states --------------------------------------------------------------------------------------


async def test_a_state_is_told_with_its_run_and_its_process(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {"one": LEGACY})
    line = following(hall)

    await run(hall)
    await hall.place("one").slot.stop()

    about = {"event": "state", "server": "one", "incarnation": 1, "scope": "project"}
    pid = hall.servers[0].pid
    assert heard(line) == [
        {**about, "state": "starting", "scope": "auto"},
        {**about, "state": "ready", "pid": pid},
        {**about, "state": "stopping", "pid": pid},
        {**about, "state": "stopped"},
    ]


async def test_a_state_is_told_with_the_reason_for_it(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {"one": REFUSES})
    line = following(hall)

    await _quietly(run(hall))

    starting, failed = heard(line)
    assert (starting["state"], "reason" in starting) == ("starting", False)
    assert (failed["state"], failed["reason"]) == ("failed", FAILURE)


async def test_whoever_comes_late_sees_what_the_others_see(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    """The rows with the answer, and then the events, end where all events from the beginning end."""
    hall = Hall(nursery, {"one": DIES, "two": REFUSES, "three": LEGACY, "gone": LEGACY})
    pictures = [Picture(hall)]
    steps = (
        lambda: run(hall, "one"),
        lambda: _quietly(run(hall, "two")),
        lambda: _in_call(hall),
        lambda: run(hall, "gone"),
        lambda: hall.place("three").slot.start(),
        lambda: _reload(hall),
        lambda: hall.place("one").slot.stop(),
        lambda: hall.place("three").slot.start(),
    )

    for step in steps:
        await step()
        pictures.append(Picture(hall))
    await trio.sleep(100)

    now = Picture(hall)
    assert now.servers.keys() == {"one", "two", "three", "new"}
    assert now.servers["three"]["state"] == "ready"
    assert [picture.servers for picture in pictures] == [now.servers] * len(pictures)


async def _quietly(work: Any) -> None:
    with pytest.raises(McpdError):
        await work


async def _in_call(hall: Hall) -> None:
    call(hall)
    await wait_all_tasks_blocked()


async def _reload(hall: Hall) -> None:
    hall.by_name["new"] = LEGACY
    config = hall.config("one", "two", "three", "new", three={"args": ("changed",)})
    tell_reload(hall.broker, hall.broker.reload(config))


class Picture:
    """How things are for a client that joined at some time, by what it was told."""

    def __init__(self, hall: Hall) -> None:
        self._line = Line()
        self._snapshot = ask(hall, self._line, follow=True, tail=0)["servers"]

    @property
    def servers(self) -> dict[str, dict[str, Any]]:
        rows = {row["name"]: row for row in self._snapshot}
        for event in heard(self._line):
            if event["event"] == "config":
                for name in event["removed"]:
                    del rows[name]
            elif event["event"] == "state" and not event.get("leaving"):
                rows[event["server"]] = event
        members = ("state", "reason", "incarnation", "pid", "scope")
        return {name: {key: row[key] for key in members if key in row} for name, row in rows.items()}


# -- calls ---------------------------------------------------------------------------------------


async def test_a_call_is_told_when_it_is_over_without_its_arguments(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"one": LEGACY})
    await run(hall)
    line = following(hall)

    call(hall, tool="echo", arguments='{"password": "secret"}')
    await wait_all_tasks_blocked()

    (event,) = heard(line)
    assert event == {
        "event": "call",
        "server": "one",
        "tool": "echo",
        "outcome": "done",
        "seconds": event["seconds"],
        "client": 7,
        "incarnation": 1,
    }
    assert 0 <= event["seconds"] < 1
    assert "secret" not in str(line.notes)


async def test_a_name_of_any_length_costs_the_followers_little(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {"one": LEGACY})
    await run(hall)
    line = following(hall)

    call(hall, tool="x" * 1_000_000)
    await wait_all_tasks_blocked()

    (event,) = heard(line)
    assert event["tool"] == "x" * 200
    assert all(len(str(kept.facts)) < 1000 for kept in hall.broker.events.recent)


async def test_a_call_is_told_with_the_time_it_took(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {"one": {**LEGACY, "tools/call": None}})
    await run(hall)
    line = following(hall)

    call(hall)
    await trio.sleep(40)

    event = next(one for one in heard(line) if one["event"] == "call")
    assert (event["outcome"], event["seconds"]) == ("unknown", pytest.approx(30))


async def test_calls_are_not_noted_while_nobody_follows(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {"one": LEGACY})
    line = following(hall)
    line.followers[0]()

    call(hall)
    await wait_all_tasks_blocked()

    assert {one["event"] for one in ask(hall)["events"]} == {"state"}


# -- following -----------------------------------------------------------------------------------


async def test_of_one_server_only_its_own_is_told(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {"one": LEGACY, "two": LEGACY})
    line = Line()

    answer = ask(hall, line, follow=True, server="two")
    await run(hall, "one")
    await run(hall, "two")

    assert [row["name"] for row in answer["servers"]] == ["two"]
    assert states(heard(line)) == ["two starting", "two ready"]


async def test_a_client_follows_one_thing_at_a_time_and_nothing_when_it_has_left(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"one": LEGACY, "two": LEGACY})
    line = following(hall, server="one")

    ask(hall, line, follow=True, server="two")
    await run(hall, "one")
    assert heard(line) == []

    for forget in line.followers:
        forget()
    await run(hall, "two")
    assert heard(line) == []
    assert not hall.broker.events.followed


async def test_a_client_that_does_not_read_is_told_how_much_it_has_missed_and_how_things_are(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"one": LEGACY, "two": LEGACY})
    lazy, eager = following(hall), following(hall)
    lazy.has_room = False
    await run(hall, "one")
    lazy.has_room = True

    await run(hall, "two")

    missed, *after = heard(lazy)
    assert (missed["event"], missed["count"]) == ("missed", 2)
    assert [row["state"] for row in missed["servers"]] == ["ready", "starting"]
    assert states(after) == ["two starting", "two ready"]
    assert states(heard(eager)) == ["one starting", "one ready", "two starting", "two ready"]


async def test_it_is_told_though_nothing_more_happens(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {"one": LEGACY, "two": LEGACY})
    lazy = following(hall, server="one")
    lazy.has_room = False
    await run(hall, "one")
    await run(hall, "two")

    hall.broker.events.catch_up()
    assert heard(lazy) == []
    lazy.has_room = True
    hall.broker.events.catch_up()
    hall.broker.events.catch_up()

    (missed,) = heard(lazy)
    assert (missed["count"], [row["state"] for row in missed["servers"]]) == (2, ["ready"])
