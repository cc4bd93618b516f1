"""What a client wants from a server, in every revision; `matrix.py` says which test shows which method."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.wire import text_of
from tests.real.eras import LISTS, MODERN, PINNED
from tests.real.matrix import ENDS_HERE, ROWS, servers, servers_of

if TYPE_CHECKING:
    from tests.real.eras import Eras

META = "io.modelcontextprotocol"
TRACE = {"example.org/trace": {"n": 1.0, "big": 12345678901234567890, "empty": ""}}
OWN_WORDS: dict[str, dict[str, Any]] = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
    "resources/subscribe": {"uri": "note://second"},
    "resources/unsubscribe": {"uri": "note://second"},
    "subscriptions/listen": {"notifications": {"toolsListChanged": True}},
    "logging/setLevel": {"level": "debug"},
    "tasks/get": {"taskId": "t1"},
    "tasks/cancel": {"taskId": "t1"},
}


# -- what ends at the daemon ---------------------------------------------------------------------


@servers_of("initialize c>s")
def test_initialize_is_the_daemons_own_and_comes_first(eras: Eras, server: str) -> None:
    first, second, *rest = eras.records[server].heard()

    assert (first["method"], second["method"]) == ("initialize", "notifications/initialized")
    assert (first["params"]["protocolVersion"], first["params"]["clientInfo"]["name"]) == (PINNED[server], "mcpd")
    assert [each for each in rest if each.get("method") in (first["method"], second["method"], "server/discover")] == []
    with eras.host() as host:
        row = host.row(server)
    assert (row["era"], row["revision"], row["incarnation"]) == ("legacy", PINNED[server], 1)


@servers_of("server/discover c>s")
def test_server_discover_is_the_daemons_own_and_comes_first(eras: Eras, server: str) -> None:
    first, *rest = eras.records[server].heard()

    assert first["method"] == "server/discover"
    assert first["params"]["_meta"][f"{META}/protocolVersion"] == MODERN
    assert [each for each in rest if each.get("method") == "initialize"] == []
    with eras.host() as host:
        row = host.row(server)
    assert (row["era"], row["revision"], row["incarnation"]) == ("modern", MODERN, 1)


OWN_METHODS = [row.split()[0] for row, about in ROWS.items() if ENDS_HERE in about.tests and "*" not in row]


@pytest.mark.parametrize("method", [*OWN_METHODS, "tasks/get", "tasks/cancel", "tasks/list"])
@servers()
def test_what_a_client_says_for_itself_ends_at_the_daemon(eras: Eras, server: str, method: str) -> None:
    mark = f"the client's own {method}"
    params = {**OWN_WORDS.get(method, {}), "_meta": {"example.org/mark": mark}}
    with eras.host() as host:
        if method.startswith("notifications/"):
            host.notify(method, params)
        else:
            host.send(method, params, id=mark)
        assert host.call(server, "echo", text="after") == "after"

    assert not eras.records[server].knows(mark)


@servers_of("ping c>s")
def test_ping_of_a_client_is_answered_by_the_daemon(eras: Eras, server: str) -> None:
    before = eras.records[server].heard("ping")
    with eras.host() as host:
        assert host.ask("ping") == {}
        assert host.call(server, "echo", text="after") == "after"

    assert eras.records[server].heard("ping") == before


@servers_of("ping s>c")
def test_ping_of_a_server_is_answered_by_the_daemon(eras: Eras, server: str) -> None:
    with eras.host() as host:
        assert host.call(server, "ping_back") == "{}"
        assert host.asked() == []

    assert len(eras.records[server].said("ping")) >= 1


# -- lists ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LISTS)
@servers_of("tools/list c>s")
def test_lists_are_whole_and_fetched_once(eras: Eras, server: str, kind: str) -> None:
    method, key, beginning = LISTS[kind]
    record, params = eras.records[server], {"server": server, "limit": 100}
    with eras.host() as host, eras.host() as other:
        first = [item[key] for item in host.ask(f"mcpd/{kind}", params)["items"]]
        fetched = record.heard(method)
        second = [item[key] for item in other.ask(f"mcpd/{kind}", params)["items"]]

    assert first[: len(beginning)] == beginning
    assert second == first
    assert record.heard(method) == fetched
    # The server's second page has an empty cursor: that is not the end.
    cursors = [each.get("params", {}).get("cursor") for each in fetched]
    pages = -(-len(first) // 2)
    assert cursors[-pages:] == [None, "", *(str(2 * page) for page in range(2, pages))]


# -- calls ---------------------------------------------------------------------------------------


@servers_of("tools/call c>s")
def test_tools_call_is_forwarded_and_answered(eras: Eras, server: str) -> None:
    with eras.host() as host:
        assert host.call(server, "echo", text="naïve ☂") == "naïve ☂"
        measured = host.wait(host.send_call("measure", {"text": "four"}, server=server))["result"]

    assert measured["structuredContent"] == {"length": 4}
    assert json.loads(text_of(measured)) == {"length": 4}
    assert measured["_meta"]["example.org/measured"] is True
    assert measured["_meta"]["mcpd/view"]["incarnation"] == 1


@servers_of("tools/call c>s")
def test_tools_call_passes_on_what_is_an_error(eras: Eras, server: str) -> None:
    with eras.host() as host:
        failed = host.wait(host.send_call("fail", server=server))["result"]
        refused = host.wait(host.send_call("refuse", server=server))["error"]

    assert (failed["isError"], text_of(failed)) == (True, "it did not work")
    assert (refused["code"], refused["message"], refused["data"]) == (-31999, "not today", {"why": "it is Sunday"})


@servers_of("tools/call c>s")
def test_tools_call_passes_on_vendor_metadata_and_no_id_of_the_client(eras: Eras, server: str) -> None:
    meta = {**TRACE, "progressToken": "a token of the client", f"{META}/protocolVersion": "1999-01-01"}
    with eras.host() as host:
        call = host.send_call("echo", {"text": "traced"}, server=server, id="an id of the client", _meta=meta)
        assert text_of(host.wait(call)["result"]) == "traced"

    request = eras.records[server].calls("echo")[-1]
    assert request["params"]["_meta"]["example.org/trace"] == TRACE["example.org/trace"]
    assert request["params"]["_meta"].get(f"{META}/protocolVersion") == (MODERN if server == "modern" else None)
    assert not eras.records[server].knows("of the client")


@servers_of("prompts/get c>s")
def test_prompts_get_is_forwarded_and_answered(eras: Eras, server: str) -> None:
    arguments = {"name": "Ann", "tone": "kind"}
    with eras.host() as host:
        result = host.ask("mcpd/prompt", {"server": server, "name": "greeting", "arguments": arguments})
        refused = host.fail("mcpd/prompt", {"server": server, "name": "farewell", "arguments": arguments})

    assert result["description"] == "greeting"
    assert [message["role"] for message in result["messages"]] == ["user"]
    assert json.loads(result["messages"][0]["content"]["text"]) == arguments
    assert result["_meta"]["mcpd/view"]["truncated"] is False
    assert (refused["code"], refused["message"], refused["data"]) == (-31998, "not yet", {"why": "it is early"})


@servers_of("resources/read c>s")
def test_resources_read_is_forwarded_and_answered(eras: Eras, server: str) -> None:
    with eras.host() as host:
        text = host.ask("mcpd/read", {"server": server, "uri": "note://first"})
        blob = host.ask("mcpd/read", {"server": server, "uri": "draft://any"})
        missing = host.fail("mcpd/read", {"server": server, "uri": "note://none"})

    assert text["contents"] == [{"uri": "note://first", "text": "the first note"}]
    assert text["_meta"]["mcpd/view"]["truncated"] is False
    assert blob["contents"] == [{"uri": "draft://any", "mimeType": "application/octet-stream", "blob": "AAEC"}]
    # The number has changed with the revisions; the server's own one is passed on.
    assert missing["code"] == (-32602 if server == "modern" else -32002)
    assert missing["data"] == {"uri": "note://none"}


@servers_of("completion/complete c>s")
def test_completion_complete_is_forwarded_and_answered(eras: Eras, server: str) -> None:
    prompt = {"type": "ref/prompt", "name": "greeting"}
    template = {"type": "ref/resource", "uri": "note://{name}"}
    context = {"arguments": {"tone": "kind "}}
    with eras.host() as host:

        def complete(ref: object, value: str, **more: object) -> Any:
            argument = {"name": "name", "value": value}
            return host.ask("mcpd/complete", {"server": server, "ref": ref, "argument": argument, **more})["completion"]

        assert complete(prompt, "r") == {"values": ["ref/prompt"], "total": 1, "hasMore": False}
        assert complete(template, "")["values"] == ["ref/resource", "other"]
        assert complete(prompt, "kind", context=context)["values"] == ["kind ref/prompt"]


# -- tasks ---------------------------------------------------------------------------------------


@servers_of("tasks/* c>s")
def test_tasks_are_offered_to_no_server(eras: Eras, server: str) -> None:
    with eras.host() as host:
        offered = json.loads(host.call(server, "capabilities"))

    assert "tasks" not in offered
    assert f"{META}/tasks" not in offered.get("extensions", {})
    assert "task" not in eras.records[server].calls("capabilities")[-1]["params"]


@servers((MODERN,))
def test_tasks_that_nobody_asked_for_are_a_malformed_answer(eras: Eras, server: str) -> None:
    with eras.host() as host:
        error = host.wait(host.send_call("defer", server=server))["error"]
        assert host.call(server, "echo", text="after") == "after"

    assert (error["code"], error["data"]["class"]) == (13, "server_protocol")
    assert "task" in error["message"]
