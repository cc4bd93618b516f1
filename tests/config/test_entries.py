"""Entries: what makes a server, and that a wrong one hurts no other."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpd.config import schema
from mcpd.config.load import _Reading, parse
from mcpd.config.model import Limits, OAuth, Server, Stop, Timeout, Tools

GOOD = '[servers.good]\ncommand = "true"\n\n'


def read(text, **environ):
    return parse(text, "/etc/config.toml", {"HOME": "/home/ann", "PATH": "/bin", **environ})


def only_problem(text):
    config = read(GOOD + text)
    assert list(config.servers) == ["good"]
    assert len(config.problems) == 1, [str(problem) for problem in config.problems]
    return config.problems[0]


# Whole entries


def test_an_entry_with_every_key_of_a_program_becomes_a_server():
    config = read(
        """
        [daemon]
        drain_seconds = 1
        idle_exit_seconds = 600
        fast_start_ms = 0

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
        interactive = ["ask_*"]
        """
    )

    assert config.problems == ()
    assert config.daemon.drain_seconds == 1.0
    assert config.daemon.idle_exit_seconds == 600.0
    assert config.daemon.fast_start_ms == 0
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
            interactive=("ask_*",),
        )
    }


def test_an_entry_with_every_key_of_a_remote_server_becomes_one():
    config = read(
        """
        [servers.tracker]
        url = "https://h/mcp"
        headers = { X-Key = "${KEY}" }
        bearer_env = "TRACKER_TOKEN"
        headers_helper = ["tracker-token", "--json"]
        allow_legacy_sse = true
        insecure = true

        [servers.tracker.oauth]
        client_id = "${ID}"
        client_secret = "${SECRET}"
        client_metadata_url = "https://c/client.json"
        issuer = "https://as/"
        scopes = ["read", "write"]
        grant = "client_credentials"
        auth_method = "private_key_jwt"
        private_key = "${PEM}"
        redirect_port = 8123
        """
    )

    assert config.problems == ()
    assert config.servers["tracker"] == Server(
        name="tracker",
        url="https://h/mcp",
        headers={"X-Key": "${KEY}"},
        bearer_env="TRACKER_TOKEN",
        headers_helper=("tracker-token", "--json"),
        oauth=OAuth(
            client_id="${ID}",
            client_secret="${SECRET}",
            client_metadata_url="https://c/client.json",
            issuer="https://as/",
            scopes=("read", "write"),
            grant="client_credentials",
            auth_method="private_key_jwt",
            private_key="${PEM}",
            redirect_port=8123,
        ),
        allow_legacy_sse=True,
        insecure=True,
    )


def test_every_key_of_a_sign_in_has_a_rule():
    assert set(schema.SERVER["oauth"].rules) == set(OAuth.__struct_fields__)


@pytest.mark.parametrize(
    "line",
    [
        'headers = { A = "b" }', 'bearer_env = "TOKEN"', 'headers_helper = ["x"]', 'oauth = { client_id = "c" }',
        "allow_legacy_sse = true", "insecure = true",
    ],
)  # fmt: skip
def test_what_only_a_remote_server_has_makes_no_sense_beside_a_command(line):
    problem = only_problem(f'[servers.b]\ncommand = "x"\n{line}')

    key = line.partition(" ")[0]
    assert (problem.key, problem.message) == (f"servers.b.{key}", "makes no sense beside command")


@pytest.mark.parametrize("line", ['args = ["x"]', 'env = { A = "b" }'])
def test_what_only_a_program_has_makes_no_sense_beside_a_url(line):
    problem = only_problem(f'[servers.b]\nurl = "https://h/"\n{line}')

    key = line.partition(" ")[0]
    assert (problem.key, problem.message) == (f"servers.b.{key}", "makes no sense beside url")


@pytest.mark.parametrize(
    ("line", "key", "says"),
    [
        ("headers_helper = []", "headers_helper", "a list that begins with a program"),
        ('headers_helper = "token --json"', "headers_helper", "a list of texts"),
        ('bearer_env = "Bearer hunter2"', "bearer_env", "the name of a variable, found text"),
        ("oauth = true", "oauth", "a table"),
        ('oauth.grant = "password"', "oauth.grant", "authorization_code, client_credentials"),
        ("oauth.redirect_port = 70000", "oauth.redirect_port", "a port from 0 to 65535"),
        ('oauth.scopes = "read write"', "oauth.scopes", "a list of texts"),
        ('oauth.issuer = "h"', "oauth.issuer", "a URL that begins with http"),
        ('oauth.client_idd = "c"', "oauth.client_idd", "unknown key"),
    ],
)
def test_a_wrong_key_of_a_remote_server_says_what_was_expected(line, key, says):
    problem = only_problem(f'[servers.b]\nurl = "https://h/"\n{line}')

    assert problem.key == f"servers.b.{key}"
    assert says in problem.message
    assert "hunter2" not in str(problem)


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
    assert set(schema.SERVER) == set(Server.__struct_fields__) - {"name", "shown_as", "project"} | {"disabled"}


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
        ("[daemon]\nfast_start_ms = 0.25", "daemon.fast_start_ms", "250, say; 0 not to wait"),
        ("[daemon]\nfast_start_ms = -1", "daemon.fast_start_ms", "250, say; 0 not to wait"),
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
    reading = _Reading("/f", {"HOME": "/h"})

    server = reading.server("a", entry)

    assert (server is None) == ("a" in reading.wrong)
    assert all("\n" not in str(problem) for problem in reading.problems)


@pytest.mark.parametrize(("scope", "warned"), [("client", [True]), ("project", []), ("user", []), ("auto", [])])
def test_what_is_nobodys_before_there_is_a_client_cannot_be_started_ahead_and_that_is_a_warning(scope, warned):
    config = read(f'[servers.a]\ncommand = "x"\nprewarm = true\nscope = "{scope}"\n')

    assert [problem.warning for problem in config.problems if problem.key == "servers.a.prewarm"] == warned
    assert list(config.servers) == ["a"]
