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
