from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcpd_client.hosts import jsonc, jsonedit
from mcpd_client.hosts.jsonc import EditError

ENTRY = {"command": "/bin/mcpd", "args": ["bridge", "demo"]}
PATH = ("mcpServers", "demo")
LINES = """\
{
  "mcpServers": {
    "demo": {
      "command": "/bin/mcpd",
      "args": [
        "bridge",
        "demo"
      ]
    }
  }
}
"""


@pytest.mark.parametrize("text", ["", " \n\t", "{}", "\ufeff", "\ufeff{}"])
def test_an_entry_into_nothing_makes_a_whole_file(text: str) -> None:
    mark = "\ufeff" if text.startswith("\ufeff") else ""

    assert jsonedit.set_value(text, PATH, ENTRY).rstrip() == (mark + LINES).rstrip()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{\n  "a": 1\n}\n', '{\n  "a": 1,\n  "x": 2\n}\n'),
        ('{\n  "a": 1,\n}\n', '{\n  "a": 1,\n  "x": 2,\n}\n'),
        ('{\n\t"a": 1 // why\n}', '{\n\t"a": 1, // why\n\t"x": 2\n}'),
        ('{\n\t"a": 1, // why\n\t// below\n}', '{\n\t"a": 1, // why\n\t"x": 2,\n\t// below\n}'),
        ('{\n  "a": 1 /* b */ /* c\n d */\n}', '{\n  "a": 1, /* b */ /* c\n d */\n  "x": 2\n}'),
        ('{\r\n    "a": "\\"}//"\r\n}\r\n', '{\r\n    "a": "\\"}//",\r\n    "x": 2\r\n}\r\n'),
        ('{\n  "a": 1 }', '{\n  "a": 1,\n  "x": 2 }'),
        ('{"a": 1}', '{"a": 1, "x": 2}'),
        ('{"a": 1,}', '{"a": 1, "x": 2,}'),
        ('{"a":1}', '{"a":1,"x":2}'),
        ('{ "a": {"b": 1} }', '{ "a": {"b": 1}, "x": 2 }'),
        ("{ /* none */ }", '{ /* none */ "x": 2}'),
        ("// top\n{ // none\n}", '// top\n{ // none\n  "x": 2\n}'),
        ("// only", '// only\n{\n  "x": 2\n}\n'),
        ('{"a": 1, "x": 3 /* old */}', '{"a": 1, "x": 2 /* old */}'),
        ('{\n  "x": {"deep": [1, 2]}, // old\n  "b": 1\n}', '{\n  "x": 2, // old\n  "b": 1\n}'),
    ],
)
def test_a_member_is_set_as_its_neighbours_are_laid_out(before: str, after: str) -> None:
    assert jsonedit.set_value(before, ("x",), 2) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{\n  "a": 1,\n  "x": 2\n}\n', '{\n  "a": 1\n}\n'),
        ('{\n  "a": 1,\n  "x": 2,\n}\n', '{\n  "a": 1,\n}\n'),
        ('{\n  "x": 2, // its own\n  // of b\n  "b": 1\n}\n', '{\n  // of b\n  "b": 1\n}\n'),
        ('{\n  "a": 1, // of a\n  "x": 2\n  // more\n}', '{\n  "a": 1 // of a\n  // more\n}'),
        ('{"a": 1, "x": 2}', '{"a": 1}'),
        ('{"x": 2, "a": 1}', '{"a": 1}'),
        ('{"a": 1, /* of x */ "x": 2}', '{"a": 1 /* of x */ }'),
        ('{\n  "a": 1\n  , "x": 2\n}', '{\n  "a": 1\n  \n}'),
        ('{\n  "a": 1,\n  "x": 2 }', '{\n  "a": 1 }'),
        ('{\n  "x": {\n  }\n}\n', "{}\n"),
        ('{\n  // stays\n  "x": 2\n}', "{\n  // stays\n}"),
        ('{\r\n\t"a": 1,\r\n\t"x": [\r\n\t]\r\n}', '{\r\n\t"a": 1\r\n}'),
        ('{"a": 1}', '{"a": 1}'),
        ("", ""),
        ("// x", "// x"),
    ],
)
def test_a_member_is_removed_with_its_line_and_nothing_else(before: str, after: str) -> None:
    assert jsonedit.remove(before, ("x",)) == after


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{a: 1}", "line 1, column 2: expected a key in double quotes"),
        ("{'a': 1}", "column 2"),
        ('{\n  "a" 1}', "line 2, column 7: expected a colon"),
        ('{"a": 1 "b": 2}', "column 9: expected a comma"),
        ('{"a": 1', "expected a comma or }"),
        ('{"a": [1 2]}', "expected a comma or ]"),
        ('{"a": /* 1}', "expected a value"),
        ('{"a": 01}', "expected a value"),
        ('{"a": NaN}', "expected a value"),
        ('{"a": "\t"}', "expected a value"),
        ('{"a": "\\x"}', "expected a value"),
        ('{"a": 1} {}', "expected the end of the file"),
        ('{"a": 1,,}', "expected a key"),
        ("[" * 100_000, "levels"),
        ('"', "expected a value"),
    ],
)
def test_what_is_not_json_with_comments_is_refused_with_its_place(text: str, complaint: str) -> None:
    for edit in (lambda: jsonedit.set_value(text, ("x",), 2), lambda: jsonedit.remove(text, ("x",))):
        with pytest.raises(EditError, match=re.escape(complaint)):
            edit()


