"""The reference server from npm, which speaks the legacy revisions: one test for each thing that it shows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.integration.wire import text_of
from tests.integration.world import until
from tests.real.eras import ACCEPTED, EVERYTHING, LEGACY, OPENED, ROOTS, SAMPLED

if TYPE_CHECKING:
    from tests.real.eras import Eras, Host

STATIC = "demo://resource/static/document/features.md"
TEXT = "demo://resource/dynamic/text/1"
ZIPPED = {"name": "words.gz", "data": "data:text/plain,words", "outputType": "resourceLink"}


def names(host: Host, kind: str, key: str = "name") -> list[str]:
    items = host.ask(f"mcpd/{kind}", {"server": EVERYTHING, "limit": 100})["items"]
    return [item[key] for item in items]


def await_tool(host: Host, tool: str) -> None:
    """Wait for a tool that the server adds after its start, when it knows what clients can do."""
    until(lambda: tool in names(host, "tools"))


def test_everything_is_found_to_be_legacy_on_one_pipe(eras: Eras) -> None:
    first, second, third, *rest = eras.records[EVERYTHING].heard()

    assert [each["method"] for each in (first, second, third)] == [
        "server/discover",
        "initialize",
        "notifications/initialized",
    ]
    assert second["params"]["protocolVersion"] == LEGACY[-1]
    assert [each for each in rest if each.get("method") in ("initialize", "server/discover")] == []
    with eras.host() as host:
        row = host.row(EVERYTHING)
    assert (row["era"], row["revision"], row["incarnation"]) == ("legacy", LEGACY[-1], 1)


def test_everything_that_is_called_answers(eras: Eras) -> None:
    with eras.host() as host:
        assert {"echo", "get-sum"} <= set(names(host, "tools"))
        assert host.call(EVERYTHING, "echo", message="hi") == "Echo: hi"
        links = host.wait(host.send_call("get-resource-links", {"count": 2}, server=EVERYTHING))["result"]["content"]

    assert [each["type"] for each in links] == ["text", "resource_link", "resource_link"]


def test_everything_gives_its_prompts(eras: Eras) -> None:
    with eras.host() as host:
        assert "args-prompt" in names(host, "prompts")
        weather = host.ask("mcpd/prompt", {"server": EVERYTHING, "name": "args-prompt", "arguments": {"city": "Rome"}})
        resource = host.ask(
            "mcpd/prompt",
            {"server": EVERYTHING, "name": "resource-prompt", "arguments": {"resourceType": "Text", "resourceId": "1"}},
        )

    assert weather["messages"][0]["content"]["text"] == "What's weather in Rome?"
    assert resource["messages"][1]["content"]["resource"]["uri"] == TEXT


def test_everything_reads_its_resources(eras: Eras) -> None:
    with eras.host() as host:
        assert STATIC in names(host, "resources", "uri")
        assert "demo://resource/dynamic/text/{resourceId}" in names(host, "templates", "uriTemplate")
        static = host.ask("mcpd/read", {"server": EVERYTHING, "uri": STATIC})
        dynamic = host.ask("mcpd/read", {"server": EVERYTHING, "uri": TEXT})

    assert static["contents"][0]["text"].startswith("# ")
    assert dynamic["contents"][0]["uri"] == TEXT


def test_everything_completes(eras: Eras) -> None:
    about = {"server": EVERYTHING, "ref": {"type": "ref/prompt", "name": "completable-prompt"}}
    with eras.host() as host:
        department = host.ask("mcpd/complete", {**about, "argument": {"name": "department", "value": "S"}})
        name = host.ask(
            "mcpd/complete",
            {
                **about,
                "argument": {"name": "name", "value": ""},
                "context": {"arguments": {"department": "Support"}},
            },
        )

    assert department["completion"]["values"] == ["Sales", "Support"]
    assert name["completion"]["values"] == ["John", "Kim", "Lee"]


def test_everything_reports_progress(eras: Eras) -> None:
    with eras.host() as host:
        call = host.send_call(
            "trigger-long-running-operation",
            {"duration": 0.1, "steps": 2},
            server=EVERYTHING,
            _meta={"progressToken": "mine"},
        )
        assert text_of(host.wait(call)["result"]).startswith("Long running operation completed")
        told = host.seen("notifications/progress")

    assert [(each["progressToken"], each["progress"], each["total"]) for each in told] == [
        ("mine", 1, 2),
        ("mine", 2, 2),
    ]


def test_everything_is_cancelled(eras: Eras) -> None:
    record, operation = eras.records[EVERYTHING], "trigger-long-running-operation"
    before = len(record.calls(operation))
    with eras.host() as host:
        call = host.send_call(operation, {"duration": 1, "steps": 1}, server=EVERYTHING)
        until(lambda: len(record.calls(operation)) > before)
        host.notify("notifications/cancelled", {"requestId": call})
        number = record.calls(operation)[-1]["id"]
        until(lambda: any(each["params"]["requestId"] == number for each in record.heard("notifications/cancelled")))

        assert host.call(EVERYTHING, "echo", message="after") == "Echo: after"


def test_everything_logs(eras: Eras) -> None:
    with eras.host() as host:
        assert host.ask("mcpd/log_level", {"level": "info", "server": EVERYTHING}) == {}
        assert host.ask("mcpd/subscribe", {"server": EVERYTHING, "uri": STATIC}) == {}
        params = host.expect("notifications/message")["params"]

    assert (params["level"], params["_meta"]["mcpd/server"]) == ("info", EVERYTHING)
    assert STATIC in params["data"]


def test_everything_updates_a_subscriber(eras: Eras) -> None:
    with eras.host() as host:
        assert host.ask("mcpd/subscribe", {"server": EVERYTHING, "uri": TEXT}) == {}
        started = host.call(EVERYTHING, "toggle-subscriber-updates")
        params = host.expect("notifications/resources/updated")["params"]
        stopped = host.call(EVERYTHING, "toggle-subscriber-updates")

    assert (started.split()[0], stopped.split()[0]) == ("Started", "Stopped")
    assert params == {"uri": TEXT, "_meta": {"mcpd/server": EVERYTHING}}


def test_everything_changes_its_resources(eras: Eras) -> None:
    with eras.host() as host:
        assert names(host, "resources") != []
        link = host.wait(host.send_call("gzip-file-as-resource", ZIPPED, server=EVERYTHING))["result"]["content"][0]
        told = host.expect("notifications/resources/list_changed")["params"]

        assert told["_meta"]["mcpd/server"] == EVERYTHING
        assert link["uri"] in names(host, "resources", "uri")
        contents = host.ask("mcpd/read", {"server": EVERYTHING, "uri": link["uri"]})["contents"]
    assert (contents[0]["uri"], contents[0]["mimeType"]) == (link["uri"], "application/gzip")


def test_everything_elicits(eras: Eras) -> None:
    with eras.host() as host, eras.host() as other:
        await_tool(host, "trigger-elicitation-request")
        call, question = host.question(EVERYTHING, "trigger-elicitation-request", "elicitation/create")
        host.reply(question, ACCEPTED)
        said = text_of(host.wait(call)["result"])
        assert other.asked() == []

    assert question["params"]["message"] == f"[{EVERYTHING}] Please provide inputs for the following fields:"
    assert question["params"]["requestedSchema"]["properties"]["name"]["title"] == "String"
    assert "Ann" in said


def test_everything_elicits_with_an_address(eras: Eras) -> None:
    tool, url = "trigger-url-elicitation", "https://example.org/sign-in"
    with eras.host() as host:
        await_tool(host, tool)
        call, question = host.question(EVERYTHING, tool, "elicitation/create", {"url": url})
        host.reply(question, OPENED)
        said = text_of(host.wait(call)["result"])
        first = host.wait(host.send_call(tool, {"url": url, "errorPath": True}, server=EVERYTHING))["error"]

    assert (question["params"]["mode"], question["params"]["url"]) == ("url", url)
    assert url in said
    assert first["code"] == -32042
    assert [each["mode"] for each in first["data"]["elicitations"]] == ["url"]


def test_everything_samples(eras: Eras) -> None:
    with eras.host() as host:
        await_tool(host, "trigger-sampling-request")
        arguments = {"prompt": "be brief", "maxTokens": 5}
        call, question = host.question(EVERYTHING, "trigger-sampling-request", "sampling/createMessage", arguments)
        host.reply(question, SAMPLED)
        said = text_of(host.wait(call)["result"])

    assert question["params"]["maxTokens"] == 5
    assert "be brief" in json.dumps(question["params"]["messages"])
    assert SAMPLED["model"] in said


def test_everything_has_roots(eras: Eras) -> None:
    asked: list[Any] = []
    with eras.host() as host:
        await_tool(host, "get-roots-list")
        # It has asked by itself, soon after its start, when no client was waiting for anything.
        until(lambda: eras.records[EVERYTHING].said("roots/list"))
        said = host.call(EVERYTHING, "get-roots-list")
        asked += host.asked()

    assert asked == []
    assert f"file://{eras.project}" in said
    assert ROOTS["roots"][0]["uri"] not in said


def test_everything_says_which_tool_needs_a_task(eras: Eras) -> None:
    with eras.host() as host:
        await_tool(host, "simulate-research-query")
        result = host.wait(host.send_call("simulate-research-query", {"topic": "tea"}, server=EVERYTHING))["result"]

    assert result["isError"] is True
    assert "requires task augmentation" in text_of(result)
