"""What `mcpd config` prints."""

import json
import tomllib

import pytest

from mcpd.config.command import check, path, show
from mcpd.config.load import load, parse

GOOD = """
[servers.github]
command = "npx"
args = ["-y", "@x/y", "--key=sk-0123456789abcdefgh"]
env = { TOKEN = "${GITHUB_TOKEN}", LITERAL = "hunter2", BOTH = "x${A}", DEFAULT = "${A:-hunter3}" }
timeout = { call_seconds = 2.5 }

[servers.web]
url = "https://ann:hunter4@h/mcp?key=hunter5"
headers = { Authorization = "Bearer ${KEY}", X-Trace = "hunter6" }
enabled = false

[servers.signed]
url = "https://h/mcp"
bearer_env = "SIGNED_TOKEN"
headers_helper = ["tracker-token", "--key=sk-0123456789abcdefgh"]

[servers.signed.oauth]
client_id = "c"
client_secret = "${SECRET}"
issuer = "https://as/x?key=hunter7"
scopes = ["read"]
private_key = "${PEM:-hunter8}"
"""
# Whose secrets are all references.
RIGHT = GOOD.replace("ann:hunter4@", "")
WRONG = RIGHT + "[servers.b]\ncommand = 5\nargz = []\n"


def read(text):
    return parse(text, "/c.toml", {"HOME": "/"})


def missing(tmp_path):
    return load(None, {"HOME": str(tmp_path)})


# check


def test_check_of_a_right_file_says_so():
    assert check(read(RIGHT)) == (0, "/c.toml: 3 servers, no errors\n", "")
    assert check(read('[servers.a]\ncommand = "x"')) == (0, "/c.toml: 1 server, no errors\n", "")
    assert check(read("")) == (0, "/c.toml: 0 servers, no errors\n", "")


LITERAL = """
[servers.web]
url = "https://ann:hunter2@h/mcp"
headers = { Authorization = "Bearer hunter3", X-Api-Key = "hunter4", X-Team = "blue", X-Token = "${TOKEN}" }
oauth = { client_secret = "hunter5", private_key = "hunter6" }
"""


def test_check_warns_of_secrets_in_the_file_and_does_not_repeat_them():
    exit_status, stdout, stderr = check(read(LITERAL))

    instead = "a secret in the file; write ${VARIABLE}, and keep the value in the environment"
    assert (exit_status, stdout) == (0, "/c.toml: 1 server, no errors\n")
    assert stderr.splitlines() == [
        f'warning: /c.toml: servers.web.headers.Authorization: {instead}; for a bearer token: bearer_env = "VARIABLE"',
        f"warning: /c.toml: servers.web.headers.X-Api-Key: {instead}",
        f"warning: /c.toml: servers.web.oauth.client_secret: {instead}",
        f"warning: /c.toml: servers.web.oauth.private_key: {instead}",
        f"warning: /c.toml: servers.web.url: {instead}",
    ]
    problems = json.loads(check(read(LITERAL), as_json=True).stdout)["problems"]
    assert [problem["key"].rpartition(".")[2] for problem in problems] == [
        "Authorization", "X-Api-Key", "client_secret", "private_key", "url",
    ]  # fmt: skip
    assert "hunter" not in str(problems)


def test_check_without_a_file_says_where_it_would_be(tmp_path):
    exit_status, stdout, _ = check(missing(tmp_path))

    assert exit_status == 0
    assert f"no file at {tmp_path}/.config/mcpd/config.toml" in stdout


def test_check_prints_each_problem_on_stderr_and_exits_9():
    assert check(read(WRONG)) == (
        9,
        "",
        "error: /c.toml: servers.b.command: expected text, found a number; put it in quotes\n"
        "error: /c.toml: servers.b.argz: unknown key; did you mean args?\n",
    )


def test_a_warning_does_not_fail_the_check():
    exit_status, stdout, stderr = check(read('[servers.a]\ncommand = "x"\nenabled = true\ndisabled = true'))

    assert (exit_status, stdout) == (0, "/c.toml: 1 server, no errors\n")
    assert stderr.startswith("warning: /c.toml: servers.a: enabled and disabled are both true")


def test_check_as_json_is_one_line_on_stdout_when_right():
    output = check(read(RIGHT), as_json=True)

    assert (output.exit, output.stderr, output.stdout.count("\n")) == (0, "", 1)
    assert json.loads(output.stdout) == {"file": "/c.toml", "servers": ["github", "web", "signed"], "problems": []}


def test_check_as_json_is_one_error_line_on_stderr_when_wrong():
    output = check(read(WRONG), as_json=True)

    assert (output.exit, output.stdout, output.stderr.count("\n")) == (9, "", 1)
    error = json.loads(output.stderr)["error"]
    assert error["code"] == 23
    assert error["class"] == "misconfigured"
    assert error["message"] == "/c.toml: servers.b.command: expected text, found a number (and 1 more)"
    assert error["server"] == "b"
    assert error["hint"] == "put it in quotes"
    assert [problem["key"] for problem in error["data"]["problems"]] == ["servers.b.command", "servers.b.argz"]


