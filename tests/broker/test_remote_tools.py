"""Tools of remote servers: some must not be used, because their arguments could not be put into headers."""

from __future__ import annotations

import pytest

from mcpd.broker.walking import fetch
from tests.upstream.conftest import Opens, opens, web
from tests.upstream.fakes import DISCOVERED
from tests.upstream.web import Request, Web, initialized

__all__ = ["opens", "web"]  # fixtures of what is below

TOOLS = [
    {"name": name, "inputSchema": {"type": "object", "properties": {"a": {"type": kind, "x-mcp-header": header}}}}
    for name, kind, header in [("good", "string", "A"), ("bad", "string", "not a name"), ("worse", "number", "A")]
]


@pytest.mark.parametrize(("era", "names"), [("modern", ["good"]), ("legacy", ["good", "bad", "worse"])])
async def test_what_must_not_be_used_is_set_aside_and_hurts_no_other(opens: Opens, web: Web, era: str, names: list[str]) -> None:
    async def discover(request: Request) -> None:
        await (request.result(DISCOVERED) if era == "modern" else request.answer(400))

    async def tools(request: Request) -> None:
        await request.result({"tools": TOOLS})

    web.reactions.update({"server/discover": discover, "initialize": initialized(), "tools/list": tools})
    slot = (await opens()).slot()
    found = await fetch(slot, "tools", await slot.ready())
    await slot.stop()

    assert [name for name, _ in found.whole] == names
    assert [what.partition(": the ")[0] for what in found.set_aside] == [
        f"item {number}: tool '{name}' must not be used over HTTP"
        for number, name in ((2, "bad"), (3, "worse")) if name not in names
    ]  # fmt: skip
