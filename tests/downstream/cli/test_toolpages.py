import json
import shlex

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpd.downstream.cli.arguments import build
from mcpd.downstream.cli.commandline import ToolsCommand, parse_argv
from mcpd.downstream.cli.schema import read
from mcpd.downstream.cli.text import width
from mcpd.downstream.cli.toolpages import schema_page, tool_page, tools_output
from mcpd.downstream.cli.usage import example, type_text
from mcpd.errors import ServerProtocol

ITEMS = [
    {"server": "demo", "name": "echo", "description": "Say it\n\tagain and again, as often as you like"},
    {"server": "github", "name": "create_issue", "title": "Create an issue"},
    {"server": "github", "name": "日本", "description": "\x1b[31mred\u202e"},
]


def listing(items=ITEMS, **more):
    return json.dumps({"items": items, "total": len(items), "shown": len(items), **more}).encode()


def test_the_list_fits_a_terminal():
    output = tools_output(listing(), ToolsCommand(), 44)

    assert (output.exit, output.stderr) == (0, "")
    assert output.stdout == (
        "SERVER  TOOL          DESCRIPTION\n"
        "demo    echo          Say it again and agai…\n"
        "github  create_issue  Create an issue\n"
        "github  日本          red<U+202E>\n"
    )


def test_the_list_is_whole_and_tab_separated_in_a_pipe():
    assert tools_output(listing(), ToolsCommand(), None).stdout == (
        "demo\techo\tSay it again and again, as often as you like\n"
        "github\tcreate_issue\tCreate an issue\n"
        "github\t日本\tred<U+202E>\n"
    )


@pytest.mark.parametrize(
    ("page", "command", "notes"),
    [
        (listing(total=30, nextOffset=3), ToolsCommand(), "shown 3 of 30 tools; all of them: mcpd tools --all\n"),
        (
            listing(total=30, nextOffset=3),
            ToolsCommand("github"),
            "shown 3 of 30 tools; all of them: mcpd tools github --all\n",
        ),
        (listing(total=30, nextOffset=3), ToolsCommand(quiet=True), ""),
        (
            listing(stale=True, stale_servers=["one", "two"]),
            ToolsCommand(),
            "the list of 'one' is an earlier one; for a newer one: mcpd start one\n"
            "the list of 'two' is an earlier one; for a newer one: mcpd start two\n",
        ),
        (listing([]), ToolsCommand(), "no tools\n"),
        (
            listing([], problems=[{"code": 10, "message": "server 'x'\nis gone"}]),
            ToolsCommand(),
            "error: server 'x' is gone\n",
        ),
        (
            listing(incomplete=["a: too long"], set_aside=["b: no name"]),
            ToolsCommand(),
            "the list is not complete: a: too long\nleft out: b: no name\n",
        ),
    ],
)
def test_what_is_missing_in_the_list_is_said_on_stderr(page, command, notes):
    assert tools_output(page, command, None).stderr == notes


@pytest.mark.parametrize("page", [b"[]", b'{"items":{}}', b'{"items":[1]}'])
def test_what_is_no_list_is_an_error_of_the_server(page):
    with pytest.raises(ServerProtocol):
        tools_output(page, ToolsCommand(), None)


TOOL = {
    "name": "create_issue",
    "title": "Create an issue",
    "description": "Opens an issue in a repository.\n\nMarkdown is fine.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "What it is about, in a sentence that is not too long"},
            "state": {"enum": ["open", "closed"], "default": "open"},
            "labels": {"type": "array", "items": {"type": "string"}},
            "at": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}], "default": None},
            "filter": {"$ref": "#/$defs/Filter"},
            "any": {},
        },
        "required": ["title", "filter"],
        "$defs": {
            "Filter": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]}
        },
    },
    "outputSchema": {"type": "object"},
}


def test_the_page_of_a_tool_has_all_that_is_needed_to_call_it():
    output = tool_page("github", json.dumps(TOOL).encode(), 60)

    assert (output.exit, output.stderr) == (0, "")
    assert output.stdout == (
        "github.create_issue\n"
        "Create an issue\n"
        "\n"
        "  Opens an issue in a repository.\n"
        "\n"
        "  Markdown is fine.\n"
        "\n"
        "create_issue(\n"
        "    title: string,\n"
        '    state?: "open" | "closed",\n'
        "    labels?: string[],\n"
        "    at?: string | null,\n"
        "    filter: object,\n"
        "    any?: any,\n"
        ") -> object\n"
        "\n"
        "arguments:\n"
        "  title     string, required\n"
        "            What it is about, in a sentence that is not too\n"
        "            long\n"
        '  state     "open" | "closed", default "open"\n'
        "  labels    string[]\n"
        "  at        string | null\n"
        "  filter    object, required\n"
        "  filter.n  integer, required\n"
        "  any       any\n"
        "\n"
        "example:\n"
        "  mcpd call github create_issue title=TEXT filter.n=3\n"
    )


