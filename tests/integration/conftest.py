from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.host import Bystander, hello, open_session
from tests.integration.world import World, open_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.wire import Wire


@pytest.fixture
def world() -> Iterator[World]:
    """A world of its own; when it ends, no process of it may be left."""
    yield from open_world()


@pytest.fixture(scope="module")
def shared_world() -> Iterator[World]:
    """One world for tests that only talk to its demo server."""
    yield from open_world()


@pytest.fixture
def wire(shared_world: World) -> Iterator[Wire]:
    """A connection of its own to the shared daemon."""
    with shared_world.connect() as connection:
        yield connection


@pytest.fixture
def neighbour(shared_world: World) -> Iterator[Wire]:
    """A second, well-behaved client of the shared daemon; it is served before and after."""
    with shared_world.connect() as connection:
        assert connection.text("echo", {"text": "before"}) == "before"
        yield connection
        assert connection.text("echo", {"text": "after"}) == "after"


@pytest.fixture
def bystander(shared_world: World) -> Iterator[Bystander]:
    """Somebody else, who notices nothing of all this."""
    with shared_world.connect() as connection:
        open_session(hello(connection))
        other = Bystander(connection)
        try:
            yield other
        finally:
            other.leave()
        assert connection.ask("mcpd/status")["daemon"]["counters"].get("crashes", 0) == 0
        assert connection.row()["incarnation"] == 1


@pytest.fixture
def host(wire: Wire) -> Wire:
    """A client that is shown one server and has not said anything of MCP yet."""
    return hello(wire)