# show


def test_show_prints_no_value_that_may_be_secret():
    for as_json in (False, True):
        for name in (None, "github", "web", "signed"):
            output = show(read(GOOD), name, as_json=as_json)
            assert output.exit == 0
            assert "hunter" not in output.stdout
            assert "sk-0" not in output.stdout


def test_show_keeps_references_and_masks_the_rest():
    shown = json.loads(show(read(GOOD), as_json=True).stdout)["servers"]

    assert shown["github"]["env"] == {
        "TOKEN": "${GITHUB_TOKEN}",
        "LITERAL": "***",
        "BOTH": "***",
        "DEFAULT": "${A:-***}",
    }
    assert shown["github"]["args"] == ["-y", "@x/y", "--key=[redacted]"]
    assert shown["web"]["headers"] == {"Authorization": "Bearer ${KEY}", "X-Trace": "***"}
    assert shown["web"]["url"] == "https://h/mcp"
    assert shown["signed"]["bearer_env"] == "SIGNED_TOKEN"
    assert shown["signed"]["headers_helper"] == ["tracker-token", "--key=[redacted]"]
    assert shown["signed"]["oauth"] == {
        "client_id": "c", "client_secret": "${SECRET}", "issuer": "https://as/x", "scopes": ["read"],
        "grant": "authorization_code", "auth_method": "auto", "private_key": "${PEM:-***}", "redirect_port": 0,
    }  # fmt: skip


def test_show_leaves_out_what_only_the_other_kind_of_server_has():
    shown = json.loads(show(read(GOOD), as_json=True).stdout)["servers"]

    assert not {"command", "args", "env", "framing"} & shown["web"].keys()
    assert not {"url", "headers", "bearer_env", "headers_helper", "oauth", "insecure"} & shown["github"].keys()


def test_what_show_prints_of_servers_without_secrets_is_a_configuration_again():
    plain = """
    [servers.web]
    url = "https://h/mcp"
    headers = { X-Key = "${KEY}" }

    [servers.signed]
    url = "https://h/mcp"
    headers_helper = ["x"]
    oauth = { client_id = "c" }

    [servers.local]
    command = "x"
    """
    again = read(show(read(plain)).stdout)

    assert again.problems == ()
    assert again.servers == read(plain).servers


def test_show_is_toml_with_the_defaults_filled_in():
    document = tomllib.loads(show(read(GOOD)).stdout)

    assert document["daemon"] == {
        "drain_seconds": 5, "idle_exit_seconds": 0, "fast_start_ms": 250, "approval_seconds": 300,
    }  # fmt: skip
    assert list(document["servers"]) == ["github", "web", "signed"]
    assert document["servers"]["github"]["timeout"] == {
        "start_seconds": 30, "call_seconds": 2.5, "max_seconds": 3600, "idle_seconds": 300,
    }  # fmt: skip
    assert document["servers"]["github"]["tools"] == {"allow": ["*"], "deny": []}
    assert document["servers"]["web"]["enabled"] is False


def test_show_of_one_server_prints_it_alone():
    document = tomllib.loads(show(read(GOOD), "web").stdout)

    assert list(document) == ["servers"]
    assert list(document["servers"]) == ["web"]
    assert json.loads(show(read(GOOD), "web", as_json=True).stdout)["scope"] == "auto"


def test_show_of_all_prints_the_right_ones_and_says_what_is_wrong():
    exit_status, stdout, stderr = show(read(WRONG))

    assert exit_status == 9
    assert list(tomllib.loads(stdout)["servers"]) == ["github", "web", "signed"]
    assert stderr.count("error: ") == 2


@pytest.mark.parametrize(
    ("name", "exit_status", "kind", "says"),
    [("githup", 2, "unknown_server", "did you mean github?"), ("b", 9, "misconfigured", "servers.b.command")],
)
def test_show_of_a_server_that_is_unknown_or_wrong_says_which(name, exit_status, kind, says):
    plain, as_json = show(read(WRONG), name), show(read(WRONG), name, as_json=True)

    assert (plain.exit, plain.stdout) == (as_json.exit, as_json.stdout) == (exit_status, "")
    assert says in plain.stderr
    assert json.loads(as_json.stderr)["error"]["class"] == kind
    assert json.loads(as_json.stderr)["error"]["server"] == name


def test_show_from_a_file_that_is_no_toml_blames_the_file(tmp_path):
    (tmp_path / "c.toml").write_text("[")

    output = show(load(str(tmp_path / "c.toml"), {}), "a")

    assert output.exit == 9
    assert "not TOML" in output.stderr


# path


def test_path_prints_where_the_file_is_or_would_be(tmp_path):
    where = f"{tmp_path}/.config/mcpd/config.toml"

    assert path(read("")) == (0, "/c.toml\n", "")
    assert path(missing(tmp_path)) == (0, f"{where}\n", "")
    assert json.loads(path(missing(tmp_path), as_json=True).stdout) == {"path": where, "exists": False}
    assert json.loads(path(read(""), as_json=True).stdout) == {"path": "/c.toml", "exists": True}
