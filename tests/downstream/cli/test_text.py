import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.downstream.cli.text import clean, fit, listed, near, one_line, size_text, table, width, wrap


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("ü 日本 😀", "ü 日本 😀"),
        ("👩\u200d💻", "👩\u200d💻"),
        ("a\r\nb\rc", "a\nbc"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[?1049h\x1b[2J\x1b[1;1Hx", "x"),
        ("\x9b31mred", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1;2q#0\x1b\\x\x1b_G\x1b\\", "x"),
        ("\x9d0;title\x9cx", "x"),
        ("\x1bc\x1b(0x\x1b7", "x"),
        # What does not end is text, without what began it.
        ("\x1b]0;title\nx", "0;title\nx"),
        ("\x1b[31", "31"),
        ("\x1b", ""),
        ("\x1b\x1b[31mx", "x"),
        ("\x1b\x00[31mx", "[31mx"),
        ("a\x00b\x07c\x08d\x7fe\x85f\x9fg", "abcdefg"),
        ("\u202eabc\u2066\u200f\u061c", "<U+202E>abc<U+2066><U+200F><U+061C>"),
        ("\U000e0041\U000e007f", "<U+E0041><U+E007F>"),
    ],
)
def test_text_loses_what_a_terminal_would_obey(text, expected):
    assert clean(text) == expected


FRAGMENTS = [
    "\x1b",
    "[",
    "]",
    "0;",
    "m",
    "\x9b",
    "\x9d",
    "\x07",
    "\\",
    "\x9c",
    "P",
    "\x18",
    "\x00",
    "\n",
    "é",
    "\u202e",
]


@given(st.lists(st.sampled_from(FRAGMENTS) | st.text()).map("".join))
def test_cleaned_text_has_no_controls_and_stays_as_it_is(text):
    cleaned = clean(text)

    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", cleaned)
    assert clean(cleaned) == cleaned


@given(st.text(st.characters(codec="ascii", min_codepoint=32, max_codepoint=126)))
def test_printable_text_is_not_touched(text):
    assert clean(text) is text


@pytest.mark.parametrize("start", ["\x1b[", "\x1b]", "\x9d", "\x1b", "\x1b[0", "\x1b ", "\x1b]0;x\x1b"])
def test_hostile_text_is_read_once(start):
    # Read from each beginning to the end, this would take hours.
    assert clean(start * 400_000 + "é").endswith("é")


def test_one_line_has_single_spaces_and_a_limit():
    assert one_line(" a\r\n\tb\x1b[31m  c ") == "a b c"
    assert one_line("a" * 100, 10) == "a" * 9 + "…"
    assert one_line("a" * 10, 10) == "a" * 10
    assert len(one_line("a b\n" * 1_000_000, 50)) == 50


@pytest.mark.parametrize(
    ("text", "columns"), [("", 0), ("abc", 3), ("日本", 4), ("\uff46", 2), ("e\u0301", 1), ("a\u200db", 2), ("ü", 1)]
)
def test_width_counts_columns(text, columns):
    assert width(text) == columns


@pytest.mark.parametrize(
    ("text", "columns", "expected"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdefg", 6, "abcde…"),
        ("日本語", 5, "日本…"),
        ("日本語", 6, "日本語"),
        ("ab cdef", 4, "ab…"),
    ],
)
def test_a_line_is_cut_to_columns(text, columns, expected):
    assert fit(text, columns) == expected


@given(st.text(), st.integers(1, 20))
def test_a_cut_line_is_never_too_wide(text, columns):
    assert width(fit(text, columns)) <= columns


@pytest.mark.parametrize(
    ("text", "columns", "expected"),
    [
        ("one two three", 8, ["one two", "three"]),
        ("one\n\ntwo", 80, ["one", "", "two"]),
        ("  - one two three", 9, ["  - one", "  two", "  three"]),
        ("日本語 日本語", 8, ["日本語", "日本語"]),
        ("averyverylongword a", 5, ["averyverylongword", "a"]),
        ("one two three", None, ["one two three"]),
    ],
)
def test_text_is_broken_between_words(text, columns, expected):
    assert wrap(text, columns) == expected
    assert wrap(text, columns and columns + 2, "  ") == [line and f"  {line}" for line in expected]


def test_a_table_fits_the_terminal_and_is_whole_in_a_pipe():
    rows = [("a", "日本", "some description"), ("bcd", "x", "short")]

    assert table(("ONE", "TWO", "THREE"), rows, 22) == ("ONE  TWO   THREE\na    日本  some descr…\nbcd  x     short\n")
    assert table(("ONE", "TWO", "THREE"), rows, None) == "a\t日本\tsome description\nbcd\tx\tshort\n"


def test_a_table_on_a_tiny_terminal_keeps_some_of_its_last_column():
    assert table(("A", "B"), [("x" * 30, "0123456789abc")], 20).endswith("012345678…\n")


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (3400, "3.4 kB"),
        (9949, "9.9 kB"),
        (9950, "10 kB"),
        (34123, "34 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (5_000_000, "5.0 MB"),
        (10**12, "1000 GB"),
    ],
)
def test_sizes_are_for_people(count, expected):
    assert size_text(count) == expected


@pytest.mark.parametrize(
    ("names", "expected"), [([], ""), (["a"], "a"), (["a", "b"], "a or b"), (["a", "b", "c"], "a, b or c")]
)
def test_names_are_listed_as_in_a_sentence(names, expected):
    assert listed(names, "or") == expected


@pytest.mark.parametrize(
    ("name", "expected"), [("titel", "title"), ("TITLE", "title"), ("bdoy", "Body"), ("zzz", None), ("", None)]
)
def test_the_nearest_name_is_found(name, expected):
    assert near(name, ["title", "Body", "x" * 1000]) == expected
