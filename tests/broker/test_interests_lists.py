"""Who is told that a list has changed: the catalog by the server, and clients by the catalog."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from mcpd.protocol.jsonrpc import Message
from tests.broker.ears import Ear, Ears, legacy
from tests.upstream.fakes import World


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    return World(nursery)


async def test_the_catalog_is_told_what_a_legacy_server_has_changed_declared_or_not(
    world: World, autojump_clock: MockClock
) -> None:
    ears = Ears(world, legacy({"tools": {"listChanged": True}}))
    await ears.slot.start()
    for kind in ("tools", "prompts", "resources"):
        ears.notify(f"{kind}/list_changed")

    assert ears.lists == ["tools", "prompts", "resources"]
    assert [ears.interests.hears_changes(kind) for kind in ("tools", "prompts", "templates")] == [True, False, False]


async def test_who_has_asked_for_a_list_is_told_once_of_each_new_one(world: World, autojump_clock: MockClock) -> None:
    ears, a, b, c = Ears(world, legacy()), Ear("a"), Ear("b"), Ear("c")
    ears.audience.listed(a, "fake", "tools")  # type: ignore[arg-type]  # it only hears
    ears.audience.listed(a, "fake", "tools")  # type: ignore[arg-type]  # it only hears
    ears.audience.listed(b, "fake", "tools")  # type: ignore[arg-type]  # it only hears
    ears.audience.listed(c, "fake", "prompts")  # type: ignore[arg-type]  # it only hears
    ears.interests.changed("tools", 7)
    ears.audience.forget("b")
    ears.interests.changed("tools", 8)

    told = [
        ("notifications/tools/list_changed", {"_meta": {"mcpd/server": "fake", "mcpd/revision": revision}})
        for revision in (7, 8)
    ]
    assert (a.heard, b.heard, c.heard) == (told, told[:1], [])


async def test_resources_and_templates_that_change_together_are_one_notification(
    world: World, autojump_clock: MockClock
) -> None:
    ears, a, b = Ears(world, legacy()), Ear("a"), Ear("b")
    ears.audience.listed(a, "fake", "resources")  # type: ignore[arg-type]  # it only hears
    ears.audience.listed(b, "fake", "templates")  # type: ignore[arg-type]  # it only hears
    ears.interests.changed("resources", 3)
    ears.interests.changed("templates", 4)
    await trio.sleep(1)
    ears.interests.changed("templates", 4)
    await trio.sleep(1)

    told = [("notifications/resources/list_changed", {"_meta": {"mcpd/server": "fake", "mcpd/revision": 4}})]
    assert (a.heard, b.heard) == (told, told)


async def test_what_is_of_no_interest_here_is_left_to_others(world: World, autojump_clock: MockClock) -> None:
    ears = Ears(world, legacy())
    await ears.slot.start()

    assert not ears.interests.on_notification(Message(method="notifications/elicitation/complete"))
    assert not ears.interests.on_notification(Message(method="notifications/cancelled"))
    assert not ears.interests.on_notification(Message(method=None))
    assert ears.dropped == {}
