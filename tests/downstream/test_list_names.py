"""The list methods: what an item is known by, and one whole descriptor of it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from mcpd.broker.catalog import KINDS, Listing
from mcpd.downstream.lists import ListParams, Lists
from mcpd.errors import BadRequest, UnknownTool
from mcpd.protocol.paging import Walk

OFFERED = {
    "tools": [{"name": "t"}, {"name": "u"}],
    "prompts": [{"name": "p"}],
    "resources": [
        {"name": "same", "uri": "file:///a", "big": "y" * 70_000},
        {"name": "same", "uri": "file:///b", "server": "liar", "n": 1.0},
    ],
    "templates": [{"name": "same", "uriTemplate": "file:///{x}"}, {"name": "same", "uriTemplate": "file:///{+x}"}],
}


class Shelf:
    """A catalog that has walked through all that is offered."""

    async def listing(self, kind: str, *, fresh: bool = False) -> tuple[Listing, bool]:
        member = KINDS[kind][1]
        walk = Walk(member, 100, 1)
        walk.accept(json.dumps({member: OFFERED[kind]}).encode())
        return Listing(items=walk.items, revision=1), False


PLACE = SimpleNamespace(server=SimpleNamespace(name="files"), catalog=Shelf())


class OneServer:
    """A broker with one server."""

    upstreams = places = {"files": PLACE}  # noqa: RUF012
    audience = SimpleNamespace(listed=lambda guest, server, kind: None)

    async def at(self, name: str, guest: Any, work: Any) -> Any:
        return await work(self.places[name])


async def page(kind: str, **params: Any) -> Any:
    lists = Lists(OneServer())  # type: ignore[arg-type]
    nobody: Any = None
    return json.loads(msgspec.json.encode(await lists.page(kind, ListParams(**params), nobody)))


@pytest.mark.parametrize(
    ("kind", "name", "number"),
    [
        ("tools", "u", 1),
        ("prompts", "p", 0),
        ("resources", "file:///a", 0),
        ("resources", "file:///b", 1),
        ("templates", "file:///{+x}", 1),
    ],
)
async def test_one_whole_descriptor_is_had_by_what_tells_items_apart(kind: str, name: str, number: int) -> None:
    found = await page(kind, server="files", name=name)

    assert found["items"] == [{**OFFERED[kind][number], "server": "files"}]
    assert (found["total"], found["truncated"]) == (1, False)


async def test_a_page_says_how_to_ask_for_what_was_too_long_for_it() -> None:
    found = await page("resources", server="files")

    short = found["items"][0]
    assert short == {"server": "files", "name": "same", "uri": "file:///a", "descriptorOmitted": True}
    assert (await page("resources", server="files", name=short["uri"]))["items"][0]["big"] == "y" * 70_000


async def test_what_several_items_are_called_names_none_of_them() -> None:
    with pytest.raises(UnknownTool, match="server 'files' has no resource 'same'"):
        await page("resources", server="files", name="same")


async def test_a_near_name_is_suggested() -> None:
    with pytest.raises(UnknownTool) as caught:
        await page("templates", server="files", name="file:///{y}")

    assert "file:///{x}" in (caught.value.hint or "")


async def test_a_name_without_its_server_is_refused() -> None:
    with pytest.raises(BadRequest, match="mcpd/resources: name needs a server, too"):
        await page("resources", name="file:///a")
