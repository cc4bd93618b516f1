"""A wrong entry is named and hurts no other; nobody sees what is disabled."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from tests.integration.world import demo

if TYPE_CHECKING:
    from tests.integration.world import World

GOOD = "".join(f"{key} = {json.dumps(value)}\n" for key, value in demo().items())
WRONG = [
    ("args = []", "servers.bad", "neither"),
    ("command = 7", "servers.bad.command", "number"),
    ("command = ''", "servers.bad.command", "empty"),
    ("command = 'npx -y thing'", "servers.bad.command", 'args = ["-y", "thing"]'),
    ("command = 'x'\nurl = 'https://h/'", "servers.bad", "both"),
    ("url = 'ftp://h/'", "servers.bad.url", "http"),
    ("comand = 'x'", "servers.bad.comand", "command"),
    ("command = 'x'\nargs = 'y'", "servers.bad.args", "list"),
    ("command = 'x'\nargs = [1]", "servers.bad.args[0]", "number"),
    ("command = 'x'\nenv = { A = 1 }", "servers.bad.env.A", "number"),
    ("command = 'x'\ncwd = 'here'", "servers.bad.cwd", "absolute"),
    ("command = 'x'\ntimeout = 5", "servers.bad.timeout", "table"),
    ("command = 'x'\ntimeout = { call_secs = 5 }", "servers.bad.timeout.call_secs", "call_seconds"),
    ("command = 'x'\ntimeout = { call_seconds = -1 }", "servers.bad.timeout.call_seconds", "-1"),
    ("command = 'x'\nscope = 'galaxy'", "servers.bad.scope", "galaxy"),
    ("command = 'x'\nprotocol = '1999-01-01'", "servers.bad.protocol", "1999-01-01"),
    ("command = 'x'\nenabled = 'yes'", "servers.bad.enabled", "true or false"),
    ("command = 'x'\nlimits = { in_flight = 0 }", "servers.bad.limits.in_flight", "0"),
]


@pytest.fixture(scope="module")
def wrong_world(shared_world: World) -> World:
    """All wrong entries of the table at once, and a right one among them."""
    entries = [f"[servers.bad{number}]\n{text}\n" for number, (text, _, _) in enumerate(WRONG)]
    shared_world.configure("\n".join([*entries[:9], f"[servers.good]\n{GOOD}", *entries[9:]]))
    return shared_world


def config_of(world: World) -> str:
    return f"{world.path}/home/.config/mcpd/config.toml"


def test_wrong_entries_hurt_no_other(wrong_world: World) -> None:
    assert wrong_world.call("good", "echo", "text=hi") == "hi"

    status = wrong_world.status()
    named = "\n".join(status["daemon"]["problems"])
    assert [number for number in range(len(WRONG)) if f" servers.bad{number}" not in named] == []
    assert {row["name"]: row["state"] for row in status["servers"]} == {
        "good": "ready",
        **{f"bad{number}": "misconfigured" for number in range(len(WRONG))},
    }


@pytest.mark.parametrize(("number", "key", "word"), [(n, *wrong[1:]) for n, wrong in enumerate(WRONG)])
def test_a_wrong_entry_is_named_with_its_file_and_key(wrong_world: World, number: int, key: str, word: str) -> None:
    name, key = f"bad{number}", key.replace("bad", f"bad{number}")

    done = wrong_world.run("call", name, "echo", "text=hi", "--json")

    error = done.error
    assert (done.status, done.out, error["code"], error["class"], error["server"]) == (9, "", 23, "misconfigured", name)
    assert (error["data"]["file"], error["data"]["key"]) == (config_of(wrong_world), key)
    assert f"{config_of(wrong_world)}: {key}: " in error["message"]
    assert word in error["message"] + error.get("hint", "")


def test_the_row_of_a_misconfigured_server_says_why(wrong_world: World) -> None:
    row = wrong_world.row("bad0")

    assert "servers.bad0" in row["reason"]
    assert (row["calls"], row["incarnation"], "pid" in row) == (0, 0, False)
    assert wrong_world.run("start", "bad0", "--json").error["class"] == "misconfigured"
    assert row["reason"] in wrong_world.run("status", "bad0").out


def test_people_get_three_lines_at_most(wrong_world: World) -> None:
    for number in range(len(WRONG)):
        done = wrong_world.run("call", f"bad{number}", "echo")
        assert (done.status, done.out) == (9, "")
        assert done.err.startswith("error: ")
        assert done.err.count("\n") <= 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"[servers.demo\n", ["line 1"]),
        (b"x = 1\nx = 2\n", ["line 2"]),
        (b"a = '\xff'\n", ["line 1", "UTF-8"]),
        (b"\xff\xfea\x00", ["UTF-16"]),
    ],
)
def test_a_file_that_is_no_toml_is_named_with_its_line(world: World, text: bytes, words: list[str]) -> None:
    world.configure({})
    with open(config_of(world), "wb") as file:
        file.write(text)

    done = world.run("call", "demo", "echo", "text=hi", "--json")

    assert (done.status, done.error["class"], done.error["data"]["file"]) == (9, "misconfigured", config_of(world))
    assert all(word in done.error["message"] + done.error.get("hint", "") for word in words)


def test_a_repaired_file_is_taken_up(world: World) -> None:
    world.configure("[servers.demo\n")
    assert world.run("call", "demo", "echo", "text=hi").status == 9

    world.configure({"demo": None})

    assert world.run("reload").status == 0
    assert world.call("demo", "echo", "text=hi") == "hi"


def test_a_file_that_was_named_and_is_not_there_is_an_error(world: World) -> None:
    env = {**world.env, "MCPD_CONFIG": f"{world.path}/nowhere.toml"}

    done = world.run("call", "demo", "echo", "text=hi", "--json", env=env)

    assert (done.status, done.error["class"]) == (9, "misconfigured")
    assert f"{world.path}/nowhere.toml" in done.error["message"]


def test_a_fifo_in_place_of_the_file_stops_nobody(world: World) -> None:
    world.configure({})
    os.unlink(config_of(world))
    os.mkfifo(config_of(world))

    assert world.run("call", "demo", "echo", "--json").error["class"] == "misconfigured"
    assert world.run("config", "check").status == 9


def test_an_empty_configuration_has_no_servers(world: World) -> None:
    world.configure({})

    assert world.run("ls", "--json").json == {"servers": []}
    assert world.run("call", "demo", "echo", "text=hi").status == 2


def test_a_disabled_server_is_not_seen_and_not_started(world: World) -> None:
    world.configure({"off": demo(enabled=False), "demo": None})

    done = world.run("call", "off", "echo", "text=hi", "--json")

    assert (done.status, done.error["class"], done.error["server"]) == (8, "denied", "off")
    assert config_of(world) in done.error["message"]
    assert [row["name"] for row in world.run("ls", "--json").json["servers"]] == ["demo"]
    assert [row["state"] for row in world.run("ls", "--all", "--json").json["servers"]] == ["disabled", "stopped"]
    assert "off" not in world.run("tools").out
    assert len(world.processes("demo.py")) == 1


def test_check_names_the_problem_without_a_daemon(world: World) -> None:
    world.configure("[servers.bad]\ncomand = 'x'\n")

    done = world.run("config", "check")

    assert done.status == 9
    assert "servers.bad.comand" in done.out + done.err
    assert world.processes() == []


def test_a_server_is_started_with_its_own_directory_and_variables(world: World) -> None:
    env = {"GIVEN": "${FROM_USER}", "PLAIN": "$$5"}
    world.env |= {"FROM_USER": "the user's", "STRANGER": "no"}
    entry = {"command": "/bin/sh", "args": ["-c", 'env >env; pwd >pwd; exec "$0" "$1"', *map(str, GOOD_ARGV)]}
    world.configure({"demo": {**entry, "cwd": f"{world.path}/home", "env": env}})

    assert world.call("demo", "echo", "text=hi") == "hi"

    seen = dict(line.split("=", 1) for line in (world.path / "home/env").read_text().splitlines())
    assert (seen["GIVEN"], seen["PLAIN"], seen["HOME"]) == ("the user's", "$5", f"{world.path}/home")
    assert "STRANGER" not in seen
    assert (world.path / "home/pwd").read_text() == f"{world.path}/home\n"


GOOD_ARGV = (demo()["command"], *demo()["args"])  # type: ignore[misc]  # a list, as `demo` writes it
