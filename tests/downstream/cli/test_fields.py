import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.downstream.cli.fields import Missing, find, parse_path, spelled
from mcpd.errors import BadRequest

RESULT = (
    b'{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"structuredContent":'
    b'{"items":[{"id":12345678901234567890123,"odd.key":1.0}],"none":null,"empty":{},"no":[]}}'
)


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("a", ("a",)),
        ("a.b", ("a", "b")),
        ("a[0].b", ("a", 0, "b")),
        ("a[-1][2]", ("a", -1, 2)),
        ('a["b.c"].d', ("a", "b.c", "d")),
        ('["x.y"]', ("x.y",)),
        (r'a["\"]"]', ("a", '"]')),
        ("[0]", (0,)),
        ("a-b.ü c", ("a-b", "ü c")),
    ],
)
def test_a_path_has_names_indices_and_quoted_names(path, steps):
    assert parse_path(path) == steps
    assert spelled(steps) == path


@pytest.mark.parametrize(
    "path",
    ["", ".", "a.", ".a", "a..b", "a[", "a[]", "a[x]", "a[0", "a[0]b", 'a"b', 'a["b]', "a[1e3]", "a[99999999999]"],
)
def test_what_is_no_path_is_refused_with_an_example(path):
    with pytest.raises(BadRequest) as caught:
        parse_path(path)

    assert "is no path" in caught.value.message
    assert "content[0].text" in caught.value.hint


def test_a_path_has_an_end():
    with pytest.raises(BadRequest):
        parse_path("a" + "[0]" * 100)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("content[0].text", b'"a"'),
        ("content[-1].text", b'"b"'),
        ("structuredContent.items[0].id", b"12345678901234567890123"),
        ('structuredContent.items[0]["odd.key"]', b"1.0"),
        ("structuredContent.none", b"null"),
        ("structuredContent.empty", b"{}"),
    ],
)
def test_a_value_is_found_as_it_came(path, value):
    assert bytes(find(RESULT, parse_path(path))) == value


@pytest.mark.parametrize(
    ("path", "message", "reason"),
    [
        (
            "contents",
            "the result has no contents",
            "the result has content and structuredContent; did you mean content?",
        ),
        ("content[2]", "the result has no content[2]", "content has 2 elements"),
        ("content[-3]", "the result has no content[-3]", "content has 2 elements"),
        ("content.text", "the result has no content.text", "content is an array of 2 elements: write content[0]"),
        (
            "structuredContent.no[0]",
            "the result has no structuredContent.no[0]",
            "structuredContent.no has no elements",
        ),
        ("structuredContent.none.x", "the result has no structuredContent.none.x", "structuredContent.none is null"),
        (
            "structuredContent.empty.x",
            "the result has no structuredContent.empty.x",
            "structuredContent.empty is an empty object",
        ),
        ("structuredContent[0]", "the result has no structuredContent[0]", "structuredContent is an object"),
        ("content[0].text.x", "the result has no content[0].text.x", "content[0].text is a string"),
    ],
)
def test_a_missing_value_says_what_is_there(path, message, reason):
    with pytest.raises(Missing) as caught:
        find(RESULT, parse_path(path))

    assert (caught.value.message, caught.value.reason) == (message, reason)


def test_only_some_of_many_names_are_listed():
    result = msgspec.json.encode({f"k{number}": 1 for number in range(100)})

    with pytest.raises(Missing) as caught:
        find(result, ["x"])

    assert caught.value.reason.endswith("k11 and 88 more")


@given(st.lists(st.text(min_size=1) | st.integers(-9, 9), min_size=1, max_size=8))
def test_every_way_can_be_spelled_and_read_again(steps):
    if not any("\ud800" <= character <= "\udfff" for step in steps if isinstance(step, str) for character in step):
        assert parse_path(spelled(steps)) == tuple(steps)


@given(st.text())
def test_any_text_is_a_path_or_none(path):
    try:
        steps = parse_path(path)
    except BadRequest as problem:
        steps = problem.args

    assert steps
