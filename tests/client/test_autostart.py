from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mcpd_client import autostart, spawn
from mcpd_client.errors import AddressError, DaemonNotRunning
from mcpd_client.sync import Client
from tests.client.starting import Starter, ask


def test_a_daemon_is_started_where_none_is(starter: Starter) -> None:
    assert ask(starter.connect())["pid"] == starter.pids()[0]


def test_a_daemon_that_runs_is_used(starter: Starter) -> None:
    starter.connect().close()

    starter.connect().close()

    assert len(starter.pids()) == 1


def test_a_socket_that_nobody_listens_on_is_no_daemon(starter: Starter) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(starter.path)

    starter.connect().close()

    assert len(starter.pids()) == 1


def test_missing_directories_are_created_for_this_user_alone(
    starter: Starter, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starter.path = f"{home}/a/b/mcpd.sock"
    monkeypatch.setenv("MCPD_SOCKET", starter.path)

    starter.connect().close()

    assert [(home / part).stat().st_mode & 0o777 for part in ("a", "a/b")] == [0o700, 0o700]


def test_a_hundred_threads_start_one_daemon(starter: Starter) -> None:
    with ThreadPoolExecutor(100) as pool:
        pids = [future.result()["pid"] for future in [pool.submit(lambda: ask(starter.connect())) for _ in range(100)]]

    assert pids == starter.pids() * 100


def test_processes_start_one_daemon(starter: Starter) -> None:
    program = f"from mcpd_client import autostart; autostart.connect(command={starter.command()!r}).close()"
    processes = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(12)]

    assert [process.wait(60) for process in processes] == [0] * 12
    assert len(starter.pids()) == 1


def test_a_daemon_that_cannot_start_is_an_error_with_the_end_of_its_log(starter: Starter, home: Path) -> None:
    log = home / ".local/state/mcpd/daemon.log"
    log.parent.mkdir(parents=True)
    log.write_text("from an earlier run\n")

    with pytest.raises(DaemonNotRunning) as caught:
        starter.connect("crash")

    assert caught.value.message == "the daemon could not start (exit 9)"
    assert caught.value.reason == "first line | the configuration is wrong"
    assert caught.value.hint == f"see {log}"


def test_a_command_that_does_not_exist_is_an_error(starter: Starter) -> None:
    with pytest.raises(DaemonNotRunning, match="exit 127") as caught:
        autostart.connect(command=["/nowhere/mcpd"])

    assert caught.value.reason == "/nowhere/mcpd: No such file or directory"


def test_a_daemon_that_is_never_ready_is_an_error(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawn, "READY_SECONDS", 0.1)

    with pytest.raises(DaemonNotRunning, match="was not ready within"):
        starter.connect("mute")


def test_a_daemon_that_listens_elsewhere_is_an_error(starter: Starter) -> None:
    with pytest.raises(DaemonNotRunning, match="nobody listens on"):
        starter.connect("foreign")


def test_those_who_waited_share_a_failure(starter: Starter, home: Path) -> None:
    lock = os.open(home / "run/mcpd/start.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with ThreadPoolExecutor(8) as pool:
        attempts = [pool.submit(starter.connect, "crash") for _ in range(8)]
        _wait_for_waiters(lock, 8)
        os.close(lock)
        failures = [attempt.exception(60) for attempt in attempts]

    assert {str(failure) for failure in failures} == {"the daemon could not start (exit 9)"}
    assert len(starter.pids()) == 1


def test_a_failure_of_the_past_is_not_shared(starter: Starter) -> None:
    with pytest.raises(DaemonNotRunning):
        starter.connect("crash")

    starter.connect().close()

    assert len(starter.pids()) == 2


def test_while_a_predecessor_is_leaving_the_start_is_tried_again(starter: Starter) -> None:
    lock = os.open(f"{starter.path}.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    leaver = threading.Thread(target=_close_after_first_start, args=(starter, lock))
    leaver.start()

    pid = ask(starter.connect())["pid"]

    leaver.join()
    assert pid == starter.pids()[-1]
    assert len(starter.pids()) >= 2


def test_a_lock_that_is_never_free_is_an_error(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autostart, "READY_SECONDS", 0.0)
    monkeypatch.setattr(autostart, "RETRY_SECONDS", 0.0)
    lock = os.open(f"{starter.path}.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)

    with pytest.raises(DaemonNotRunning, match="another daemon holds the lock"):
        starter.connect()

    os.close(lock)


def test_it_can_be_forbidden(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DaemonNotRunning, match=starter.path) as caught:
        autostart.connect(autostart=False, command=starter.command())
    assert caught.value.hint == "mcpd up"

    monkeypatch.setenv("MCPD_NO_AUTOSTART", "1")
    with pytest.raises(DaemonNotRunning), Client(command=starter.command()):
        pass
    assert starter.pids() == []

    monkeypatch.setenv("MCPD_NO_AUTOSTART", "0")
    with Client(command=starter.command()):
        assert len(starter.pids()) == 1


def test_a_lock_that_is_a_link_is_refused(starter: Starter, home: Path) -> None:
    (home / "run/mcpd/start.lock").symlink_to(home / "victim")

    with pytest.raises(AddressError, match=r"start\.lock"):
        starter.connect()

    assert starter.pids() == []


def test_a_path_that_is_too_long_starts_nothing(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPD_SOCKET", "/" + "x" * 120)

    with pytest.raises(AddressError, match=r"121 bytes.*allows 107.*/xxx") as caught:
        starter.connect()

    assert "MCPD_SOCKET" in str(caught.value.hint)
    assert starter.pids() == []


def test_a_socket_of_another_user_is_refused(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    starter.connect().close()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)

    with pytest.raises(AddressError, match="another user"):
        autostart.connect(starter.path)


def test_with_a_full_backlog_the_caller_waits_for_its_turn(socket_path: str, home: Path) -> None:
    socket.setdefaulttimeout(30)
    try:
        with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor(4) as pool:
            listener.bind(socket_path)
            listener.listen(0)
            attempts = [pool.submit(autostart.connect) for _ in range(4)]
            accepted = [listener.accept()[0] for _ in range(4)]
            connected = [attempt.result(30) for attempt in attempts]
    finally:
        socket.setdefaulttimeout(None)
    for sock in [*accepted, *connected]:
        sock.close()


def _wait_for_waiters(fd: int, count: int) -> None:
    """Wait until that many callers are blocked on the lock, as the kernel's table says."""
    inode = f":{os.fstat(fd).st_ino} "
    while sum(inode in line and "->" in line for line in Path("/proc/locks").read_text().splitlines()) < count:
        os.sched_yield()


def _close_after_first_start(starter: Starter, lock: int) -> None:
    while not starter.pids():
        os.sched_yield()
    os.close(lock)
