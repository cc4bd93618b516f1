"""Several servers as one, and the search over them, as the SDKs' clients have it through one bridge."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.integration.wire import text_of
from tests.real.bridges import KINDS
from tests.real.eras import ACCEPTED, LISTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.real.bridges import Bridged, SdkHost

BOTH = ("legacy", "modern")
SEARCH = ["search_tools", "describe_tool", "call_tool"]
SOME = ("python-legacy", "python-modern", "typescript-first", "typescript-modern")


@pytest.fixture
def running(bridged: Bridged) -> None:
    """Let both servers run: the lists of one that still starts come later."""
    for server in BOTH:
        assert bridged.kept(KINDS["python-legacy"], server).names("tools", "tools/list", "name") != []


@pytest.fixture(params=SOME)
def several(bridged: Bridged, running: None, request: pytest.FixtureRequest) -> Iterator[SdkHost]:
    """A host that sees both servers as one."""
    with bridged.start(KINDS[request.param], *BOTH) as host:
        yield host


@pytest.fixture(params=SOME)
def searching(bridged: Bridged, running: None, request: pytest.FixtureRequest) -> Iterator[SdkHost]:
    """A host that searches both servers."""
    with bridged.start(KINDS[request.param], *BOTH, "--mode", "search") as host:
        yield host


# -- as one --------------------------------------------------------------------------------------


def test_tools_of_all_servers_are_listed_with_the_server_before_their_names(several: SdkHost) -> None:
    listed = several.names("tools", "tools/list", "name")

    for server in BOTH:
        own = [name for name in listed if name.startswith(f"{server}-")]
        assert own[:5] == [f"{server}-{name}" for name in LISTS["tools"][2]]
    assert len(set(listed)) == len(listed)


def test_a_tool_is_called_by_the_name_that_is_listed(several: SdkHost) -> None:
    several.ask("tools/list")
    for server in BOTH:
        assert several.call(f"{server}-echo", text=f"by {server}") == f"by {server}"
        measured = several.ask("tools/call", {"name": f"{server}-measure", "arguments": {"text": "four"}})
        assert measured["structuredContent"] == {"length": 4}
        assert several.fail("tools/call", {"name": f"{server}-refuse"})["code"] == -31999


def test_a_resource_is_read_by_the_uri_that_is_listed_or_that_a_result_links_to(several: SdkHost) -> None:
    listed = {item["name"]: item["uri"] for item in several.ask("resources/list")["resources"]}
    assert len(set(listed.values())) == len(listed)
    for server in BOTH:
        linked = several.ask("tools/call", {"name": f"{server}-link", "arguments": {"uri": "note://second"}})
        (link,) = linked["content"]
        read = several.ask("resources/read", {"uri": link["uri"]})["contents"]

        assert [(each["uri"], each["text"]) for each in read] == [(link["uri"], "the second note")]
        assert link["uri"] in [item["uri"] for item in several.ask("resources/list")["resources"]]


def test_a_prompt_is_had_by_the_name_that_is_listed(several: SdkHost) -> None:
    listed = several.names("prompts", "prompts/list", "name")
    for server in BOTH:
        name = f"{server}-greeting"
        assert name in listed
        result = several.ask("prompts/get", {"name": name, "arguments": {"name": "Ann"}})
        assert json.loads(result["messages"][0]["content"]["text"]) == {"name": "Ann"}
        ref = {"type": "ref/prompt", "name": name}
        completed = several.ask("completion/complete", {"ref": ref, "argument": {"name": "name", "value": "r"}})
        assert completed["completion"]["values"] == ["ref/prompt"]


def test_a_question_says_whose_it_is(several: SdkHost) -> None:
    several.ask("tools/list")
    for server in BOTH:
        call, question = several.question(f"{server}-ask_name", "elicitation/create")
        several.reply(question, ACCEPTED)

        assert question["params"]["message"] == f"[{server}] Who are you?"
        assert json.loads(text_of(several.wait(call)["result"])) == ACCEPTED


# -- by search -----------------------------------------------------------------------------------


def test_a_host_that_searches_has_three_tools(searching: SdkHost) -> None:
    assert searching.names("tools", "tools/list", "name") == SEARCH


def test_a_tool_is_found_described_and_called(searching: SdkHost) -> None:
    found = searching.call("search_tools", query="give structured content")
    assert "legacy-measure" in found
    assert "modern-measure" in found
    assert "length" in searching.call("describe_tool", name="legacy-measure")

    called = {"name": "modern-measure", "arguments": {"text": "four"}}
    measured = searching.ask("tools/call", {"name": "call_tool", "arguments": called})
    assert measured["structuredContent"] == {"length": 4}
    assert measured.get("isError", False) is False


def test_a_tool_that_was_found_reports_its_progress_and_asks(searching: SdkHost) -> None:
    searching.call("search_tools", query="ask with a form")
    call, question = searching.question("call_tool", "elicitation/create", {"name": "modern-ask_name", "arguments": {}})
    searching.reply(question, ACCEPTED)
    assert json.loads(text_of(searching.wait(call)["result"])) == ACCEPTED

    call = searching.begin("call_tool", {"name": "modern-climb", "arguments": {"steps": 2}}, progressToken="t")
    told = [searching.expect("notifications/progress", before=call)["params"]["progress"] for _ in range(2)]
    assert told == [1, 2]
    searching.call("call_tool", name="modern-give_up", arguments={})
    assert text_of(searching.wait(call)["result"]) == "at the top"
