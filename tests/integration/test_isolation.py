"""Clients that share servers, with equal ids, tokens, URIs and offsets: each gets what is its own, and all of it.

The crowd plays what hypothesis makes up, and `crowd.py` judges every line; below it is one test for each way in
which a broker has been seen to mix up its clients. `HYPOTHESIS_PROFILE=wild` plays other scripts each time, and
shortens those that fail.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.integration.chatty import (
    ERAS,
    PROTOCOL_KEYS,
    calls,
    cancelled,
    entry,
    note,
    reached,
    received,
    silence,
    started,
    where,
)
from tests.integration.crowd import CALLS, EVERYTHING, Crowd, Step, Tally, ledgers_agree
from tests.integration.wire import text_of
from tests.integration.world import open_world, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.world import World

MESSAGES = 100_000
SAME = "chatty://echo/same"

settings.register_profile(
    "fixed", derandomize=True, deadline=None, database=None, phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], report_multiple_bugs=False,
)  # fmt: skip
settings.register_profile("wild", settings.get_profile("fixed"), derandomize=False, phases=tuple(Phase))
PROFILE = settings.get_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


# -- a crowd -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared() -> Iterator[World]:
    """A world with the crowd's servers; the daemon and they live as long as all the scripts are played."""
    for world in open_world():
        for name in Crowd.SERVERS:
            (world.path / f"{name}.jsonl").touch()
        world.configure({name: entry(world, era, ledger=name, **more) for name, (era, more) in Crowd.SERVERS.items()})
        yield world


@pytest.fixture(scope="module")
def tally() -> Tally:
    """What is known of all the crowds of that world."""
    return Tally()


@pytest.mark.parametrize(("acts", "scripts"), [(CALLS, 60), (EVERYTHING, 110)], ids=["calls", "everything"])
def test_a_crowd_with_equal_ids_gets_every_answer_and_none_of_another_client(
    shared: World, tally: Tally, acts: list[str], scripts: int
) -> None:
    before, tally.done = tally.messages, Counter()

    @settings(PROFILE, max_examples=scripts)
    @given(
        manners=st.lists(st.sampled_from(Crowd.MANNERS), min_size=2, max_size=6),
        script=st.lists(
            st.builds(Step, st.integers(0, 5), st.sampled_from(acts), st.integers(0, 99)), min_size=30, max_size=60
        ),
    )
    def play(manners: list[str], script: list[Step]) -> None:
        with Crowd(shared.socket, tally, manners) as crowd:
            for step in script:
                crowd.take(step)
            crowd.settle()

    shared.connect().close()
    with Crowd(shared.socket, tally, ["accept"]) as first:
        first.warm_up()
    play()

    assert tally.messages - before >= MESSAGES // 2
    assert [act for act in acts if not tally.done[act]] == []
    ledgers_agree(shared, tally)


# -- calls -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
def test_two_clients_with_the_same_progress_token_hear_of_their_own_calls(world: World, era: str) -> None:
    world.configure({"s": entry(world, era)})
    with world.connect() as a, world.connect() as b:
        token = {"progressToken": 1}
        ids = [
            wire.send_call("progress", {"text": text, "steps": 5, "delay": 0.02}, server="s", _meta=token)
            for wire, text in ((a, "a"), (b, "b"))
        ]

        assert [text_of(wire.wait(one)["result"]) for wire, one in zip((a, b), ids, strict=True)] == ["a", "b"]

        for wire, text in ((a, "a"), (b, "b")):
            heard = [note["params"] for note in wire.notes]
            steps = range(1, 6)
            assert heard == [{"progressToken": 1, "progress": n, "message": f"{text} {n}"} for n in steps]
    tokens = {call["params"]["_meta"]["progressToken"] for call in calls(world, "progress")}
    assert len(tokens) == 2


