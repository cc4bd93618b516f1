"""Homes, folders and sockets as users have them: missing, read-only, too long, left over."""

from __future__ import annotations

import os
import signal
import socket
import stat
from typing import TYPE_CHECKING

import pytest

from tests.integration.world import COMMAND, shell, until

if TYPE_CHECKING:
    from tests.integration.world import World

MAX_PATH_BYTES = 107
ROOT = os.geteuid() == 0
# Root may write everywhere, unless it is without its capabilities.
MORTAL = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search", *COMMAND) if ROOT else COMMAND
# Reads the interpreter wherever it is, and writes nowhere but in what is given to it.
NOBODY = ("--clear-groups", "--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search", *COMMAND)


def mode_of(path: object) -> int:
    return stat.S_IMODE(os.stat(str(path)).st_mode)


@pytest.mark.parametrize("uid", [65534, 54321], ids=["home-does-not-exist", "no-entry-in-the-database"])
def test_without_a_home_there_is_still_a_daemon(world: World, uid: int) -> None:
    # The shell starts the interpreter, which this user may execute but which is in somebody else's home.
    world.configure({"demo": shell("exec $0")})
    env = {**world.env, "XDG_CONFIG_HOME": f"{world.path}/home/.config"}
    del env["HOME"]
    command = ("setpriv", "--reuid", str(uid), "--regid", str(uid), *NOBODY) if ROOT else COMMAND
    for folder in (world.path, world.path / "home", world.path / "run"):
        os.chown(folder, uid if ROOT else -1, -1)

    first = world.run("call", "demo", "counter", env=env, command=command)
    second = world.run("call", "demo", "counter", env=env, command=command)
    assert world.run("down", env=env, command=command).status == 0

    assert [(done.status, done.out, done.err) for done in (first, second)] == [(0, "1\n", ""), (0, "2\n", "")]
    assert sorted(os.listdir(world.path)) == ["home", "run"]
    assert {"mcpd.sock.lock", "start.lock"} <= set(os.listdir(world.path / "run/mcpd"))


def test_a_read_only_state_directory_costs_nothing_but_the_state(world: World) -> None:
    state = world.path / "home/.local/state"
    state.mkdir(parents=True)
    state.chmod(0o500)

    done = world.run("call", "demo", "echo", "text=hi", command=MORTAL)

    assert (done.status, done.out, done.err) == (0, "hi\n", "")
    assert os.listdir(state) == []
    until(lambda: "daemon.ready" in (world.path / "run/mcpd/daemon.log").read_text())


def test_a_socket_path_that_is_too_long_is_explained_and_nothing_is_started(world: World) -> None:
    path = f"{world.path}/{'s' * 100}"
    env = {**world.env, "MCPD_SOCKET": path}

    for argv in (("call", "demo", "echo", "text=hi"), ("status",), ("daemon",), ("up",)):
        done = world.run(*argv, env=env)
        assert (done.status, done.out) == (6, "")
        assert all(word in done.err for word in (path, str(len(path)), str(MAX_PATH_BYTES), "MCPD_SOCKET"))
    assert world.processes() == []
    assert os.listdir(world.path / "run") == []


def test_the_longest_path_that_fits_works(world: World) -> None:
    path = f"{world.path}/".ljust(MAX_PATH_BYTES, "s")
    world.env["MCPD_SOCKET"] = path

    assert world.call("demo", "echo", "text=hi") == "hi"
    assert world.status()["daemon"]["socket"] == path


def test_a_shell_without_a_runtime_directory_finds_the_daemon_by_its_home(world: World) -> None:
    assert world.call("demo", "counter") == "1"
    env = {key: world.env[key] for key in ("HOME", "PATH", "PYTHONPATH")}

    assert world.run("call", "demo", "counter", env=env).out == "2\n"
    assert world.run("status", "--json", env=env).json["daemon"]["socket"] == world.socket
    assert len(world.daemons()) == 1


def test_what_a_killed_daemon_has_left_is_in_nobodys_way(world: World) -> None:
    assert world.call("demo", "counter") == "1"
    (pid,) = world.daemons()
    world.signal_daemon(signal.SIGKILL)
    until(lambda: not world.processes())
    assert os.path.exists(world.socket)

    assert world.call("demo", "counter") == "1"
    assert world.status()["daemon"]["pid"] != pid


def test_a_file_that_is_no_socket_is_left_alone(world: World) -> None:
    os.mkdir(world.path / "run/mcpd", mode=0o700)
    file = world.path / "run/mcpd/mcpd.sock"
    file.write_text("buy milk")

    done = world.run("call", "demo", "echo", "text=hi")

    assert (done.status, file.read_text()) == (6, "buy milk")
    assert "exists and is not a socket" in done.err


def test_a_socket_that_was_removed_comes_back(world: World) -> None:
    assert world.call("demo", "counter") == "1"
    os.unlink(world.socket)

    until(lambda: os.path.exists(world.socket))

    assert world.call("demo", "counter") == "2"
    assert len(world.daemons()) == 1


def test_a_second_daemon_leaves_with_seventy_five_and_harms_nothing(world: World) -> None:
    world.daemon()
    assert world.call("demo", "counter") == "1"

    done = world.run("daemon")

    assert (done.status, done.out) == (75, "")
    assert world.socket in done.err
    assert world.call("demo", "counter") == "2"


def test_everything_is_private_whatever_the_umask_says(world: World) -> None:
    done = world.run("call", "demo", "echo", "text=hi", command=("sh", "-c", 'umask 000; exec "$@"', "sh", *COMMAND))

    assert done.out == "hi\n"
    state = world.path / "home/.local/state/mcpd"
    run = world.path / "run/mcpd"
    assert [mode_of(folder) for folder in (run, state, state.parent, state.parent.parent)] == [0o700] * 4
    files = [*run.iterdir(), *state.iterdir()]
    assert {"mcpd.sock", "mcpd.sock.lock", "daemon.log", "endpoint.json"} <= {file.name for file in files}
    assert {file.name: mode_of(file) for file in files} == {file.name: 0o600 for file in files}


def test_a_folder_that_others_may_write_to_is_refused(world: World) -> None:
    folder = world.path / "run/mcpd"
    folder.mkdir()
    folder.chmod(0o777)

    done = world.run("call", "demo", "echo", "text=hi")

    assert (done.status, done.out) == (6, "")
    assert f"chmod go-w {folder}" in done.err


def test_somebody_elses_listener_gets_no_word_of_ours(world: World) -> None:
    if not ROOT:
        # Only root can be two users; what is tested is the same check as for any other listener.
        return
    os.mkdir(world.path / "run/mcpd", mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(world.socket)
        os.seteuid(65534)
        try:
            listener.listen()
        finally:
            os.seteuid(0)

        done = world.run("call", "demo", "echo", "secret=1", "--no-autostart")

        assert done.status == 6
        listener.settimeout(0)
        connection = listener.accept()[0]
        with connection:
            assert connection.recv(100) == b""
    os.unlink(world.socket)
