"""Keys: what each may hold, and what is said where it holds something else."""

import pytest

from mcpd.config.load import parse

GOOD = '[servers.good]\ncommand = "true"\n\n'


def read(text, **environ):
    return parse(text, "/etc/config.toml", {"HOME": "/home/ann", "PATH": "/bin", **environ})


def only_problem(text):
    config = read(GOOD + text)
    assert list(config.servers) == ["good"]
    assert len(config.problems) == 1, [str(problem) for problem in config.problems]
    return config.problems[0]


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
        ("tools = { deny = 1 }", "tools.deny", "expected a list of texts"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named_with_what_was_expected_and_found(line, key, says):
    problem = only_problem(f'[servers.b]\ncommand = "true"\n{line}\n')

    assert problem.key == f"servers.b.{key}"
    assert says in problem.message


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
