"""`mcpd secret`, and servers that are started with what it keeps."""

from __future__ import annotations

import json
import sys

import pytest

from .world import World

TELL = "import os,sys\nsys.stderr.write('it has ' + os.environ.get('TOKEN', 'nothing') + chr(10))\n"
PLANTED = "planted-4711-value"


@pytest.fixture
def world():
    with World() as one:
        yield one


def test_a_value_goes_from_stdin_to_a_server_and_is_shown_nowhere(world):
    assert world.run("secret", "set", "TOKEN", stdin=PLANTED + "\n").status == 0
    check = f"import os,sys; sys.exit(7 if os.environ['TOKEN'] == '{PLANTED[::-1]}'[::-1] else 3)"
    world.configure({"right": {"command": sys.executable, "args": ["-c", check], "env": {"TOKEN": "${secret:TOKEN}"}}})
    done = world.run("start", "right")
    assert done.status == 4
    assert "exit status 7" in done.err
    outputs = [world.run("status", "--json"), world.run("logs", "right"), world.run("secret", "ls", "--json"), done]
    assert not any(PLANTED in one.out + one.err for one in outputs)


def test_what_a_server_writes_of_it_is_taken_out(world):
    world.run("secret", "set", "TOKEN", stdin=PLANTED)
    world.configure({"tells": {"command": sys.executable, "args": ["-c", TELL], "env": {"TOKEN": "${secret:TOKEN}"}}})
    done = world.run("start", "tells")
    assert "it has [redacted]" in done.err
    assert PLANTED not in done.err + world.run("logs", "tells").out


def test_the_names_are_listed_with_who_uses_them(world):
    world.run("secret", "set", "A", stdin="one")
    world.configure({"s": {"command": "mcpd", "args": ["demo-server"], "env": {"X": "${secret:A}"}}})
    rows = json.loads(world.run("secret", "ls", "--json").out)["secrets"]
    assert rows == [{"name": "A", "kept_in": "file", "used_by": ["s"]}]


def test_a_server_whose_secret_is_missing_says_what_to_type(world):
    world.configure({"s": {"command": "mcpd", "args": ["demo-server"], "env": {"X": "${secret:A}"}}})
    done = world.run("call", "s", "echo", "text=hi")
    assert done.status == 9
    assert "mcpd secret set A" in done.err
    world.run("secret", "set", "A", stdin="one")
    assert world.run("start", "s").status == 0
    assert world.call("s", "echo", "text=hi").strip() == "hi"


def test_a_value_on_the_command_line_is_refused(world):
    done = world.run("secret", "set", "A", PLANTED)
    assert done.status == 2
    assert PLANTED not in done.err
    assert json.loads(world.run("secret", "ls", "--json").out)["secrets"] == []


@pytest.mark.parametrize("argv", [("set",), ("rm",), ("ls", "A"), ("set", "a b"), ("rm", "NOPE")])
def test_a_mistake_is_one(world, argv):
    assert world.run("secret", *argv, stdin="x").status == 2
