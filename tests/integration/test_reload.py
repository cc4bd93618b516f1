"""A new configuration comes into force beside what is running."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.integration.chatty import ERAS, entry, note, started
from tests.integration.wire import text_of
from tests.integration.world import demo, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.world import World

CHANGED = demo(env={"NEW": "1"})


def by_command(world: World) -> None:
    done = world.run("reload", "--json")
    assert done.json == {"added": ["added"], "removed": ["removed"], "changed": ["changed"], "problems": []}


def by_signal(world: World) -> None:
    world.signal_daemon(signal.SIGHUP)
    until(lambda: "added" in [row["name"] for row in world.status()["servers"]])


@pytest.mark.parametrize("reload", [by_command, by_signal])
def test_servers_come_go_and_change_while_a_call_is_in_flight(world: World, reload: Callable[[World], None]) -> None:
    world.configure(dict.fromkeys(("kept", "changed", "removed")))
    with world.connect() as wire:
        for name in ("kept", "changed", "removed"):
            assert wire.text("counter", server=name) == "1"
        before = {row["name"]: row["pid"] for row in world.status()["servers"]}
        in_flight = [wire.send_call("slow", {"seconds": 1}, server=name) for name in before]
        until(lambda: [wire.row(name)["in_flight"] for name in before] == [1, 1, 1])

        world.configure({"kept": None, "changed": CHANGED, "added": None})
        reload(world)

        # What has changed and what is gone drains; what has not is not even asked to.
        assert [text_of(wire.wait(identity)["result"]) for identity in in_flight] == ["slept 1 seconds"] * 3
        assert [wire.text("counter", server=name) for name in ("kept", "changed", "added")] == ["2", "1", "1"]
        assert wire.fail("mcpd/call", {"server": "removed", "tool": "counter"})["code"] == 1
        assert wire.row("kept")["pid"] == before["kept"]
        until(lambda: before["changed"] not in (left := world.processes("demo.py")) and before["removed"] not in left)
        assert len(world.processes("demo.py")) == 3


@pytest.mark.parametrize("signalled", [False, True])
@pytest.mark.parametrize("era", ERAS)
def test_who_listens_to_a_server_is_told_of_its_new_entry_and_listens_to_the_new_copy(
    world: World, era: str, signalled: bool
) -> None:
    uri = "chatty://echo/same"
    world.configure({"s": entry(world, era)})
    with world.connect() as wire, world.connect() as other:
        before = wire.ask("mcpd/tools", {"server": "s"})["revision"]
        wire.ask("mcpd/subscribe", {"server": "s", "uri": uri})

        world.configure({"s": entry(world, era, tools={"allow": ["update"]}), "added": None})
        if signalled:
            world.signal_daemon(signal.SIGHUP)
        else:
            assert world.run("reload").status == 0
        told = note(wire, "notifications/tools/list_changed")["_meta"]
        note(wire, "notifications/resources/updated")  # nobody knows what has happened meanwhile
        other.text("update", {"uri": uri}, server="s")

        assert note(wire, "notifications/resources/updated")["uri"] == uri
        after = wire.ask("mcpd/tools", {"server": "s"})
        assert (told["mcpd/server"], after["total"], before < told["mcpd/revision"] <= after["revision"]) == ("s", 1, True)
        assert wire.notes == []
        assert len(started(world)) == 2


def test_an_unchanged_configuration_changes_nothing(world: World) -> None:
    world.configure({"demo": None})
    assert world.call("demo", "counter") == "1"

    assert world.run("reload", "--json").json == {"added": [], "removed": [], "changed": [], "problems": []}
    assert world.call("demo", "counter") == "2"


def test_a_file_that_cannot_be_used_leaves_everything_as_it_is(world: World) -> None:
    world.configure({"demo": None})
    assert world.call("demo", "counter") == "1"
    world.configure("[servers.demo\n")

    done = world.run("reload")

    assert done.status == 9
    assert "config.toml" in done.err
    assert world.call("demo", "counter") == "2"


def test_a_server_that_becomes_wrong_is_stopped_and_explained(world: World) -> None:
    world.configure({"demo": None, "other": None})
    assert world.call("demo", "counter") == "1"
    world.configure({"demo": demo(timeout=5), "other": None})

    assert world.run("reload").status == 9

    assert world.row("demo")["state"] == "misconfigured"
    assert world.call("other", "counter") == "1"
    until(lambda: len(world.processes("demo.py")) == 1)


def test_a_server_that_is_disabled_and_enabled_again_starts_anew(world: World) -> None:
    world.configure({"demo": None})
    assert world.call("demo", "counter") == "1"

    world.configure({"demo": demo(enabled=False)})
    assert world.run("reload").status == 0
    assert world.run("call", "demo", "counter").status == 8
    world.configure({"demo": None})
    assert world.run("reload").status == 0

    assert world.call("demo", "counter") == "1"


def test_the_order_of_the_file_is_the_order_of_the_list(world: World) -> None:
    world.configure(dict.fromkeys(("a", "b")))
    assert world.run("up").status == 0
    world.configure(dict.fromkeys(("b", "c", "a")))

    assert world.run("reload").status == 0

    assert [row["name"] for row in world.run("ls", "--json").json["servers"]] == ["b", "c", "a"]


def test_a_server_that_was_written_down_since_is_named_with_what_makes_it_known(world: World) -> None:
    world.configure({"kept": None})
    assert world.run("call", "kept", "echo", "text=hi").out == "hi\n"
    world.configure({"kept": None, "later": None})
    done = world.run("tools", "later")
    assert (done.status, "mcpd reload" in done.err) == (2, True)
    world.run("reload")
    assert world.run("call", "later", "echo", "text=hi").out == "hi\n"
    assert "mcpd reload" not in world.run("tools", "lateer").err