@pytest.mark.parametrize("era", ERAS)
def test_a_cancellation_reaches_neither_the_call_of_another_client_nor_another_server(world: World, era: str) -> None:
    world.configure({"s": entry(world, era), "other": entry(world, era, ledger="other")})
    with world.connect() as a, world.connect() as b, world.connect() as c:
        # Everybody's id is 1; c has it at a server where the ids that are sent are the same, too.
        for wire, server, text in ((a, "s", "a"), (b, "s", "b"), (c, "other", "c")):
            assert wire.send_call("hold", {"key": "k", "text": text}, server=server, id=1) == 1
        reached(world, "hold", 2)
        reached(world, "hold", ledger="other")

        a.notify("notifications/cancelled", {"requestId": 1})

        until(lambda: cancelled(world))
        for wire, server in ((b, "s"), (c, "other")):
            assert wire.text("release", {"key": "k"}, server=server) == "1"
        assert [text_of(wire.wait(1)["result"]) for wire in (b, c)] == ["b", "c"]
        silence(a)
        assert (a.notes, a.early) == ([], [])
    own = [call["id"] for call in calls(world, "hold") if call["params"]["arguments"]["text"] == "a"]
    assert (cancelled(world), cancelled(world, "other")) == (own, [])


def test_a_client_that_leaves_takes_only_its_own_calls_with_it(world: World) -> None:
    world.configure({"s": entry(world, "legacy")})
    with world.connect() as b:
        with world.connect() as a:
            for wire, text in ((a, "a"), (b, "b")):
                wire.send_call("hold", {"key": "k", "text": text}, server="s", id=1)
            reached(world, "hold", 2)
        until(lambda: cancelled(world))

        # Who comes next may be given the descriptor, and uses the id, of the one who has left.
        with world.connect() as next_one:
            next_one.send_call("hold", {"key": "k", "text": "next"}, server="s", id=1)
            reached(world, "hold", 3)
            assert b.text("release", {"key": "k"}, server="s") == "2"

            assert [text_of(wire.wait(1)["result"]) for wire in (b, next_one)] == ["b", "next"]
    assert len(cancelled(world)) == 1


# -- servers that misbehave ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("tool", ["noisy", "stray", "junk", "twice"])
def test_what_a_server_says_beside_its_answer_is_no_answer_and_nobody_elses(world: World, tool: str, era: str) -> None:
    world.configure({"s": entry(world, era)})
    with world.connect() as a, world.connect() as b:
        # The first calls of both wait, so that there is somebody whose answer it could be taken for.
        held = [wire.send_call("hold", {"key": "k", "text": text}, server="s") for wire, text in ((a, "a"), (b, "b"))]
        reached(world, "hold", 2)
        for number in range(20):
            wire, text = ((a, "a"), (b, "b"))[number % 2]
            meta = {"progressToken": "same"}
            assert wire.text(tool, {"text": f"{text}{number}"}, server="s", _meta=meta) == f"{text}{number}"
        assert a.text("release", {"key": "k"}, server="s") == "2"

        assert [text_of(wire.wait(one)["result"]) for wire, one in zip((a, b), held, strict=True)] == ["a", "b"]
        for wire, text in ((a, "a"), (b, "b")):
            silence(wire)
            assert wire.early == []
            progress = [note["params"]["message"] for note in wire.notes]
            own = [f"{text}{number}" for number in range(20) if number % 2 == (text == "b")]
            assert progress == (own if tool == "noisy" else [])
        assert len(started(world)) == 1


# -- notifications -------------------------------------------------------------------------------------------------


def test_each_client_hears_of_the_log_what_it_has_asked_for(world: World) -> None:
    world.configure({"s": entry(world, "legacy")})
    with world.connect() as loud, world.connect() as quiet, world.connect() as deaf:
        loud.ask("mcpd/log_level", {"server": "s", "level": "debug"})
        quiet.ask("mcpd/log_level", {"server": "s", "level": "error"})
        for level in ("debug", "error", "info", "emergency"):
            deaf.text("log", {"level": level, "text": level}, server="s")

        heard = [note(loud, "notifications/message") for _ in range(4)]
        assert [message["data"] for message in heard] == ["debug", "error", "info", "emergency"]
        assert [note(quiet, "notifications/message")["data"] for _ in range(2)] == ["error", "emergency"]
        assert heard[0] == {"level": "debug", "logger": "chatty", "data": "debug", "_meta": {"mcpd/server": "s"}}

        # Who leaves takes the level along, and nobody else's.
        loud.close()
        until(lambda: [m["params"]["level"] for m in received(world, "logging/setLevel")][-1:] == ["error"])
        quiet.text("log", {"level": "info", "text": "unheard"}, server="s")
        quiet.text("log", {"level": "alert", "text": "heard"}, server="s")
        assert note(quiet, "notifications/message")["data"] == "heard"
        for wire in (quiet, deaf):
            silence(wire)
            assert wire.notes == []


