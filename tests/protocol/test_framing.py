"""Framing: the bytes of a stream in, whole messages out, however the reads cut it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.protocol.framing import HEAD_BYTES, HEADER_BYTES, FrameDecoder, Overlong, encode_frame

BIG = 1 << 20


def read(stream: bytes, *, max_bytes: int = BIG, cuts: list[int] | None = None) -> list[bytes | Overlong]:
    """Feed a stream in pieces, as `cuts` says, and return what comes out without blanks around it."""
    decoder = FrameDecoder(max_bytes)
    edges = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts or [])})
    messages: list[bytes | Overlong] = []
    for start, end in pairwise(edges):
        messages += decoder.feed(stream[start:end])
        assert decoder.buffered <= max(max_bytes, HEAD_BYTES) + HEADER_BYTES
    last = decoder.finish()
    if last is not None:
        messages.append(last)
    assert decoder.buffered == 0
    return [message if isinstance(message, Overlong) else message.strip() for message in messages]


def lsp(body: bytes, *, end: bytes = b"\r\n", name: bytes = b"Content-Length", more: bytes = b"") -> bytes:
    return name + b": " + str(len(body)).encode() + end + more + end + body


def test_one_whole_line_is_handed_out_as_it_came() -> None:
    line = b'{"jsonrpc":"2.0","id":1,"result":{}}\n'

    (message,) = FrameDecoder(BIG).feed(line)

    assert message is line


@pytest.mark.parametrize(
    ("stream", "messages"),
    [
        (b"", []),
        (b"\n", []),
        (b" \r\n\t\n\n", []),
        (b"{}\n", [b"{}"]),
        (b"{}\r\n", [b"{}"]),
        (b'  {"a":1} \t\r\n', [b'{"a":1}']),
        (b"{}\n{}\n[]\n", [b"{}", b"{}", b"[]"]),
        (b"{}\n\n\r\n{}\n", [b"{}", b"{}"]),
        (b"starting on port 80\n{}\n", [b"starting on port 80", b"{}"]),
        (b"{}\nno json\n{}\n", [b"{}", b"no json", b"{}"]),
        (b"\xef\xbb\xbf{}\n\xef\xbb\xbf {}\n", [b"{}", b"{}"]),
        (b"\xef\xbb\xbf\n{}\n", [b"{}"]),
        (b'{"a":1}\n{"last":true}', [b'{"a":1}', b'{"last":true}']),
        (b"{}\n  \t", [b"{}"]),
        ('{"a":"\u2028\u2029\x85"}\n'.encode(), ['{"a":"\u2028\u2029\x85"}'.encode()]),
        (b'{"a":"\x0b\x0c\x1c\r"}\n', [b'{"a":"\x0b\x0c\x1c\r"}']),
        (lsp(b"{}"), [b"{}"]),
        (lsp(b"{}", end=b"\n"), [b"{}"]),
        (lsp(b"{}", name=b"CONTENT-length"), [b"{}"]),
        (lsp(b"{}", more=b"Content-Type: application/json; charset=utf-8\r\n"), [b"{}"]),
        (b"Content-Type: application/json\r\n" + lsp(b"{}"), [b"Content-Type: application/json", b"{}"]),
        (b"content-length :2 \n\n{}", [b"{}"]),
        (lsp(b"{}") + lsp(b'{\n"a":\n1}') + lsp(b"[]"), [b"{}", b'{ "a": 1}', b"[]"]),
        (lsp(b"{}") + b"\r\n" + lsp(b"[]") + b"\n", [b"{}", b"[]"]),
        (b"{}\n" + lsp(b"[1]") + b"{}\nlog\n" + lsp(b"[2]"), [b"{}", b"[1]", b"{}", b"log", b"[2]"]),
        (lsp(b"") + b"{}\n", [b"{}"]),
        (lsp(b"{}")[:-1], []),
        (b"Content-Length: 2\r\n", []),
        (b"Content-Length: 2", [b"Content-Length: 2"]),
        (b"Content-Length: two\n{}\n", [b"Content-Length: two", b"{}"]),
        (b"Content-Length: -2\n{}\n", [b"Content-Length: -2", b"{}"]),
        (b"Content-Length:\n{}\n", [b"Content-Length:", b"{}"]),
        (b"Content-Length-Of: 2\n{}\n", [b"Content-Length-Of: 2", b"{}"]),
        (b"Content-Length: " + b"9" * 5000 + b"\n{}\n", [b"Content-Length: " + b"9" * 5000, b"{}"]),
        (b"Content-Length: 2\n{}\n", [b"Content-Length: 2", b"{}"]),
        (b"Content-Length: 9\nHost: x\n[1]\n", [b"Content-Length: 9", b"Host: x", b"[1]"]),
        (b"Content-Length: 9\nGET / HTTP/1.1\n", [b"Content-Length: 9", b"GET / HTTP/1.1"]),
        (b"Content-Length: 9\nContent-Length: 2\n\n{}", [b"{}"]),
        (
            b"Content-Length: 9\n2026-01-01 10:00 ok\n" + lsp(b"{}"),
            [b"Content-Length: 9", b"2026-01-01 10:00 ok", b"{}"],
        ),
    ],
)
def test_a_stream_becomes_messages_wherever_it_is_cut(stream: bytes, messages: list[bytes]) -> None:
    assert read(stream) == messages
    assert read(stream, cuts=list(range(len(stream)))) == messages
    for cut in range(min(len(stream), 200)):
        assert read(stream, cuts=[cut]) == messages


def test_an_endless_header_is_no_header() -> None:
    stream = b"Content-Length: 2\n" + b"X-Log: something\n" * 1000 + b"{}\n"

    messages = read(stream)

    assert messages == stream.split(b"\n")[:-1]


def test_the_framing_is_what_the_peer_used_last() -> None:
    decoder = FrameDecoder(BIG)
    seen = [decoder.framing]

    for stream in (lsp(b"{}"), b"a log line\n", b"\n", b"{}\n", lsp(b"{}"), b"{}\n{}\n", lsp(b"{}"), b" [1]\n"):
        decoder.feed(stream)
        seen.append(decoder.framing)

    cl, nl = "content-length", "newline"
    assert seen == [nl, cl, cl, cl, nl, cl, nl, cl, nl]


def test_a_line_at_the_limit_passes_and_one_byte_more_does_not() -> None:
    assert read(b"{" + b"x" * 9 + b"\n{}\n", max_bytes=10) == [b"{" + b"x" * 9, b"{}"]
    assert read(b"{" + b"x" * 10 + b"\n{}\n", max_bytes=10) == [Overlong(b"{" + b"x" * 9), b"{}"]


def test_an_overlong_line_is_reported_when_the_limit_is_passed_and_skipped_to_its_end() -> None:
    decoder = FrameDecoder(10_000)

    assert decoder.feed(b'{"id":7,' + b"x" * 9_000) == []
    (overlong,) = decoder.feed(b"y" * 2_000)
    for _ in range(100):
        assert decoder.feed(b"z" * 100_000) == []
        assert decoder.buffered == 0
    messages = decoder.feed(b'z{"not":"this"}\n{"id":8}\n')

    assert overlong == Overlong((b'{"id":7,' + b"x" * 9_000)[:HEAD_BYTES])
    assert messages == [b'{"id":8}']


def test_an_overlong_frame_is_reported_with_its_size_and_skipped_to_its_end() -> None:
    body = b'{"id":7,' + b"x" * 50_000

    messages = read(lsp(body) + b"{}\n" + lsp(b"[]"), max_bytes=10_000, cuts=[10, 30, 3_000, 20_000])

    assert messages == [Overlong(body[:HEAD_BYTES], len(body)), b"{}", b"[]"]


def test_an_overlong_line_ends_at_the_end_of_the_stream() -> None:
    assert read(b"x" * 100, max_bytes=10, cuts=[50]) == [Overlong(b"x" * 10)]


def test_a_long_line_in_many_pieces_comes_out_whole() -> None:
    line = b'{"text":"' + bytes(range(32, 34)) * 300_000 + b'"}'

    messages = read(line + b"\r\n{}\n", cuts=list(range(0, len(line), 131_072)))

    assert messages == [line, b"{}"]


@pytest.mark.parametrize("framing", ["newline", "content-length"])
def test_what_is_encoded_is_read_back(framing: str) -> None:
    bodies = [b"{}", b'{"a":"' + b"x" * 300_000 + b'"}', '["\u2028é"]'.encode()]

    assert read(b"".join(encode_frame(body, framing) for body in bodies)) == bodies


bodies = st.one_of(
    st.sampled_from([b"{}", b'{"id":1}', b"[1, 2]", b"log line", b"7", b'{"a":"\xe2\x80\xa8"}', b"Content-Type: x"]),
    st.binary(min_size=1, max_size=40).map(lambda raw: b"{" + raw.replace(b"\n", b"").strip() + b"}"),
)
frames = st.tuples(bodies, st.sampled_from([b"\n", b"\r\n", b" \n\n", b"\n\r\n", b"LSP"]))


@given(st.lists(frames, max_size=12), st.lists(st.integers(0, 2000), max_size=20))
def test_mixed_streams_come_out_whole_at_every_cut(parts: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
    stream = b"".join(lsp(body) if end == b"LSP" else body + end for body, end in parts)

    # A line break between tokens would be the end of a line where the message goes next.
    assert read(stream, cuts=cuts) == [body.replace(b"\r", b" ") if end == b"LSP" else body for body, end in parts]


@given(
    st.lists(
        st.sampled_from(
            [b"{", b"}", b"\n", b"\r", b" ", b"x", b"Content-Length: 3", b"\n\n", b"\xef\xbb\xbf", b":", b"99"]
        )
    ).map(b"".join),
    st.lists(st.integers(0, 500), max_size=20),
    st.integers(1, 30),
)
def test_any_stream_reads_the_same_at_every_cut(stream: bytes, cuts: list[int], max_bytes: int) -> None:
    assert read(stream, cuts=cuts, max_bytes=max_bytes) == read(stream, max_bytes=max_bytes)


def test_a_frame_that_says_it_has_ten_gibibytes_takes_no_room() -> None:
    decoder, size = FrameDecoder(BIG), 10 << 30

    messages = decoder.feed(b"Content-Length: %d\r\n\r\n" % size + b'{"id":1,' + b" " * 100_000)

    assert [message for message in messages if not isinstance(message, Overlong)] == []
    assert decoder.buffered <= HEAD_BYTES + HEADER_BYTES