def test_the_page_keeps_lines_whole_in_a_pipe():
    stdout = tool_page("github", json.dumps(TOOL).encode(), None).stdout

    assert '\ncreate_issue(title: string, state?: "open" | "closed", labels?: string[], at?: string | null, ' in stdout
    assert "            What it is about, in a sentence that is not too long\n" in stdout


def test_a_tool_without_anything_has_a_page():
    assert tool_page("demo", b'{"name":"now"}', 80).stdout == ("demo.now\n\nnow()\n\nexample:\n  mcpd call demo now\n")


def test_a_page_is_bounded():
    properties = {f"p{number}": {"type": "string", "description": "d"} for number in range(5000)}
    tool = {"name": "wide", "inputSchema": {"properties": properties, "required": list(properties)}}

    stdout = tool_page("s", json.dumps(tool).encode(), 80).stdout

    assert stdout.count("\n") < 500
    assert "  … and more; the schema has them all: --schema\n" in stdout


def test_a_long_description_of_an_argument_is_cut():
    properties = {f"p{number}": {"$ref": "#/$defs/long"} for number in range(300)}
    schema = {"properties": properties, "$defs": {"long": {"description": "a " * 100_000}}}

    stdout = tool_page("s", json.dumps({"name": "t", "inputSchema": schema}).encode(), 80).stdout

    assert len(stdout) < 1_000_000
    assert "a…\n" in stdout


def test_a_schema_that_contains_itself_has_a_page():
    tool = {"name": "tree", "inputSchema": {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}}

    assert "  left.right.left    object\n" in tool_page("s", json.dumps(tool).encode(), 80).stdout


def test_the_schema_is_laid_out_with_its_numbers():
    descriptor = b'{"name":"x","inputSchema":{"a":1.0,"b":[12345678901234567890123]}}'

    assert schema_page(descriptor).stdout == '{\n  "a": 1.0,\n  "b": [\n    12345678901234567890123\n  ]\n}\n'
    assert schema_page(b'{"name":"x"}').stdout == ""


def test_the_schema_has_nothing_that_a_terminal_would_obey_and_means_the_same():
    schema = {"\x9b31m": "a\x7f\u202e\U000e0041é日"}
    descriptor = json.dumps({"name": "x", "inputSchema": schema}, ensure_ascii=False).encode()

    stdout = schema_page(descriptor).stdout

    assert stdout == '{\n  "\\u009b31m": "a\\u007f\\u202e\\udb40\\udc41é日"\n}\n'
    assert json.loads(stdout) == schema


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, "string"),
        ({"type": ["null", "integer"]}, "integer | null"),
        ({"type": "array"}, "any[]"),
        ({"type": "array", "items": {"type": ["string", "null"]}}, "(string | null)[]"),
        ({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}, "integer[][]"),
        ({"enum": ["a", 1, None]}, '"a" | 1 | null'),
        ({"const": "a"}, '"a"'),
        ({"anyOf": [{"enum": ["a"]}, {"type": "null"}]}, '"a" | null'),
        ({"enum": list(range(20))}, "0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | …"),
        ({"anyOf": [{"type": "string"}, {}]}, "any"),
        ({"type": "odd"}, "any"),
        ({}, "any"),
    ],
)
def test_a_type_is_said_in_short(schema, expected):
    assert type_text(read(json.dumps(schema).encode())) == expected


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"a": {"type": "string"}}, "a=TEXT"),
        ({"a": {"type": "string", "default": "it's"}}, "'a=it'\"'\"'s'"),
        ({"a": {"type": "string", "examples": ["@me"]}}, "a=@@me"),
        ({"a": {"type": "string", "examples": ["$(rm -rf ~); x"]}}, "'a=$(rm -rf ~); x'"),
        ({"a": {"type": "integer"}}, "a=1"),
        ({"a": {"type": "number", "minimum": 2.5}}, "a=2.5"),
        ({"a": {"type": "boolean"}}, "a=true"),
        ({"a": {"type": "null"}}, "a=null"),
        ({"a": {"enum": [1, 2]}}, "a=1"),
        ({"a": {"enum": ["x", 2]}}, "a=x"),
        ({"a": {"type": ["string", "integer"], "default": 5}}, "a:=5"),
        ({"a": {"default": "5"}}, "'a:=\"5\"'"),
        ({"a": {}}, "a=TEXT"),
        ({"a": {"type": "array", "items": {"type": "integer"}}}, "'a[]=1'"),
        ({"a": {"type": "array"}}, "'a[]=TEXT'"),
        ({"a": {"type": "array", "default": [1]}}, "'a=[1]'"),
        ({"a": {"type": "object"}}, "'a={}'"),
        ({"a": {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]}}, "a.b=1"),
        ({"a.b": {"type": "integer"}}, "a.b=1"),
        ({"-a": {}}, "-a=TEXT"),
        ({"a=b": {}}, ""),
    ],
)
def test_an_example_shows_one_way_to_give_each_argument(properties, expected):
    schema = read(json.dumps({"properties": properties}).encode())
    dashes = "-- " if expected.startswith("-") else ""

    assert example("s", "t", schema) == f"mcpd call {dashes}s t {expected}".rstrip()