def test_what_a_client_misses_because_it_does_not_read_is_counted(world: World) -> None:
    world.configure({"s": entry(world, "legacy")})
    times, long = 40, "x" * 100_000
    with world.connect() as lazy, world.connect() as other:
        lazy.ask("mcpd/log_level", {"server": "s", "level": "debug"})
        for _ in range(times):
            other.text("log", {"level": "info", "text": long}, server="s", max_bytes=1)

        missed = other.ask("mcpd/status")["daemon"]["counters"]["missed_notifications"]
        silence(lazy)
        assert 0 < missed == times - len(lazy.notes)


def test_a_log_level_holds_from_its_answer_on(world: World) -> None:
    world.configure({"s": entry(world, "legacy")})
    with world.connect() as a:
        a.text("log", {"level": "debug", "text": "unheard"}, server="s")
        for number in range(20):
            # The one before may still be on its way to the server.
            a.send("mcpd/log_level", {"server": "s", "level": "error"})
            a.ask("mcpd/log_level", {"server": "s", "level": "debug"})
            a.text("log", {"level": "info", "text": str(number)}, server="s")

            assert note(a, "notifications/message")["data"] == str(number)


def test_the_log_of_a_modern_server_goes_to_the_one_whose_call_it_is_about(world: World) -> None:
    world.configure({"s": entry(world, "modern")})
    with world.connect() as loud, world.connect() as quiet, world.connect() as deaf:
        loud.ask("mcpd/log_level", {"server": "s", "level": "debug"})
        quiet.ask("mcpd/log_level", {"server": "s", "level": "error"})
        for wire, text in ((loud, "loud"), (quiet, "quiet"), (deaf, "deaf")):
            for level in ("info", "error"):
                assert wire.text("log", {"level": level, "text": text}, server="s") == text

        for wire in (loud, quiet, deaf):
            silence(wire)
        heard = {"loud": loud.notes, "quiet": quiet.notes, "deaf": deaf.notes}
        assert {
            name: [(one["params"]["level"], one["params"]["data"]) for one in notes] for name, notes in heard.items()
        } == {
            "loud": [("info", "loud"), ("error", "loud")],
            "quiet": [("error", "quiet")],
            "deaf": [],
        }
    levels = [call["params"]["_meta"].get(PROTOCOL_KEYS + "logLevel") for call in calls(world, "log")]
    assert levels == ["debug", "debug", "error", "error", None, None]


@pytest.mark.parametrize("era", ERAS)
def test_subscriptions_to_one_uri_begin_and_end_one_by_one(world: World, era: str) -> None:
    world.configure({"s": entry(world, era), "other": entry(world, era, ledger="other")})
    subscription = {"server": "s", "uri": SAME}
    about = {"uri": SAME, "_meta": {"mcpd/server": "s"}}
    with world.connect() as a, world.connect() as b, world.connect() as c:
        for wire in (a, b):
            assert wire.ask("mcpd/subscribe", subscription) == {}
        # The same URI of another server is another resource.
        assert c.ask("mcpd/subscribe", {"server": "other", "uri": SAME}) == {}

        c.text("update", {"uri": SAME}, server="s")
        assert [note(wire, "notifications/resources/updated") for wire in (a, b)] == [about, about]
        assert a.ask("mcpd/unsubscribe", subscription) == {}
        c.text("update", {"uri": SAME}, server="s")
        assert note(b, "notifications/resources/updated") == about
        b.close()
        if era == "legacy":
            until(lambda: received(world, "resources/unsubscribe"))
            assert len(received(world, "resources/subscribe")) == len(received(world, "resources/unsubscribe")) == 1
        c.text("update", {"uri": SAME}, server="s")

        for wire in (a, c):
            silence(wire)
            assert wire.notes == []


