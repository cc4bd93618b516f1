"""The daemon's end of the guardian, with real processes: whatever happens to either, starts go on."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import select
import signal
import sys
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from mcpd import guardian
from mcpd.errors import ServerUnavailable
from mcpd.mover import Mover
from mcpd.timers import Timers
from mcpd.upstream import guard as guard_module
from mcpd.upstream.guard import Guard
from tests.upstream.deaf import SIZES
from tests.upstream.link import DEAF, fds_of, living, new_scope, nothing_left
from tests.upstream.yard import Quiet, Yard, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

# How long a start may take when a guardian hangs, in these tests.
BOUNDED_SECONDS = 5.0


@pytest.fixture
def _adopting() -> Iterator[None]:
    """Let the tests' process take in orphans, as the daemon does, and be as it was afterwards."""
    assert guardian.children(os.getpid()) == []
    yield
    guardian.prctl(guardian.PR_SET_CHILD_SUBREAPER, 0)
    for pid in guardian.children(os.getpid()):
        guardian.kill_tree(pid)
        os.waitpid(pid, 0)


@pytest.fixture
async def yard(_adopting: None, nursery: trio.Nursery) -> AsyncIterator[Yard]:
    mover, log = Mover(), Quiet()
    timers = Timers(mover.batch)
    nursery.start_soon(mover.run)
    nursery.start_soon(timers.run)
    guard = Guard(mover, timers, log, new_scope(), 1)
    yard = Yard(guard, log)
    yield yard
    await guard.aclose()
    yard.close()
    nursery.cancel_scope.cancel()
    mover.close()


# -- starts ---------------------------------------------------------------------------------------------------


async def test_a_server_is_started_and_ended(yard: Yard) -> None:
    server = await yard.spawn("/bin/sh", "-c", "read line; exit $line")
    os.write(server.stdin, b"7\n")
    await server.exited()

    assert os.waitstatus_to_exitcode(await yard.guard.end(server.pid) or 0) == 7

    assert server.pid not in guardian.children(yard.guard.pid or 0)


async def test_servers_that_start_together_get_their_own_pipes_and_pidfds(yard: Yard) -> None:
    servers = [yard.new() for _ in range(40)]
    async with trio.open_nursery() as nursery:
        for number, server in enumerate(servers):
            nursery.start_soon(server.spawn, "/bin/sh", "-c", f"echo {number}; exit {number}")

    for number, server in enumerate(servers):
        await server.exited()
        assert os.read(server.stdout, 100) == b"%d\n" % number
        assert os.waitstatus_to_exitcode(await yard.guard.end(server.pid) or 0) == number


@pytest.mark.parametrize(
    ("argv", "cwd", "number", "name"),
    [
        (("/no/such/program",), "/", errno.ENOENT, "/no/such/program"),
        (("/bin/true",), "/no/such/folder", errno.ENOENT, "/no/such/folder"),
        (("/etc/passwd",), "/", errno.EACCES, "/etc/passwd"),
    ],
)
async def test_what_cannot_be_run_is_an_error_with_reason_and_name(
    yard: Yard, argv: tuple[str, ...], cwd: str, number: int, name: str
) -> None:
    with pytest.raises(OSError, match=os.strerror(number)) as caught:
        await yard.spawn(*argv, cwd=cwd)

    assert (caught.value.errno, caught.value.filename) == (number, name)


async def test_an_environment_that_is_too_large_is_refused_and_costs_nobody_else(yard: Yard) -> None:
    other = await yard.deaf("good")
    pid = yard.guard.pid

    with pytest.raises(OSError, match=os.strerror(errno.E2BIG)) as caught:
        await yard.spawn("/bin/true", env={f"NAME{number}": "x" * 100_000 for number in range(100)})

    assert (caught.value.errno, caught.value.filename) == (errno.E2BIG, "/bin/true")
    assert (yard.guard.pid, living(other.token)) == (pid, [other.pid])


