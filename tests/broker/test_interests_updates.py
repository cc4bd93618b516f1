"""What a legacy server says of its resources: it reaches those who have subscribed, as it came."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.broker.ears import Ear, Ears, legacy
from tests.upstream.fakes import World


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    return World(nursery)


async def test_an_update_reaches_the_subscribers_of_exactly_that_uri_once_each(
    world: World, autojump_clock: MockClock
) -> None:
    ears, a, b, c = Ears(world, legacy()), Ear("a"), Ear("b"), Ear("c")
    await ears.subscribe(a, "x:1")
    await ears.subscribe(b, "x:1", "x:2")
    await ears.subscribe(c, "x:2")
    ears.updated("x:1")

    assert (a.uris, b.uris, c.uris) == (["x:1"], ["x:1"], [])


async def test_an_update_names_its_server_and_keeps_all_else_bit_by_bit(
    world: World, autojump_clock: MockClock
) -> None:
    ears, a = Ears(world, legacy()), Ear("a")
    await ears.subscribe(a, "x:1")
    head = b'{"jsonrpc":"2.0","method":"notifications/resources/updated","params":'
    ears.server.say_line(head + b'{"uri":"x:1","n":12345678901234567890,"f":1.0,"\\u0065":""}}')
    ears.server.say_line(head + b'{"uri":"x:1","_meta":{"v":1.00,"mcpd/server":"forged"}}}')

    assert a.bodies[0] == (
        b'{"uri":"x:1","n":12345678901234567890,"f":1.0,"\\u0065":"","_meta":{"mcpd/server":"fake"}}'
    )
    assert a.bodies[1] == b'{"uri":"x:1","_meta":{"v":1.00,"mcpd/server":"fake"}}'


async def test_an_update_that_nobody_wants_is_counted_and_dropped(world: World, autojump_clock: MockClock) -> None:
    ears, a = Ears(world, legacy()), Ear("a")
    await ears.subscribe(a, "x:1")
    ears.updated("x:2")
    ears.notify("resources/updated")
    ears.server.say({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": [1]})
    ears.server.say({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": 3}})
    ears.notify("resources/updated", uri="x:1", _meta=7)

    assert a.heard == []
    assert ears.dropped == {"unwanted_update": 3, "malformed_notification": 2}


async def test_a_storm_of_updates_is_passed_on_as_it_comes_and_nothing_of_it_is_kept(
    world: World, autojump_clock: MockClock
) -> None:
    ears, a = Ears(world, legacy()), Ear("a")
    await ears.subscribe(a, "x:1")
    timers, sent = len(world.timers), len(ears.server.written)
    for number in range(2000):
        ears.updated("x:1")
        ears.updated(f"x:other{number}")
        assert len(a.uris) == number + 1

    assert (len(world.timers), len(ears.server.written)) == (timers, sent)
    assert ears.dropped == {"unwanted_update": 2000}


async def test_a_client_may_leave_while_it_is_told(world: World, autojump_clock: MockClock) -> None:
    ears = Ears(world, legacy())

    class Leaver(Ear):
        def notified(self, method: str, params: bytes) -> None:
            super().notified(method, params)
            ears.interests.forget(self.key)

    a, b = Leaver("a"), Ear("b")
    await ears.subscribe(a, "x:1")
    await ears.subscribe(b, "x:1")
    ears.updated("x:1")
    ears.updated("x:1")

    assert (a.uris, b.uris) == (["x:1"], ["x:1", "x:1"])
