"""The guardian by itself, with real processes: it passes on what it is given, and leaves nothing."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from mcpd import guardian
from tests.upstream.deaf import SIZES
from tests.upstream.link import Link, fds_of, living, nothing_left, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KINDS = ("deaf", "leaver", "tree", "setsid", "hidden", "mover")
# What is killed is gone in a moment; the machine may be busy.
GONE_SECONDS = 2.0
# A program that tells what it finds itself to be.
ABOUT = """
import json, os, resource, sys
fds = []
for fd in range(1000):
    try: os.fstat(fd)
    except OSError: continue
    fds.append(fd)
umask = os.umask(0)
print(json.dumps({
    "argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd(), "umask": umask, "fds": fds,
    "leads": [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()], "parent": os.getppid(),
    "blocking": [os.get_blocking(fd) for fd in range(3)], "input": sys.stdin.readline(),
    "mark": resource.getrlimit(15)[0], "core": resource.getrlimit(resource.RLIMIT_CORE)[0],
}))
sys.stderr.write("a word on stderr")
"""


@pytest.fixture
def link() -> Iterator[Link]:
    """A guardian of its own."""
    with Link() as link:
        yield link


@pytest.fixture(scope="module")
def shared() -> Iterator[Link]:
    """A guardian for servers that must not harm each other."""
    with Link() as link:
        yield link


def about(link: Link, *words: str, **more: Any) -> dict[str, Any]:
    server = link.spawn([sys.executable, "-I", "-S", "-c", ABOUT, *words], **more)
    os.write(server.stdin, b"a word on stdin\n")
    told: dict[str, Any] = json.loads(server.read())
    assert os.read(server.stderr, 100) == b"a word on stderr"
    link.end(server)
    return told


def signals_of(link: Link) -> dict[str, str]:
    """Return the masks of signals that a server is started with, as the kernel tells them."""
    lines = link.run("/bin/cat", "/proc/self/status")[0].decode().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines) if key.startswith("Sig")}


# -- a start ------------------------------------------------------------------------------------------------


def test_a_server_gets_what_it_was_given_and_nothing_else(shared: Link, tmp_path: Path) -> None:
    words = ["an argument", "", "größer", "line\nbreak"]

    told = about(shared, *words, env={"A": "1", "ENV_ÄÖ": "value ü"}, cwd=str(tmp_path))

    env = {key: value for key, value in told["env"].items() if key != "LC_CTYPE"}  # Python sets that for itself
    assert (told["argv"], env) == (words, {"A": "1", "ENV_ÄÖ": "value ü"})
    assert (told["cwd"], told["input"]) == (str(tmp_path), "a word on stdin\n")
    assert told["fds"] == [0, 1, 2]
    assert told["blocking"] == [True, True, True]
    assert told["leads"] == [True, True]
    assert told["parent"] == shared.pid
    assert told["core"] == 0
    assert told["mark"] in {shared.mark(number) for number in range(1, 100)}


def test_a_server_has_the_umask_of_whoever_has_started_the_guardian() -> None:
    old = os.umask(0o027)
    try:
        with Link() as link:
            assert about(link)["umask"] == 0o027
    finally:
        os.umask(old)


def test_a_server_starts_with_every_signal_as_it_is_by_default() -> None:
    # What is ignored or blocked would be inherited twice: by the guardian, and by the server.
    old = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        with Link() as link:
            masks = signals_of(link)
    finally:
        signal.signal(signal.SIGHUP, old)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})

    assert {name: int(masks[name], 16) for name in ("SigIgn", "SigBlk", "SigCgt")} == dict.fromkeys(
        ("SigIgn", "SigBlk", "SigCgt"), 0
    )


def test_servers_of_one_daemon_have_different_marks(shared: Link) -> None:
    servers = [shared.deaf("good") for _ in range(3)]

    marks = {guardian.read_mark(server.pid) for server in servers}

    assert len(marks) == 3
    assert {mark >> 14 for mark in marks} == {shared.mark(1) >> 14}
    for server in servers:
        shared.end(server)


def test_the_mark_is_inherited_by_who_hides(shared: Link) -> None:
    server = shared.deaf("hidden")

    pids = living(server.token)

    assert len(pids) == 2
    assert {guardian.read_mark(pid) for pid in pids} == {guardian.read_mark(server.pid)}
    shared.end(server)


@pytest.mark.parametrize(
    ("argv", "cwd", "number", "what"),
    [
        (["/no/such/program"], "/", errno.ENOENT, "exec"),
        (["/"], "/", errno.EACCES, "exec"),
        (["/proc/self/cmdline"], "/", errno.EACCES, "exec"),
        (["/bin/true"], "/no/such/folder", errno.ENOENT, "cwd"),
        (["/bin/true"], "/etc/passwd", errno.ENOTDIR, "cwd"),
        (["/bin/true", "x" * 200_000], "/", errno.E2BIG, "exec"),
    ],
)
def test_what_cannot_be_run_is_answered_with_the_reason(
    shared: Link, argv: list[str], cwd: str, number: int, what: str
) -> None:
    server = shared.spawn(argv, cwd=cwd)

    assert server.answer == ("failed", server.request, number, what)


def test_a_request_that_comes_in_pieces_is_one_request(shared: Link) -> None:
    server, data, fds = shared.ask(["/bin/cat"])
    second, more, others = shared.ask(["/bin/cat"])

    shared.send(data[:1], fds)
    for at in range(1, len(data)):
        shared.send(data[at : at + 1])
    shared.send(more[:50], others)
    shared.send(more[50:])
    for fd in (*fds, *others):
        os.close(fd)

    for one, word in ((server, b"first"), (second, b"second")):
        shared.answered(one)
        os.write(one.stdin, word)
        assert os.read(one.stdout, 100) == word
        shared.end(one)


def test_many_requests_at_once_get_their_own_pipes(shared: Link) -> None:
    prepared = [shared.ask(["/bin/echo", str(number)]) for number in range(1, 40)]
    for _, data, fds in prepared:
        shared.send(data, fds)
        for fd in fds:
            os.close(fd)

    servers = [shared.answered(server) for server, _, _ in prepared]

    assert [server.read() for server in servers] == [b"%d\n" % number for number in range(1, 40)]
    assert [shared.end(server.exited()) for server in servers] == [0] * len(servers)


def test_two_hundred_servers_leave_no_descriptor_and_no_zombie(link: Link) -> None:
    link.run("/bin/true")
    before = len(fds_of(link.pid)), len(fds_of(os.getpid()))

    for number in range(200):
        server = link.spawn(["/bin/true"] if number % 4 else ["/no/such/program"])
        if number % 4:
            assert link.end(server.exited()) == 0
        link.servers.remove(server)
        server.close()

    assert (len(fds_of(link.pid)), len(fds_of(os.getpid()))) == before
    assert guardian.children(link.pid) == []


def test_a_system_without_room_for_a_process_refuses_that_one(link: Link) -> None:
    server = link.deaf("good")
    soft, hard = resource.prlimit(link.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(link.pid, resource.RLIMIT_NOFILE, (len(fds_of(link.pid)), hard))

    refused = link.spawn(["/bin/true"])
    resource.prlimit(link.pid, resource.RLIMIT_NOFILE, (soft, hard))

    assert refused.answer[:3] == ("failed", refused.request, errno.EMFILE)
    assert link.run("/bin/echo", "hi") == (b"hi\n", 0)
    assert living(server.token) == [server.pid]


# -- an end ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_of_what_is_ended_and_nobody_else_is_touched(shared: Link, kind: str) -> None:
    innocent, other = shared.deaf("hidden"), shared.deaf("good")
    theirs = living(innocent.token)
    server = shared.deaf(kind)
    begin = time.monotonic()

    shared.end(server)

    taken = time.monotonic() - begin
    assert nothing_left(server.token)
    assert taken < GONE_SECONDS
    assert (living(innocent.token), living(other.token)) == (theirs, [other.pid])
    os.write(other.stdin, b"still there?")
    assert os.read(other.stdout, 100) == b"still there?"
    shared.end(innocent)
    shared.end(other)


def test_a_leader_that_was_killed_does_not_hide_the_rest(shared: Link) -> None:
    servers = [shared.deaf(kind) for kind in KINDS]
    for server in servers:
        os.kill(server.pid, signal.SIGKILL)

    statuses = [shared.end(server) for server in servers]

    assert statuses == [signal.SIGKILL] * len(KINDS)
    assert [server.token for server in servers if not nothing_left(server.token)] == []


def test_a_leader_that_leaves_is_not_reaped_before_its_rest_is_gone(shared: Link) -> None:
    server = shared.deaf("leaver")
    os.close(server.stdin)
    server.stdin = os.open("/dev/null", os.O_WRONLY)
    until(lambda: server.pid not in living(server.token))
    assert os.path.exists(f"/proc/{server.pid}")

    assert shared.end(server) == 0

    assert not os.path.exists(f"/proc/{server.pid}")


def test_what_is_stopped_is_ended_too(shared: Link) -> None:
    server = shared.deaf("tree")
    for pid in living(server.token):
        os.kill(pid, signal.SIGSTOP)

    shared.end(server)

    assert nothing_left(server.token)


def test_the_end_of_what_is_not_there_is_answered(shared: Link) -> None:
    request, data = shared.frame("end", 1)

    shared.send(data)

    assert shared.wait(request) == ("ended", request, None)


# -- the end of the daemon ------------------------------------------------------------------------------------


def test_when_the_daemon_is_gone_everything_is_gone(link: Link) -> None:
    servers = [link.deaf(kind) for kind in SIZES]
    begin = time.monotonic()

    link.close()

    link.died()
    assert time.monotonic() - begin < GONE_SECONDS
    assert [server.token for server in servers if not nothing_left(server.token)] == []


def test_only_the_end_of_the_daemon_ends_the_guardian(link: Link) -> None:
    server = link.deaf("good")

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(link.pid, number)

    assert link.run("/bin/echo", "hi") == (b"hi\n", 0)
    assert living(server.token) == [server.pid]


def kill_guardian(link: Link) -> None:
    os.kill(link.pid, signal.SIGKILL)
    link.died()


def test_a_guardian_sweeps_what_a_dead_daemon_of_its_place_has_left_and_nothing_else() -> None:
    with Link(instance=1) as first:
        server = first.deaf("hidden")
        kill_guardian(first)
        until(lambda: len(living(server.token)) == 1)
        # Whoever starts a server can be sure that the sweep is over.
        for scope, instance in ((first.scope ^ 1, 2), (first.scope, 1)):
            with Link(scope, instance) as other:
                other.run("/bin/true")
                assert len(living(server.token)) == 1

        with Link(first.scope, 2) as successor:
            successor.run("/bin/true")
            assert nothing_left(server.token)


def test_a_guardian_that_hangs_is_swept_with_its_servers() -> None:
    with Link(instance=1) as stuck:
        servers = [stuck.deaf(kind) for kind in ("deaf", "hidden", "mover")]
        os.kill(stuck.pid, signal.SIGSTOP)
        stuck.close()

        with Link(stuck.scope, 2) as successor:
            successor.run("/bin/true")

            with contextlib.suppress(ChildProcessError):
                stuck.died()
            assert [server.token for server in servers if not nothing_left(server.token)] == []
