"""`mcpd doctor` against a real daemon: what it starts, what it finds, and what it says then."""

from __future__ import annotations

import json
import sys

import pytest

from .world import World


@pytest.fixture
def world():
    with World() as one:
        yield one


def labels(done, status):
    return [(check.get("server"), check["label"]) for check in json.loads(done.out)["checks"] if check["status"] == status]


def test_with_nothing_configured_the_demo_server_is_started_and_all_is_well(world):
    done = world.run("doctor", "--json")
    assert done.status == 0
    assert ("demo", "start") in labels(done, "ok")
    assert world.row("demo")["state"] == "ready"


def test_without_start_no_daemon_is_begun(world):
    done = world.run("doctor", "--no-start", "--json")
    assert done.status == 0
    assert (None, "daemon") in labels(done, "warn")
    assert world.daemons() == []


def test_what_does_not_start_fails_and_hides_nobody_else(world):
    world.configure(
        {
            "good": {"command": "mcpd", "args": ["demo-server"]},
            "ends": {"command": sys.executable, "args": ["-c", "pass"]},
            "absent": {"command": "there-is-no-such-program"},
        }
    )
    done = world.run("doctor", "--json")
    assert done.status == 4
    assert sorted(labels(done, "fail")) == [("absent", "start"), ("ends", "start")]
    assert ("good", "start") in labels(done, "ok")


def test_one_server_is_looked_at_alone(world):
    world.configure({"good": {"command": "mcpd", "args": ["demo-server"]}, "absent": {"command": "there-is-no-such-program"}})
    done = world.run("doctor", "good", "--json")
    assert done.status == 0
    assert {check.get("server") for check in json.loads(done.out)["checks"]} == {None, "good"}


def test_a_name_that_is_not_there_is_a_mistake(world):
    assert world.run("doctor", "nope").status == 2


def test_what_a_host_starts_by_itself_beside_us_is_told_of_and_our_bridge_is_not(world):
    world.configure({"mine": {"command": "mcpd", "args": ["demo-server"]}})
    entries = {"theirs": {"command": "mcpd", "args": ["demo-server"]}, "ours": {"command": "mcpd", "args": ["bridge", "mine"]}}
    (folder := world.path / "home/.cursor").mkdir()
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
    done = world.run("doctor", "--json")
    told = [check["detail"] for check in json.loads(done.out)["checks"] if check["label"] == "hosts"]
    assert told == ["cursor starts 'theirs' itself, beside 'mine' of mcpd"]


def test_a_server_is_looked_for_as_the_daemon_would_and_not_as_this_shell(world, tmp_path):
    (program := tmp_path / "only-here").write_text("#!/bin/sh\nexec mcpd demo-server\n")
    program.chmod(0o755)
    world.configure({"a": {"command": "only-here"}})
    assert world.run("up").status == 0
    found = world.run("doctor", "--no-start", "--json", env={**world.env, "PATH": f"{tmp_path}:{world.env['PATH']}"})
    assert labels(found, "fail") == [("a", "start")]
