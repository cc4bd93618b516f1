"""Pins of definitions: what counts as another one, and what outlives the daemon."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import Raw

from mcpd.broker import pins
from mcpd.broker.pins import Pins, definition_of, difference, digest_of, key_of
from mcpd.config.model import Server

if TYPE_CHECKING:
    from pathlib import Path

TOOL = {"name": "t", "description": "d", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}


def raw(**members: Any) -> Raw:
    return Raw(json.dumps(TOOL | members).encode())


def entry(**settings: Any) -> Server:
    return Server(name="fake", **{"command": "serve", **settings})


KEY = key_of(entry(), None, "t")


def test_another_order_or_another_icon_makes_no_other_tool() -> None:
    turned = json.dumps(dict(reversed(TOOL.items())), indent=1).encode()

    assert definition_of(Raw(turned)) == definition_of(raw()) == definition_of(raw(icons=[], _meta={"at": 1}))


@pytest.mark.parametrize("part", ["description", "inputSchema", "annotations", "title"])
def test_another_part_makes_another_tool(part: str) -> None:
    assert definition_of(raw(**{part: {"other": 1}})) != definition_of(raw())


@pytest.mark.parametrize("change", [{"command": "other"}, {"args": ("x",)}, {"cwd": "/x"}])
def test_another_command_behind_the_name_begins_anew(change: dict[str, Any]) -> None:
    assert key_of(entry(**change), None, "t") != KEY


def test_a_value_of_the_environment_is_no_part_of_it() -> None:
    assert key_of(entry(env={"TOKEN": "secret-value"}), None, "t") == KEY


def test_what_is_pinned_and_remembered_outlives_the_daemon(tmp_path: Path) -> None:
    path = tmp_path / "state" / "pins.json"
    first = Pins(str(path))
    first.put(KEY, "definition")
    first.remember(KEY, "/project")

    pin = Pins(str(path)).get(KEY)

    assert pin is not None
    assert (pin.digest, pin.definition, pin.remembered) == (digest_of("definition"), "definition", ["/project"])
    assert (path.stat().st_mode & 0o777, [*path.parent.iterdir()]) == (0o600, [path])


def test_another_definition_forgets_what_was_remembered() -> None:
    kept = Pins()
    kept.put(KEY, "one")
    kept.remember(KEY, "/project")
    kept.put(KEY, "one")
    assert kept.get(KEY) == pins.Pin(digest_of("one"), "one", ["/project"])

    kept.put(KEY, "two")

    assert kept.get(KEY) == pins.Pin(digest_of("two"), "two", [])


def test_a_long_definition_is_known_by_its_digest() -> None:
    kept = Pins()
    kept.put(KEY, "x" * 100_000)

    assert kept.get(KEY) == pins.Pin(digest_of("x" * 100_000), None, [])


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version": 2, "pins": []}', b'{"version": 1, "pins": [{}]}'])
def test_a_file_that_makes_no_sense_is_as_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "pins.json"
    path.write_bytes(content)

    assert Pins(str(path)).get(KEY) is None


def test_a_file_that_others_can_write_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "pins.json"
    Pins(str(path)).put(KEY, "definition")
    os.chmod(path, 0o666)

    assert Pins(str(path)).get(KEY) is None


def test_there_are_only_so_many_and_the_oldest_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pins, "MAX_PINS", 2)
    kept = Pins()
    keys = [key_of(entry(), None, name) for name in "abc"]
    kept.put(keys[0], "a")
    kept.put(keys[1], "b")
    kept.put(keys[0], "a")

    kept.put(keys[2], "c")

    assert [kept.get(key) is None for key in keys] == [False, True, False]


def test_a_difference_shows_the_lines_that_have_changed() -> None:
    old, new = definition_of(raw()), definition_of(raw(description="e"))

    assert [line for line in difference(old, new).splitlines() if line[:1] in "+-"][2:] == [
        '-  "description": "d",', '+  "description": "e",',
    ]  # fmt: skip
    assert "too large" in difference(None, new)


def test_what_is_kept_is_cleaned_and_compared_as_it_was() -> None:
    kept = Pins()
    kept.put(KEY, "token abcdef", lambda text: text.replace("abcdef", "[redacted]"))

    assert kept.get(KEY) == pins.Pin(digest_of("token abcdef"), "token [redacted]", [])


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.write_text("{"), lambda path: (path.write_text("{}"), path.chmod(0o666))])
def test_a_file_that_is_not_used_is_told_of_and_nobody_waits_for_it(tmp_path, make):
    make(path := tmp_path / "pins.json")
    assert "is not used" in Pins(str(path)).problem


def test_pins_that_cannot_be_written_are_told_of_and_a_later_write_mends_that(tmp_path):
    pins = Pins(str(tmp_path / "no" / "pins.json"))
    (tmp_path / "no").write_text("a file where the folder should be")
    pins.put(key_of(entry(), None, "t"), "{}")
    assert "could not be written" in pins.problem
    (tmp_path / "no").unlink()
    pins.put(key_of(entry(), None, "u"), "{}")
    assert pins.problem is None
