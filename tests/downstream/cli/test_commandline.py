import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.downstream.cli.commandline import CallCommand, ToolsCommand, parse_argv, wants_json
from mcpd.errors import BadRequest

SERVERS = ("github", "demo")


def parse(*argv):
    return parse_argv(argv, SERVERS)


def refusal(*argv):
    with pytest.raises(BadRequest) as caught:
        parse(*argv)
    return caught.value


@pytest.mark.parametrize(
    ("words", "server", "tool", "rest"),
    [
        (["github", "create"], "github", "create", ()),
        (["github.create"], "github", "create", ()),
        (["github.create", "title=x"], "github", "create", ("title=x",)),
        (["github.issues.create", "a=1", "b=2"], "github", "issues.create", ("a=1", "b=2")),
        (["github", "issues.create"], "github", "issues.create", ()),
        (["github", "demo.echo"], "github", "demo.echo", ()),
        (["github.create", "title"], "github", "create", ("title",)),
        # An unknown server is left to whoever knows what is near.
        (["gihub", "create", "a=1"], "gihub", "create", ("a=1",)),
        (["gihub.create"], "gihub", "create", ()),
        (["gihub.create", "a=1"], "gihub", "create", ("a=1",)),
        (["gihub.create", '{"a":1}'], "gihub", "create", ('{"a":1}',)),
        (["git.hub", "create"], "git.hub", "create", ()),
        (["github", "create", "-"], "github", "create", ("-",)),
        (["github", "create", ""], "github", "create", ("",)),
    ],
)
def test_a_call_names_a_server_and_a_tool_in_one_word_or_two(words, server, tool, rest):
    assert parse("call", *words) == CallCommand(server, tool, rest)


def test_a_server_whose_name_has_a_dot_goes_before_a_tool():
    assert parse_argv(["call", "a.b", "c"], ["a", "a.b"]) == CallCommand("a.b", "c")
    assert parse_argv(["call", "a.b", "c=1"], ["a"]) == CallCommand("a", "b", ("c=1",))


OPTIONS = [
    (["--args", '{"a":1}'], {"args": '{"a":1}'}),
    (["--args=@f.json"], {"args": "@f.json"}),
    (["--args", "-"], {"args": "-"}),
    (["--args="], {"args": ""}),
    (["--json"], {"as_json": True}),
    (["--timeout", "2.5"], {"timeout_seconds": 2.5}),
    (["--timeout=30"], {"timeout_seconds": 30.0}),
    (["--timeout=1", "--timeout=2"], {"timeout_seconds": 2.0}),
    (["--max-bytes", "65536"], {"max_bytes": 65536}),
    (["--no-check"], {"check": False}),
    (["--field", "content[0].text"], {"field": "content[0].text"}),
    (["-q"], {"quiet": True}),
    (["--quiet"], {"quiet": True}),
]


@pytest.mark.parametrize(("options", "expected"), OPTIONS)
@pytest.mark.parametrize("position", range(4))
def test_options_stand_anywhere(options, expected, position):
    words = ["github", "create", "title=x"]
    words[position:position] = options

    assert parse("call", *words) == CallCommand("github", "create", ("title=x",), **expected)


def test_two_dashes_end_the_options():
    command = parse("call", "github", "--json", "--", "create", "-x=1", "--json", "--")

    assert command == CallCommand("github", "create", ("-x=1", "--json", "--"), as_json=True)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--jsn"], "unknown option '--jsn'; did you mean --json?"),
        (["--maxbytes=1"], "unknown option '--maxbytes'; did you mean --max-bytes?"),
        (["--title=x"], "unknown option '--title'"),
        (["-x=1"], "unknown option '-x'"),
        (["-qq"], "unknown option '-qq'"),
        (["--json=1"], "--json takes no value"),
        (["-q=1"], "-q takes no value"),
        (["--args"], "--args needs a value"),
        (["--field", "--json"], "--field needs a value"),
        (["--args", "--"], "--args needs a value"),
        (["--args={}", "--args={}"], "--args is given twice"),
        (["--timeout", "30s"], "--timeout takes a number of seconds, such as 30 or 2.5, not '30s'"),
        (["--timeout", "-5"], "--timeout takes a number of seconds, such as 30 or 2.5, not '-5'"),
        (["--timeout", "0"], "--timeout takes a number of seconds, such as 30 or 2.5, not '0'"),
        (["--timeout", "inf"], "--timeout takes a number of seconds, such as 30 or 2.5, not 'inf'"),
        (["--timeout", "1_0"], "--timeout takes a number of seconds, such as 30 or 2.5, not '1_0'"),
        (["--max-bytes", "0"], "--max-bytes takes a number of bytes, such as 65536, not '0'"),
        (["--max-bytes", "32k"], "--max-bytes takes a number of bytes, such as 65536, not '32k'"),
        (["--max-bytes", "9" * 5000], f"--max-bytes takes a number of bytes, such as 65536, not '{'9' * 59}…'"),
        (["--field", "a..b"], "--field a..b is no path: something is wrong at ..b"),
    ],
)
def test_a_wrong_option_is_named(argv, message):
    problem = refusal("call", "github", "create", *argv)

    assert problem.message == message
    assert problem.hint


