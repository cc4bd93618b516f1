"""MCP clients that cancel, send much, read nothing or leave: they get what is due to them, nobody else notices."""

from __future__ import annotations

import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.integration.host import (
    ERAS,
    MEBIBYTE,
    Bystander,
    echo,
    enter,
    hello,
    lines,
    of,
    open_session,
    opening,
    request,
    serves,
    slow,
)
from tests.integration.wire import Wire, text_of
from tests.integration.world import until

if TYPE_CHECKING:
    from tests.integration.world import World

pytestmark = pytest.mark.usefixtures("bystander")


# -- cancelling --------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
def test_a_cancel_that_comes_before_its_request_cancels_nothing(host: Wire, era: str) -> None:
    enter(host, era)

    host.notify("notifications/cancelled", of(era, requestId=77))
    host.write(lines(request(77, "tools/call", of(era, **echo("hi")))))

    assert text_of(host.wait(77)["result"]) == "hi"


@pytest.mark.parametrize("era", ERAS)
def test_a_cancel_of_what_there_is_not_is_nothing(host: Wire, era: str) -> None:
    enter(host, era)
    pending = host.send("tools/call", of(era, **slow(0.2)), id="mine")

    for identity in (99, "99", None, {}, [], True, "s1", 1.5, "", "x" * 5000):
        host.notify("notifications/cancelled", {"requestId": identity})
    for params in ({}, None, [], "mine", 7):
        host.notify("notifications/cancelled", params)

    assert text_of(host.wait(pending)["result"]) == "slept 0.2 seconds"


@pytest.mark.parametrize("era", ERAS)
def test_what_is_cancelled_is_not_answered_and_its_id_is_free_again(host: Wire, era: str) -> None:
    enter(host, era)
    host.write(lines(request(5, "tools/call", of(era, **slow(30)))))

    host.notify("notifications/cancelled", of(era, requestId=5))
    host.notify("notifications/cancelled", of(era, requestId=5))
    host.write(lines(request(5, "tools/call", of(era, **echo("again")))))

    assert text_of(host.read()["result"]) == "again"


def test_a_cancel_of_another_client_s_request_does_nothing(host: Wire, shared_world: World) -> None:
    open_session(host)
    host.write(lines(request(5, "tools/call", slow(0.3))))
    with shared_world.connect() as other:
        open_session(hello(other))
        other.notify("notifications/cancelled", {"requestId": 5})
        serves(other)

    assert text_of(host.wait(5)["result"]) == "slept 0.3 seconds"


def test_an_initialize_that_is_cancelled_is_answered_or_forgotten(host: Wire) -> None:
    host.write(lines(request(1, "initialize", opening("2025-11-25"))))
    host.notify("notifications/cancelled", {"requestId": 1})

    identity = host.send("tools/list", id="next")

    assert host.wait(identity)["result"]["tools"]


# -- much, and little --------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
def test_ten_megabytes_of_arguments_go_through_and_come_back(host: Wire, era: str) -> None:
    enter(host, era)
    said = "ü" * (5 * MEBIBYTE)

    assert text_of(host.ask("tools/call", of(era, **echo(said)))) == said
    serves(host, era)


def test_hundreds_of_requests_in_one_write_are_all_served(host: Wire) -> None:
    open_session(host)

    host.write(lines(*(request(number, "tools/call", echo(f"word {number}")) for number in range(250))))

    for number in range(250):
        assert text_of(host.wait(number)["result"]) == f"word {number}"


def test_of_thousands_of_requests_in_one_write_each_is_served_or_told_that_it_was_not(host: Wire) -> None:
    open_session(host)

    host.write(lines(*(request(number, "tools/call", slow(0)) for number in range(6000))))

    answers = [host.wait(number) for number in range(6000)]
    refused = [one["error"]["data"] for one in answers if "error" in one]
    assert {(data["class"], data["may_have_run"]) for data in refused} <= {("overloaded", False)}
    assert all(text_of(one["result"]) == "slept 0 seconds" for one in answers if "result" in one)
    assert len(refused) < 6000
    serves(host)


@pytest.mark.parametrize("era", ERAS)
def test_a_client_that_closes_its_half_gets_what_it_has_asked_for_and_then_the_end(host: Wire, era: str) -> None:
    enter(host, era)
    for number, params in enumerate((slow(0.3), echo("hi"), slow(0.2))):
        host.write(lines(request(number, "tools/call", of(era, **params))))
    host.write(lines(request("list", "tools/list", of(era))))

    host.sock.shutdown(socket.SHUT_WR)

    assert [text_of(host.wait(number)["result"]) for number in range(3)] == ["slept 0.3 seconds", "hi", "slept 0.2 seconds"]
    assert host.wait("list")["result"]["tools"]
    assert host.has_ended()


def test_everything_in_one_write_and_then_the_end_is_answered(host: Wire) -> None:
    host.write(
        lines(
            request(1, "initialize", opening("2025-11-25")),
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            request(2, "tools/list"),
            request(3, "tools/call", echo("hi")),
        )
    )
    host.sock.shutdown(socket.SHUT_WR)

    assert host.wait(1)["result"]["serverInfo"]
    assert host.wait(2)["result"]["tools"]
    assert text_of(host.wait(3)["result"]) == "hi"
    assert host.has_ended()