async def test_an_environment_as_large_as_the_system_allows_gets_there(yard: Yard) -> None:
    env = {f"NAME{number}": "x" * 100_000 for number in range(8)}

    server = await yard.spawn("/usr/bin/env", env=env)

    size = 0
    while size < 800_000:
        size += len(os.read(server.stdout, 1 << 16))
    assert await yard.guard.end((await server.exited()).pid) == 0


async def test_two_hundred_servers_leave_no_descriptor_on_either_side(yard: Yard) -> None:
    await yard.run("/bin/true")
    pid = yard.guard.pid
    assert pid is not None
    before = len(fds_of(pid)), len(fds_of(os.getpid()))

    for number in range(200):
        server = yard.new()
        with contextlib.suppress(OSError):
            await server.spawn("/bin/true" if number % 4 else "/no/such/program")
            await yard.guard.end(server.pid)
        yard.forget(server)

    assert (len(fds_of(pid)), len(fds_of(os.getpid()))) == before
    assert guardian.children(os.getpid()) == [pid]
    assert guardian.children(pid) == []


async def test_a_start_that_nobody_waits_for_any_more_is_ended(yard: Yard) -> None:
    await yard.run("/bin/true")
    before = len(fds_of(os.getpid()))
    servers = [yard.new() for _ in range(5)]

    for server in servers:
        with trio.move_on_after(0):
            await server.spawn(sys.executable, "-I", "-S", DEAF, "hidden", server.token)
        yard.forget(server)

    await yard.run("/bin/true")  # whatever was asked before has been answered
    await until(lambda: all(nothing_left(server.token) for server in servers))
    assert len(fds_of(os.getpid())) == before + 4


async def test_a_start_that_is_given_up_in_the_moment_of_its_answer_is_ended(yard: Yard) -> None:
    await yard.run("/bin/true")
    before = len(fds_of(os.getpid()))
    guard, server = yard.guard, yard.new()
    assert guard.pid is not None
    assert guard._link is not None
    os.kill(guard.pid, signal.SIGSTOP)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.spawn, sys.executable, "-I", "-S", DEAF, "deaf", server.token)
        await trio.testing.wait_all_tasks_blocked()
        os.kill(guard.pid, signal.SIGCONT)
        assert select.select([guard._link], [], [], BOUNDED_SECONDS)[0]
        nursery.cancel_scope.cancel()
        guard._receive(0)  # in the same turn

    yard.forget(server)
    await until(lambda: nothing_left(server.token) and len(fds_of(os.getpid())) == before)


async def test_a_program_that_is_not_loaded_in_time_holds_up_nobody_else(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in (("SPAWN_SECONDS", 0.5), ("DOUBT_SECONDS", 0.1), ("SILENT_SECONDS", 10.0)):
        monkeypatch.setattr(guard_module, name, seconds)
    program = tmp_path / "program"
    program.write_bytes(b"#!/bin/sh\n")
    program.chmod(0o700)
    other = await yard.deaf("good")
    old = signal.signal(signal.SIGIO, signal.SIG_IGN)
    try:
        with program.open("r+b") as file:
            # Whoever opens a file with a lease on it waits until it is given back: a file system that hangs.
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            with pytest.raises(ServerUnavailable, match="not loaded within"):
                await yard.spawn(str(program))

            assert await yard.run("/bin/true") == 0
    finally:
        signal.signal(signal.SIGIO, old)
    assert yard.guard.deaths == 0
    assert living(other.token) == [other.pid]
    pid = yard.guard.pid
    assert pid is not None
    # It was loaded in the end, and nobody wanted it any more.
    await until(lambda: guardian.children(pid) == [other.pid])


async def test_a_daemon_without_descriptors_refuses_a_start_and_survives(yard: Yard) -> None:
    other = await yard.deaf("good")
    server = yard.new()
    assert yard.guard.pid is not None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The file with the arguments fits, the pidfd that comes back does not any more.
    held: list[int] = []

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, fds_of(os.getpid()))) + 1, hard))
        with contextlib.suppress(OSError):
            while True:
                held.append(os.dup(0))

    async def start() -> None:
        with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
            await server.spawn(sys.executable, "-I", "-S", DEAF, "deaf", server.token)

    os.kill(yard.guard.pid, signal.SIGSTOP)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(start)
            await trio.testing.wait_all_tasks_blocked()
            fill()
            os.kill(yard.guard.pid, signal.SIGCONT)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in held:
            os.close(fd)

    assert await yard.run("/bin/true") == 0
    await until(lambda: nothing_left(server.token))
    assert living(other.token) == [other.pid]


