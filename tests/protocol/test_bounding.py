"""Bounding: what a client gets to see of a result, page by page, without losing a byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from mcpd.errors import InvalidPage, ServerProtocol
from mcpd.protocol.bounding import EXACT_TEXT_BYTES, Page, Whole, needs_cut, page, split, view


def result_of(*blocks: dict[str, Any], ensure_ascii: bool = False, **more: Any) -> bytes:
    """Return the JSON of a result, unevenly spaced as servers write it."""
    return json.dumps({"content": list(blocks), **more}, ensure_ascii=ensure_ascii).encode()


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **more}


def image(size: int, **more: Any) -> dict[str, Any]:
    return {"type": "image", "data": "A" * size, "mimeType": "image/png", **more}


def json_size(value: Any) -> int:
    return len(json.dumps(value).encode())


def pages_of(whole: Whole, max_bytes: int) -> list[Page]:
    pages = [page(whole, 0, max_bytes)]
    while (offset := pages[-1].next_offset) is not None:
        pages.append(page(whole, offset, max_bytes))
        assert pages[-1].offset == offset
    return pages


def loads(blocks: list[Raw]) -> list[Any]:
    return [json.loads(bytes(block)) for block in blocks]


def is_omission(block: Any) -> bool:
    return "mcpd/omitted" in block.get("_meta", {})


def texts_of(pages: list[Page]) -> str:
    blocks = [block for each in pages for block in loads(each.content)]
    return "".join(block["text"] for block in blocks if block["type"] == "text" and not is_omission(block))


def test_a_result_that_fits_is_one_page_of_the_very_bytes() -> None:
    blocks = [text("one\ntwo", annotations={"priority": 1.0}), image(40), text("")]
    whole = split(result_of(*blocks, structuredContent={"n": 12345678901234567890123, "x": 1.0}, isError=False))

    only = page(whole, 0, 10_000)

    assert [bytes(block) for block in only.content] == [json.dumps(block).encode() for block in blocks]
    assert bytes(only.structured or b"") == b'{"n": 12345678901234567890123, "x": 1.0}'
    assert (only.shown, only.next_offset) == (whole.bytes, None)
    assert {name: bytes(value) for name, value in whole.rest.items()} == {"isError": b"false"}


def test_text_counts_its_utf8_and_everything_else_its_json() -> None:
    atom, structured = image(100), [1, 2]

    whole = split(result_of(text("ä\n"), atom, structuredContent=structured, ensure_ascii=True))

    assert whole.bytes == 3 + json_size(atom) + json_size(structured)


@pytest.mark.parametrize(
    ("value", "max_bytes", "pieces"),
    [
        ("abcdef", 4, ["abcd", "ef"]),
        ("aäb", 2, ["a", "ä", "b"]),
        ("ää", 3, ["ä", "ä"]),
        ("😀😀", 7, ["😀", "😀"]),
        ("😀a", 1, ["😀", "a"]),
        ("a😀", 3, ["a", "😀"]),
        ('\u2028\x00"\\', 4, ["\u2028\x00", '"\\']),
    ],
)
@pytest.mark.parametrize("ensure_ascii", [True, False])
def test_text_is_cut_between_characters(value: str, max_bytes: int, pieces: list[str], ensure_ascii: bool) -> None:
    whole = split(result_of(text(value), ensure_ascii=ensure_ascii))

    assert [loads(each.content) for each in pages_of(whole, max_bytes)] == [[text(piece)] for piece in pieces]


def test_the_first_piece_of_a_text_keeps_what_else_its_block_has() -> None:
    block = {"x": [1.0], "type": "text", "text": "abcdef", "annotations": {"priority": 1}, "_meta": {"k": 1.0}}

    first, second = pages_of(split(result_of(block)), 3)

    assert bytes(first.content[0]) == (
        b'{"x":[1.0],"type":"text","text":"abc","annotations":{"priority": 1},"_meta":{"k": 1.0}}'
    )
    assert bytes(second.content[0]) == b'{"type":"text","text":"def"}'


def test_an_atom_that_does_not_fit_any_more_begins_the_next_page() -> None:
    atom = image(100)
    whole = split(result_of(text("abc"), atom, text("def")))

    first, second, third = pages_of(whole, json_size(atom) + 2)

    assert loads(first.content) == [text("abc")]
    assert (first.shown, first.next_offset) == (3, 3)
    assert loads(second.content) == [atom, text("de")]
    assert loads(third.content) == [text("f")]


def test_an_atom_larger_than_a_page_is_replaced_by_a_text_that_says_how_to_get_it() -> None:
    atom = image(1000)
    size = json_size(atom)
    whole = split(result_of(text("abc"), atom, text("def")))

    first, second, *others = pages_of(whole, 50)
    omission, *_ = loads(second.content)
    fetched = page(whole, 3, size)

    assert (first.shown, first.next_offset) == (3, 3)
    assert omission["type"] == "text"
    assert (
        omission["text"]
        == f"[image image/png, {size} bytes, is not shown; to get it, fetch offset 3 with max_bytes {size}]"
    )
    assert omission["_meta"] == {"mcpd/omitted": {"offset": 3, "bytes": size, "type": "image", "mimeType": "image/png"}}
    assert second.shown == 0
    assert texts_of([first, second, *others]) == "abcdef"
    assert loads(fetched.content) == [atom]


@pytest.mark.parametrize(
    ("block", "name", "mime"),
    [
        ({"type": "audio", "data": "A" * 99, "mimeType": "audio/wav"}, "audio", "audio/wav"),
        ({"type": "resource", "resource": {"uri": "x:" + "y" * 99, "mimeType": "a/b", "text": "t"}}, "resource", "a/b"),
        ({"type": "resource", "resource": "y" * 99}, "resource", None),
        ({"type": "text", "text": ["y" * 99]}, "text", None),
        ({"type": "im\x1b[31mage\n", "data": "A" * 99, "mimeType": 7}, "im[31mage", None),
        ({"type": "t" * 5000}, "t" * 100, None),
        ({"type": None, "data": "A" * 99}, "block", None),
        ({"data": "A" * 99}, "block", None),
    ],
)
def test_an_omission_names_type_and_mime_type(block: dict[str, Any], name: str, mime: str | None) -> None:
    (omission,) = loads(page(split(result_of(block)), 0, 50).content)

    omitted = omission["_meta"]["mcpd/omitted"]
    assert omitted == {"offset": 0, "bytes": json_size(block), "type": name} | ({"mimeType": mime} if mime else {})
    assert f"[{name}{' ' + mime if mime else ''}, " in omission["text"]


def test_structured_content_is_the_last_atom() -> None:
    structured = {"rows": ["x" * 100]}
    size = json_size(structured)
    whole = split(result_of(text("abc"), structuredContent=structured))

    first, second = pages_of(whole, 50)

    assert (loads(first.content), first.structured) == ([text("abc")], None)
    assert second.structured is None
    assert loads(second.content)[0]["_meta"]["mcpd/omitted"] == {
        "offset": 3,
        "bytes": size,
        "type": "structuredContent",
    }
    assert bytes(page(whole, 3, size).structured or b"") == json.dumps(structured).encode()


def test_empty_texts_are_shown_once() -> None:
    blocks = [text(""), text("ab"), text(""), text("cd"), text("")]

    pages = pages_of(split(result_of(*blocks)), 2)

    assert [loads(each.content) for each in pages] == [blocks[:3], blocks[3:]]


def test_an_empty_result_is_one_empty_page() -> None:
    for empty in (b"{}", b'{"content":[]}', b' {"isError":true} '):
        assert page(split(empty), 0, 10) == Page(0, [], None, 0, None)


def test_the_end_of_a_result_is_an_empty_page() -> None:
    assert page(split(result_of(text("abc"))), 3, 10) == Page(3, [], None, 0, None)


@pytest.mark.parametrize(
    ("offset", "max_bytes", "words"),
    [
        (-1, 10, "the result has"),
        (10_000, 10, "the result has"),
        (1, 10, "inside a character; it begins at 0"),
        (4, 10, "inside a block that cannot be cut; it begins at 2"),
        (0, 0, "at least 1"),
    ],
)
def test_an_offset_that_is_nowhere_is_an_error(offset: int, max_bytes: int, words: str) -> None:
    whole = split(result_of(text("ä"), image(20)))

    with pytest.raises(InvalidPage, match=words):
        page(whole, offset, max_bytes)


def test_a_very_long_text_is_kept_once_and_pages_the_same() -> None:
    long = "zeile\n" * (EXACT_TEXT_BYTES // 6 + 1)
    block = text(long, annotations={"priority": 1})
    whole = split(result_of(block, text("short")))

    (only,) = pages_of(whole, len(long) + 5)

    assert loads(only.content) == [block, text("short")]
    assert whole.held_bytes < 1.1 * len(long)
    assert texts_of(pages_of(whole, 10_007)) == long + "short"


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (b"[1]", "the result is an array, not an object"),
        (b'"x"', "the result is a string, not an object"),
        (b"7", "the result is a number, not an object"),
        (b"null", "the result is null, not an object"),
        (b"true", "the result is true, not an object"),
        (b'{"content":"x"}', "`content` of the result is a string, not an array"),
        (b'{"content":null}', "`content` of the result is null, not an array"),
        (b'{"content":{}}', "`content` of the result is an object, not an array"),
        (b'{"content":[{},[]]}', "block 2 of `content` is an array, not an object"),
        (b'{"content":[null]}', "block 1 of `content` is null, not an object"),
        (b'{"a":NaN}', "the answer is not valid JSON: invalid character"),
        (b'{"a":1', "the answer is not valid JSON: input data was truncated"),
        (b"", "the answer is not valid JSON: input data was truncated"),
        (
            b'{"content":[{"type":"text","text":"\\ud83d"}]}',
            "the answer is not valid JSON: a string has half of a surr",
        ),
        (b'{"content":[{"type":"text","text":"\\udc00"}]}', "the answer is not valid JSON: invalid utf-16 surrogate"),
        (b'{"content":[{"type":"text","text":"a\xe9b"}]}', "the answer is not valid JSON: byte 36 is no UTF-8"),
        (b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}", "the answer is not valid JSON: it is nested too deeply"),
    ],
)
def test_a_result_that_is_none_is_an_error_that_says_how(result: bytes, words: str) -> None:
    with pytest.raises(ServerProtocol) as caught:
        split(result)

    assert words in caught.value.message


def test_the_wire_length_decides_fast_that_nothing_has_to_be_cut() -> None:
    result = result_of(text("é" * 10), ensure_ascii=True)

    assert not needs_cut(result, len(result))
    assert needs_cut(Raw(result), len(result) - 1)
    assert split(result).bytes == 20


def test_a_view_says_what_it_shows_and_keeps_the_other_members() -> None:
    whole = split(b'{"isError":true,"content":[{"type":"text","text":"abcdef"}],"_meta":{"a/b":1.0},"x":1e5}')

    first = view(whole, page(whole, 0, 4), {"handle": "r1", "incarnation": 2})
    second = view(whole, page(whole, 4, 4), {"handle": "r1"})

    assert first == (
        b'{"content":[{"type":"text","text":"abcd"}],"isError":true,"_meta":{"a/b":1.0,"mcpd/view":'
        b'{"bytes":6,"shown":4,"truncated":true,"offset":0,"nextOffset":4,"handle":"r1","incarnation":2}},"x":1e5}'
    )
    assert json.loads(second)["_meta"]["mcpd/view"] == {
        "bytes": 6, "shown": 2, "truncated": False, "offset": 4, "handle": "r1"
    }  # fmt: skip


def test_a_view_without_an_omitted_block_is_truncated_though_nothing_follows() -> None:
    whole = split(result_of(image(500)))

    seen = json.loads(view(whole, page(whole, 0, 50), {}))

    assert seen["_meta"]["mcpd/view"] == {"bytes": whole.bytes, "shown": 0, "truncated": True, "offset": 0}


def test_a_view_shows_structured_content_where_it_fits() -> None:
    whole = split(b'{"structuredContent":[1.0]}')

    assert json.loads(view(whole, page(whole, 0, 50), {}))["structuredContent"] == [1.0]


def test_a_meta_that_is_no_object_is_an_error() -> None:
    whole = split(b'{"_meta":"x"}')

    with pytest.raises(ServerProtocol, match="`_meta` of the result is a string, not an object"):
        view(whole, page(whole, 0, 50), {})


texts = st.text(max_size=30) | st.text(st.sampled_from('aä€😀\n"\\\x00\u2028'), max_size=12)
blocks = st.one_of(texts.map(text), st.integers(0, 60).map(image), texts.map(lambda t: text(t, annotations={"p": t})))
results = st.builds(
    lambda content, structured, ensure_ascii: (content, structured, ensure_ascii),
    st.lists(blocks, max_size=8),
    st.none() | st.lists(texts, max_size=3),
    st.booleans(),
)


@given(results, st.integers(1, 120))
def test_the_pages_together_are_the_result(result: tuple[list[dict[str, Any]], Any, bool], max_bytes: int) -> None:
    content, structured, ensure_ascii = result
    more = {} if structured is None else {"structuredContent": structured}
    whole = split(result_of(*content, ensure_ascii=ensure_ascii, **more))

    pages = pages_of(whole, max_bytes)
    shown = [block for each in pages for block in loads(each.content)]
    omitted = [block["_meta"]["mcpd/omitted"] for block in shown if is_omission(block)]

    # Every character is shown, in order, and no page is over its bound or for nothing.
    assert texts_of(pages) == "".join(block["text"] for block in content if block["type"] == "text")
    assert all(each.shown <= max(max_bytes, 4) for each in pages)
    assert all(each.next_offset is None or each.next_offset > each.offset for each in pages)
    assert sum(each.shown for each in pages) + sum(each["bytes"] for each in omitted) == whole.bytes
    # Every atom is shown or can be had by what its omission says.
    atoms = [block for block in content if block["type"] != "text"]
    found = [block if not is_omission(block) else fetch(whole, block) for block in shown]
    assert [block for block in found if block not in (None, structured) and block["type"] == "image"] == atoms
    assert [json.loads(bytes(each.structured)) for each in pages if each.structured] == (
        [] if structured is None or structured in found else [structured]
    )


def fetch(whole: Whole, omission: dict[str, Any]) -> Any:
    """Do what an omission says."""
    omitted = omission["_meta"]["mcpd/omitted"]
    fetched = page(whole, omitted["offset"], omitted["bytes"])
    if fetched.structured:
        return json.loads(bytes(fetched.structured))
    return next(block for block in loads(fetched.content) if block.get("text") != "")
