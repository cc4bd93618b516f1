"""What servers ask the SDKs' clients through a bridge, and two hosts that are asked at once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.wire import text_of
from tests.real.bridges import KINDS
from tests.real.eras import ACCEPTED, ALONE, CANCELLED, DECLINED, FORM, OPENED, ROOTS, SAMPLED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.real.bridges import Bridged, SdkHost

# A server of their own for each of all kinds of hosts would take its time.
own_answers = pytest.mark.parametrize(
    ("kind", "of"), [*((kind, "modern") for kind in KINDS), ("python-legacy", ALONE), ("typescript-modern", ALONE)]
)


def said(answer: dict[str, Any]) -> Any:
    assert "result" in answer, answer
    return json.loads(text_of(answer["result"]))


@pytest.fixture(params=KINDS)
def pair(bridged: Bridged, server: str, request: pytest.FixtureRequest) -> Iterator[tuple[SdkHost, SdkHost]]:
    """Two hosts of one kind that have done the same so far, so that all their numbers are equal."""
    kind = KINDS[request.param]
    with bridged.start(kind, server) as first, bridged.start(kind, server) as second:
        yield first, second


# -- elicitation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("reply", [ACCEPTED, DECLINED, CANCELLED], ids=lambda reply: reply["action"])
def test_a_form_is_shown_as_the_server_has_it_and_the_answer_comes_back(host: SdkHost, reply: dict[str, Any]) -> None:
    call, question = host.question("ask_name", "elicitation/create")
    host.reply(question, reply)

    assert said(host.wait(call)) == reply
    params = question["params"]
    assert (params["message"], params.get("mode", "form")) == ("Who are you?", "form")
    assert params["requestedSchema"] == FORM


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("prompts/get", {"name": "interview", "arguments": {"name": "Ann"}}),
        ("resources/read", {"uri": "note://asked"}),
    ],
)
def test_a_form_during_a_prompt_or_the_reading_of_a_resource(
    host: SdkHost, method: str, params: dict[str, Any]
) -> None:
    request = host.send(method, params)
    host.reply(host.expect("elicitation/create", before=request), ACCEPTED)
    result = host.wait(request)["result"]

    text = result["messages"][0]["content"]["text"] if method == "prompts/get" else result["contents"][0]["text"]
    assert text.endswith(json.dumps(ACCEPTED, separators=(",", ":")))


def test_an_address_is_shown_as_the_server_has_it(host: SdkHost, server: str) -> None:
    call, question = host.question("ask_visit", "elicitation/create")
    host.reply(question, OPENED)

    assert said(host.wait(call)) == OPENED
    params = question["params"]
    assert (params["message"], params["mode"]) == ("Sign in, please.", "url")
    assert params["url"] == "https://example.org/sign-in?x=1"
    if server == "legacy" and not host.kind.is_modern:
        complete = host.expect("notifications/elicitation/complete")
        assert complete["params"]["elicitationId"] == params["elicitationId"]
    assert host.settled() == []


# -- sampling and roots --------------------------------------------------------------------------


def test_the_hosts_model_says_something(host: SdkHost) -> None:
    call, question = host.question("sample", "sampling/createMessage")
    host.reply(question, SAMPLED)

    assert said(host.wait(call))["said"] == SAMPLED
    # The SDKs write one content as itself or as a list of one.
    content = question["params"]["messages"][0]["content"]
    assert content in ({"type": "text", "text": "Say something."}, [{"type": "text", "text": "Say something."}])
    assert question["params"]["maxTokens"] == 9


@own_answers
def test_the_hosts_roots_are_those_of_a_server_that_it_shares_with_nobody_or_that_asks_by_request(
    bridged: Bridged, kind: str, of: str
) -> None:
    host = bridged.kept(KINDS[kind], of)
    call, question = host.question("list_roots", "roots/list")
    host.reply(question, ROOTS)

    assert said(host.wait(call)) == ROOTS


@pytest.mark.parametrize("kind", [kind for kind, about in KINDS.items() if not about.is_modern])
def test_a_question_that_a_legacy_server_takes_back_is_taken_back_at_the_host(bridged: Bridged, kind: str) -> None:
    host = bridged.kept(KINDS[kind], "legacy")
    call, question = host.question("hesitate", "sampling/createMessage")
    assert host.call("give_up") == "done"

    assert host.expect("notifications/cancelled")["params"]["requestId"] == question["id"]
    assert text_of(host.wait(call)["result"]) == "given up"
    assert host.settled() == []


@pytest.mark.parametrize("kind", ["python-legacy", "python-modern", "typescript-modern"])
def test_a_host_that_cannot_answer_is_asked_nothing(bridged: Bridged, kind: str) -> None:
    with bridged.start(KINDS[kind], "modern", can=[]) as host:
        answer = host.wait(host.begin("ask_name"))

        assert "error" in answer
        assert host.call("echo", text="settled") == "settled"
        assert host.notes == []


# -- two hosts at once ---------------------------------------------------------------------------


def test_two_hosts_with_equal_numbers_get_their_own_answers_and_progress(pair: tuple[SdkHost, SdkHost]) -> None:
    calls = [host.begin("climb", {"steps": 3 + place}, progressToken="t") for place, host in enumerate(pair)]
    echoes = [host.begin("echo", {"text": f"of {place}"}) for place, host in enumerate(pair)]

    for place, host in enumerate(pair):
        assert text_of(host.wait(echoes[place])["result"]) == f"of {place}"
        told = [host.expect("notifications/progress", before=calls[place])["params"] for _ in range(3 + place)]
        assert [(each["progress"], each["total"]) for each in told] == [
            (step, 3 + place) for step in range(1, 4 + place)
        ]
    assert pair[0].call("give_up") == "done"
    for call, host in zip(calls, pair, strict=True):
        assert text_of(host.wait(call)["result"]) == "at the top"
        assert host.settled() == []


def test_a_question_is_for_the_host_that_has_called(pair: tuple[SdkHost, SdkHost]) -> None:
    first, second = pair
    call, question = first.question("ask_name", "elicitation/create")
    assert second.call("echo", text="meanwhile") == "meanwhile"
    assert second.settled() == []
    first.reply(question, ACCEPTED)

    assert said(first.wait(call)) == ACCEPTED


@own_answers
def test_two_hosts_that_are_asked_at_once_each_answer_for_themselves(bridged: Bridged, kind: str, of: str) -> None:
    with bridged.start(KINDS[kind], of) as first, bridged.start(KINDS[kind], of) as second:
        asked = [host.question("ask_name", "elicitation/create") for host in (first, second)]
        for host, (_, question), name in zip((second, first), reversed(asked), ("Bob", "Ann"), strict=True):
            host.reply(question, {"action": "accept", "content": {"name": name}})

        for host, (call, _), name in zip((first, second), asked, ("Ann", "Bob"), strict=True):
            assert said(host.wait(call))["content"] == {"name": name}


def test_a_call_that_one_host_gives_up_goes_on_for_the_other(pair: tuple[SdkHost, SdkHost]) -> None:
    first, second = pair
    calls = [host.begin("wait", progressToken="t") for host in pair]
    for host, call in zip(pair, calls, strict=True):
        host.expect("notifications/progress", before=call)
    first.cancel(calls[0])

    assert "error" in first.wait(calls[0])
    assert second.settled() == []
    assert second.early == []
    second.cancel(calls[1])
    second.wait(calls[1])