def test_an_example_with_what_no_line_can_show_is_left_out():
    assert example("s", "t\n\x1b", None) == ""
    assert "example" not in tool_page("s", b'{"name":"a\\nb"}', 80).stdout


leaves = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(
            [
                "string",
                "integer",
                "number",
                "boolean",
                "array",
                "object",
                "null",
                ["string", "null"],
                ["integer", "boolean"],
            ]
        ),
        "default": st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers()),
        "enum": st.lists(st.text(max_size=20) | st.integers() | st.booleans(), min_size=1),
        "description": st.text(),
        "examples": st.lists(st.text() | st.integers()),
        "minimum": st.integers(-5, 5),
    },
)
names = st.sampled_from(["a", "b.c", "-e", "ü", "f g"])
odd_names = st.text(max_size=4) | st.sampled_from(["d[]", "=", ":", "", ".", "a.b"])


def objects_of(properties, closed):
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": not closed,
    }


def schemas_with(names):
    return st.recursive(
        leaves,
        lambda inner: (
            st.fixed_dictionaries({"type": st.just("array"), "items": inner})
            | st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)})
            | st.builds(objects_of, st.dictionaries(names, inner, max_size=3), st.booleans())
        ),
        max_leaves=5,
    )


@settings(max_examples=50)
@given(
    st.dictionaries(names | odd_names, schemas_with(names | odd_names), max_size=4), st.none() | st.integers(20, 120)
)
def test_every_tool_has_a_page(properties, columns):
    tool = {"name": "t", "inputSchema": {"type": "object", "properties": properties, "required": list(properties)}}

    stdout = tool_page("s", json.dumps(tool).encode(), columns).stdout

    assert stdout.startswith("s.t\n")
    assert stdout.endswith("\n")


def without_choices_of_another_type(schema):
    """Return whether no enum contradicts its own type, for which there is no right value."""
    parts = [
        schema,
        *schema.get("anyOf", []),
        *schema.get("properties", {}).values(),
        *([schema["items"]] if "items" in schema else []),
    ]
    return all(not ("enum" in part and "type" in part) for part in parts) and all(
        part is schema or without_choices_of_another_type(part) for part in parts
    )


@settings(max_examples=50)
@given(st.dictionaries(names, schemas_with(names).filter(without_choices_of_another_type), max_size=4))
def test_an_example_can_be_typed(properties):
    encoded = json.dumps({"properties": properties, "required": list(properties)}).encode()
    line = example("s", "t", read(encoded))

    if line:
        command = parse_argv(shlex.split(line)[1:], ["s"])
        assert isinstance(msgspec.json.decode(build(command, encoded, {})), dict)


@given(
    st.lists(st.fixed_dictionaries({"server": st.text(), "name": st.text(), "description": st.text()})),
    st.integers(1, 100),
)
def test_every_list_is_one_line_per_tool(items, columns):
    page = listing(items)

    assert tools_output(page, ToolsCommand(), None).stdout.count("\n") == len(items)
    shown = tools_output(page, ToolsCommand(), columns).stdout.splitlines()
    assert len(shown) == (len(items) + 1 if items else 0)
    assert all(width(line) <= max(columns, 64 * 4 + 14) for line in shown)
