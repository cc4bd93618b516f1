"""Lists in pages: the ones that clients get, and the walk through a server's."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from mcpd.errors import InvalidPage, ServerProtocol
from mcpd.protocol.paging import DESCRIPTOR_BYTES, LIST_BYTES, NAME_BYTES, Item, Walk, page


def tool(name: str, **more: Any) -> tuple[str, Raw]:
    return name, Raw(json.dumps({"name": name, **more}).encode())


def tools(count: int, **more: Any) -> list[tuple[str, Raw]]:
    return [tool(f"t{number}", **more) for number in range(count)]


def as_sent(found: dict[str, Any]) -> dict[str, Any]:
    encoded = msgspec.json.encode(found)
    decoded = json.loads(encoded)
    assert isinstance(decoded, dict)
    return decoded


def names(found: dict[str, Any]) -> list[str]:
    return [item["name"] for item in as_sent(found)["items"]]


def test_a_page_has_twenty_items_of_the_very_bytes() -> None:
    items = [("a", Raw(b'{ "name":"a", "x": 1.0, "y":12345678901234567890123 }')), *tools(30)]

    found = page(items)

    assert found["items"] == [descriptor for _, descriptor in items[:20]]
    assert {key: value for key, value in found.items() if key != "items"} == {
        "total": 31, "shown": 20, "nextOffset": 20, "truncated": True
    }  # fmt: skip


@pytest.mark.parametrize(
    ("total", "offset", "limit", "shown", "next_offset", "truncated"),
    [
        (0, 0, 20, 0, None, False),
        (20, 0, 20, 20, None, False),
        (21, 0, 20, 20, 20, True),
        (21, 20, 20, 1, None, False),
        (21, 21, 20, 0, None, False),
        (5, 1000, 100, 0, None, False),
        (1000, 900, 100, 100, None, False),
        (1001, 900, 100, 100, 1000, True),
        (1001, 1000, 1, 1, None, False),
        (1002, 1000, 1, 1, None, True),
        (1002, 999, 2, 2, None, True),
        (1500, 950, 100, 100, None, True),
    ],
)
def test_a_page_says_what_it_shows(
    total: int, offset: int, limit: int, shown: int, next_offset: int | None, truncated: bool
) -> None:
    found = page(tools(total), offset, limit)

    assert (found["total"], found["shown"], len(names(found))) == (total, shown, shown)
    assert (found["nextOffset"], found["truncated"]) == (next_offset, truncated)


@pytest.mark.parametrize(
    ("offset", "limit", "words"),
    [
        (-1, 20, "offset is -1, and must be 0 to 1000"),
        (1001, 20, "offset is 1001, and must be 0 to 1000"),
        (0, 0, "limit is 0, and must be 1 to 100"),
        (0, 101, "limit is 101, and must be 1 to 100"),
    ],
)
def test_a_page_out_of_range_is_an_error_that_names_the_range(offset: int, limit: int, words: str) -> None:
    with pytest.raises(InvalidPage, match=words):
        page(tools(3), offset, limit)


def test_a_page_of_large_descriptors_ends_early() -> None:
    items = [tool(f"t{number}", description="語" * 3000) for number in range(20)]
    offset: int | None = 0
    seen: list[str] = []

    while offset is not None:
        found = page(items, offset)
        assert len(msgspec.json.encode(found)) <= 65_536
        assert found["shown"] == len(names(found)) > 0
        seen += names(found)
        next_offset = found["nextOffset"]
        assert next_offset is None or isinstance(next_offset, int)
        offset = next_offset

    assert seen == [name for name, _ in items]


def test_a_descriptor_too_long_for_any_page_is_replaced_by_a_short_one() -> None:
    description = "x" + "é" * 1000
    name, descriptor = tool("big", description=description, inputSchema={"x": "y" * 70_000})

    found = page([tool("a"), Item(name, descriptor, "srv"), tool("b")])

    assert as_sent(found)["items"] == [
        {"name": "a"},
        {"server": "srv", "name": "big", "description": "x" + "é" * 511, "descriptorOmitted": True},
        {"name": "b"},
    ]


def test_a_short_descriptor_of_a_resource_keeps_its_uri() -> None:
    descriptor = json.dumps({"uri": "file:///a", "name": "A", "description": 7, "x": "y" * 70_000}).encode()

    found = page([("file:///a", Raw(descriptor))])

    assert as_sent(found)["items"] == [{"name": "A", "uri": "file:///a", "descriptorOmitted": True}]


@pytest.mark.parametrize("key", ["name", "uri", "uriTemplate"])
def test_a_short_descriptor_can_be_asked_for_by_what_it_says(key: str) -> None:
    name = "é" * (NAME_BYTES // 2)
    descriptor = json.dumps({"title": "T", key: name, "x": "y" * 70_000}).encode()

    found = page([(name, Raw(descriptor))])

    assert as_sent(found)["items"][0][key] == name


def test_the_longest_descriptor_of_a_page_leaves_room_for_the_envelope() -> None:
    for size in range(65_200, 65_600, 7):
        found = page([tool("a", x="y" * (size - 22))])
        encoded = msgspec.json.encode({**found, "revision": 12345, "stale": True})
        assert len(encoded) <= 65_536 - 100


@given(st.lists(st.integers(0, 3000), max_size=150), st.integers(1, 100), st.integers(1, 20_000))
def test_the_pages_together_are_the_list(sizes: list[int], limit: int, max_bytes: int) -> None:
    items = [tool(f"t{number}", x="y" * size) for number, size in enumerate(sizes)]
    seen: list[str] = []
    offset: Any = 0

    while offset is not None:
        found = page(items, offset, limit, max_bytes)
        seen += names(found)
        assert found["shown"] == 1 or len(msgspec.json.encode(found)) <= max_bytes or not items
        assert found["truncated"] == (found["nextOffset"] is not None)
        offset = found["nextOffset"]

    assert seen == [name for name, _ in items]


# The walk


def answer(*descriptors: Any, kind: str = "tools", **more: Any) -> bytes:
    return json.dumps({kind: list(descriptors), **more}).encode()


def walk(*, kind: str = "tools", max_items: int = 10, max_pages: int = 5, max_cursor_bytes: int = 65_536) -> Walk:
    return Walk(kind, max_items, max_pages, max_cursor_bytes)


def named(*all_names: str) -> list[dict[str, str]]:
    return [{"name": name} for name in all_names]


def found_by(the_walk: Walk) -> list[str]:
    return [name for name, _ in the_walk.items]


def test_a_walk_follows_cursors_until_there_is_none() -> None:
    the_walk = walk()
    asked = [the_walk.request()]

    for result in (
        answer(*named("a"), nextCursor="x\n\u2028"),
        answer(nextCursor=""),
        answer(*named("b", "c"), nextCursor=None),
    ):
        the_walk.accept(result)
        asked.append(the_walk.request())

    assert asked == [b"{}", '{"cursor":"x\\n\u2028"}'.encode(), b'{"cursor":""}', None]
    assert found_by(the_walk) == ["a", "b", "c"]
    assert (the_walk.set_aside, the_walk.incomplete) == ([], None)


def test_a_walk_keeps_the_bytes_of_descriptors() -> None:
    descriptor = b'{ "x": 1.0, "name" : "\\u00e9", "big": 12345678901234567890123 }'
    the_walk = walk()

    the_walk.accept(b'{"ttlMs": 5, "tools": [%b ] }' % descriptor)

    assert [(name, bytes(raw)) for name, raw in the_walk.items] == [("é", descriptor)]


@pytest.mark.parametrize(
    ("kind", "descriptor", "name"),
    [
        ("tools", {"name": "t", "uri": "u"}, "t"),
        ("prompts", {"name": "p"}, "p"),
        ("resources", {"name": "same", "uri": "file:///a"}, "file:///a"),
        ("resourceTemplates", {"name": "same", "uriTemplate": "file:///{a}"}, "file:///{a}"),
    ],
)
def test_an_item_is_known_by_what_tells_it_apart(kind: str, descriptor: dict[str, str], name: str) -> None:
    the_walk = walk(kind=kind)

    the_walk.accept(answer(descriptor, kind=kind))

    assert found_by(the_walk) == [name]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"7", "it is a number, not an object"),
        (b"null", "it is null, not an object"),
        (b"[]", "it is an array, not an object"),
        (b"{}", "it has no `name`"),
        (b'{"name":null}', "its `name` is null, not a string"),
        (b'{"name":["a"]}', "its `name` is an array, not a string"),
        (b'{"name":"a","x":2}', "its `name` 'a' is there already; the first one counts"),
        (b'{"name":"x","y":"\xff"}', "the answer is not valid JSON: byte 17 is no UTF-8"),
        (b'{"name":"%b"}' % (b"x" * (NAME_BYTES + 1)), "its `name` is over 4096 bytes long"),
        (b'{"name":"x","y":"%b"}' % (b"y" * DESCRIPTOR_BYTES), "it has 1048595 bytes, more than 1 MiB"),
    ],
)
def test_a_bad_item_is_set_aside_with_a_reason_and_hurts_no_other(bad: bytes, reason: str) -> None:
    the_walk = walk()

    the_walk.accept(b'{"tools":[{"name":"a"},%b,{"name":"b"}]}' % bad)

    assert found_by(the_walk) == ["a", "b"]
    assert bytes(the_walk.items[0][1]) == b'{"name":"a"}'
    assert the_walk.set_aside == [f"item 2: {reason}"]
    assert the_walk.incomplete is None


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (b"{}", "the answer has no `tools` member"),
        (b'{"nextCursor":"x"}', "the answer has no `tools` member"),
        (b'{"tools":null}', "`tools` is null, not an array"),
        (b'{"tools":{}}', "`tools` is an object, not an array"),
        (b"[]", "the list of tools is an array, not an object"),
        (b'{"tools":[NaN]}', "the answer is not valid JSON"),
        (b'{"tools":' + b"[" * 5000 + b"]" * 5000 + b"}", "nested too deeply"),
        (b'{"tools":[' + b"0," * 60_000 + b"0]}", "`tools` is very long and not all objects"),
        (b'{"tools":[' + b"{}," * 60_000 + b"{}]}", "`tools` has more than 50000 parts"),
        (b"{" + b",".join(b'"%d":0' % n for n in range(60_000)) + b"}", "the list of tools has more than 50000 parts"),
    ],
)
def test_an_answer_without_a_list_is_an_error_and_ends_the_walk(result: bytes, words: str) -> None:
    the_walk = walk()
    the_walk.accept(answer(*named("a"), nextCursor="x"))

    with pytest.raises(ServerProtocol) as caught:
        the_walk.accept(result)

    assert words in caught.value.message
    assert the_walk.request() is None
    assert found_by(the_walk) == ["a"]


@pytest.mark.parametrize(
    ("cursors", "reason"),
    [
        (["x", "x"], "a cursor came twice: 'x'"),
        (["x", "y", "x"], "a cursor came twice: 'x'"),
        (["", ""], "a cursor came twice: ''"),
        (["x" * 65_537], "a cursor is over 65536 bytes long"),
        ([7], "a cursor is a number, not a string"),
        (["1", "2", "3", "4", "5"], "it has more than 5 pages"),
    ],
)
def test_a_walk_that_would_not_end_stops_and_keeps_what_it_has(cursors: list[Any], reason: str) -> None:
    the_walk = walk()

    for number, cursor in enumerate(cursors):
        assert the_walk.request() is not None
        the_walk.accept(answer(*named(f"t{number}"), nextCursor=cursor))

    assert the_walk.request() is None
    assert the_walk.incomplete == reason
    assert found_by(the_walk) == [f"t{number}" for number in range(len(cursors))]


def test_as_many_pages_and_items_as_allowed_are_complete() -> None:
    the_walk = walk(max_items=5, max_pages=5)

    for number in range(5):
        more = {"nextCursor": f"{number}"} if number < 4 else {}
        the_walk.accept(answer(*named(f"t{number}"), **more))

    assert (len(the_walk.items), the_walk.incomplete) == (5, None)


def test_a_walk_keeps_the_first_items_of_too_many() -> None:
    the_walk = walk(max_items=3)

    the_walk.accept(answer(*named("a", "b"), nextCursor="x"))
    the_walk.accept(answer(*named("c", "d", "e"), nextCursor="y"))

    assert found_by(the_walk) == ["a", "b", "c"]
    assert the_walk.incomplete == "it has more than 3 items"
    assert the_walk.request() is None


def test_a_walk_through_rubbish_ends() -> None:
    the_walk = walk()

    the_walk.accept(answer(*range(5000), nextCursor="x"))

    assert len(the_walk.set_aside) == 1000
    assert the_walk.incomplete == "more than 1000 items cannot be used"
    assert the_walk.request() is None


def test_all_descriptors_together_have_a_bound() -> None:
    the_walk = walk(max_items=1000, max_pages=100)
    large = "y" * (DESCRIPTOR_BYTES - 100)

    for number in range(20):
        if the_walk.request() is not None:
            the_walk.accept(answer({"name": f"t{number}", "x": large}, nextCursor=f"{number}"))

    assert sum(len(raw) for _, raw in the_walk.items) <= LIST_BYTES
    assert the_walk.incomplete == "its descriptors are over 16 MiB in all"


@given(
    st.lists(st.lists(st.sampled_from([*"abcdefgh", None, 7]), max_size=4), min_size=1, max_size=8),
    st.integers(1, 10),
    st.integers(1, 8),
)
def test_a_walk_keeps_the_first_of_each_name_in_order(pages: list[list[Any]], max_items: int, max_pages: int) -> None:
    the_walk = walk(max_items=max_items, max_pages=max_pages)
    taken = 0

    while the_walk.request() is not None:
        more = {"nextCursor": str(taken)} if taken + 1 < len(pages) else {}
        the_walk.accept(answer(*({"name": name} for name in pages[taken]), **more))
        taken += 1

    expected = list(dict.fromkeys(name for each in pages[:taken] for name in each if isinstance(name, str)))
    assert found_by(the_walk) == expected[:max_items]
    assert taken <= max_pages
    assert (the_walk.incomplete is None) == (taken == len(pages) and len(expected) <= max_items)
