"""Reading a file: where it is, and that every content has an outcome."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpd.config.load import config_path, load

ROOT = Path(__file__).parents[2]
GOOD = '[servers.good]\ncommand = "true"\n\n'


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


def test_a_file_that_we_may_not_read_is_a_problem_of_the_file():
    # Root reads everything, so ask as somebody who may not; pytest's own folders are closed to others.
    program = (
        "import os, sys\n"
        "from mcpd.config.load import load\n"
        "os.getuid() or os.setuid(65534)\n"
        "print(load(sys.argv[1], {}).problems[0])\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = Path(folder) / "config.toml"
        path.write_text(GOOD)
        path.chmod(0)

        done = subprocess.run(
            [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True, cwd=ROOT
        )

    assert done.stdout == f"{path}: cannot read it: permission denied\n"


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_make_it_raise(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(content)

    load(str(path), {})


def test_reading_a_right_file_imports_nothing_slow(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text('[servers.a]\ncommand = "npx"\n[servers.b]\nurl = "http://u:p@h/"\n')
    program = (
        "import sys\n"
        "from mcpd.config import expand, diff\n"
        "from mcpd.config.load import load\n"
        "assert all(problem.warning for problem in load(sys.argv[1], {}).problems)\n"
        "print([m for m in ('difflib', 'shutil', 'shlex', 'base64', 'urllib', 'json', 'trio') if m in sys.modules])\n"
    )

    said = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout

    assert said == "[]\n"
