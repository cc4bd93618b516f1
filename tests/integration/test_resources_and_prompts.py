"""All that a server offers is reached through the socket, whichever era it speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.chatty import ERAS, entry, received
from tests.integration.wire import text_of

if TYPE_CHECKING:
    from tests.integration.world import World

VIEW = "mcpd/view"


@pytest.mark.parametrize("era", ERAS)
def test_one_server_is_called_read_prompted_and_completed(world: World, era: str) -> None:
    world.configure({"s": entry(world, era)})
    with world.connect() as wire:
        about = {"server": "s"}
        (template,) = wire.ask("mcpd/templates", about)["items"]
        uris = ["chatty://note/3", template["uriTemplate"].replace("{text}", "hi")]

        called = text_of(wire.ask("mcpd/call", {**about, "tool": "echo", "arguments": {"text": "x"}}))
        read = [wire.ask("mcpd/read", {**about, "uri": uri})["contents"] for uri in uris]
        prompted = wire.ask("mcpd/prompt", {**about, "name": "greet", "arguments": {"name": "Ann", "tone": "Hi"}})
        asked = {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": "A"}}
        completed = wire.ask("mcpd/complete", {**about, **asked})

        assert called == "x"
        texts = zip(uris, ("3", "hi"), strict=True)
        assert read == [[{"uri": uri, "mimeType": "text/plain", "text": text}] for uri, text in texts]
        assert prompted["messages"] == [{"role": "user", "content": {"type": "text", "text": "Hi Ann"}}]
        assert completed["completion"] == {"values": ["A-one", "A-two"], "total": 2, "hasMore": False}


@pytest.mark.parametrize("era", ERAS)
def test_what_is_read_and_prompted_is_cut_and_the_rest_can_be_fetched(world: World, era: str) -> None:
    world.configure({"s": entry(world, era)})
    long = "".join(f"{number} " for number in range(20_000))
    requests = {
        "mcpd/read": {"uri": f"chatty://echo/{long}"},
        "mcpd/prompt": {"name": "greet", "arguments": {"name": long}},
    }
    with world.connect() as wire:
        for method, params in requests.items():
            result = wire.ask(method, {"server": "s", **params})
            view, found = result["_meta"][VIEW], ""
            assert view["shown"] <= 32_768 < view["bytes"]
            while True:
                for part in result.get("contents") or [one["content"] for one in result["messages"]]:
                    found += part.get("text", "")
                if view.get("nextOffset") is None:
                    break
                result = wire.ask("mcpd/fetch", {"handle": view["handle"], "offset": view["nextOffset"]})
                view = view | {"nextOffset": None} | result["_meta"][VIEW]

            assert found == (long if method == "mcpd/read" else f"Hello {long}")


def test_what_makes_no_sense_to_any_server_is_refused_unsent(world: World) -> None:
    world.configure({"s": entry(world, "legacy")})
    with world.connect() as wire:
        for method, params in (
            ("mcpd/read", {}),
            ("mcpd/read", {"uri": 7}),
            ("mcpd/prompt", {"name": "greet", "arguments": {"name": 7}}),
            ("mcpd/prompt", {"name": "greet", "arguments": ["Ann"]}),
            ("mcpd/complete", {"ref": {}}),
        ):
            error = wire.fail(method, {"server": "s", **params})
            assert (error["code"], error["data"]["class"]) == (3, "bad_request"), method

    assert received(world) == []