# -- the guardian's death ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(SIZES))
async def test_a_guardian_that_dies_takes_its_servers_along_and_is_replaced(yard: Yard, kind: str) -> None:
    server = await yard.deaf(kind)
    first = yard.guard.pid
    assert first is not None

    os.kill(first, signal.SIGKILL)

    await until(lambda: nothing_left(server.token))
    assert await yard.run("/bin/true") == 0
    assert (yard.guard.deaths, yard.log.events) == (1, ["guardian.lost"])
    assert yard.guard.pid not in (None, first)
    # What came to us was reaped, too.
    await until(lambda: guardian.children(os.getpid()) == [yard.guard.pid])


async def test_the_end_of_a_server_whose_guardian_has_just_died_is_no_error(yard: Yard) -> None:
    server = await yard.deaf("deaf")
    assert yard.guard.pid is not None
    os.kill(yard.guard.pid, signal.SIGKILL)

    assert await yard.guard.end(server.pid) is None

    await until(lambda: nothing_left(server.token))


async def test_a_start_that_meets_a_dying_guardian_is_made_by_the_next_one(yard: Yard) -> None:
    await yard.run("/bin/true")
    assert yard.guard.pid is not None
    os.kill(yard.guard.pid, signal.SIGSTOP)
    server = yard.new()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.spawn, "/bin/cat")
        await trio.testing.wait_all_tasks_blocked()
        yard.guard.kill()

    os.write(server.stdin, b"hello")
    await until(lambda: os.get_blocking(server.stdout))
    assert os.read(server.stdout, 100) == b"hello"


@pytest.fixture
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a guardian less time than usual."""
    for module, name, seconds in (
        (guard_module, "DOUBT_SECONDS", 0.1),
        (guard_module, "SILENT_SECONDS", 0.3),
        (guardian, "END_SECONDS", 0.3),
    ):
        monkeypatch.setattr(module, name, seconds)


@pytest.mark.usefixtures("_hasty")
async def test_a_guardian_that_hangs_is_replaced_in_bounded_time(yard: Yard) -> None:
    server = await yard.deaf("hidden")
    first = yard.guard.pid
    assert first is not None
    os.kill(first, signal.SIGSTOP)

    with trio.fail_after(BOUNDED_SECONDS):
        assert await yard.run("/bin/true") == 0

    assert yard.guard.pid != first
    assert "guardian.silent" in yard.log.events
    await until(lambda: nothing_left(server.token))


@pytest.mark.usefixtures("_hasty")
async def test_a_guardian_that_hangs_is_noticed_although_nobody_waits_for_it(yard: Yard) -> None:
    await yard.run("/bin/true")
    first = yard.guard.pid
    assert first is not None
    os.kill(first, signal.SIGSTOP)

    with trio.move_on_after(0):
        await yard.spawn("/bin/true")

    await until(lambda: yard.guard.deaths == 1)


@pytest.mark.usefixtures("_hasty")
async def test_an_end_leaves_nothing_although_the_guardian_hangs(yard: Yard) -> None:
    server = await yard.deaf("setsid")
    assert yard.guard.pid is not None
    os.kill(yard.guard.pid, signal.SIGSTOP)

    with trio.fail_after(BOUNDED_SECONDS):
        assert await yard.guard.end(server.pid) is None

    await until(lambda: nothing_left(server.token))


@pytest.mark.usefixtures("_hasty")
async def test_the_last_end_leaves_no_guardian_that_hangs(yard: Yard) -> None:
    server = await yard.deaf("hidden")
    pid = yard.guard.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)

    with trio.fail_after(BOUNDED_SECONDS):
        await yard.guard.aclose()

    await until(lambda: not guardian.is_alive(pid) and nothing_left(server.token))
