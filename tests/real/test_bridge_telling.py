"""What servers tell the SDKs' clients through a bridge: log messages, lists that change, resources that change."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from tests.real.bridges import KINDS, LOG_LEVEL
from tests.real.eras import LISTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.real.bridges import Bridged, SdkHost

MESSAGE = "notifications/message"
UPDATED = "notifications/resources/updated"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
EVERYTHING = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
SAID = (("debug", "a trifle"), ("info", "a detail"), ("error", "a mishap"))
LOUD = [("info", "a detail", "sdk"), ("error", "a mishap", "sdk")]
new_names = (f"new-{number}" for number in count(1))


@pytest.fixture(params=KINDS)
def fresh(bridged: Bridged, server: str, request: pytest.FixtureRequest) -> Iterator[SdkHost]:
    """A host of each kind that has asked for nothing yet."""
    with bridged.start(KINDS[request.param], server) as host:
        yield host


def said(note: dict[str, Any]) -> tuple[str, str, str]:
    params = note["params"]
    return params["level"], params["data"], params["logger"]


def listen(host: SdkHost, wanted: dict[str, Any]) -> int:
    """Have a modern host listen; return the number of the request, once the server has agreed to all of it."""
    number: int = host.send("subscriptions/listen", {"notifications": wanted})
    agreed = host.expect(ACKNOWLEDGED, before=number)["params"]
    assert agreed["notifications"] == wanted
    return number


# -- log messages --------------------------------------------------------------------------------


def test_log_messages_of_the_level_that_the_host_wants_reach_it(bridged: Bridged, fresh: SdkHost, server: str) -> None:
    if fresh.kind.is_modern:
        meta = {LOG_LEVEL: "info"}
    else:
        meta = {}
        fresh.ask("logging/setLevel", {"level": "info"})
        # The answer comes when a server that is told has agreed.
        told = bridged.records[server].heard("logging/setLevel")
        assert [each["params"]["level"] for each in told][-1:] == ([] if server == "modern" else ["info"])
    for level, text in SAID:
        fresh.wait(fresh.begin("say", {"level": level, "text": text}, **meta))

    assert [said(fresh.expect(MESSAGE)) for _ in LOUD] == LOUD
    assert fresh.settled() == []


def test_log_messages_do_not_reach_a_modern_host_that_has_not_asked(bridged: Bridged, server: str) -> None:
    with bridged.start(KINDS["python-modern"], server) as host:
        host.call("say", level="emergency", text="fire")

        assert host.settled() == []


# -- lists that change ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LISTS)
def test_a_list_that_changes_is_told_and_listed_anew(fresh: SdkHost, kind: str) -> None:
    method, key, _ = LISTS[kind]
    name = next(new_names)
    item = {"resources": f"note://{name}", "templates": f"{name}://{{name}}"}.get(kind, name)
    told = f"notifications/{'resources' if kind == 'templates' else kind}/list_changed"
    before = fresh.names(kind, method, key)
    number = listen(fresh, EVERYTHING) if fresh.kind.is_modern else None
    assert fresh.call("change", kind=kind, name=name) == "changed"

    note = fresh.expect(told)
    assert fresh.names(kind, method, key) == [*before, item]
    if number is not None:
        assert SUBSCRIPTION in note["params"]["_meta"]
        fresh.cancel(number)
        fresh.wait(number)
    assert fresh.settled() == []


def test_a_modern_host_that_does_not_listen_hears_of_no_change(bridged: Bridged, server: str) -> None:
    with bridged.start(KINDS["python-modern"], server) as host:
        host.ask("tools/list")
        assert host.call("change", kind="tools", name=next(new_names)) == "changed"
        assert host.call("touch", uri="note://first") == "touched"

        assert host.settled() == []
        assert host.notes == []


# -- resources that change -----------------------------------------------------------------------


def test_a_resource_that_changes_is_told_to_who_has_subscribed(fresh: SdkHost) -> None:
    uri, number = "note://second", 0
    if fresh.kind.is_modern:
        number = listen(fresh, {"resourceSubscriptions": [uri]})
    else:
        assert fresh.ask("resources/subscribe", {"uri": uri}) == {}
    assert fresh.call("touch", uri="note://first") == "touched"
    assert fresh.call("touch", uri=uri) == "touched"

    assert fresh.expect(UPDATED)["params"]["uri"] == uri
    if fresh.kind.is_modern:
        fresh.cancel(number)
        fresh.wait(number)
    else:
        assert fresh.ask("resources/unsubscribe", {"uri": uri}) == {}
    assert fresh.call("touch", uri=uri) == "touched"
    assert fresh.settled() == []
