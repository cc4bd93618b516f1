"""The daemon is killed under the SDKs' clients: their bridges find the next one, and they go on as if nothing were."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.wire import text_of
from tests.integration.world import until
from tests.real.bridges import KINDS, SdkHost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.real.bridges import Bridged

PAIRS = {
    "legacy hosts": ("python-legacy", "typescript-first"),
    "modern hosts": ("python-modern", "typescript-modern"),
}
UPDATED = "notifications/resources/updated"


@pytest.fixture(params=PAIRS)
def two(bridged: Bridged, request: pytest.FixtureRequest) -> Iterator[tuple[SdkHost, SdkHost]]:
    """Two hosts that have worked with the modern server."""
    first, second = (KINDS[name] for name in PAIRS[request.param])
    with bridged.start(first, "modern") as one, bridged.start(second, "modern") as other:
        for host in (one, other):
            assert host.call("echo", text="before") == "before"
        yield one, other


def kill(bridged: Bridged) -> None:
    """Kill the daemon, and wait until it is gone."""
    (daemon,) = bridged.world.daemons()
    os.kill(daemon, signal.SIGKILL)
    until(lambda: daemon not in bridged.world.daemons())


def call_until_answered(host: SdkHost) -> list[dict[str, Any]]:
    """Call until there is a result; return the errors before it."""
    errors: list[dict[str, Any]] = []
    while "result" not in (answer := host.wait(host.begin("echo", {"text": "after"}))):
        errors.append(answer["error"])
    assert text_of(answer["result"]) == "after"
    return errors


@pytest.mark.parametrize("kinds", PAIRS.values(), ids=PAIRS)
def test_both_hosts_are_answered_soon_after_one_error_at_most(bridged: Bridged, kinds: tuple[str, str]) -> None:
    one, other = (bridged.start(KINDS[kind], "demo") for kind in kinds)
    with one, other:
        for host in (one, other):
            assert host.call("echo", text="before") == "before"
        begin = time.monotonic()
        kill(bridged)
        errors = [call_until_answered(host) for host in (one, other)]
        print(f"both hosts were answered within {time.monotonic() - begin:.2f} s, after {errors}")

    assert [each for each in errors if len(each) > 1] == []
    assert len(bridged.world.daemons()) == 1


def test_all_is_there_again_with_the_next_daemon(bridged: Bridged, two: tuple[SdkHost, SdkHost]) -> None:
    kill(bridged)
    for host in two:
        call_until_answered(host)
        assert host.names("tools", "tools/list", "name")[0] == "echo"
        assert host.ask("resources/read", {"uri": "note://first"})["contents"][0]["text"] == "the first note"


def test_a_call_in_flight_is_an_error_that_says_so_and_is_sent_once(
    bridged: Bridged, two: tuple[SdkHost, SdkHost]
) -> None:
    record = bridged.records["modern"]
    begun = len(record.calls("wait"))
    calls = [host.begin("wait", progressToken="t") for host in two]
    for host, call in zip(two, calls, strict=True):
        host.expect("notifications/progress", before=call)
    kill(bridged)

    for host, call in zip(two, calls, strict=True):
        error = host.wait(call)["error"]
        assert error["code"] == 11
        assert (error["data"]["class"], error["data"]["may_have_run"]) == ("server_lost", True)
        assert call_until_answered(host) == []
    assert len(record.calls("wait")) == begun + len(calls)


def test_what_the_hosts_want_to_hear_is_told_by_the_next_daemon(bridged: Bridged, two: tuple[SdkHost, SdkHost]) -> None:
    uri = "note://second"
    for host in two:
        if host.kind.is_modern:
            listen = host.send("subscriptions/listen", {"notifications": {"resourceSubscriptions": [uri]}})
            host.expect("notifications/subscriptions/acknowledged", before=listen)
        else:
            host.ask("resources/subscribe", {"uri": uri})
    kill(bridged)
    # Only who needs a daemon starts one; the other one's bridge waits for it.
    call_until_answered(two[0])

    # Nobody knows what has happened in between.
    for host in two:
        assert host.expect(UPDATED)["params"]["uri"] == uri
    assert two[0].call("touch", uri=uri) == "touched"
    for host in two:
        assert host.expect(UPDATED)["params"]["uri"] == uri


def test_no_number_of_a_question_comes_twice(bridged: Bridged) -> None:
    with bridged.start(KINDS["typescript-first"], "modern") as host:
        for name in ("Ann", "Bob"):
            call, question = host.question("ask_name", "elicitation/create")
            host.reply(question, {"action": "accept", "content": {"name": name}})
            assert name in text_of(host.wait(call)["result"])
            if name == "Ann":
                kill(bridged)
                call_until_answered(host)