@pytest.mark.parametrize(
    "text", ["[]", "7", '{"mcpServers": []}', '{"mcpServers": null}', '{"mcpServers": {"demo": 1, "demo": 2}}']
)
def test_what_has_no_place_for_an_entry_is_refused(text: str) -> None:
    with pytest.raises(EditError, match=r"is not an object|is there twice"):
        jsonedit.set_value(text, PATH, ENTRY)


def test_comments_are_told_from_text() -> None:
    assert jsonc.has_comments('{"a": 1 /**/}')
    assert jsonc.has_comments('{"a": "x"} // "')
    assert not jsonc.has_comments('{"url": "https://x/*y*/", "b": "\\"//"}')


# How long an example takes is the machine's business.
PATIENT = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SPACE = st.sampled_from(
    ["", " ", "\n", "\n  ", "\t", "\r\n  ", " // note\n", '/* a "}, */', "\n\n  // 'x' {\n  ", "/**//* */"]
)
NAMES = st.sampled_from(["a", "demo", "mcpServers", "é", 'q"', "//", ""])
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4)
)


@st.composite
def values(draw: Any, depth: int = 2) -> str:
    """A value with space, comments and trailing commas anywhere they may be."""
    kind = draw(st.sampled_from(["scalar", "object", "array"])) if depth else "scalar"
    if kind == "scalar":
        return json.dumps(draw(SCALARS), ensure_ascii=draw(st.booleans()))
    if kind == "array":
        items = [draw(SPACE) + draw(values(depth - 1)) + draw(SPACE) for _ in range(draw(st.integers(0, 2)))]
        return f"[{_joined(draw, items)}]"
    return draw(objects(depth))


@st.composite
def objects(draw: Any, depth: int = 3) -> str:
    names = draw(st.lists(NAMES, max_size=3, unique=True))
    members = [
        f"{draw(SPACE)}{json.dumps(name)}{draw(SPACE)}:{draw(SPACE)}{draw(values(depth - 1))}{draw(SPACE)}"
        for name in names
    ]
    return "{" + _joined(draw, members) + "}"


def _joined(draw: Any, parts: list[str]) -> str:
    end = ("," + draw(SPACE)) if parts and draw(st.booleans()) else draw(SPACE)
    return ",".join(parts) + end


def _comments(text: str) -> list[str]:
    pieces = re.findall(r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|/\*.*?\*/', text, re.DOTALL)
    return [piece for piece in pieces if piece.startswith("/")]


@PATIENT
@given(text=objects(), before=SPACE, after=SPACE, value=st.sampled_from([ENTRY, 1, [], {}]))
def test_setting_a_member_changes_nothing_else(text: str, before: str, after: str, value: Any) -> None:
    text = before + text + after
    old = jsonc.read(text)

    for path in (("new",), ("a",), ("mcpServers", "demo")):
        if len(path) == 2 and not isinstance(old.get(path[0], {}), dict):
            continue
        result = jsonedit.set_value(text, path, value)
        expected = json.loads(json.dumps(old))
        inner = expected if len(path) == 1 else expected.setdefault(path[0], {})
        is_new = path[-1] not in inner
        inner[path[-1]] = value
        assert jsonc.read(result) == expected
        if is_new:
            assert _comments(result) == _comments(text)
            # Only something was put in: what was there comes in the same order.
            rest = iter(result)
            assert all(character in rest for character in text if not character.isspace())
        assert jsonedit.set_value(result, path, value) == result or not is_new


@PATIENT
@given(text=objects(), before=SPACE, after=SPACE)
def test_removing_what_was_set_leaves_what_was_there(text: str, before: str, after: str) -> None:
    text = before + text + after
    old = jsonc.read(text)

    result = jsonedit.remove(jsonedit.set_value(text, ("new",), ENTRY), ("new",))

    assert jsonc.read(result) == old
    assert _comments(result) == _comments(text)
    assert "".join(result.split()) == "".join(text.split())


@PATIENT
@given(text=objects(), name=NAMES)
def test_removing_a_member_leaves_the_others_with_their_comments(text: str, name: str) -> None:
    old = jsonc.read(text)

    result = jsonedit.remove(text, (name,))

    assert jsonc.read(result) == {key: value for key, value in old.items() if key != name}
    rest = iter(text)
    assert all(character in rest for character in result), "something was put in"


@PATIENT
@given(text=st.text(alphabet='{}[],:"/*\\ \n1ae', max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        value = jsonc.read(text)
    except EditError:
        return
    if isinstance(value, dict):
        assert jsonc.read(jsonedit.set_value(text, ("new",), 1)) == {**value, "new": 1}
