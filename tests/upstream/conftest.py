from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import trio

from tests.upstream.web import Far, Keys, Web

Opens = Callable[..., Awaitable[Far]]


@pytest.fixture
async def web(nursery: trio.Nursery) -> Web:
    """A server that listens."""
    server = Web()
    await nursery.start(server.run)
    return server


@pytest.fixture
async def opens(web: Web, nursery: trio.Nursery) -> AsyncIterator[Opens]:
    """Open transports to it, which are ended afterwards."""
    all_of_them = []

    async def open_one(*keys: Any, **settings: Any) -> Far:
        far = Far(web, nursery, Keys(*keys), **settings)
        await far.open()
        all_of_them.append(far)
        return far

    yield open_one
    for far in all_of_them:
        await far.transport.end(0, 0)


@pytest.fixture
async def far(opens: Opens) -> Far:
    """One transport to it."""
    return await opens()
