"""Requests that may stay open as long as their incarnation: they hold up nothing, and go nowhere else."""

from __future__ import annotations

import json

from mcpd.protocol.session import Session
from mcpd.timers import Timers
from mcpd.upstream.channel import Channel
from tests.upstream.fakes import Request, Wire

SESSION = Session("2026-07-28", "modern")


class Lasting(Request):
    lasting = True


def channel() -> tuple[Channel, Wire]:
    wire, channel = Wire(), Channel(Timers(), lambda message: None, 1000)
    channel.attach(wire)
    return channel, wire


async def test_it_is_pending_but_not_in_flight() -> None:
    on, _ = channel()
    lasting, request = Lasting(), Request()
    on.request(lasting, SESSION)
    on.request(request, SESSION)

    assert (on.in_flight, on.holds(lasting)) == (1, True)
    assert on.take_all() == [lasting, request]


async def test_whoever_drains_does_not_wait_for_it() -> None:
    on, _ = channel()
    idle = list[int]()
    for request in (Lasting(), Request()):
        on.request(request, SESSION)
    on.on_idle = lambda: idle.append(on.in_flight)
    on.on_line(json.dumps({"jsonrpc": "2.0", "id": 2, "result": {}}).encode())

    assert idle == [0]


async def test_it_does_not_go_elsewhere_when_it_was_not_written() -> None:
    on, wire = channel()
    wire.stalled = True
    lasting, request = Lasting(), Request()
    on.request(lasting, SESSION)
    on.request(request, SESSION)

    assert on.take_unsent() == [request]
    assert on.holds(lasting)
    wire.unstall()
    assert [one["id"] for one in wire.messages] == [1]


async def test_it_is_given_up_as_any_other() -> None:
    on, wire = channel()
    lasting = Lasting()
    on.request(lasting, SESSION)
    on.give_up(lasting, "no longer needed")

    assert wire.messages[1] == {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": 1, "reason": "no longer needed"},
    }
    assert not on.holds(lasting)
