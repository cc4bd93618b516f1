"""Resolving an entry: references, environment, folder, program."""

import os

import pytest

from mcpd.config.expand import Expander, launch, secrets_of
from mcpd.config.model import Server
from mcpd.errors import Misconfigured, ServerUnavailable

ENVIRON = {"HOME": "/home/ann", "A": "one", "EMPTY": "", "B": "${A}", "PATH": "/bin:/usr/bin"}


def expand(text, project=None):
    return Expander("s", ENVIRON, project).text(text, "args[0]")


def program(folder, name="tool", mode=0o755):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return str(path)


def resolve(environ=(), project=None, **entry):
    server = Server(name="s", **{"command": "/bin/true", **entry})
    return launch(server, {"PATH": "/bin:/usr/bin", **dict(environ)}, project)


# References


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("plain", "plain"),
        ("${A}", "one"),
        ("x${A}x${A}", "xonexone"),
        ("${EMPTY}", ""),
        ("${A:-no}", "one"),
        ("${NONE:-yes}", "yes"),
        ("${EMPTY:-yes}", "yes"),
        ("${NONE:-}", ""),
        ("${NONE:-http://h:1/x}", "http://h:1/x"),
        ("${NONE:-${A}}", "one"),
        ("${NONE:-${NONE:-${A}-b}}c", "one-bc"),
        ("${NONE:-$${A}}", "${A}"),
        ("$${A}", "${A}"),
        ("$$$${A}", "$${A}"),
        ("$$", "$"),
        ("$A", "$A"),
        ("cost$5", "cost$5"),
        ("$", "$"),
        ("a$", "a$"),
        ("${B}", "${A}"),
        ("}{", "}{"),
        ("${project}", "/p"),
        ("${project:-/q}/x", "/p/x"),
    ],
)
def test_references_are_replaced_and_everything_else_stays(text, expanded):
    assert expand(text, project="/p") == expanded


def test_outside_a_project_its_default_is_used():
    assert expand("${project:-/q}") == "/q"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("${NONE}", "args[0] of server s needs ${NONE}, which is not set in the environment of the daemon"),
        ("${A:-${NONE}}${NONE:-${NONE}}", "needs ${NONE}"),
        ("${project}", "args[0] of server s needs ${project}, and there is no project"),
        ("${secret:TOKEN}", "needs ${secret:TOKEN}, and there is no secret of that name"),
        ("${secret:TOKEN:-x}", "names no secret"),
        ("${A", "has a ${ without its }"),
        ("${NONE:-${A}", "has a ${ without its }"),
        ("${}", "has a reference that is not ${NAME}"),
        ("${1}", "has a reference that is not ${NAME}"),
        ("${A+b}", "has a reference that is not ${NAME}"),
        ("${ A }", "has a reference that is not ${NAME}"),
        ("${Ä}", "has a reference that is not ${NAME}"),
    ],
)
def test_a_reference_without_value_or_sense_is_misconfigured(text, says):
    with pytest.raises(Misconfigured) as caught:
        expand(text)

    assert says in caught.value.message
    assert caught.value.server == "s"
    assert caught.value.hint
    assert caught.value.details == {"key": "args[0]"}


@pytest.mark.parametrize(
    ("entry", "key"),
    [
        ({"env": {"TOKEN": "${NONE}"}}, "env.TOKEN"),
        ({"args": ("a", "${NONE}")}, "args[1]"),
        ({"command": "${NONE}/x"}, "command"),
        ({"cwd": "${NONE}"}, "cwd"),
    ],
)
def test_the_error_names_the_key_in_which_the_variable_stands(entry, key):
    with pytest.raises(Misconfigured, match="NONE") as caught:
        resolve(**entry)

    assert caught.value.details == {"key": key}


def test_arguments_are_passed_on_untouched_apart_from_references():
    args = ("a b", '"q"', "", "x\ny", "*", "; echo hi", "ü", "--x=${A}", "cost$5")

    assert resolve(args=args, environ={"A": "one"}).argv[1:] == (*args[:-2], "--x=one", "cost$5")


# Environment


def test_the_child_gets_the_common_variables_what_is_passed_and_what_is_declared_and_nothing_else():
    common = {"HOME": "/", "LANG": "C", "LC_ALL": "C", "USER": "ann", "LOGNAME": "ann", "SHELL": "/bin/sh"}
    common |= {"TMPDIR": "/tmp", "TZ": "UTC", "TERM": "dumb", "XDG_CONFIG_HOME": "/c", "PATH": "/bin"}
    others = {"AWS_SECRET_ACCESS_KEY": "x", "LD_PRELOAD": "x", "PYTHONPATH": "x", "SSH_AUTH_SOCK": "/s", "LCX": "x"}

    env = resolve(
        environ=common | others, env_pass=("SSH_AUTH_SOCK", "NOT_SET"), env={"T": "${AWS_SECRET_ACCESS_KEY}!"}
    ).env

    assert env == common | {"SSH_AUTH_SOCK": "/s", "T": "x!"}


def test_a_declared_variable_wins_over_a_passed_and_a_common_one():
    env = resolve(environ={"HOME": "/", "P": "passed"}, env_pass=("P",), env={"HOME": "/srv", "P": "own"}).env

    assert (env["HOME"], env["P"]) == ("/srv", "own")


def test_the_secrets_are_the_declared_values_that_are_long_enough_to_be_found():
    resolved = resolve(environ={"TOKEN": "abcdef-12345"}, env={"A": "${TOKEN}", "B": "short", "C": "sixsix"})

    assert resolved.secrets == {"abcdef-12345", "sixsix"}