def test_an_argument_with_dashes_gets_to_know_how_it_is_written():
    problem = refusal("call", "github", "create", "--title=x")

    assert problem.details["reason"] == "arguments of the tool have no dashes: title=VALUE"
    assert problem.hint == "mcpd call --help"


@pytest.mark.parametrize(
    ("argv", "message", "hint"),
    [
        ([], "call needs a server and a tool", "mcpd call --help"),
        (["--json"], "call needs a server and a tool", "mcpd call --help"),
        ([""], "call needs a server and a tool", "mcpd call --help"),
        (["gihub"], "call needs a tool", "mcpd call --help"),
        (["github"], "which tool of 'github'?", "mcpd tools github"),
        (["github", "title=x"], "which tool of 'github'?", "mcpd tools github"),
        (["github."], "call needs a server and a tool", "mcpd call --help"),
        ([".create"], "call needs a server and a tool", "mcpd call --help"),
    ],
)
def test_a_call_without_server_or_tool_shows_the_usage(argv, message, hint):
    problem = refusal("call", *argv)

    assert (problem.message, problem.hint) == (message, hint)
    assert problem.details["reason"].startswith("usage: mcpd call SERVER TOOL")


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ([], ToolsCommand()),
        (["github"], ToolsCommand("github")),
        (["gihub"], ToolsCommand("gihub")),
        (["github.create"], ToolsCommand("github", "create")),
        (["github.issues.create"], ToolsCommand("github", "issues.create")),
        (["github", "create"], ToolsCommand("github", "create")),
        (["gihub.create"], ToolsCommand("gihub", "create")),
        (["github.create", "--schema"], ToolsCommand("github", "create", schema=True)),
        (["--all", "--json", "-q"], ToolsCommand(all=True, as_json=True, quiet=True)),
        (["--", "-odd"], ToolsCommand("-odd")),
    ],
)
def test_tools_is_about_all_servers_one_or_one_tool(argv, expected):
    assert parse("tools", *argv) == expected


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--schema"], "--schema is about one tool"),
        (["github", "--schema"], "--schema is about one tool"),
        (["a", "b", "c"], "'c' is too much"),
        (["github."], "a name is empty"),
        ([""], "a name is empty"),
        (["--timeout=3"], "unknown option '--timeout'"),
        (["--shema"], "unknown option '--shema'; did you mean --schema?"),
    ],
)
def test_a_wrong_tools_line_is_refused(argv, message):
    assert refusal("tools", *argv).message == message


@pytest.mark.parametrize("argv", [[], ["status"], ["--json", "call"]])
def test_only_call_and_tools_are_commands(argv):
    assert "call and tools" in refusal(*argv).message


@pytest.mark.parametrize(
    ("argv", "expected"),
    [(["call", "--json"], True), (["call", "--jsn", "--json"], True), (["call", "--", "--json"], False), ([], False)],
)
def test_errors_are_json_as_soon_as_the_option_is_there(argv, expected):
    assert wants_json(argv) is expected


@given(st.lists(st.text() | st.sampled_from(["--json", "--args", "--", "-q", "github", "github.x", "a=1", "--field"])))
def test_any_line_is_read_or_refused(argv):
    for command in ("call", "tools"):
        try:
            parsed = parse(command, *argv)
        except BadRequest as problem:
            parsed = problem
        assert isinstance(parsed, CallCommand | ToolsCommand | BadRequest)
