"""Reading a file: every content has an outcome, and a wrong entry hurts no other."""

import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpd.config import schema
from mcpd.config.load import config_path, load, parse
from mcpd.config.model import Limits, Server, Stop, Timeout, Tools

GOOD = '[servers.good]\ncommand = "true"\n\n'


def read(text, **environ):
    return parse(text, "/etc/config.toml", {"HOME": "/home/ann", "PATH": "/bin", **environ})


def only_problem(text):
    config = read(GOOD + text)
    assert list(config.servers) == ["good"]
    assert len(config.problems) == 1, [str(problem) for problem in config.problems]
    return config.problems[0]


@pytest.fixture
def file(tmp_path):
    """Write bytes as the configuration and load it by name."""

    def load_bytes(content):
        path = tmp_path / "config.toml"
        path.write_bytes(content)
        return load(str(path), {"HOME": str(tmp_path)})

    return load_bytes


# Where the file is


@pytest.mark.parametrize(
    ("option", "environ", "expected"),
    [
        ("/a/b.toml", {"HOME": "/h", "MCPD_CONFIG": "/c.toml"}, "/a/b.toml"),
        (None, {"HOME": "/h", "MCPD_CONFIG": "/c.toml", "XDG_CONFIG_HOME": "/x"}, "/c.toml"),
        (None, {"HOME": "/h", "MCPD_CONFIG": "~/c.toml"}, "/h/c.toml"),
        (None, {"HOME": "/h", "XDG_CONFIG_HOME": "/x"}, "/x/mcpd/config.toml"),
        (None, {"HOME": "/h", "XDG_CONFIG_HOME": "relative"}, "/h/.config/mcpd/config.toml"),
        (None, {"HOME": "/h", "MCPD_CONFIG": "", "XDG_CONFIG_HOME": ""}, "/h/.config/mcpd/config.toml"),
    ],
)
def test_the_path_comes_from_the_option_then_the_environment_then_the_home(option, environ, expected):
    assert config_path(option, environ) == expected


def test_a_relative_option_becomes_absolute_because_the_daemon_may_change_its_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    assert config_path("c.toml", {"HOME": "/h"}) == f"{tmp_path}/c.toml"


def test_without_any_file_there_is_the_demo_server(tmp_path):
    config = load(None, {"HOME": str(tmp_path)})

    assert config.file is None
    assert config.path == f"{tmp_path}/.config/mcpd/config.toml"
    assert config.problems == ()
    demo = config.servers["demo"]
    assert list(config.servers) == ["demo"]
    assert demo.command == sys.executable
    assert os.path.isfile(demo.args[0])
    assert demo.target == "mcpd demo-server"


@pytest.mark.parametrize("by", ["option", "variable"])
def test_a_missing_file_that_was_named_is_a_problem_of_the_file(tmp_path, by):
    path = str(tmp_path / "none.toml")

    config = load(path, {}) if by == "option" else load(None, {"MCPD_CONFIG": path})

    assert config.servers == {}
    assert config.unusable
    assert str(config.problems[0]) == f"{path}: there is no such file"


def test_a_link_to_nothing_at_the_usual_place_is_a_problem_and_not_the_demo(tmp_path):
    (tmp_path / "mcpd").mkdir()
    (tmp_path / "mcpd" / "config.toml").symlink_to(tmp_path / "unmounted.toml")

    config = load(None, {"HOME": "/h", "XDG_CONFIG_HOME": str(tmp_path)})

    assert config.servers == {}
    assert config.unusable


def test_an_empty_file_has_no_servers_and_no_demo(file):
    config = file(b"")

    assert config.servers == {}
    assert config.problems == ()
    assert not config.unusable


def test_the_null_device_is_an_empty_file():
    config = load("/dev/null", {"HOME": "/h"})

    assert config.servers == {}
    assert config.problems == ()