def test_of_an_authorization_header_the_bare_token_is_a_secret_too():
    assert secrets_of({"Authorization": "Bearer abcdef-12345"}) == {"Bearer abcdef-12345", "abcdef-12345"}


def test_a_launch_does_not_show_what_it_carries():
    resolved = resolve(args=("--token=hunter2-args",), env={"TOKEN": "hunter2-env"})

    assert "hunter2" not in repr(resolved)


# Folder


def test_the_folder_is_the_home_unless_there_is_none(tmp_path):
    assert resolve(environ={"HOME": str(tmp_path)}).cwd == str(tmp_path)
    assert resolve(environ={"HOME": str(tmp_path / "gone")}).cwd == "/"
    assert resolve().cwd == "/"


def test_a_declared_folder_is_expanded(tmp_path):
    (tmp_path / "src").mkdir()

    assert resolve(cwd="${project}/src", project=str(tmp_path)).cwd == f"{tmp_path}/src"
    assert resolve(cwd="~/src", environ={"HOME": str(tmp_path)}).cwd == f"{tmp_path}/src"
    assert resolve(cwd="~", environ={"HOME": str(tmp_path)}).cwd == str(tmp_path)


def test_a_folder_that_cannot_be_entered_is_named_unexpanded(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(ServerUnavailable, match=r"^cwd \$\{D\}/gone does not exist$"):
        resolve(cwd="${D}/gone", environ={"D": str(tmp_path)})
    with pytest.raises(ServerUnavailable, match="is not a folder"):
        resolve(cwd=f"{tmp_path}/file")


def test_a_folder_that_expands_to_a_relative_one_is_misconfigured():
    with pytest.raises(Misconfigured, match=r"cwd of server s is not an absolute folder: \$\{D\}"):
        resolve(cwd="${D}", environ={"D": "src"})


# Program


def test_a_command_is_searched_on_the_path_of_the_child(tmp_path):
    first, second = program(tmp_path / "first"), program(tmp_path / "second")

    assert resolve(command="tool", environ={"PATH": f"{tmp_path}/first:{tmp_path}/second"}).argv == (first,)
    assert resolve(command="tool", env={"PATH": f"{tmp_path}/second:${{PATH}}"}).argv == (second,)


def test_what_cannot_be_run_is_skipped_on_the_path(tmp_path):
    program(tmp_path / "a", mode=0o644)
    (tmp_path / "b" / "tool").mkdir(parents=True)
    good = program(tmp_path / "c")

    assert resolve(command="tool", environ={"PATH": f"{tmp_path}/a:{tmp_path}/b:{tmp_path}/c"}).argv == (good,)


def test_a_command_with_a_slash_is_relative_to_the_folder_of_the_child(tmp_path):
    path = program(tmp_path / "bin")

    assert resolve(command="bin/tool", cwd=str(tmp_path)).argv == (path,)
    assert resolve(command="./tool", cwd=str(tmp_path / "bin")).argv == (path,)


def test_a_relative_folder_of_the_path_is_below_the_folder_of_the_child(tmp_path):
    path = program(tmp_path / "node_modules" / ".bin")

    assert resolve(command="tool", cwd=str(tmp_path), env={"PATH": "node_modules/.bin"}).argv == (path,)


def test_a_command_in_the_home_is_expanded(tmp_path):
    path = program(tmp_path / "bin")

    assert resolve(command="~/bin/tool", environ={"HOME": str(tmp_path)}).argv == (path,)
    assert resolve(command="${HOME}/bin/tool", environ={"HOME": str(tmp_path)}).argv == (path,)


def test_a_link_stays_a_link_because_programs_look_at_their_own_name(tmp_path):
    target = program(tmp_path, "target")
    os.symlink(target, tmp_path / "tool")

    assert resolve(command=f"{tmp_path}/tool").argv == (f"{tmp_path}/tool",)


@pytest.mark.parametrize(
    ("entry", "message", "hint"),
    [
        (
            {"command": "nope"},
            "command nope not found in PATH /bin:/usr/bin",
            "install nope, or give its whole path",
        ),
        (
            {"command": "nope", "env": {"PATH": "/hidden"}},
            "command nope not found in the PATH of its env",
            "install nope",
        ),
        ({"command": "/no/such"}, "command /no/such not found: no such file", None),
        ({"command": "${D}/nope", "args": ()}, "command ${D}/nope not found: no such file", None),
        ({"command": "npx -y x"}, "command 'npx -y x' not found", 'write command = "npx" and args = ["-y", "x"]'),
        ({"command": "/bin"}, "command /bin is a folder, not a program", None),
    ],
)
def test_a_command_that_cannot_be_run_says_why_and_what_helps(entry, message, hint):
    with pytest.raises(ServerUnavailable) as caught:
        resolve(environ={"D": "/no/where"}, **entry)

    assert caught.value.message == message
    assert caught.value.server == "s"
    assert (caught.value.hint or "").startswith(hint or "")


def test_a_command_that_is_found_but_not_executable_says_which_file(tmp_path):
    path = program(tmp_path, mode=0o644)

    for entry in ({"command": path}, {"command": "tool", "environ": {"PATH": f"/bin:{tmp_path}"}}):
        with pytest.raises(ServerUnavailable) as caught:
            resolve(**entry)
        assert (caught.value.message, caught.value.hint) == (f"command {path} is not executable", f"chmod +x {path}")


def test_a_command_that_expands_to_nothing_is_misconfigured():
    with pytest.raises(Misconfigured, match="command of server s is empty"):
        resolve(command="${E}", environ={"E": ""})
