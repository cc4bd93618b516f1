from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcpd_client.hosts import toml
from mcpd_client.hosts.jsonc import EditError

ENTRY = {"command": "/bin/mcpd", "args": ["bridge", "demo"]}
BLOCK = '[mcp_servers.demo]\ncommand = "/bin/mcpd"\nargs = ["bridge", "demo"]\n'
PATIENT = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", BLOCK),
        ("# mine\n", f"# mine\n\n{BLOCK}"),
        ("a = 1", f"a = 1\n\n{BLOCK}"),
        ("a = 1 # why\n[b]\n", f"a = 1 # why\n[b]\n\n{BLOCK}"),
        ("a = 1\r\n", "a = 1\r\n\r\n" + BLOCK.replace("\n", "\r\n")),
        ("\ufeffa = 1\n", f"\ufeffa = 1\n\n{BLOCK}"),
        ("[mcp_servers.other]\ncommand = 'x'\n", f"[mcp_servers.other]\ncommand = 'x'\n\n{BLOCK}"),
    ],
)
def test_a_new_table_comes_at_the_end(before: str, after: str) -> None:
    assert toml.set_entry(before, "mcp_servers", "demo", ENTRY) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (BLOCK, BLOCK),
        (
            '[mcp_servers.demo] # mine\ncommand = "old" # why\nargs = [ # all\n  "a", # one\n]\nenabled = true\n',
            '[mcp_servers.demo] # mine\ncommand = "/bin/mcpd" # why\nargs = ["bridge", "demo"]\nenabled = true\n',
        ),
        (
            "[mcp_servers]\ndemo.command = 'old'\ndemo . \"args\" = []\n",
            '[mcp_servers]\ndemo.command = "/bin/mcpd"\ndemo . "args" = ["bridge", "demo"]\n',
        ),
        (
            "[mcp_servers.demo]\ncommand = 'old'",
            '[mcp_servers.demo]\nargs = ["bridge", "demo"]\ncommand = "/bin/mcpd"',
        ),
    ],
)
def test_of_a_table_that_is_there_only_the_values_change(before: str, after: str) -> None:
    assert toml.set_entry(before, "mcp_servers", "demo", ENTRY) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (BLOCK, ""),
        (f"a = 1\n\n{BLOCK}", "a = 1\n"),
        (f"a = 1\n\n{BLOCK}\n# of b\n[b]\nc = 2\n", "a = 1\n\n# of b\n[b]\nc = 2\n"),
        ("[mcp_servers]\n\n[mcp_servers.demo]\na = 1\n[mcp_servers.demo.env]\nT = 'x'\n", "[mcp_servers]\n"),
        ("[mcp_servers]\nother.a = 1\ndemo.a = 2 # mine\n", "[mcp_servers]\nother.a = 1\n"),
        ('[mcp_servers]\ndemo = { command = "x" }\nother = {}\n', "[mcp_servers]\nother = {}\n"),
        ('s = """\n[mcp_servers.demo]\n"""\n[ mcp_servers . "demo" ]\na=1\n', 's = """\n[mcp_servers.demo]\n"""\n'),
        ("s = '''\n# ''''\n[mcp_servers.'demo']\nx = [\n [1], # ]\n]\n[z]\n", "s = '''\n# ''''\n[z]\n"),
        ("a = 1\r\n\r\n[mcp_servers.demo]\r\nb = 2\r\n", "a = 1\r\n"),
        ("[mcp_servers.demo2]\na = 1\n", "[mcp_servers.demo2]\na = 1\n"),
        ("", ""),
    ],
)
def test_a_table_is_removed_with_what_is_below_it_and_nothing_else(before: str, after: str) -> None:
    assert toml.remove(before, "mcp_servers", "demo") == after


@pytest.mark.parametrize(
    "text",
    [
        "a = ",
        "[mcp_servers",
        "a = 1\na = 2\n",
        "mcp_servers = 1\n",
        "[[mcp_servers]]\na = 1\n",
        'mcp_servers = { demo = { command = "x" } }\n',
        "a = " + "[" * 100_000,
    ],
)
def test_what_cannot_be_edited_is_refused(text: str) -> None:
    for edit in (
        lambda: toml.set_entry(text, "mcp_servers", "demo", ENTRY),
        lambda: toml.remove(text, "mcp_servers", "demo") if "demo" in text else toml.remove(text, "mcp_servers", "x"),
    ):
        with pytest.raises(EditError):
            edit()