# Files that are no configuration


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'[servers.good]\ncommand = "true"\nargs = []\n\n[servers.b\n', "line 5, column 11: not TOML: expected ']'"),
        (b'[servers.a]\ncommand = "x', "line 2, column 13: not TOML"),
        (b"[servers.a]\n[servers.a]\n", "line 2, column 11: not TOML"),
        (b"a = 1\na = 2\n", "line 2, column 6: not TOML"),
        (b'\xef\xbb\xbf[servers.a]\ncommand = "true"\n', "line 1, column 1: the file begins with a byte order mark"),
        ('[servers.a]\ncommand = "true"\n'.encode("utf-16"), "expected UTF-8, found UTF-16"),
        ('[servers.a]\ncommand = "true"\n'.encode("utf-16-le"), "line 1, column 2: found a NUL byte"),
        ('x = "1"\n# für\n'.encode("latin-1"), "line 2, column 4: expected UTF-8, found 0xfc"),
        (b'x = "1"\ny = "\0"\n', "line 2, column 6: found a NUL byte"),
        (b"\x7fELF\x02\x01\x01\0\0\0", "found a NUL byte"),
        (b'{"mcpServers": {}}', "line 1, column 1: not TOML"),
        (b"x = " + b"[" * 100_000, "nested too deeply"),
        (b"x = " + b"1" * 5000, "not TOML"),
        (b"# " + b"x" * (4 * 1024 * 1024), "over 4194304 bytes"),
    ],
)
def test_a_file_that_is_no_toml_has_one_problem_with_its_place(file, content, says):
    config = file(content)

    assert config.servers == {}
    assert config.wrong == {}
    assert config.unusable
    assert len(config.problems) == 1
    assert f"config.toml: {says}" in str(config.problems[0]) or says in str(config.problems[0])
    assert "\n" not in str(config.problems[0])


def test_a_folder_is_a_problem_of_the_file(tmp_path):
    config = load(str(tmp_path), {})

    assert config.unusable
    assert str(config.problems[0]).endswith("cannot read it: is a directory")


def test_a_pipe_that_nobody_writes_to_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    config = load(str(tmp_path / "pipe"), {})

    assert "found a pipe or a device" in str(config.problems[0])


@pytest.mark.parametrize("path", ["/dev/zero", "/etc/passwd/config.toml", "/" + "x" * 5000, "/a\0b"])
def test_whatever_the_system_refuses_is_a_problem_of_the_file(path):
    assert load(path, {}).unusable


