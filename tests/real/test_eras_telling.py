"""What client and server tell each other, in every revision; `matrix.py` says which test shows which method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.wire import text_of
from tests.integration.world import until
from tests.real.eras import LISTS, MODERN
from tests.real.matrix import servers, servers_of

if TYPE_CHECKING:
    from tests.real.eras import Eras, Record

LOG_LEVEL = "io.modelcontextprotocol/logLevel"
UPDATED = "notifications/resources/updated"
MESSAGE = "notifications/message"
CANCELLED = "notifications/cancelled"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


# -- about one request ---------------------------------------------------------------------------


@pytest.mark.parametrize("token", ["a token", 987_654_321])
@servers_of("notifications/progress s>c")
def test_progress_of_a_call_reaches_the_client_that_called(eras: Eras, server: str, token: object) -> None:
    with eras.host() as host, eras.host() as other:
        call = host.send_call("count", {"steps": 3}, server=server, _meta={"progressToken": token})
        assert text_of(host.wait(call)["result"]) == "counted"
        told = host.seen("notifications/progress")
        assert other.seen("notifications/progress") == []

    assert [(each["progress"], each["total"], each["message"]) for each in told] == [
        (step, 3, f"step {step}") for step in (1, 2, 3)
    ]
    assert [each["progressToken"] for each in told] == [token] * 3
    assert eras.records[server].calls("count")[-1]["params"]["_meta"]["progressToken"] != token


@pytest.mark.parametrize("way", ["says so", "leaves"])
@servers_of("notifications/cancelled c>s")
def test_cancelled_by_the_client_reaches_the_server(eras: Eras, server: str, way: str) -> None:
    record = eras.records[server]
    with eras.host() as host, eras.host() as other:
        call = host.send_call("wait", server=server, _meta={"progressToken": "begun"})
        host.expect("notifications/progress")
        if way == "leaves":
            host.close()
        else:
            host.notify(CANCELLED, {"requestId": call, "reason": "enough"})

        number = record.calls("wait")[-1]["id"]
        until(lambda: [each for each in record.heard(CANCELLED) if each["params"]["requestId"] == number])
        assert other.call(server, "echo", text="after") == "after"


# -- log messages --------------------------------------------------------------------------------


def levels(record: Record) -> list[str]:
    """Return the log levels that the server was told, the last one last."""
    return [each["params"]["level"] for each in record.heard("logging/setLevel")]


@servers_of("notifications/message s>c")
def test_message_reaches_the_client_that_wants_its_level(eras: Eras, server: str) -> None:
    with eras.host() as talkative, eras.host() as quiet:
        assert talkative.ask("mcpd/log_level", {"level": "info", "server": server}) == {}
        assert quiet.call(server, "echo", text="used") == "used"
        assert quiet.ask("mcpd/log_level", {"level": "error"}) == {}
        until(lambda: server == "modern" or levels(eras.records[server])[-1:] == ["info"])
        for level, text in (("debug", "a trifle"), ("info", "a detail"), ("error", "a mishap")):
            talkative.call(server, "say", level=level, text=text)
        told = talkative.seen(MESSAGE)
        overheard = [each["data"] for each in quiet.seen(MESSAGE)]

    assert [(each["level"], each["data"]) for each in told] == [("info", "a detail"), ("error", "a mishap")]
    assert [(each["logger"], each["_meta"]["mcpd/server"]) for each in told] == [("sdk", server)] * 2
    # In the modern revision a message belongs to a request, and so to one client.
    assert overheard == ([] if server == "modern" else ["a mishap"])


@servers_of("notifications/message s>c")
def test_message_goes_to_nobody_who_has_not_asked(eras: Eras, server: str) -> None:
    with eras.host() as host:
        assert host.call(server, "say", level="emergency", text="fire") == "said"
        assert host.seen(MESSAGE) == []

    assert LOG_LEVEL not in eras.records[server].calls("say")[-1]["params"].get("_meta", {})


@servers_of("logging/setLevel c>s")
def test_logging_set_level_is_the_most_talkative_that_a_client_wants(eras: Eras, server: str) -> None:
    with eras.host() as one, eras.host() as two:
        for host, wanted, together in (
            (one, "error", "error"),
            (two, "debug", "debug"),
            (one, "critical", "debug"),
            (two, "alert", "critical"),
        ):
            assert host.ask("mcpd/log_level", {"level": wanted, "server": server}) == {}
            assert host.call(server, "echo", text="after") == "after"
            until(lambda together=together: levels(eras.records[server])[-1] == together)


@servers((MODERN,))
def test_message_is_wanted_request_by_request_in_a_modern_revision(eras: Eras, server: str) -> None:
    with eras.host() as host:
        host.ask("mcpd/log_level", {"level": "notice", "server": server})
        assert host.call(server, "echo", text="with") == "with"

    assert eras.records[server].calls("echo")[-1]["params"]["_meta"][LOG_LEVEL] == "notice"


# -- lists that change ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LISTS)
@servers_of("notifications/tools/list_changed s>c")
def test_list_changed_is_told_once_to_all_who_asked_for_the_list(eras: Eras, server: str, kind: str) -> None:
    key, name = LISTS[kind][1], f"new-{kind}"
    item = {"resources": f"note://{name}", "templates": f"{name}://{{name}}"}.get(kind, name)
    # Templates have no notification of their own.
    method = f"notifications/{'resources' if kind == 'templates' else kind}/list_changed"
    params = {"server": server, "limit": 100}
    with eras.host() as host, eras.host() as other, eras.host() as indifferent:
        before = host.ask(f"mcpd/{kind}", params)
        other.ask(f"mcpd/{kind}")
        assert host.call(server, "change", kind=kind, name=name) == "changed"
        told = host.expect(method)["params"]["_meta"]
        assert other.expect(method)["params"]["_meta"] == told
        after = host.ask(f"mcpd/{kind}", params)

        assert [*host.seen(method), *other.seen(method), *indifferent.seen(method)] == []
    assert told["mcpd/server"] == server
    assert after["revision"] > before["revision"]
    assert kind == "templates" or told["mcpd/revision"] == after["revision"]
    assert [each[key] for each in after["items"]] == [*(each[key] for each in before["items"]), item]


# -- resources that change -----------------------------------------------------------------------


@servers_of("notifications/resources/updated s>c")
def test_resources_updated_reaches_who_has_subscribed(eras: Eras, server: str) -> None:
    about = {"server": server, "uri": "note://first"}
    with eras.host() as host, eras.host() as other, eras.host() as indifferent:
        assert host.ask("mcpd/subscribe", about) == {}
        assert other.ask("mcpd/subscribe", about) == {}
        indifferent.call(server, "touch", uri="note://first")
        for each in (host, other):
            assert each.expect(UPDATED)["params"] == {"uri": "note://first", "_meta": {"mcpd/server": server}}

        assert host.ask("mcpd/unsubscribe", about) == {}
        indifferent.call(server, "touch", uri="note://first")
        assert other.expect(UPDATED)["params"]["uri"] == "note://first"
        assert [*host.seen(UPDATED), *other.seen(UPDATED), *indifferent.seen(UPDATED)] == []


@servers_of("resources/subscribe c>s")
def test_resources_subscribe_and_unsubscribe_are_sent_for_the_first_and_the_last(eras: Eras, server: str) -> None:
    about = {"server": server, "uri": "note://second"}

    def heard(method: str) -> int:
        requests = eras.records[server].heard(f"resources/{method}")
        return len([each for each in requests if each["params"]["uri"] == about["uri"]])

    before, ended = heard("subscribe"), heard("unsubscribe")
    with eras.host() as first, eras.host() as last:
        for host in (first, last, last):
            assert host.ask("mcpd/subscribe", about) == {}
            assert host.call(server, "echo", text="after") == "after"
            assert heard("subscribe") == before + 1
        assert first.ask("mcpd/unsubscribe", about) == {}
        assert first.call(server, "echo", text="after") == "after"
        assert heard("unsubscribe") == ended
    until(lambda: heard("unsubscribe") == ended + 1)


def listening(record: Record) -> list[dict[str, Any]]:
    """Return what the server was asked to tell, of all that was not ended."""
    ended = [each["params"]["requestId"] for each in record.heard(CANCELLED)]
    open_ones = [each for each in record.heard("subscriptions/listen") if each["id"] not in ended]
    return [each["params"]["notifications"] for each in open_ones]


@servers_of("subscriptions/listen c>s")
def test_subscriptions_listen_names_what_somebody_wants_to_know(eras: Eras, server: str) -> None:
    about = {"server": server, "uri": "note://listened"}

    def named() -> int:
        return len(
            [each for each in listening(eras.records[server]) if about["uri"] in each.get("resourceSubscriptions", [])]
        )

    with eras.host() as host, eras.host() as other:
        for each in (host, other):
            each.ask("mcpd/tools", {"server": server})
            assert each.ask("mcpd/subscribe", about) == {}
        until(lambda: any(each.get("toolsListChanged") for each in listening(eras.records[server])))
        until(lambda: named() == 1)
        assert host.ask("mcpd/unsubscribe", about) == {}
        assert host.call(server, "echo", text="after") == "after"
        assert named() == 1
        assert other.ask("mcpd/unsubscribe", about) == {}
        until(lambda: named() == 0)


@servers_of("notifications/subscriptions/acknowledged s>c")
def test_subscriptions_acknowledged_ends_at_the_daemon(eras: Eras, server: str) -> None:
    with eras.host() as host:
        host.ask("mcpd/subscribe", {"server": server, "uri": "note://second"})
        host.call(server, "touch", uri="note://second")
        host.expect(UPDATED)
        assert host.seen(ACKNOWLEDGED) == []

    assert eras.records[server].said(ACKNOWLEDGED) != []
