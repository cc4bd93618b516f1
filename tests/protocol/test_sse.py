"""Server-sent events: the bytes of a stream in, whole events out, however the reads cut it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.errors import TooLarge
from mcpd.protocol.sse import BOM, Decoder, Event

LIMIT = 1 << 20


def read(stream: bytes, *, cuts: list[int] | None = None, decoder: Decoder | None = None) -> list[Event]:
    """Feed a stream in pieces, as `cuts` says."""
    decoder = decoder or Decoder(LIMIT)
    edges = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts or [])})
    return [event for start, end in pairwise(edges) for event in decoder.feed(stream[start:end])]


def message(data: str) -> Event:
    return Event("message", data.encode())


STREAMS: list[tuple[str, bytes, list[Event]]] = [
    ("nothing", b"", []),
    ("one event", b"data: {}\n\n", [message("{}")]),
    ("no blank before the data", b"data:{}\n\n", [message("{}")]),
    ("only the first blank goes", b"data:  x\n\n", [message(" x")]),
    ("a name", b"event: ping\ndata: x\n\n", [Event("ping", b"x")]),
    ("a name goes with its event", b"event: ping\ndata: x\n\ndata: y\n\n", [Event("ping", b"x"), message("y")]),
    ("an empty name is none", b"event:\ndata: x\n\n", [message("x")]),
    ("a name without data is no event", b"event: ping\n\ndata: x\n\n", [message("x")]),
    ("several lines", b"data: {\ndata: }\n\n", [message("{\n}")]),
    ("an empty line of data", b"data: a\ndata\ndata: b\n\n", [message("a\n\nb")]),
    ("data without a value", b"data\n\n", [message("")]),
    ("comments", b": hello\n\n:\n\ndata: x\n: between\n\n", [message("x")]),
    ("fields that nobody knows", b"datas: no\nfoo\ndata: x\n\n", [message("x")]),
    ("a field with a blank in front is unknown", b" data: no\n\ndata: x\n\n", [message("x")]),
    ("CR LF", b"event: a\r\ndata: x\r\n\r\ndata: y\r\n\r\n", [Event("a", b"x"), message("y")]),
    ("CR", b"event: a\rdata: x\r\rdata: y\r\r", [Event("a", b"x"), message("y")]),
    ("ends of all kinds", b"data: x\r\n\ndata: y\r\rdata: z\n\r\n", [message("x"), message("y"), message("z")]),
    ("a byte order mark", BOM + b"data: x\n\n", [message("x")]),
    ("a mark further on is text", b"data: " + BOM + b"x\n\n", [Event("message", BOM + b"x")]),
    ("a mark in front of a later field makes it another one", b"\n" + BOM + b"data: x\n\n", []),
    ("separators of Unicode are text", "data: a\u2028b\u2029c\u0085d\x0be\x0cf\n\n".encode(), [message("a\u2028b\u2029c\u0085d\x0be\x0cf")]),
    ("no end, no event", b"data: x\n\ndata: y\n", [message("x")]),
]  # fmt: skip


@pytest.mark.parametrize(("stream", "events"), [row[1:] for row in STREAMS], ids=[row[0] for row in STREAMS])
def test_a_stream_is_read_as_the_specification_says_wherever_it_is_cut(stream: bytes, events: list[Event]) -> None:
    assert read(stream) == events
    assert read(stream, cuts=list(range(len(stream)))) == events
    for cut in range(len(stream)):
        assert read(stream, cuts=[cut]) == events, cut


LINES = st.lists(
    st.sampled_from([
        b"", b"data", b"data: {}", b"data:x", b"event: e", b"id: 1", b"id", b"retry: 5", b": c", b"x: y", b"data: \xe2\x80\xa8",
    ]), max_size=12,
)  # fmt: skip


@given(LINES, st.lists(st.sampled_from([b"\n", b"\r", b"\r\n"]), min_size=1), st.lists(st.integers(0, 400)))
def test_where_the_reads_cut_changes_nothing(lines: list[bytes], ends: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(line + ends[index % len(ends)] for index, line in enumerate(lines))
    whole, cut = Decoder(LIMIT), Decoder(LIMIT)

    assert read(stream, decoder=whole) == read(stream, cuts=cuts, decoder=cut)
    assert (whole.last_id, whole.retry_ms, whole.blocks) == (cut.last_id, cut.retry_ms, cut.blocks)


@given(st.lists(st.text(alphabet=st.characters(exclude_characters="\r\n", codec="utf-8")), min_size=1), st.lists(st.integers(0, 400)))
def test_text_arrives_as_it_was_sent(texts: list[str], cuts: list[int]) -> None:
    stream = "".join(f"data: {text}\n\n" for text in texts).encode()

    assert read(stream, cuts=cuts) == [message(text) for text in texts]


@pytest.mark.parametrize(
    ("stream", "last_id"),
    [
        (b"id: a\ndata: x\n\n", b"a"),
        (b"id: a\n\n", b"a"),
        (b"id: a\ndata:\n\ndata: y\n\n", b"a"),
        (b"id: a\n\nid: b\n\n", b"b"),
        (b"id: a\n\nid\n\n", None),
        (b"id: a\n\nid: b\0c\n\n", b"a"),
        (b"id: a\n\nid: b\ndata: half an event\n", b"a"),
        (b"data: x\n\n", None),
    ],
)
def test_the_id_to_go_on_after_is_that_of_the_last_whole_event(stream: bytes, last_id: bytes | None) -> None:
    decoder = Decoder(LIMIT)
    decoder.feed(stream)

    assert decoder.last_id == last_id


@pytest.mark.parametrize(
    ("stream", "retry_ms"),
    [
        (b"retry: 500\n", 500),
        (b"retry:0\n", 0),
        (b"retry: 5\nretry: 7\n", 7),
        (b"retry: soon\n", None),
        (b"retry: -5\n", None),
        (b"retry: \xd9\xa3\n", None),
        (b"retry: " + b"9" * 5000 + b"\n", None),
        (b"retry: 500", None),
    ],
)
def test_a_pause_is_a_number_of_milliseconds(stream: bytes, retry_ms: int | None) -> None:
    decoder = Decoder(LIMIT)
    decoder.feed(stream)

    assert decoder.retry_ms == retry_ms


def test_the_stream_that_goes_on_begins_with_what_the_one_before_had() -> None:
    before = Decoder(LIMIT)
    before.feed(b"id: a\nretry: 7\n\nid: b\ndata: half")

    after = before.resumed()

    assert (after.last_id, after.retry_ms, after.blocks) == (b"a", 7, 0)
    assert after.feed(BOM + b"data: x\n\n") == [message("x")]
    assert after.last_id == b"a"


@pytest.mark.parametrize("stream", [b"data: " + b"x" * 100, b"data: xxxxxxxxx\n" * 12, b"x" * 101, b"event: e\ndata: y\ndata: " + b"z" * 99])
def test_an_event_over_the_limit_is_not_kept(stream: bytes) -> None:
    with pytest.raises(TooLarge, match="longer than 100 bytes"):
        read(stream, cuts=list(range(len(stream))), decoder=Decoder(100))


def test_the_limit_is_that_of_one_event_not_of_the_stream() -> None:
    assert len(read((b"data: " + b"x" * 80 + b"\n\n") * 50, decoder=Decoder(100))) == 50
