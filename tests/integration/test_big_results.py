"""A result that is too big for a context: a view of it, and the rest for whoever wants it."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

import pytest

from tests.integration.wire import text_of

if TYPE_CHECKING:
    from tests.integration.wire import Wire
    from tests.integration.world import World

VIEW_BYTES = 32 * 1024
SIZE = 5_000_000
# Characters of one to four bytes, so that a cut at a fixed number of bytes would split some.
TEXT = "aé€😀" * 8000


def big(size: int) -> str:
    """What the demo server's tool `big` gives."""
    return "\n".join(f"{number:010d} ".ljust(63, ".") for number in range(size // 64 + 1))[:size]


def handle_in(note: str) -> tuple[str, int]:
    """The command that a note on stderr proposes: its handle and its offset."""
    found = re.fullmatch(r"shown (\d+) of (\d+) bytes; the next part: mcpd fetch (\w+) --offset (\d+)\n", note)
    assert found, note
    return found[3], int(found[4])


def test_the_command_line_shows_a_view_and_fetches_the_rest_byte_for_byte(shared_world: World) -> None:
    first = shared_world.run("call", "demo", "big", f"n:={SIZE}")
    assert len(first.out.encode()) == VIEW_BYTES
    handle, offset = handle_in(first.err)
    parts = [first.out]

    while offset < SIZE:
        done = shared_world.run("fetch", handle, "--offset", str(offset), "--max-bytes", "1500000")
        assert done.status == 0
        parts.append(done.out)
        offset += len(done.out.encode())

    assert done.err == "that was the end\n"
    assert len(parts) == 5
    assert "".join(parts) == big(SIZE)


def test_fetch_goes_on_where_its_reader_is(shared_world: World) -> None:
    first = shared_world.run("call", "demo", "big", f"n:={SIZE}")
    handle, _ = handle_in(first.err)

    second = shared_world.run("fetch", handle, "--max-bytes", "1000")
    third = shared_world.run("fetch", handle, "--max-bytes", str(SIZE))
    after = shared_world.run("fetch", handle)

    assert first.out + second.out + third.out == big(SIZE)
    assert (after.status, after.out) == (0, "")
    assert after.err.startswith("that was all of it")


def test_fetch_all_from_the_beginning_prints_everything(shared_world: World) -> None:
    handle, _ = handle_in(shared_world.run("call", "demo", "big", f"n:={SIZE}").err)

    shared_world.run("fetch", handle)
    done = shared_world.run("fetch", handle, "--all")

    assert (done.status, done.err) == (0, "")
    assert done.out == big(SIZE)


def test_the_socket_hands_out_pages_that_add_up(wire: Wire) -> None:
    result = wire.ask("mcpd/call", {"server": "demo", "tool": "big", "arguments": {"n": SIZE}})
    view = result["_meta"]["mcpd/view"]
    assert (view["bytes"], view["shown"], view["truncated"], view["nextOffset"]) == (SIZE, VIEW_BYTES, True, VIEW_BYTES)
    parts = [text_of(result)]

    while (offset := result["_meta"]["mcpd/view"].get("nextOffset")) is not None:
        result = wire.ask("mcpd/fetch", {"handle": view["handle"], "offset": offset})
        parts.append(text_of(result))

    assert {len(part) for part in parts[:-1]} == {VIEW_BYTES}
    assert "".join(parts) == big(SIZE)


@pytest.mark.parametrize("page_bytes", [1000, 1001, 32768])
def test_a_page_never_ends_inside_a_character(wire: Wire, page_bytes: int) -> None:
    params = {"server": "demo", "tool": "echo", "arguments": {"text": TEXT}, "max_bytes": page_bytes}
    result = wire.ask("mcpd/call", params)
    handle, parts = result["_meta"]["mcpd/view"]["handle"], [text_of(result)]

    while (offset := result["_meta"]["mcpd/view"].get("nextOffset")) is not None:
        result = wire.ask("mcpd/fetch", {"handle": handle, "offset": offset, "max_bytes": page_bytes})
        parts.append(text_of(result))

    assert max(len(part.encode()) for part in parts) <= page_bytes
    assert "".join(parts) == TEXT


def test_what_fits_is_shown_whole_and_keeps_nothing(wire: Wire) -> None:
    result = wire.ask("mcpd/call", {"server": "demo", "tool": "big", "arguments": {"n": 30_000}})

    view = result["_meta"]["mcpd/view"]
    assert text_of(result) == big(30_000)
    assert not view["truncated"]
    assert "handle" not in view


def test_a_handle_outlives_the_connection_that_got_it(shared_world: World, wire: Wire) -> None:
    with shared_world.connect() as other:
        result = other.ask("mcpd/call", {"server": "demo", "tool": "big", "arguments": {"n": SIZE}})

    page = wire.ask("mcpd/fetch", {"handle": result["_meta"]["mcpd/view"]["handle"], "offset": SIZE - 10})

    assert text_of(page) == big(SIZE)[-10:]


def test_a_handle_that_is_not_kept_is_an_error_of_its_own(shared_world: World) -> None:
    done = shared_world.run("fetch", "r0000", "--json")

    assert (done.status, done.out, done.error["code"], done.error["class"]) == (4, "", 32, "handle_expired")


def test_an_offset_outside_of_the_result_names_what_it_has(wire: Wire) -> None:
    result = wire.ask("mcpd/call", {"server": "demo", "tool": "big", "arguments": {"n": 100_000}})

    error = wire.fail("mcpd/fetch", {"handle": result["_meta"]["mcpd/view"]["handle"], "offset": 100_001})

    assert (error["code"], error["data"]["class"]) == (4, "invalid_page")
    assert "100000" in error["message"]


def test_a_picture_is_shown_whole_or_not_at_all(wire: Wire) -> None:
    result = wire.ask("mcpd/call", {"server": "demo", "tool": "image", "max_bytes": 10})

    view = result["_meta"]["mcpd/view"]
    assert (view["truncated"], view["shown"]) == (True, 0)
    assert f"max_bytes {view['bytes']}" in text_of(result)
    whole = wire.ask("mcpd/fetch", {"handle": view["handle"], "offset": 0, "max_bytes": view["bytes"]})
    (picture,) = whole["content"]
    assert picture["mimeType"] == "image/png"
    assert base64.b64decode(picture["data"]).startswith(b"\x89PNG")
