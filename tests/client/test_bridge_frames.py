from __future__ import annotations

import pytest

from mcpd_client.bridge.frames import HostFrames, Lines

LINES = b'\r\n \n{"a":1}\r\n  {"b":2} \nx\ty \n\n{"c":3}\n{"d"'
FRAMES = (
    b'\r\n Content-Length: 7\r\n\r\n{"a":1}CONTENT-LENGTH:8\nX: y\n\n{"b":\r\n}Content-Length: 0\r\n\r\n'
    b'Content-Length: x\r\n\r\nContent-Length: 7\r\n\r\n{"c":3}Content-Length: 9\r\n\r\n{"d"'
)


def fed(frames: HostFrames | Lines, data: bytes, size: int) -> list[bytes]:
    return [line for start in range(0, len(data), size) for line in frames.feed(data[start : start + size])]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 1000])
def test_lines_come_out_whole_however_they_come_in(size: int) -> None:
    frames = HostFrames()

    assert fed(frames, LINES, size) == [b'{"a":1}\n', b'{"b":2}\n', b"x\ty\n", b'{"c":3}\n']
    assert frames.rest() == [b'{"d"\n']
    assert frames.rest() == []
    assert frames.wrap(b"x\n") == (b"x\n",)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 1000])
def test_framed_messages_come_out_as_lines_however_they_come_in(size: int) -> None:
    frames = HostFrames()

    assert fed(frames, FRAMES, size) == [b'{"a":1}\n', b'{"b":\r }\n', b'{"c":3}\n']
    assert frames.rest() == []
    assert b"".join(frames.wrap(b"{}\n")) == b"Content-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_of_a_line_that_is_too_long_both_ends_are_kept(size: int) -> None:
    frames = HostFrames(max_bytes=4000)
    data = b'{"id":1}\n{"id":2,' + b"x" * 4000 + b',"x":4}\n' + b'{"id":3}\n' + b"y" * 4001

    assert fed(frames, data, size) == [b'{"id":1}\n', b'{"id":3}\n']
    assert frames.rest() == []
    assert [(text[:8], text[-3:], len(text) <= 2048) for text in frames.too_long] == [
        (b'{"id":2,', b":4}", True),
        (b"y" * 8, b"yyy", True),
    ]


@pytest.mark.parametrize("size", [1, 7, 64, 5000])
def test_a_framed_message_that_is_too_long_is_skipped(size: int) -> None:
    frames = HostFrames(max_bytes=2000)
    data = b"Content-Length: 2001\r\n\r\n" + b'{"id":2,' + b"x" * 1992 + b"}Content-Length: 2\r\n\r\n{}"

    assert fed(frames, data, size) == [b"{}\n"]
    assert [(text[:8], text[-3:]) for text in frames.too_long] == [(b'{"id":2,', b"xx}")]


def test_a_line_without_end_is_not_kept() -> None:
    lines = Lines(max_bytes=1000)
    for _ in range(1000):
        lines.feed(b"x" * 1000)

    assert sum(len(part) for part in lines._parts) <= 2048


def test_a_header_without_end_is_not_kept() -> None:
    frames = HostFrames()
    frames.feed(b"Content-Length: 5\r\n")
    for _ in range(100):
        frames.feed(b"X: " + b"y" * 1000)

    assert fed(frames, b"\r\n\r\nContent-Length: 2\r\n\r\n{}", 5) == [b"{}\n"]


@pytest.mark.parametrize("length", [b"-5", b"1e3", b"9" * 6000, b"", b"5 5"])
def test_a_length_that_is_none_is_none(length: bytes) -> None:
    frames = HostFrames()

    assert frames.feed(b"Content-Length: " + length + b"\r\n\r\nContent-Length: 2\r\n\r\n{}") == [b"{}\n"]


def test_a_few_bytes_decide_nothing() -> None:
    frames = HostFrames()

    assert frames.feed(b"cont") == []
    assert frames.rest() == [b"cont\n"]