def test_a_file_that_we_may_not_read_is_a_problem_of_the_file(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(GOOD)
    path.chmod(0)
    # Root reads everything, so ask as somebody who may not.
    program = (
        "import os, sys\n"
        "from mcpd.config.load import load\n"
        "os.getuid() or os.setuid(65534)\n"
        "print(load(sys.argv[1], {}).problems[0])\n"
    )
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents[:3]:
        if parent.stat().st_uid == os.getuid() and str(parent) != "/tmp":
            parent.chmod(0o755)

    said = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True).stdout

    assert said == f"{path}: cannot read it: permission denied\n"


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_make_it_raise(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(content)

    load(str(path), {})


# Whole entries


def test_an_entry_with_every_key_becomes_a_server():
    config = read(
        """
        [daemon]
        drain_seconds = 1
        idle_exit_seconds = 600

        [servers.github]
        command = "npx"
        args = ["-y", "@x/y"]
        env = { TOKEN = "${GITHUB_TOKEN}" }
        env_pass = ["SSH_AUTH_SOCK"]
        cwd = "${project}"
        enabled = true
        scope = "user"
        protocol = "2025-06-18"
        framing = "content-length"
        timeout = { start_seconds = 1, call_seconds = 2.5, max_seconds = 3, idle_seconds = 0 }
        stop = { drain_seconds = 0, eof_seconds = 1, term_seconds = 0.5 }
        tools = { allow = ["get_*"], deny = ["get_secret"] }
        prewarm = true
        retry = "never"
        limits = { in_flight = 1, items = 2, pages = 3, message_bytes = 4, result_bytes = 5 }
        on_timeout = "keep"
        on_rpc_error = "retire"
        allow_legacy_sse = true
        insecure = true
        interactive = ["ask_*"]
        """
    )

    assert config.problems == ()
    assert config.daemon.drain_seconds == 1.0
    assert config.daemon.idle_exit_seconds == 600.0
    assert config.servers == {
        "github": Server(
            name="github",
            command="npx",
            args=("-y", "@x/y"),
            env={"TOKEN": "${GITHUB_TOKEN}"},
            env_pass=("SSH_AUTH_SOCK",),
            cwd="${project}",
            scope="user",
            protocol="2025-06-18",
            framing="content-length",
            timeout=Timeout(start_seconds=1.0, call_seconds=2.5, max_seconds=3.0, idle_seconds=0.0),
            stop=Stop(drain_seconds=0.0, eof_seconds=1.0, term_seconds=0.5),
            tools=Tools(allow=("get_*",), deny=("get_secret",)),
            prewarm=True,
            retry="never",
            limits=Limits(in_flight=1, items=2, pages=3, message_bytes=4, result_bytes=5),
            on_timeout="keep",
            on_rpc_error="retire",
            allow_legacy_sse=True,
            insecure=True,
            interactive=("ask_*",),
        )
    }


def test_a_short_entry_gets_the_documented_defaults():
    server = read('[servers.a]\nurl = "https://h/mcp"\nheaders = { X-Key = "${KEY}" }').servers["a"]

    assert server.transport == "http"
    assert server.headers == {"X-Key": "${KEY}"}
    assert server.timeout == Timeout(start_seconds=30.0, call_seconds=30.0, max_seconds=3600.0, idle_seconds=300.0)
    assert server.stop == Stop(drain_seconds=5.0, eof_seconds=5.0, term_seconds=2.0)
    assert server.tools == Tools(allow=("*",), deny=())
    assert server.limits == Limits(in_flight=64, items=1000, pages=100, message_bytes=67108864, result_bytes=16777216)
    assert (server.enabled, server.scope, server.protocol, server.framing) == (True, "auto", "auto", "auto")
    assert (server.retry, server.on_timeout, server.on_rpc_error) == ("safe", "probe", "keep")


def test_every_key_of_a_server_has_a_rule():
    assert set(schema.SERVER) == set(Server.__struct_fields__) - {"name", "shown_as"} | {"disabled"}


def test_servers_keep_the_order_of_the_file():
    names = ["z", "a", "m", "0"]

    config = read("".join(f'[servers.{name}]\ncommand = "x"\n' for name in names))

    assert list(config.servers) == names


def test_a_wrong_entry_is_misconfigured_and_hurts_no_other():
    config = read(GOOD + "[servers.b]\ncommand = 5\n")

    assert list(config.servers) == ["good"]
    assert list(config.wrong) == ["b"]
    assert str(config.wrong["b"]) == (
        "/etc/config.toml: servers.b.command: expected text, found a number; put it in quotes"
    )
    assert not config.unusable


def test_all_problems_of_an_entry_are_reported_and_the_first_stands_for_it():
    config = read('[servers.b]\ncommand = "x"\nprewarm = 1\nretry = "always"\nlimits = { items = 0 }\n')

    assert [problem.key for problem in config.problems] == [
        "servers.b.prewarm",
        "servers.b.retry",
        "servers.b.limits.items",
    ]
    assert config.wrong == {"b": config.problems[0]}


def test_the_error_of_a_wrong_entry_names_file_key_and_server():
    error = read("[servers.b]\ncommand = 5\n").wrong["b"].error().to_error()

    assert error == {
        "code": 23,
        "message": "/etc/config.toml: servers.b.command: expected text, found a number",
        "data": {
            "class": "misconfigured",
            "server": "b",
            "hint": "put it in quotes",
            "file": "/etc/config.toml",
            "key": "servers.b.command",
        },
    }


# Keys


@pytest.mark.parametrize(
    ("line", "key", "hint"),
    [
        ('argz = ["x"]', "servers.b.argz", "did you mean args?"),
        ("call_seconds = 3", "servers.b.call_seconds", "did you mean timeout.call_seconds?"),
        ("timeout = { call_secs = 3 }", "servers.b.timeout.call_secs", "did you mean call_seconds?"),
        ('environment = { A = "b" }', "servers.b.environment", "did you mean env?"),
        ('"a b" = 1', 'servers.b."a b"', None),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_known_one(line, key, hint):
    problem = only_problem(f'[servers.b]\ncommand = "true"\n{line}\n')

    assert problem.key == key
    assert problem.message == "unknown key"
    assert problem.server == "b"
    assert hint is None or problem.hint == hint


@pytest.mark.parametrize(
    ("line", "key", "says"),
    [
        (
            'timeout = { call_seconds = "3s" }',
            "timeout.call_seconds",
            'a number of seconds above 0, found the text "3s"',
        ),
        ("timeout = { call_seconds = 0 }", "timeout.call_seconds", "a number of seconds above 0, found the number 0"),
        ("timeout = { idle_seconds = -1 }", "timeout.idle_seconds", "0 or more, found the number -1"),
        ("timeout = { max_seconds = inf }", "timeout.max_seconds", "found a number"),
        ("timeout = { max_seconds = nan }", "timeout.max_seconds", "found a number"),
        ("timeout = { max_seconds = true }", "timeout.max_seconds", "found true"),
        ("timeout = 60", "timeout", "expected a table, found the number 60"),
        ("timeout = { call_seconds = 60, max_seconds = 20 }", "timeout", "call_seconds is 60, over max_seconds = 20"),
        ("stop = { term_seconds = -0.1 }", "stop.term_seconds", "found the number -0.1"),
        ("limits = { in_flight = 0 }", "limits.in_flight", "a whole number of at least 1, found the number 0"),
        ("limits = { in_flight = 1.0 }", "limits.in_flight", "found the number 1.0"),
        ("limits = { in_flight = true }", "limits.in_flight", "found true"),
        ('args = "-y"', "args", "expected a list of texts, found text"),
        ('args = ["-y", 5]', "args[1]", "expected text, found a number"),
        ('args = ["a\\u0000b"]', "args[0]", "without a NUL"),
        ('env = ["A=b"]', "env", "expected a table of texts, found a list"),
        ("env = { PORT = 8080 }", "env.PORT", "expected text, found a number"),
        ('env = { "A=B" = "c" }', 'env."A=B"', "the name of a variable"),
        ('env_pass = ["AWS_*"]', "env_pass[0]", "the exact name of a variable"),
        ('cwd = "src"', "cwd", "expected an absolute folder"),
        ('enabled = "yes"', "enabled", 'expected true or false, found the text "yes"'),
        ('protocol = "2025"', "protocol", "expected one of auto, modern, legacy, 2024-11-05"),
        ("protocol = 1979-05-27T07:32:00Z", "protocol", "found a date or time"),
        ('framing = "lsp"', "framing", "expected one of auto, newline, content-length"),
        ('retry = "yes"', "retry", "expected one of safe, transport, never"),
        ('on_timeout = "drop"', "on_timeout", "expected one of probe, retire, keep"),
        ('on_rpc_error = "probe"', "on_rpc_error", "expected one of keep, retire"),
        ('scope = "global"', "scope", "expected one of auto, user, project, client"),
        ('scope = "project"', "scope", "not available in this version"),
        ('scope = "client"', "scope", "not available in this version"),
        ("tools = { deny = 1 }", "tools.deny", "expected a list of texts"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named_with_what_was_expected_and_found(line, key, says):
    problem = only_problem(f'[servers.b]\ncommand = "true"\n{line}\n')

    assert problem.key == f"servers.b.{key}"
    assert says in problem.message


def test_a_scope_that_cannot_be_kept_yet_says_what_to_use():
    assert only_problem('[servers.b]\ncommand = "x"\nscope = "client"').hint == 'use "auto" or "user"'


def test_a_revision_may_be_written_as_a_date_without_quotes():
    assert read('[servers.a]\ncommand = "x"\nprotocol = 2025-11-25').servers["a"].protocol == "2025-11-25"


def test_a_long_call_lifts_the_cap_that_was_not_given():
    server = read('[servers.a]\ncommand = "x"\ntimeout = { call_seconds = 7200 }').servers["a"]

    assert server.timeout.max_seconds == 7200.0


@pytest.mark.parametrize("key", ["env", "headers"])
def test_no_problem_repeats_a_value_that_may_be_secret(key):
    kind = "command" if key == "env" else "url"
    secret = ("hunter2", "hunter3", "48151623", "hunter4")

    config = read(
        f'[servers.a]\n{kind} = "http://x"\n{key} = "hunter2"\n'
        f'[servers.b]\n{kind} = "http://x"\n{key} = {{ A = ["hunter3"], B = 48151623 }}\n'
        f'[servers.c]\n{kind} = "http://x"\n{key} = {{ A = 48151623 }}\n'
        f'[servers.d]\nurl = "ftp://u:hunter4@h/"\n'
    )

    assert set(config.wrong) == {"a", "b", "c", "d"}
    said = " ".join(map(str, config.problems)) + repr(config.problems)
    assert not any(word in said for word in secret)


# Command and URL


def test_neither_command_nor_url_is_an_error_and_so_are_both():
    config = read('[servers.b]\nargs = ["x"]\n\n[servers.c]\ncommand = "true"\nurl = "http://127.0.0.1:9/mcp"\n')

    assert config.wrong["b"].message == "expected command or url, found neither"
    assert config.wrong["c"].message == "both command and url are given, expected one of them"


def test_a_list_as_command_is_explained():
    problem = only_problem('[servers.b]\ncommand = ["npx", "-y", "@x/y"]\n')

    assert problem.message == "expected the program alone, found a list: its arguments go into args"
    assert problem.hint == 'write command = "npx" and args = ["-y", "@x/y"]'


def test_a_command_line_as_command_is_explained():
    problem = only_problem("[servers.b]\ncommand = \"npx -y '@x/my server'\"\n")

    assert problem.key == "servers.b.command"
    assert problem.hint == 'write command = "npx" and args = ["-y", "@x/my server"]'


@pytest.mark.parametrize("where", ["absolute", "home", "cwd"])
def test_a_program_with_a_space_in_its_name_is_no_command_line(tmp_path, where):
    (tmp_path / "my server").touch()
    command = {"absolute": f"{tmp_path}/my server", "home": "~/my server", "cwd": "./my server"}[where]

    config = read(f'[servers.a]\ncommand = "{command}"\ncwd = "{tmp_path}"\n', HOME=str(tmp_path))

    assert list(config.servers) == ["a"]


def test_an_empty_command_is_an_error():
    assert only_problem('[servers.b]\ncommand = " "\n').message == "expected a program, found empty text"


@pytest.mark.parametrize(
    "url", ["https://h", "http://127.0.0.1:80/mcp?x=1", "HTTP://u:p@[::1]:9/", "${URL}", "https://${HOST}/x"]
)
def test_these_urls_are_accepted(url):
    assert list(read(f'[servers.a]\nurl = "{url}"\n').servers) == ["a"]


@pytest.mark.parametrize(
    "url",
    ["", "h/mcp", "ftp://h/", "http://", "http://a b/", "http://h:port/", "http://user:pass/word@h/", "https:///x"],
)
def test_these_are_no_urls(url):
    assert only_problem(f'[servers.b]\nurl = "{url}"\n').key == "servers.b.url"


@pytest.mark.parametrize(
    ("line", "key"), [('url = "http://h"\nargs = ["x"]', "args"), ('command = "x"\nheaders = { A = "b" }', "headers")]
)
def test_a_key_of_the_other_transport_is_an_error_instead_of_being_ignored(line, key):
    assert only_problem(f"[servers.b]\n{line}\n").key == f"servers.b.{key}"


# Names, the enable flag, and the file around the servers


@pytest.mark.parametrize("name", ["a__b", "../x", "x" * 65, "", "mcpd", "-a", "_a", "a.b", "a b", "ä", "a\\n"])
def test_a_name_that_tools_could_not_carry_is_refused_with_a_reason(name):
    problem = only_problem(f'[servers."{name}"]\ncommand = "x"\n')

    assert "name" in problem.message
    assert "\n" not in str(problem)


@pytest.mark.parametrize("name", ["a", "0", "A-b_c", "x" * 64])
def test_these_names_are_accepted(name):
    assert list(read(f'[servers.{name}]\ncommand = "x"\n').servers) == [name]


@pytest.mark.parametrize(
    ("lines", "enabled", "warnings"),
    [
        ("", True, 0),
        ("enabled = false", False, 0),
        ("disabled = true", False, 0),
        ("disabled = false", True, 0),
        ("enabled = false\ndisabled = true", False, 0),
        ("enabled = true\ndisabled = true", False, 1),
        ("enabled = false\ndisabled = false", False, 1),
    ],
)
def test_the_enable_flag_may_be_written_either_way_and_a_contradiction_disables(lines, enabled, warnings):
    config = read(f'[servers.a]\ncommand = "x"\n{lines}\n')

    assert config.servers["a"].enabled is enabled
    assert [problem.warning for problem in config.problems] == [True] * warnings


@pytest.mark.parametrize("value", ['"npx"', "5", "[]", "[[1]]", "1979-05-27"])
def test_an_entry_that_is_no_table_is_wrong_itself(value):
    problem = only_problem(f"b = {value}\n".replace("b =", "[servers]\nb =").replace(GOOD, ""))

    assert problem.server == "b"
    assert "expected a table" in problem.message


@pytest.mark.parametrize(
    ("text", "key", "hint"),
    [
        ('[server.x]\ncommand = "x"', "server", "did you mean servers?"),
        ('[mcpServers.x]\ncommand = "x"', "mcpServers", "did you mean servers?"),
        ("[logging]\nlevel = 1", "logging", "known are servers, daemon"),
        ("[daemon]\ndrain_secs = 1", "daemon.drain_secs", "did you mean drain_seconds?"),
        ('[daemon]\ndrain_seconds = "5s"', "daemon.drain_seconds", "write a plain number, without quotes and unit"),
    ],
)
def test_what_is_wrong_around_the_servers_hurts_none_of_them(text, key, hint):
    problem = only_problem(text)

    assert (problem.server, problem.key, problem.hint) == (None, key, hint)


@pytest.mark.parametrize(
    "text", ["servers = 5", "servers = []", 'servers = "x"', "daemon = 1", "[[servers]]\nname = 1"]
)
def test_a_section_that_is_no_table_is_a_problem(text):
    config = read(text)

    assert "expected a table" in config.problems[0].message
    assert config.servers == {}


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(schema.SERVER)) | st.text(max_size=6), values, max_size=4))
def test_an_entry_is_either_a_server_or_wrong_whatever_it_holds(entry):
    from mcpd.config.load import _Reading

    reading = _Reading("/f", {"HOME": "/h"})

    server = reading.server("a", entry)

    assert (server is None) == ("a" in reading.wrong)
    assert all("\n" not in str(problem) for problem in reading.problems)


def test_reading_a_right_file_imports_nothing_slow(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text('[servers.a]\ncommand = "npx"\n[servers.b]\nurl = "http://u:p@h/"\n')
    program = (
        "import sys\n"
        "from mcpd.config import expand, diff\n"
        "from mcpd.config.load import load\n"
        "assert not load(sys.argv[1], {}).problems\n"
        "print([m for m in ('difflib', 'shutil', 'shlex', 'base64', 'urllib', 'json', 'trio') if m in sys.modules])\n"
    )

    said = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True).stdout

    assert said == "[]\n"
