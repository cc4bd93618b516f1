from __future__ import annotations

import json
import os

import pytest

from mcpd_client.cli import render
from mcpd_client.cli.progress import ProgressLine, progress_text
from mcpd_client.errors import ClientError, ConnectionLost, DaemonNotRunning, RequestFailed

PLAIN = render.Style(1, environ={"NO_COLOR": "1"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP+q\x1b\\x\x1bcy", "xy"),
        ("\x9b31mx\x07\x00\x7f", "31mx"),
        ("a\rb\r\nc", "ab\nc"),
        ("\u202eevil\u2066", "evil"),
        ("\x1b[", ""),
        ("\x1b]never ended", ""),
    ],
)
def test_what_a_terminal_would_obey_is_removed(text: str, expected: str) -> None:
    assert render.clean(text) == expected


def test_a_table_on_a_terminal_has_a_header_and_fits() -> None:
    text = render.table(
        ("NAME", "NOTE"), [("a", "short"), ("long-name", "x" * 40), ("日本", "\x1b[31mwide")], columns=30, style=PLAIN
    )

    assert text == (
        "NAME       NOTE\n"
        "a          short\n"
        "long-name  xxxxxxxxxxxxxxxxxx…\n"
        "日本       wide\n"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (40, "NAME    NOTE\na       one two three four five six\n        seven\nlonger\n"),
        (24, "NAME\n     NOTE\na\n     one two three four\n     five six seven\nlonger\n"),
        (9, "NAME\n     NOTE\na\n     one two\n     three\n     four\n     five six\n     seven\nlonger\n"),
    ],
)
def test_a_table_can_keep_the_whole_of_its_last_column(columns: int, expected: str) -> None:
    rows = [("a", "one two three four five six seven"), ("longer", "")]

    assert render.table(("NAME", "NOTE"), rows, columns=columns, style=PLAIN, wrap=True) == expected


def test_a_path_is_shown_from_home_and_cut_at_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me/")

    assert render.short_path("/home/me") == "~"
    assert render.short_path("/home/me/shop") == "~/shop"
    assert render.short_path("/home/meadow") == "/home/meadow"
    assert render.short_path("/srv/shop/site", 9) == "…hop/site"


def test_a_table_in_a_pipe_is_whole_and_has_no_header() -> None:
    text = render.table(("NAME", "NOTE"), [("a", "x" * 200), ("b", "two\nlines\tand")], columns=None, style=PLAIN)

    assert text == f"a\t{'x' * 200}\nb\ttwo lines and\n"


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("日本語", 5, "日本…"), ("日本語", 6, "日本語"), ("é" * 4, 3, "éé…")],
)
def test_text_is_cut_by_the_cells_it_takes(text: str, width: int, expected: str) -> None:
    assert render.shorten(text, width) == expected


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (40 * 1024**2, "40 MiB"), (3 * 1024**3, "3.0 GiB")],
)
def test_sizes_are_for_people(count: int, expected: str) -> None:
    assert render.format_bytes(count) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"), [(-1, "0 s"), (59, "59 s"), (60, "1 min"), (7200, "2 h"), (200000, "2 d")]
)
def test_durations_are_for_people(seconds: float, expected: str) -> None:
    assert render.format_age(seconds) == expected


ERRORS = [
    (
        DaemonNotRunning("the daemon is not running", hint="mcpd up"),
        "error: the daemon is not running\n  try: mcpd up\n",
        {"code": 40, "class": "daemon_unreachable", "message": "the daemon is not running", "hint": "mcpd up"},
        6,
    ),
    (
        ConnectionLost("lost", may_have_run=True),
        "error: lost\n  the call may have run\n",
        {"code": 41, "class": "connection_lost", "message": "lost", "data": {"may_have_run": True}},
        6,
    ),
    (
        RequestFailed(
            {
                "code": 10,
                "message": "two\nlines \x1b[31mred",
                "data": {"class": "server_unavailable", "server": "s", "hint": "set x", "retry_after_seconds": 2.4},
            }
        ),
        "error: two lines red\n  try again in 2.4 s\n  set x\n",
        {
            "code": 10,
            "class": "server_unavailable",
            "message": "two\nlines \x1b[31mred",
            "server": "s",
            "hint": "set x",
            "data": {"class": "server_unavailable", "server": "s", "hint": "set x", "retry_after_seconds": 2.4},
        },
        4,
    ),
    (
        RequestFailed({"code": -32602, "message": "bad", "data": [1, 12345678901234567890]}),
        "error: bad\n",
        {"code": -32602, "message": "bad", "data": [1, 12345678901234567890]},
        4,
    ),
]


@pytest.mark.parametrize(("error", "text", "members", "status"), ERRORS)
def test_an_error_is_told_to_people_and_to_programs(
    error: ClientError, text: str, members: dict[str, object], status: int
) -> None:
    assert render.render_error(error) == text
    line = render.render_error(error, as_json=True)
    assert line.count("\n") == 1
    assert json.loads(line) == {"error": members}
    assert error.exit_code == status


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("unknown_server", 2), ("unknown_tool", 5), ("bad_request", 2), ("invalid_page", 2), ("server_unavailable", 4),
        ("server_lost", 4), ("timeout", 7), ("server_protocol", 4), ("too_large", 4), ("auth_required", 3), ("http", 4),
        ("connect", 4), ("version", 4), ("denied", 8), ("pending_trust", 8), ("approval_required", 8),
        ("misconfigured", 9), ("stopping", 4), ("overloaded", 4), ("shutting_down", 4), ("handle_expired", 4),
        ("stale_session", 4), ("input_required", 4),
    ],
)  # fmt: skip
def test_every_class_of_error_has_its_exit_code(kind: str, status: int) -> None:
    assert RequestFailed({"code": 1, "message": "m", "data": {"class": kind}}).exit_code == status


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"progress": 1, "total": 4}, "[#####...............] 1/4"),
        ({"progress": 9, "total": 4, "message": "over"}, "[####################] 9/4 over"),
        ({"progress": 3}, "/ 3"),
        ({"progress": 3, "message": "two\nlines\x1b[2J"}, "/ two lines"),
        ({"progress": "x", "total": None}, "/ x"),
    ],
)
def test_progress_is_a_bar_or_something_that_turns(params: dict[str, object], expected: str) -> None:
    assert progress_text(params, 1) == expected


def test_progress_is_shown_ten_times_a_second_and_goes_away() -> None:
    read, write = os.pipe()
    moments = iter([0.0, 0.05, 0.1])
    line = ProgressLine(write, columns=30, clock=lambda: next(moments))

    for count in (1, 2, 3):
        line("notifications/progress", {"progress": count, "total": 3, "message": "a long message"})
    line("notifications/message", {"data": "something else"})
    line.clear()
    line.clear()

    os.close(write)
    with open(read, "rb") as file:
        assert (
            file.read()
            == b"\r\x1b[K[######..............] 1/3 a\xe2\x80\xa6\r\x1b[K[####################] 3/3 a\xe2\x80\xa6\r\x1b[K"
        )
