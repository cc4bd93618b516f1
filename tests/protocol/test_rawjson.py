"""One look into JSON that stays bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from mcpd.errors import ServerProtocol
from mcpd.protocol.rawjson import UTF8_STEP_BYTES, elements, kind, members, require_utf8, string


def test_members_and_elements_are_the_bytes_that_came() -> None:
    value = b'{"a": 1.0 , "b": [1e400, 12345678901234567890123], "c": "\\u00e9"}'

    found = members(value, "x")

    assert {name: bytes(raw) for name, raw in found.items()} == {
        "a": b"1.0", "b": b"[1e400, 12345678901234567890123]", "c": b'"\\u00e9"'
    }  # fmt: skip
    assert [bytes(raw) for raw in elements(found["b"], "b")] == [b"1e400", b"12345678901234567890123"]


@pytest.mark.parametrize(
    ("value", "text"), [(b'"\\u00e9"', "é"), (b"null", None), (b"7", None), (b"", None), (b"{}", None)]
)
def test_only_a_string_has_text(value: bytes, text: str | None) -> None:
    assert string(Raw(value)) == text


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (b"{}", "an object"), (b" \n[]", "an array"), (b'"x"', "a string"), (b"-1.5", "a number"), (b"0", "a number"),
        (b"true", "true"), (b"false", "false"), (b"null", "null"), (b"", "nothing"),
    ],
)  # fmt: skip
def test_every_value_has_a_name(value: bytes, name: str) -> None:
    assert kind(value) == name


@given(st.integers(UTF8_STEP_BYTES - 5, UTF8_STEP_BYTES + 5), st.text(st.sampled_from("aä€😀"), max_size=20))
def test_characters_across_a_step_are_utf8(ascii_bytes: int, rest: str) -> None:
    require_utf8(b"x" * ascii_bytes + rest.encode())


@given(
    st.integers(UTF8_STEP_BYTES - 5, UTF8_STEP_BYTES + 5),
    st.sampled_from([b"\xff", b"\xe2\x82", b"\xc0\x80", b"\xed\xa0\x80"]),
)
def test_the_first_byte_that_is_no_utf8_is_named(ascii_bytes: int, broken: bytes) -> None:
    for end in (b"", b"x", b"x" * 70_000):
        with pytest.raises(ServerProtocol, match=f"byte {ascii_bytes} is no UTF-8"):
            require_utf8(b"x" * ascii_bytes + broken + end)