def test_a_section_in_one_line_takes_no_more() -> None:
    with pytest.raises(EditError, match="too unusual"):
        toml.set_entry("mcp_servers = {}\n", "mcp_servers", "demo", ENTRY)


def test_any_name_and_text_can_be_written() -> None:
    text = toml.dump("a b", 'q"\\', {"x y": "\x7f\x01\n'\"\\é", "l": []})

    assert tomllib.loads(text) == {"a b": {'q"\\': {"x y": "\x7f\x01\n'\"\\é", "l": []}}}


def test_comments_are_told_from_text() -> None:
    assert toml.has_comments("a = 1 # x")
    assert toml.has_comments("a = [ # x\n]")
    assert not toml.has_comments("a = '#'\nb = \"\"\"\n# '''\n\"\"\"\nc = '''\n# \"\n'''\n\"#\" = 1")


REMARKS = st.sampled_from(["", " # note", " # [mcp_servers.demo]", '  # "'])
VALUES = st.sampled_from(
    [
        "1",
        "true",
        '"x # y"',
        "'[a]'",
        '"""\n[mcp_servers.new]\n"""',
        "'''\n# no\n''''",
        "[1, 2]",
        "[ # c\n 1,\n [2],\n]",
        "{ a = 1 }",
        "1979-05-27",
        '"\\""',
    ]
)
LINES = st.sampled_from(["", "\n", "# comment\n", "  \n", "\n\n"])


@st.composite
def documents(draw: Any) -> str:
    """Tables with values and comments in many forms, some of them servers."""
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    names = draw(
        st.lists(st.sampled_from(["mcp_servers.a", 'mcp_servers."b c"', "x", "y.z", "mcp_servers.a.env"]), unique=True)
    )
    parts = [draw(LINES)]
    for name in ["", *names]:
        if name:
            parts.append(f"[{name}]{draw(REMARKS)}\n")
        for key in draw(st.lists(st.sampled_from(["k", '"q#"', "'l'", "d.e"]), unique=True, max_size=3)):
            parts += [f"{key} = {draw(VALUES)}{draw(REMARKS)}\n", draw(LINES)]
    text = "".join(parts).replace("\n", newline)
    return text.removesuffix(newline) if draw(st.booleans()) else text


@PATIENT
@given(text=documents())
def test_a_table_comes_and_goes_without_a_trace(text: str) -> None:
    old = tomllib.loads(text)
    newline = "\r\n" if "\r\n" in text else "\n"

    added = toml.set_entry(text, "mcp_servers", "new", ENTRY)

    assert added.startswith(text)
    assert tomllib.loads(added)["mcp_servers"] == {**old.get("mcp_servers", {}), "new": ENTRY}
    assert toml.set_entry(added, "mcp_servers", "new", ENTRY) == added
    ended = text if not text or text.endswith("\n") else text + newline
    assert toml.remove(added, "mcp_servers", "new") in (
        ended,
        ended.removesuffix(newline) if not ended.strip() else ended,
    )


@PATIENT
@given(text=documents())
def test_removing_a_table_leaves_all_others(text: str) -> None:
    old = tomllib.loads(text)

    result = toml.remove(text, "mcp_servers", "a")

    servers = {name: table for name, table in old.get("mcp_servers", {}).items() if name != "a"}
    left = tomllib.loads(result)
    assert left.pop("mcp_servers", {}) == servers
    assert left == {key: value for key, value in old.items() if key != "mcp_servers"}
    rest = iter(text)
    assert all(character in rest for character in result), "something was put in"


@PATIENT
@given(text=documents(), command=st.text(max_size=5))
def test_values_are_set_in_place(text: str, command: str) -> None:
    old = tomllib.loads(text)
    if "a" not in old.get("mcp_servers", {}):
        text += "\n[mcp_servers.a]\nk = 1 # one\n"
        old = tomllib.loads(text)

    result = toml.set_entry(text, "mcp_servers", "a", {"command": command})

    expected = json.loads(json.dumps(old, default=str))
    expected["mcp_servers"]["a"]["command"] = command
    assert json.loads(json.dumps(tomllib.loads(result), default=str)) == expected
    assert result.count("#") == text.count("#") + command.count("#")
