from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.integration.world import World


def call(world: World, *argv: str) -> dict[str, Any]:
    result: dict[str, Any] = world.run("call", *argv, "--json").json
    return result


def text(world: World, *argv: str) -> str:
    return str(call(world, *argv)["content"][0]["text"])


@pytest.mark.parametrize("server", ["time", "time-legacy"])
def test_time_converts_in_both_eras(real: World, server: str) -> None:
    said = text(
        real, server, "convert_time", "source_timezone=Europe/Berlin", "time=12:00", "target_timezone=Asia/Kolkata"
    )

    assert json.loads(said)["target"]["datetime"].endswith("+05:30")
    assert json.loads(text(real, server, "get_current_time", "timezone=UTC"))["timezone"] == "UTC"


def test_time_speaks_the_era_that_it_is_asked_for(real: World) -> None:
    for server in ("time", "time-legacy"):
        assert real.run("start", server).status == 0

    assert real.row("time-legacy")["era"] == "legacy"
    assert real.row("time")["era"] in ("legacy", "modern")


def test_time_knows_no_time_on_mars(real: World) -> None:
    done = real.run("call", "time", "get_current_time", "timezone=Mars/Base", "--json")

    assert (done.status, json.loads(done.out)["isError"]) == (5, True)
    assert "Mars/Base" in done.out


def test_git_reads_its_repository(real: World) -> None:
    where = f"repo_path={real.path}/repository"

    assert "the first commit" in text(real, "git", "git_log", where)
    assert "file.txt" in text(real, "git", "git_status", where)
    assert "+second" in text(real, "git", "git_diff_unstaged", where)


def test_fetch_gives_a_page_as_markdown(real: World, website: str) -> None:
    said = text(real, "fetch", "fetch", f"url={website}/page.html")

    assert "A heading" in said
    assert "**bold**" in said


def test_fetch_reports_a_page_that_is_not_there(real: World, website: str) -> None:
    done = real.run("call", "fetch", "fetch", f"url={website}/none", "--json")

    assert (done.status, json.loads(done.out)["isError"]) == (5, True)
    assert "404" in done.out


def test_wrong_arguments_are_refused_before_a_server_hears_of_them(real: World) -> None:
    calls = real.row("time")["calls"] if real.run("start", "time").status == 0 else 0

    done = real.run("call", "time", "get_current_time", "timezon=UTC", "--json")

    assert (done.status, done.error["class"]) == (2, "bad_request")
    assert "timezone" in done.error["message"] + done.error.get("hint", "")
    assert real.row("time")["calls"] == calls


def test_every_server_lists_its_tools(real: World) -> None:
    listed = {line.split("\t")[0] for line in real.run("tools", "--all").out.splitlines()}

    assert listed == {row["name"] for row in real.status()["servers"]}
