"""Bounding of what is read and of prompts: the same pages, in the shape of the result that came."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.errors import InvalidPage, ServerProtocol
from mcpd.protocol.bounding import EXACT_TEXT_BYTES, page, shortened, split, view

if TYPE_CHECKING:
    from mcpd.protocol.bounding import Shape, Whole


def read(*items: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"contents": list(items), **more}, ensure_ascii=False).encode()


def prompt(*messages: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"messages": list(messages), **more}, ensure_ascii=False).encode()


def note(text: str, uri: str = "x:a", **more: Any) -> dict[str, Any]:
    return {"uri": uri, "mimeType": "text/markdown", "text": text, **more}


def blob(size: int, uri: str = "x:b") -> dict[str, Any]:
    return {"uri": uri, "mimeType": "application/pdf", "blob": "A" * size}


def said(text: str, role: str = "user", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": {"type": "text", "text": text, **more}}


def shown(role: str, size: int) -> dict[str, Any]:
    return {"role": role, "content": {"type": "image", "data": "A" * size, "mimeType": "image/png"}}


def size_of(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())


def views_of(whole: Whole, max_bytes: int) -> list[dict[str, Any]]:
    """Return all pages as clients get them."""
    views: list[dict[str, Any]] = []
    offset: int | None = 0
    while offset is not None:
        seen = page(whole, offset, max_bytes)
        views.append(json.loads(view(whole, seen, {})))
        assert seen.next_offset is None or seen.next_offset > offset
        offset = seen.next_offset
    return views


def test_what_is_read_and_fits_is_the_very_bytes_that_came() -> None:
    items = b'{ "uri":"x:a", "text":"\\u00e9", "n":1.0, "big":12345678901234567890123 }', b'{"uri":"x:b","blob":""}'
    whole = split(b'{"contents":[%b , %b],"ttlMs":5.0,"structuredContent":[1.0]}' % items, "read")

    seen = view(whole, page(whole, 0, 1000), {})

    assert seen.startswith(b'{"contents":[%b,%b],"ttlMs":5.0,"structuredContent":[1.0],"_meta":' % items)
    assert (whole.bytes, len(whole.segments)) == (2 + len(items[1]), 2)


def test_a_prompt_that_fits_is_the_very_bytes_that_came() -> None:
    messages = b'{ "content":{"text":"a\\/b","type":"text","p":1.0}, "role":"user" }'
    whole = split(b'{"description":"d\\u00e9","messages":[%b]}' % messages, "prompt")

    seen = view(whole, page(whole, 0, 1000), {"handle": "r1"})

    assert seen == (
        b'{"messages":[%b],"description":"d\\u00e9","_meta":{"mcpd/view":'
        b'{"bytes":3,"shown":3,"truncated":false,"offset":0,"handle":"r1"}}}' % messages
    )


def test_a_cut_text_says_on_every_page_what_it_is_a_part_of() -> None:
    whole = split(read(note("abcdef", _meta={"k": 1.0}), note("gh", uri="x:c"), nextCursor="n"), "read")

    first, second = views_of(whole, 4)

    assert first["contents"] == [note("abcd", _meta={"k": 1.0})]
    assert second["contents"] == [note("ef"), note("gh", uri="x:c")]
    assert (first["nextCursor"], second["nextCursor"]) == ("n", "n")
    assert first["_meta"]["mcpd/view"] == {"bytes": 8, "shown": 4, "truncated": True, "offset": 0, "nextOffset": 4}


def test_a_cut_message_keeps_its_role() -> None:
    whole = split(prompt(said("abcdef", "assistant", annotations={"p": 1.0}), said("gh"), description="d"), "prompt")

    first, second = views_of(whole, 4)

    assert first["messages"] == [said("abcd", "assistant", annotations={"p": 1.0})]
    assert second["messages"] == [said("ef", "assistant"), said("gh")]
    assert (first["description"], second["description"]) == ("d", "d")


def test_a_blob_larger_than_a_page_has_a_text_in_its_place() -> None:
    item = blob(500)
    size = size_of(item)
    whole = split(read(note("ab"), item), "read")

    first, second = views_of(whole, 100)

    assert first["contents"] == [note("ab")]
    (instead,) = second["contents"]
    assert instead == {
        "uri": "x:b",
        "mimeType": "text/plain",
        "text": f"[blob application/pdf, {size} bytes, is not shown; to get it, fetch offset 2 with max_bytes {size}]",
        "_meta": {
            "mcpd/omitted": {"offset": 2, "bytes": size, "type": "blob", "mimeType": "application/pdf"}
        },
    }  # fmt: skip
    assert json.loads(bytes(page(whole, 2, size).content[0])) == item


def test_a_picture_in_a_prompt_that_is_larger_than_a_page_has_a_text_in_its_place() -> None:
    message = shown("assistant", 500)
    size = size_of(message)
    whole = split(prompt(message), "prompt")

    (only,) = views_of(whole, 100)

    (instead,) = only["messages"]
    omitted = {"offset": 0, "bytes": size, "type": "image", "mimeType": "image/png"}
    assert (instead["role"], instead["content"]["type"]) == ("assistant", "text")
    assert instead["content"]["text"].startswith(f"[image image/png, {size} bytes, is not shown; to get it, fetch ")
    assert instead["content"]["_meta"] == {"mcpd/omitted": omitted}
    assert only["_meta"]["mcpd/view"]["truncated"] is True
    assert json.loads(bytes(page(whole, 0, size).content[0])) == message


@pytest.mark.parametrize(
    ("shape", "part", "kind"),
    [
        ("read", {"uri": "x:a", "text": ["y" * 99]}, "item"),
        ("read", {"text": 7, "z": "y" * 99}, "item"),
        ("read", {"uri": "x:a", "text": "both", "blob": "A" * 99}, "blob"),
        ("prompt", {"role": "user", "content": [{"type": "text", "text": "y" * 99}]}, "message"),
        ("prompt", {"role": "user", "content": "y" * 99}, "message"),
        ("prompt", {"content": {"type": "new", "z": "y" * 99}}, "new"),
        ("prompt", {"z": "y" * 99}, "message"),
    ],
)
def test_what_is_unknown_is_shown_whole_or_not_at_all(shape: Shape, part: dict[str, Any], kind: str) -> None:
    whole = split(read(part) if shape == "read" else prompt(part), shape)

    (omission,) = page(whole, 0, 50).content
    (fetched,) = page(whole, 0, size_of(part)).content

    assert f"[{kind}, {size_of(part)} bytes, is not shown".encode() in bytes(omission)
    assert json.loads(bytes(fetched)) == part


def test_text_with_an_empty_blob_beside_it_is_text() -> None:
    whole = split(read({"uri": "x:a", "text": "abcdef", "blob": None}), "read")

    assert [each["contents"][0]["text"] for each in views_of(whole, 3)] == ["abc", "def"]


@pytest.mark.parametrize(
    ("shape", "result", "words"),
    [
        ("read", b"[]", "the result is an array, not an object"),
        ("read", b'{"contents":"x"}', "`contents` of the result is a string, not an array"),
        ("read", b'{"contents":[{},7]}', "item 2 of `contents` is a number, not an object"),
        ("read", b'{"contents":[{"text":"\\udc00"}]}', "the answer is not valid JSON"),
        ("prompt", b'{"messages":{}}', "`messages` of the result is an object, not an array"),
        ("prompt", b'{"messages":["x"]}', "message 1 of `messages` is a string, not an object"),
    ],
)
def test_a_result_that_is_none_is_an_error_that_names_the_part(shape: Shape, result: bytes, words: str) -> None:
    with pytest.raises(ServerProtocol) as caught:
        split(result, shape)

    assert words in caught.value.message


def test_an_offset_inside_of_a_blob_is_an_error() -> None:
    whole = split(read(note("ab"), blob(50)), "read")

    with pytest.raises(InvalidPage, match="inside a block that cannot be cut; it begins at 2"):
        page(whole, 3, 10)


@pytest.mark.parametrize("shape", ["read", "prompt"])
def test_a_very_long_text_is_kept_once_and_pages_the_same(shape: Shape) -> None:
    long = "zeile\n" * (EXACT_TEXT_BYTES // 6 + 1)
    result = read(note(long)) if shape == "read" else prompt(said(long))
    whole = split(result, shape)

    (only,) = views_of(whole, len(long))

    assert only.pop("_meta")["mcpd/view"]["truncated"] is False
    assert only == json.loads(result)
    assert whole.held_bytes < 1.1 * len(long)
    assert texts_of(shape, views_of(whole, 10_007)) == long


def test_what_is_kept_of_a_large_result_keeps_its_shape() -> None:
    for shape, result in (("read", read(note("abcdef"))), ("prompt", prompt(said("abcdef")))):
        cut = shortened(split(result, shape), 4)
        assert (cut.bytes, cut.cut_from, texts_of(shape, views_of(cut, 3))) == (4, 6, "abcd")

    (kept,) = views_of(shortened(split(read(blob(500)), "read"), 100), 1000)
    assert kept["contents"][0]["uri"] == "x:b"
    assert kept["contents"][0]["text"].endswith("is more than is kept (limits.result_bytes)]")
    omitted = {"kept": False, "bytes": size_of(blob(500)), "type": "blob", "mimeType": "application/pdf"}
    assert kept["contents"][0]["_meta"] == {"mcpd/omitted": omitted}


def block_of(shape: Shape, part: dict[str, Any]) -> Any:
    return part["content"] if shape == "prompt" else part


def texts_of(shape: Shape, views: list[dict[str, Any]]) -> str:
    """Return all text that pages show, without what stands for something else."""
    parts = [part for each in views for part in each["contents" if shape == "read" else "messages"]]
    blocks = [block_of(shape, part) for part in parts]
    return "".join(block["text"] for block in blocks if "text" in block and not is_omission(block))


def is_omission(block: Any) -> bool:
    return "mcpd/omitted" in block.get("_meta", {})


texts = st.text(max_size=30) | st.text(st.sampled_from('aä€😀\n"\\\x00\u2028'), max_size=12)
uris = st.sampled_from(["x:a", "x:ä", "file:///" + "y" * 40])
reads = st.lists(st.builds(note, texts, uri=uris) | st.builds(blob, st.integers(0, 60), uri=uris), max_size=8)
roles = st.sampled_from(["user", "assistant"])
prompts = st.lists(st.builds(said, texts, roles) | st.builds(shown, roles, st.integers(0, 60)), max_size=8)


@given(st.tuples(st.just("read"), reads) | st.tuples(st.just("prompt"), prompts), st.integers(1, 120))
def test_the_pages_together_are_the_result(case: tuple[Shape, list[dict[str, Any]]], max_bytes: int) -> None:
    shape, parts = case
    member = "contents" if shape == "read" else "messages"
    whole = split(json.dumps({member: parts, "description": "d"}, ensure_ascii=False).encode(), shape)

    views = views_of(whole, max_bytes)

    seen = [part for each in views for part in each[member]]
    # Put the pieces of each text together again; an omission is replaced by what it tells to fetch.
    together: list[dict[str, Any]] = []
    for part in seen:
        block = block_of(shape, part)
        if is_omission(block):
            omitted = block["_meta"]["mcpd/omitted"]
            fetched = [json.loads(bytes(raw)) for raw in page(whole, omitted["offset"], omitted["bytes"]).content]
            together.append(next(each for each in fetched if "text" not in block_of(shape, each)))
        else:
            together.append(part)
    assert joined(shape, together) == joined(shape, parts)
    assert texts_of(shape, views) == "".join(
        block["text"] for block in (block_of(shape, part) for part in parts) if "text" in block
    )
    assert all(each["description"] == "d" for each in views)
    assert sum(each["_meta"]["mcpd/view"]["shown"] for each in views) <= whole.bytes


def joined(shape: Shape, parts: list[dict[str, Any]]) -> list[Any]:
    """Return parts with neighbours that differ in nothing but their text put into one, and no empty ones."""
    together: list[Any] = []
    for part in parts:
        block = block_of(shape, part)
        if "text" not in block:
            together.append(part)
            continue
        key = part.get("uri") or part.get("role")
        if together and isinstance(together[-1], list) and together[-1][0] == key:
            together[-1][1] += block["text"]
        elif block["text"]:
            together.append([key, block["text"]])
    return together
