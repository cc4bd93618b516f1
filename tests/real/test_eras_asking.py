"""What a server wants from a client, in every revision; `matrix.py` says which test shows which method."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.wire import text_of
from tests.real.eras import (
    ACCEPTED,
    ALONE,
    CANCELLED,
    DECLINED,
    FORM,
    LEGACY,
    MODERN,
    OPENED,
    PINNED,
    ROOTS,
    SAMPLED,
    STATE,
)
from tests.real.matrix import FORMS, NEWEST_LEGACY, servers, servers_of

if TYPE_CHECKING:
    from tests.real.eras import Eras

MANY_ROUNDS = 100


def said(answer: dict[str, Any]) -> Any:
    return json.loads(text_of(answer["result"]))


# -- elicitation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("reply", [ACCEPTED, DECLINED, CANCELLED], ids=lambda reply: reply["action"])
@servers_of("elicitation/create s>c")
def test_elicitation_create_asks_the_client_that_called(eras: Eras, server: str, reply: dict[str, Any]) -> None:
    with eras.host() as host, eras.host() as other:
        call, question = host.question(server, "ask_name", "elicitation/create")
        host.reply(question, reply)

        assert said(host.wait(call)) == reply
        assert other.asked() == []
    params = question["params"]
    assert params["message"] == f"[{server}] Who are you?"
    assert (params.get("mode", "form"), params["requestedSchema"]) == ("form", FORM)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("mcpd/prompt", {"name": "interview", "arguments": {"name": "Ann"}}),
        ("mcpd/read", {"uri": "note://asked"}),
    ],
    ids=["prompts/get", "resources/read"],
)
@servers_of("elicitation/create s>c")
def test_elicitation_create_during_prompts_get_and_resources_read(
    eras: Eras, server: str, method: str, params: dict[str, Any]
) -> None:
    with eras.host() as host:
        request = host.send(method, {"server": server, **params})
        question = host.expect("elicitation/create", before=request)
        host.reply(question, ACCEPTED)
        result = host.wait(request)["result"]

    assert question["params"]["message"] == f"[{server}] Who are you?"
    text = result["messages"][0]["content"]["text"] if method == "mcpd/prompt" else result["contents"][0]["text"]
    assert text.endswith(json.dumps(ACCEPTED, separators=(",", ":")))


@servers((*NEWEST_LEGACY, MODERN))
def test_elicitation_create_with_an_address(eras: Eras, server: str) -> None:
    with eras.host() as host:
        call, question = host.question(server, "ask_visit", "elicitation/create")
        host.reply(question, OPENED)

        assert said(host.wait(call)) == OPENED
    params = question["params"]
    assert (params["mode"], params["url"]) == ("url", "https://example.org/sign-in?x=1")
    assert params["message"] == f"[{server}] Sign in, please."
    assert "requestedSchema" not in params
    assert ("elicitationId" in params) == (server != "modern")


@servers((MODERN,))
def test_elicitation_create_in_a_modern_revision_repeats_the_request_with_the_state_as_it_was(
    eras: Eras, server: str
) -> None:
    with eras.host() as host:
        call, question = host.question(server, "ask_name", "elicitation/create")
        host.reply(question, ACCEPTED)
        assert said(host.wait(call)) == ACCEPTED

    first, second = eras.records[server].calls("ask_name")[-2:]
    assert second["id"] != first["id"]
    assert "requestState" not in first["params"]
    assert second["params"]["requestState"] == STATE
    assert second["params"]["inputResponses"] == {"the question": ACCEPTED}
    assert second["params"]["arguments"] == first["params"]["arguments"]


@servers((MODERN,))
def test_elicitation_create_without_an_end_is_given_up(eras: Eras, server: str) -> None:
    rounds = 0
    with eras.host() as host:
        call = host.send_call("insist", server=server)
        while (message := host.read()).get("method") == "elicitation/create" and rounds < MANY_ROUNDS:
            rounds += 1
            host.reply(message, ACCEPTED)

    assert message["id"] == call
    assert message["error"]["code"] > 0
    assert rounds > 0


@servers((MODERN,))
def test_elicitation_create_to_a_client_that_cannot_answer_is_an_error(eras: Eras, server: str) -> None:
    with eras.host(can={}) as host, eras.host() as other:
        error = host.wait(host.send_call("ask_name", server=server))["error"]
        assert other.asked() == []

    assert (error["code"], error["data"]["class"]) == (34, "input_required")
    assert f"'{server}'" in error["message"]


@servers(FORMS)
def test_elicitation_create_is_offered_in_the_words_of_the_revision(eras: Eras, server: str) -> None:
    with eras.host() as host:
        offered = json.loads(host.call(server, "capabilities"))["elicitation"]

    assert offered == ({} if PINNED[server] == "2025-06-18" else {"form": {}, "url": {}})


@servers(NEWEST_LEGACY)
def test_elicitation_complete_reaches_the_client_that_was_asked(eras: Eras, server: str) -> None:
    with eras.host() as host, eras.host() as other:
        call, question = host.question(server, "ask_visit", "elicitation/create")
        host.reply(question, OPENED)
        complete = host.expect("notifications/elicitation/complete")
        assert said(host.wait(call)) == OPENED
        assert other.seen("notifications/elicitation/complete") == []

    assert complete["params"]["elicitationId"] == question["params"]["elicitationId"]


# -- sampling ------------------------------------------------------------------------------------


@servers_of("sampling/createMessage s>c")
def test_sampling_create_message_asks_the_client_that_called(eras: Eras, server: str) -> None:
    with eras.host() as host, eras.host() as other:
        call, question = host.question(server, "sample", "sampling/createMessage")
        host.reply(question, SAMPLED)

        assert said(host.wait(call))["said"] == SAMPLED
        assert other.asked() == []
    params = question["params"]
    assert params["messages"] == [{"role": "user", "content": {"type": "text", "text": "Say something."}}]
    assert params["maxTokens"] == 9


@servers_of("notifications/progress c>s")
def test_progress_of_an_answer_reaches_the_server_if_the_client_was_asked_for_it(eras: Eras, server: str) -> None:
    with eras.host() as host:
        call, question = host.question(server, "sample", "sampling/createMessage")
        theirs = eras.records[server].said("sampling/createMessage")[-1]["params"]["_meta"]["progressToken"]
        ours = question["params"]["_meta"].get("progressToken")
        for token in (theirs, ours):
            if token is not None:
                text = "by their own token" if token == theirs else "half of it"
                host.notify("notifications/progress", {"progressToken": token, "progress": 1, "message": text})
        host.reply(question, SAMPLED)

        assert said(host.wait(call)) == {"said": SAMPLED, "heard": [] if ours is None else ["half of it"]}


@servers_of("notifications/cancelled s>c")
def test_cancelled_by_the_server_reaches_the_client(eras: Eras, server: str) -> None:
    record = eras.records[server]
    with eras.host() as host:
        call, question = host.question(server, "hesitate", "sampling/createMessage")
        assert host.call(server, "give_up") == "done"

        assert host.expect("notifications/cancelled")["params"]["requestId"] == question["id"]
        assert text_of(host.wait(call)["result"]) == "given up"
        answers = [each for each in record.heard() if "result" in each]
        host.reply(question, SAMPLED)
        assert host.call(server, "echo", text="after") == "after"
    # The answer came too late; the server hears nothing of it.
    assert [each for each in record.heard() if "result" in each] == answers


# -- roots ---------------------------------------------------------------------------------------


@servers(LEGACY)
def test_roots_list_of_a_projects_server_is_the_project(eras: Eras, server: str) -> None:
    with eras.host() as host:
        roots = json.loads(host.call(server, "list_roots"))["roots"]
        assert host.asked() == []

    assert [root["uri"] for root in roots] == [f"file://{eras.project}"]


@pytest.mark.parametrize("server", ["modern", ALONE])
def test_roots_list_of_no_project_asks_the_client_that_called(eras: Eras, server: str) -> None:
    with eras.host() as host, eras.host() as other:
        call, question = host.question(server, "list_roots", "roots/list")
        host.reply(question, ROOTS)

        assert said(host.wait(call)) == ROOTS
        assert other.asked() == []


@servers_of("notifications/roots/list_changed c>s")
def test_roots_list_changed_is_sent_where_it_was_promised(eras: Eras, server: str) -> None:
    record, mark = eras.records[server], "the client's own"
    promised = record.heard("initialize")[0]["params"]["capabilities"].get("roots", {}).get("listChanged", False)
    before = len(record.heard("notifications/roots/list_changed"))
    with eras.host() as host:
        host.notify("notifications/roots/list_changed", {"_meta": {"example.org/mark": mark}})
        assert host.call(server, "echo", text="after") == "after"

    assert len(record.heard("notifications/roots/list_changed")) == before + (1 if promised else 0)
    assert not record.knows(mark)