@pytest.mark.parametrize("era", ERAS)
def test_who_unsubscribes_while_the_server_starts_is_not_subscribed_when_it_runs(world: World, era: str) -> None:
    world.configure({"s": entry(world, era)})
    subscription = {"server": "s", "uri": SAME}
    with world.connect() as a, world.connect() as b:
        wishes = [a.send(f"mcpd/{word}", subscription) for word in ("subscribe", "unsubscribe")]
        assert [a.wait(wish)["result"] for wish in wishes] == [{}, {}]

        assert b.ask("mcpd/subscribe", subscription) == {}
        b.text("update", {"uri": SAME}, server="s")
        note(b, "notifications/resources/updated")

        silence(a)
        assert a.notes == []


@pytest.mark.parametrize("era", ERAS)
def test_who_has_asked_for_a_list_is_told_that_it_has_changed(world: World, era: str) -> None:
    world.configure({"s": entry(world, era), "other": entry(world, era, ledger="other")})
    with world.connect() as a, world.connect() as b, world.connect() as every, world.connect() as none:
        before = a.ask("mcpd/tools", {"server": "s"})
        b.ask("mcpd/tools", {"server": "other"})
        b.ask("mcpd/prompts", {"server": "s"})
        every.ask("mcpd/tools")

        assert none.text("change", {"n": 2}, server="s") == "2"

        told = [note(wire, "notifications/tools/list_changed") for wire in (a, every)]
        after = a.ask("mcpd/tools", {"server": "s", "limit": 100})
        assert after["total"] == before["total"] + 2
        assert after["revision"] > before["revision"]
        assert told == [{"_meta": {"mcpd/server": "s", "mcpd/revision": after["revision"]}}] * 2
        for wire in (a, b, every, none):
            silence(wire)
            assert wire.notes == []


@pytest.mark.parametrize("era", ERAS)
def test_a_list_that_is_fetched_for_the_first_time_has_not_changed(world: World, era: str) -> None:
    world.configure({"s": entry(world, era)})
    with world.connect() as a, world.connect() as b:
        for kind in ("tools", "prompts", "resources", "templates"):
            for wire in (a, b):
                wire.ask(f"mcpd/{kind}", {"server": "s"})

        for wire in (a, b):
            silence(wire)
            assert wire.notes == []


def test_who_gives_up_waiting_for_a_list_has_not_changed_it_for_the_others(world: World) -> None:
    world.configure({"s": entry(world, "legacy")})
    with world.connect() as a, world.connect() as b:
        wanted = b.send("mcpd/tools", {"server": "s"})
        silence(b)
        a.notify("notifications/cancelled", {"requestId": a.send("mcpd/tools", {"server": "s"})})

        assert b.wait(wanted)["result"]["items"]
        silence(b)
        assert b.notes == []


# -- identity ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
def test_entries_that_differ_in_one_value_of_their_environment_never_share_a_process(world: World, era: str) -> None:
    names = {"a": "1", "b": "2", "c": "1"}
    world.configure({name: entry(world, era, env={"CHATTY_TOKEN": value}) for name, value in names.items()})
    with world.connect() as wire:
        found = {name: where(wire, name) for name in names}

        assert {name: about["env"] for name, about in found.items()} == {
            name: {"CHATTY_TOKEN": value} for name, value in names.items()
        }
        assert len({about["pid"] for about in found.values()}) == 3

        # And so for one entry whose value changes: nobody gets an answer of the process with the old one.
        world.configure({"a": entry(world, era, env={"CHATTY_TOKEN": "2"})})
        wire.ask("mcpd/reload")
        after = where(wire, "a")
        assert after["env"] == {"CHATTY_TOKEN": "2"}
        assert after["pid"] not in {about["pid"] for about in found.values()}
