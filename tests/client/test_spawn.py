from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mcpd_client import spawn
from tests.client.starting import Starter, ask

if TYPE_CHECKING:
    import pytest

DETACH = Path(spawn.__file__).with_name("detach.py")


def test_the_daemon_has_nothing_to_do_with_who_started_it(starter: Starter, home: Path) -> None:
    # What a caller may have: descriptors that are inherited, blocked and ignored signals, another directory.
    leaked = [os.open("/dev/null", os.O_RDONLY) for _ in range(3)]
    for fd in leaked:
        os.set_inheritable(fd, True)
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        facts = ask(starter.connect())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGHUP, previous)
        for fd in leaked:
            os.close(fd)

    assert facts["ppid"] != os.getpid()
    assert facts["sid"] == facts["pid"]
    assert facts["cwd"] == "/"
    assert facts["blocked"] == []
    ignored = next(line for line in facts["status"].splitlines() if line.startswith("SigIgn:"))
    assert int(ignored.split()[1], 16) & (1 << (signal.SIGHUP - 1)) == 0
    log = f"{home}/.local/state/mcpd/daemon.log"
    assert {fd: facts["fds"][fd] for fd in "012"} == {"0": "/dev/null", "1": log, "2": log}
    # Beyond these the daemon has only what it opened itself: its lock, its listener, this connection.
    rest = [target for fd, target in facts["fds"].items() if fd not in "012"]
    assert sorted(target.partition(":")[0] for target in rest) == [f"{starter.path}.lock", "socket", "socket"]


def test_no_child_is_left_to_the_caller(starter: Starter) -> None:
    starter.connect().close()

    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    names = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children]
    assert not [name for name in names if name == b"" or b"detach.py" in name or b"fake_daemon" in name]


def test_a_caller_that_ignores_the_end_of_children_can_start_one_too(starter: Starter) -> None:
    program = (
        "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN); from mcpd_client import autostart; "
        f"autostart.connect(command={starter.command()!r}).close()"
    )

    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_environment_of_the_callers_unit_is_not_the_daemons(
    starter: Starter, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    monkeypatch.setenv("NOTIFY_SOCKET", "/n")
    monkeypatch.setenv("LISTEN_FDS", "1")
    monkeypatch.setenv("MCPD_CONFIG", "my.toml")
    monkeypatch.setenv("TOKEN", "t")

    environ = ask(starter.connect())["environ"]

    assert "NOTIFY_SOCKET" not in environ
    assert "LISTEN_FDS" not in environ
    assert environ["MCPD_CONFIG"] == f"{home}/my.toml"
    assert environ["TOKEN"] == "t"


def test_the_log_is_private_and_starts_anew_when_it_has_grown(starter: Starter, home: Path) -> None:
    log = home / ".local/state/mcpd/daemon.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"x" * (1024 * 1024 + 1))
    log.chmod(0o644)

    starter.connect().close()

    assert log.stat().st_mode & 0o777 == 0o600
    assert log.stat().st_size < 1000
    assert log.with_name("daemon.log.1").stat().st_size == 1024 * 1024 + 1


def test_the_log_is_not_written_through_a_link(starter: Starter, home: Path) -> None:
    log = home / ".local/state/mcpd/daemon.log"
    log.parent.mkdir(parents=True)
    log.symlink_to(home / "victim")

    facts = ask(starter.connect())

    assert facts["fds"]["2"] == f"{home}/run/mcpd/daemon.log"
    assert not (home / "victim").exists()


def test_the_log_is_beside_the_socket_where_the_state_directory_cannot_be_made(starter: Starter, home: Path) -> None:
    (home / ".local").write_text("a file")

    assert ask(starter.connect())["fds"]["1"] == f"{home}/run/mcpd/daemon.log"


def test_the_default_command_is_this_python_and_this_package() -> None:
    command = spawn.daemon_command(socket="s.sock", config="c.toml")

    assert command == [
        sys.executable, "-P", "-m", "mcpd_client", "daemon", "--ready-fd", "3",
        "--socket", os.path.abspath("s.sock"), "--config", os.path.abspath("c.toml"),
    ]  # fmt: skip


def test_a_caller_that_has_gone_is_told_nothing_and_nothing_is_logged_of_it() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    argv = ["sh", "-c", 'exec "$@" 3>&1', "sh", sys.executable, "-I", "-S", str(DETACH), "30", "/bin/false"]

    told = subprocess.run(argv, stdout=writer, stderr=subprocess.PIPE, timeout=60)
    os.close(writer)

    assert (told.returncode, told.stderr) == (0, b"")