def test_a_listen_keeps_no_half_closed_connection_open(host: Wire) -> None:
    host.send("subscriptions/listen", of("modern", notifications={"toolsListChanged": True}))
    assert host.read()["method"] == "notifications/subscriptions/acknowledged"
    pending = host.send("tools/call", of("modern", **slow(0.2)))

    host.sock.shutdown(socket.SHUT_WR)

    assert text_of(host.wait(pending)["result"]) == "slept 0.2 seconds"
    with suppress(AssertionError):  # an answer to the listen may come before the end
        host.read()
    assert host.has_ended()


def test_a_client_that_is_to_be_asked_and_has_closed_its_half_is_asked_nothing(host: Wire) -> None:
    host.ask("initialize", {**opening("2025-11-25"), "capabilities": {"elicitation": {}}})
    pending = host.send("tools/call", {"name": "ask", "arguments": {"question": "who?"}})

    host.sock.shutdown(socket.SHUT_WR)

    answer = host.wait(pending)
    assert "error" in answer or answer["result"]["isError"] or text_of(answer["result"])
    assert host.has_ended()


@pytest.mark.parametrize("era", ERAS)
def test_a_client_that_never_reads_is_served_no_more_than_fits_and_nobody_waits_for_it(
    host: Wire, shared_world: World, bystander: Bystander, era: str
) -> None:
    enter(host, era)
    before = until(lambda: shared_world.status()["daemon"])
    host.sock.settimeout(1.0)

    big = lines(request(1, "tools/call", of(era, name="big", arguments={"n": MEBIBYTE})))
    with suppress(TimeoutError):
        for number in range(400):
            host.write(big.replace(b'"id": 1,', b'"id": %d,' % number, 1))
    seen = bystander.served
    until(lambda: bystander.served > seen + 20)

    held = shared_world.status()["daemon"]["rss_bytes"] - before["rss_bytes"]
    assert held < 200 * MEBIBYTE
    host.close()
    until(lambda: shared_world.status()["daemon"]["connections"] <= before["connections"])


def test_clients_that_leave_in_the_middle_of_things_are_forgotten(shared_world: World) -> None:
    before = shared_world.status()["daemon"]["connections"]
    for era in ERAS * 5:
        with shared_world.connect() as rude:
            hello(rude)
            rude.send("initialize", opening("2025-11-25"))
            rude.send("subscriptions/listen", of("modern", notifications={"toolsListChanged": True}))
            for number in range(20):
                rude.send("tools/call", of(era, **slow(30)), id=f"c{number}")

    until(lambda: shared_world.status()["daemon"]["connections"] <= before)
    until(lambda: shared_world.row("demo")["in_flight"] + shared_world.row("demo")["queued"] <= 1)


# -- what is made for one who does not read ----------------------------------------------------------

LARGE = """
import json, sys
tools = [{"name": f"t{number}", "description": "x" * 1000, "inputSchema": {"type": "object"}} for number in range(1000)]
ready = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "large", "version": "1"}}
for line in sys.stdin:
    message = json.loads(line)
    known = {"initialize": ready, "ping": {}, "tools/list": {"tools": tools}}.get(message["method"])
    told = {"error": {"code": -32601, "message": "no"}} if known is None else {"result": known}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **told}), flush=True)
"""


def test_large_lists_that_nobody_reads_are_not_made(world: World) -> None:
    world.configure({"large": {"command": sys.executable, "args": ["-c", LARGE]}})
    with world.connect() as rude, world.connect() as other:
        for wire in (rude, other):
            wire.ask("mcpd/hello", {"version": 1, "server": "large"})
            open_session(wire)
            assert len(wire.ask("tools/list")["tools"]) == 1000
        before = other.ask("mcpd/status")["daemon"]["rss_bytes"]

        rude.write(lines(*(request(f"l{number}", "tools/list") for number in range(500))))
        for _ in range(20):
            assert len(other.ask("tools/list")["tools"]) == 1000

        assert other.ask("mcpd/status")["daemon"]["rss_bytes"] - before < 100 * MEBIBYTE
        for number in range(500):
            answer = rude.wait(f"l{number}")
            assert "result" in answer, answer


def test_of_too_many_listens_some_are_refused_and_cancelling_makes_room(host: Wire) -> None:
    wanted = of("modern", notifications={"toolsListChanged": True})
    listens = [host.send("subscriptions/listen", wanted, id=f"l{number}") for number in range(4097)]

    refused = host.wait(listens[-1])

    assert refused["error"]["data"]["class"] == "overloaded"
    for identity in listens:
        host.notify("notifications/cancelled", {"requestId": identity})
    serves(host, "modern")


def test_a_listen_for_too_many_resources_is_refused(host: Wire) -> None:
    wanted = {"resourceSubscriptions": [f"x:{number}" for number in range(100_000)]}

    assert host.fail("subscriptions/listen", of("modern", notifications=wanted))["code"] == -32602
    serves(host, "modern")
