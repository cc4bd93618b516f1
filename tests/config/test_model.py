"""The values: what of them may be seen, and what a reload changes."""

import pytest

from mcpd.config.diff import diff
from mcpd.config.load import parse
from mcpd.config.model import Problem, Server


@pytest.mark.parametrize(
    ("server", "transport", "target"),
    [
        (Server(name="a", command="npx", args=("-y", "@x/y")), "stdio", "npx -y @x/y"),
        (Server(name="a", command="/my dir/tool", args=("", "${A}")), "stdio", "'/my dir/tool' '' '${A}'"),
        (Server(name="a", url="https://h:1/mcp"), "http", "https://h:1/mcp"),
        (Server(name="a", url="https://ann:pw@h/mcp?key=1#f"), "http", "https://h/mcp"),
        (Server(name="a", url="https://h/@scope/x"), "http", "https://h/@scope/x"),
        (Server(name="a", url="https://h?key=1"), "http", "https://h"),
        (Server(name="a", url="${URL}"), "http", "${URL}"),
        (Server(name="a", command="python", shown_as="mcpd demo-server"), "stdio", "mcpd demo-server"),
    ],
)
def test_a_target_shows_where_a_server_is_and_no_credentials(server, transport, target):
    assert (server.transport, server.target) == (transport, target)


def test_a_server_does_not_show_its_values():
    server = Server(name="a", url="https://u:hunter2@h/", env={"E": "hunter3"}, headers={"H": "hunter4"})

    assert repr(server) == "Server('a', 'https://h/', env=['E'], headers=['H'])"


def test_a_problem_is_one_line_with_place_reason_and_hint():
    problem = Problem(
        file="/c.toml", server="a", key="servers.a.argz", message="unknown key", hint="did you mean args?"
    )

    assert str(problem) == "/c.toml: servers.a.argz: unknown key; did you mean args?"
    assert str(Problem(file="/c.toml", message="there is no such file")) == "/c.toml: there is no such file"


def config(**lines):
    return parse("".join(f"[servers.{name}]\n{text}\n" for name, text in lines.items()), "/c.toml", {"HOME": "/"})


def test_a_reload_adds_removes_and_changes_by_name():
    old = config(a='command = "x"', b='command = "x"', c='command = "x"')
    new = config(d='command = "x"', b='command = "x"\nargs = ["--changed"]', a='command = "x"')

    assert diff(old, new) == (("d",), ("c",), ("b",))
    assert diff(new, new) == ((), (), ())


def test_an_entry_that_becomes_wrong_or_right_or_other_wise_wrong_has_changed():
    right, wrong, other = config(a='command = "x"'), config(a="command = 5"), config(a="url = 5")

    assert diff(right, wrong).changed == ("a",)
    assert diff(wrong, right).changed == ("a",)
    assert diff(wrong, other).changed == ("a",)
    assert diff(wrong, wrong).changed == ()


def test_a_default_that_is_spelled_out_changes_nothing():
    assert diff(config(a='command = "x"'), config(a='command = "x"\nscope = "auto"\nargs = []')).changed == ()
