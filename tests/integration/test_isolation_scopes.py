"""Who shares a process: what belongs to one project or one client is given to no other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.integration.chatty import calls, entry, hello, note, reached, received, silence, started, where
from tests.integration.world import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.chatty import Json
    from tests.integration.world import World

MARKERS = [".git", ".hg", ".mcp.json"]
OWN = {"scope": "auto"}


def project(world: World, name: str, marker: str = ".git") -> Path:
    """Make a folder that is a project."""
    folder = world.path / name
    folder.mkdir(parents=True)
    if marker.endswith(".json"):
        (folder / marker).write_text('{"mcpServers": {}}')
    else:
        (folder / marker).mkdir()
    return folder


def served(world: World, folder: Path) -> Json:
    """Return folder and process of the server that a client is given who says that it works there."""
    with world.connect() as wire:
        return where(hello(wire, project=folder))


def called(world: World, folder: Path) -> Json:
    """Return folder and process of the server that a command is given which runs there."""
    world.connect().close()
    child = world.spawn("env", "-C", str(folder), *world.command, "call", "s", "where")
    out, err = child.communicate(timeout=world.patience_seconds)
    assert child.returncode == 0, err
    found: Json = json.loads(out)
    return found


# -- projects --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("marker", MARKERS)
def test_two_projects_have_two_processes_of_a_legacy_server_each_in_its_own_folder(world: World, marker: str) -> None:
    world.configure({"s": entry(world, "legacy", **OWN)})
    one, two = project(world, "one", marker), project(world, "two", marker)

    found = [served(world, folder) for folder in (one, two, one, two)]

    assert [about["cwd"] for about in found] == [str(folder) for folder in (one, two, one, two)]
    assert [about["pid"] for about in found[2:]] == [about["pid"] for about in found[:2]]
    assert sorted(started(world)) == sorted({about["pid"] for about in found})
    assert len(started(world)) == 2


def test_the_project_of_a_command_is_the_one_that_it_runs_in(world: World) -> None:
    world.configure({"s": entry(world, "legacy", **OWN)})
    one, two = project(world, "one"), project(world, "two")

    found = [called(world, folder) for folder in (one, two)]

    assert [about["cwd"] for about in found] == [str(one), str(two)]
    # Whoever says what the others do by being there shares with them.
    assert [served(world, folder)["pid"] for folder in (one, two)] == [about["pid"] for about in found]
    assert len(started(world)) == 2


def test_an_explicit_start_is_for_the_project_of_who_asks(world: World) -> None:
    world.configure({"s": entry(world, "legacy", **OWN)})
    folders = [project(world, name) for name in ("one", "two")]
    for folder in folders:
        with world.connect() as wire:
            row = hello(wire, project=folder).ask("mcpd/start", {"server": "s"})

            assert (row["state"], row["project"]) == ("ready", str(folder))
            assert (where(wire)["pid"], where(wire)["cwd"]) == (row["pid"], str(folder))
    assert len(started(world)) == 2


def test_a_folder_inside_of_a_project_belongs_to_it(world: World) -> None:
    world.configure({"s": entry(world, "legacy", **OWN)})
    root = project(world, "one")
    inner = root / "src/deep"
    inner.mkdir(parents=True)

    found = [served(world, root), called(world, inner), called(world, root)]

    assert {about["cwd"] for about in found} == {str(root)}
    assert len(started(world)) == 1


def test_a_linked_worktree_is_a_project_of_its_own_wherever_it_is(world: World) -> None:
    world.configure({"s": entry(world, "legacy", **OWN)})
    main = project(world, "main")
    inside, beside = main / "trees/topic", world.path / "beside"
    for tree in (inside, beside):
        # As `git worktree add` leaves it: a file that names a folder of the main one.
        tree.mkdir(parents=True)
        (main / ".git/worktrees" / tree.name).mkdir(parents=True)
        (tree / ".git").write_text(f"gitdir: {main}/.git/worktrees/{tree.name}\n")

    found = [served(world, folder) for folder in (main, inside, beside)]

    assert [about["cwd"] for about in found] == [str(folder) for folder in (main, inside, beside)]
    assert len({about["pid"] for about in found}) == len(started(world)) == 3


def test_outside_of_any_project_there_is_one_process_for_all(world: World) -> None:
    world.configure({"s": entry(world, "legacy", **OWN)})
    for name in ("here", "there"):
        (world.path / name).mkdir()

    found = [called(world, world.path / name) for name in ("here", "there", ".")]

    assert len({about["pid"] for about in found}) == len(started(world)) == 1
    assert served(world, project(world, "one"))["pid"] != found[0]["pid"]


def test_the_folder_and_what_else_names_the_project_follow_it(world: World) -> None:
    env = {"CHATTY_PROJECT": "${project}"}
    world.configure({"s": entry(world, "legacy", **OWN, cwd="${project}/src", env=env)})
    folders = [project(world, name) for name in ("one", "two")]
    for folder in folders:
        (folder / "src").mkdir()

    found = [served(world, folder) for folder in folders]

    assert [about["cwd"] for about in found] == [f"{folder}/src" for folder in folders]
    assert [about["env"]["CHATTY_PROJECT"] for about in found] == [str(folder) for folder in folders]


def test_a_modern_server_is_one_process_for_all_projects(world: World) -> None:
    world.configure({"s": entry(world, "modern", **OWN)})

    found = [served(world, project(world, name)) for name in ("one", "two")]

    assert found[0]["pid"] == found[1]["pid"]
    # The very first one may have been started to find out what it is.
    until(lambda: world.processes("chatty_server.py") == [found[0]["pid"]])


def test_what_the_entry_says_about_sharing_comes_first(world: World) -> None:
    world.configure(
        {"s": entry(world, "legacy", scope="user"), "m": entry(world, "modern", scope="project", ledger="m")}
    )
    folders = [project(world, name) for name in ("one", "two")]
    with world.connect() as a, world.connect() as b:
        for wire, folder in zip((a, b), folders, strict=True):
            hello(wire, project=folder)

        assert where(a, "s")["pid"] == where(b, "s")["pid"]
        assert [where(a, "m")["cwd"], where(b, "m")["cwd"]] == [str(folder) for folder in folders]
        assert len(started(world, "m")) == 2


# -- roots -----------------------------------------------------------------------------------------------------------


def test_the_roots_of_a_server_are_its_project_whoever_has_roots_of_his_own(world: World) -> None:
    world.configure({"s": entry(world, "legacy", **OWN), "all": entry(world, "legacy")})
    one, two = project(world, "one"), project(world, "two")
    with world.connect() as a, world.connect() as b:
        for wire, folder in ((a, one), (b, two)):
            hello(wire, {"roots": {}}, folder)

        roots = [json.loads(wire.text("roots", server="s"))["roots"] for wire in (a, b)]

        assert [[root["uri"] for root in each] for each in roots] == [[one.as_uri()], [two.as_uri()]]
        # One that all projects share has no roots: neither the first one's nor everybody's.
        for wire in (a, b):
            assert wire.text("roots", server="all") in ('{"roots": []}', '"nobody"')
            assert [note for note in wire.notes if "id" in note] == []


# -- clients ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_server_of_each_client_lives_and_ends_with_its_connection(world: World, era: str) -> None:
    world.configure({"s": entry(world, era, scope="client")})
    with world.connect() as a:
        with world.connect() as b:
            first, second = where(a)["pid"], where(b)["pid"]
            assert first != second
            assert [wire.text("count", server="s") for wire in (a, b, a)] == ["1", "1", "2"]
            b.ask("mcpd/tools", {"server": "s"})
        until(lambda: len(world.processes("chatty_server.py")) == 1)

        assert where(a)["pid"] == first
    until(lambda: not world.processes("chatty_server.py"))


# -- another project, the same connection ----------------------------------------------------------------------------


def test_what_was_asked_for_another_project_is_refused_and_never_sent(world: World) -> None:
    # One place: the first call has it, the others wait in the queue.
    world.configure({"s": entry(world, "legacy", **OWN, limits={"in_flight": 1})})
    one, two = project(world, "one"), project(world, "two")
    with world.connect() as a, world.connect() as b:
        for wire in (a, b):
            hello(wire, project=one)
        flying = a.send_call("hold", {"key": "k"}, server="s")
        until(lambda: calls(world, "hold"))
        queued = [a.send_call("echo", {"text": f"old {number}"}, server="s") for number in range(3)]

        hello(a, project=two)
        after = a.send_call("echo", {"text": "new"}, server="s")

        errors = [a.wait(call)["error"] for call in queued]
        assert [(error["code"], error["data"]["class"]) for error in errors] == [(33, "stale_session")] * 3
        assert [error["data"]["may_have_run"] for error in errors] == [False] * 3
        assert a.wait(after)["result"]["content"][0]["text"] == "new"
        # What was sent cannot be taken back, but its result is of no use any more.
        error = a.wait(flying)["error"]
        assert (error["code"], error["data"]["class"], error["data"]["may_have_run"]) == (33, "stale_session", True)
        until(lambda: received(world, "notifications/cancelled"))
        assert b.text("echo", {"text": "b"}, server="s") == "b"
    assert [call["params"]["arguments"]["text"] for call in calls(world, "echo")] == ["new", "b"]
    assert len(started(world)) == 2


def test_a_result_that_comes_after_another_project_was_named_is_not_told(world: World) -> None:
    world.configure({"s": entry(world, "legacy", **OWN)})
    one, two = project(world, "one"), project(world, "two")
    with world.connect() as a, world.connect() as b:
        for wire in (a, b):
            hello(wire, project=one)
        gate = world.path / "gate"
        # It reads no cancellation until it has answered.
        stale = a.send_call("deaf", {"until": str(gate), "question": "secret of one"}, server="s")
        until(lambda: calls(world, "deaf"))
        mine = b.send_call("echo", {"text": "b"}, server="s")
        hello(a, project=two)
        gate.touch()

        error = a.wait(stale)["error"]
        assert (error["code"], error["data"]["class"]) == (33, "stale_session")
        # Nobody else has lost anything, and of the stale one nothing more is heard.
        assert b.wait(mine)["result"]["content"][0]["text"] == "b"
        assert where(a)["cwd"] == str(two)
        assert (a.notes, a.early) == ([], [])


def test_a_call_that_waits_for_its_server_is_refused_when_another_project_is_named(world: World) -> None:
    gate = world.path / "gate"
    slow = entry(world, "legacy", **OWN)
    script = f'while ! [ -e {gate} ]; do sleep 0.02; done; exec "$0" "$@"'
    slow = slow | {"command": "/bin/sh", "args": ["-c", script, slow["command"], *slow["args"]]}
    world.configure({"s": slow})
    with world.connect() as a:
        hello(a, project=project(world, "one"))
        stale = a.send_call("echo", {"text": "old"}, server="s")
        hello(a, project=project(world, "two"))

        error = a.wait(stale)["error"]
        assert (error["code"], error["data"]["class"], error["data"]["may_have_run"]) == (33, "stale_session", False)
        gate.touch()
        assert a.text("echo", {"text": "new"}, server="s") == "new"
    assert [call["params"]["arguments"]["text"] for call in calls(world, "echo")] == ["new"]


def test_a_call_and_another_project_in_one_breath_belong_to_their_own_projects(world: World) -> None:
    world.configure({"s": entry(world, "legacy", **OWN)})
    one, two = project(world, "one"), project(world, "two")
    with world.connect() as a:
        hello(a, project=one)
        call = {"method": "mcpd/call", "params": {"server": "s", "tool": "where"}}
        switch = {"method": "mcpd/hello", "params": {"version": 1, "project": str(two)}}
        lines = [{"jsonrpc": "2.0", "id": number, **what} for number, what in ((91, call), (92, switch), (93, call))]

        a.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))

        assert a.wait(91)["error"]["code"] == 33
        assert "result" in a.wait(92)
        assert json.loads(a.wait(93)["result"]["content"][0]["text"])["cwd"] == str(two)


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_what_all_share_stays_where_it_is_when_a_client_turns_to_another_project(world: World, era: str) -> None:
    world.configure({"s": entry(world, era)})
    with world.connect() as a:
        before = where(hello(a, project=project(world, "one")))

        hello(a, project=project(world, "two"))

        assert where(a) == before
        assert a.row("s")["pid"] == before["pid"]
    assert started(world) == [before["pid"]]


def test_another_project_takes_away_what_was_seen_in_the_one_before_and_nothing_else(world: World) -> None:
    world.configure({"s": entry(world, "legacy", **OWN), "all": entry(world, "legacy", ledger="all")})
    one, two = project(world, "one"), project(world, "two")
    method = "notifications/tools/list_changed"
    with world.connect() as a, world.connect() as b:
        for wire in (a, b):
            hello(wire, project=one)
            for server in ("s", "all"):
                wire.ask("mcpd/tools", {"server": server})
        asked = len(received(world, "tools/list"))

        hello(a, project=two)
        for server in ("s", "all"):
            b.text("change", {"n": 1}, server=server)

        # What a has seen of the copy of its old project is of no use any more: it does not hear of it.
        assert {note(b, method)["_meta"]["mcpd/server"] for _ in range(2)} == {"s", "all"}
        assert note(a, method)["_meta"]["mcpd/server"] == "all"
        silence(a)
        assert a.notes == []
        # What b has seen is still there, and was fetched again for the change alone.
        total = b.ask("mcpd/tools", {"server": "s"})["total"]
        assert len(received(world, "tools/list")) == 2 * asked  # a walk is as many requests as before
        assert a.ask("mcpd/tools", {"server": "s"})["total"] == total - 1


def test_the_same_project_again_changes_nothing(world: World) -> None:
    world.configure({"s": entry(world, "legacy", **OWN)})
    one = project(world, "one")
    with world.connect() as a:
        hello(a, project=one)
        call = a.send_call("hold", {"key": "k"}, server="s")
        reached(world, "hold")
        hello(a, {"elicitation": {}}, project=one)

        assert a.text("release", {"key": "k"}, server="s") == "1"
        assert a.wait(call)["result"]["content"][0]["text"] == "k"


def test_copies_are_told_apart_by_their_projects_and_stop_together(world: World) -> None:
    world.configure({"s": entry(world, "legacy", **OWN)})
    folders = [project(world, name) for name in ("one", "two")]
    for folder in folders:
        served(world, folder)
    projects = {str(folder) for folder in folders}

    rows = json.loads(world.run("status", "--json").out)["servers"]
    events = [json.loads(line) for line in world.run("events", "s", "--json").out.splitlines()]
    stopped = world.run("stop", "s")

    assert {row["project"] for row in rows} == projects
    assert {one["project"] for one in events if one["event"] == "state" and one["state"] == "ready"} == projects
    assert stopped.out.endswith("s: stopped (2 copies)\n")
