"""Splicing: one more member in `_meta`, and every other byte as it came."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from mcpd.errors import ServerProtocol
from mcpd.protocol.splicing import COPY_BYTES, MAX_MEMBERS, with_meta

LONG = b'{"content":[{"type":"text","text":"' + b"x" * COPY_BYTES + b'"}]'


def spliced(result: bytes | Raw) -> bytes:
    return b"".join([done] if isinstance(done := with_meta(result, b"mcpd/view", b'{"n":1}'), bytes) else done)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (b"{}", b'{"_meta":{"mcpd/view":{"n":1}}}'),
        (b" { \n} \n", b' {"_meta":{"mcpd/view":{"n":1}}}'),
        (b'{"a":1.0}', b'{"a":1.0,"_meta":{"mcpd/view":{"n":1}}}'),
        (b'{"a":{} }\r\n', b'{"a":{},"_meta":{"mcpd/view":{"n":1}}}'),
        (b'{"a":"{"}', b'{"a":"{","_meta":{"mcpd/view":{"n":1}}}'),
        (b'{"a":"}"}', b'{"a":"}","_meta":{"mcpd/view":{"n":1}}}'),
        (b'{"a":"\\"_meta\\""}', b'{"a":"\\"_meta\\"","_meta":{"mcpd/view":{"n":1}}}'),
        (b'{"a":{"_meta":{}}}', b'{"a":{"_meta":{}},"_meta":{"mcpd/view":{"n":1}}}'),
        (b'{"_meta":{}}', b'{"_meta":{"mcpd/view":{"n":1}}}'),
        (b'{"_meta":null,"a":1}', b'{"_meta":{"mcpd/view":{"n":1}},"a":1}'),
        (b'{"_met\\u0061":{"b":1.0}}', b'{"_meta":{"b":1.0,"mcpd/view":{"n":1}}}'),
        (b'{"_meta":{"mcpd/view":7}}', b'{"_meta":{"mcpd/view":{"n":1}}}'),
        (
            b'{"x": 1e400, "_meta": {"k": [1.0 , 2]}, "y": 123456789012345678901}',
            b'{"x":1e400,"_meta":{"k":[1.0 , 2],"mcpd/view":{"n":1}},"y":123456789012345678901}',
        ),
        ('{"a":"é😀"}'.encode(), '{"a":"é😀","_meta":{"mcpd/view":{"n":1}}}'.encode()),
    ],
)
def test_a_result_gets_one_more_member(result: bytes, expected: bytes) -> None:
    assert spliced(result) == expected
    assert spliced(Raw(result)) == expected


@pytest.mark.parametrize("end", [b"}", b"\n}\n", b" " * 5000 + b"}", b"}" + b" " * 5000, b',"b":{}}'])
def test_a_long_result_is_not_copied(end: bytes) -> None:
    result = LONG + end

    done = with_meta(result, b"k", b"1")

    assert json.loads(b"".join([done] if isinstance(done, bytes) else done)) == {
        **json.loads(result),
        "_meta": {"k": 1},
    }
    if len(end) < 100:
        assert isinstance(done[0], memoryview)
        assert done[0].obj is result


def test_a_long_result_with_a_meta_is_not_copied() -> None:
    result = LONG + b',"_meta":{"a":1.0},"isError":false}'

    parts = with_meta(result, b"k", b"1")

    assert isinstance(parts, list)
    assert sum(len(part) for part in parts if isinstance(part, bytes)) < 100
    assert b"".join(parts) == LONG + b',"_meta":{"a":1.0,"k":1},"isError":false}'


def test_a_long_result_of_very_many_members_is_one_part() -> None:
    members = {f"m{n}": "x" * 1000 for n in range(MAX_MEMBERS + 10)}

    done = with_meta(json.dumps(members | {"_meta": {}}).encode(), b"k", b"1")

    assert isinstance(done, bytes)
    assert json.loads(done) == members | {"_meta": {"k": 1}}


def test_a_long_empty_object_stays_one() -> None:
    assert json.loads(spliced(b"{" + b" " * COPY_BYTES + b"}")) == {"_meta": {"mcpd/view": {"n": 1}}}
    assert json.loads(spliced(b" " * COPY_BYTES + b"{}")) == {"_meta": {"mcpd/view": {"n": 1}}}


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (b"[]", "the result is an array, not an object"),
        (b'"x"', "the result is a string, not an object"),
        (b"-1", "the result is a number, not an object"),
        (b"null", "the result is null, not an object"),
        (b'{"_meta":[]}', "`_meta` of the result is an array, not an object"),
        (b'{"a":"\xff"}', "byte 6 is no UTF-8"),
        (b'{"a":"\xff","_meta":{}}', "byte 6 is no UTF-8"),
        (LONG + b',"a":"' + "é".encode()[:1] + b'"}', f"byte {len(LONG) + 6} is no UTF-8"),
        (b'{"a":Infinity}', "the answer is not valid JSON: invalid character"),
        (b'{"a":"\\udabc"}', "half of a surrogate pair"),
        (b'{"a":1}}', "the answer is not valid JSON: trailing characters"),
        (b'{"a":' + b'{"a":' * 5000 + b"1" + b"}" * 5001, "nested too deeply"),
    ],
)
def test_a_result_that_is_none_is_an_error_that_says_how(result: bytes, words: str) -> None:
    with pytest.raises(ServerProtocol) as caught:
        with_meta(result, b"k", b"1")

    assert words in caught.value.message


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["{", "}", '"_meta"', "{}"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["_meta", "a", "{", ""]), inner, max_size=3)
    ),
    max_leaves=8,
)
metas = st.dictionaries(st.text(max_size=3), values, max_size=3)


@given(
    st.dictionaries(st.text(max_size=3), values, max_size=4),
    st.none() | metas,
    st.sampled_from([None, 1]),
    st.booleans(),
)
def test_the_rest_of_a_result_means_the_same(
    members: dict[str, Any], meta: dict[str, Any] | None, indent: int | None, ensure_ascii: bool
) -> None:
    result = members if meta is None else members | {"_meta": meta}

    done = json.loads(spliced(json.dumps(result, indent=indent, ensure_ascii=ensure_ascii).encode()))

    assert done == result | {"_meta": (result.get("_meta") or {}) | {"mcpd/view": {"n": 1}}}
