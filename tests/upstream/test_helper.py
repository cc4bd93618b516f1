"""The command that prints headers, with real processes: it is run as it is written, and nothing is left of it."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator

import pytest
import trio

from mcpd import guardian
from mcpd.config.expand import Launch
from mcpd.config.expand import launch as expand
from mcpd.config.model import Server
from mcpd.errors import ConnectFailed
from mcpd.mover import Mover
from mcpd.timers import Timers
from mcpd.upstream import helper as helper_module
from mcpd.upstream.guard import Guard
from mcpd.upstream.helper import headers_in, run_helper
from tests.upstream.deaf import SIZES
from tests.upstream.link import DEAF, fds_of, living, new_scope, new_token, nothing_left
from tests.upstream.yard import Quiet, until

SECRET = "the-secret-value"


@pytest.fixture
async def guard(nursery: trio.Nursery) -> AsyncIterator[Guard]:
    """A link to a guardian; the tests' process is afterwards as it was."""
    mover = Mover()
    timers = Timers(mover.batch)
    nursery.start_soon(mover.run)
    nursery.start_soon(timers.run)
    guard = Guard(mover, timers, Quiet(), new_scope(), 1)
    yield guard
    await guard.aclose()
    nursery.cancel_scope.cancel()
    mover.close()
    guardian.prctl(guardian.PR_SET_CHILD_SUBREAPER, 0)
    for pid in guardian.children(os.getpid()):
        guardian.kill_tree(pid)
        os.waitpid(pid, 0)  # noqa: ASYNC222  # it has been killed


def command(*argv: str) -> Launch:
    return Launch(url="https://api.example", helper=argv, env={"PATH": "/usr/bin:/bin"}, cwd="/", secrets=frozenset())


def shell(script: str, *words: str) -> Launch:
    return command("/bin/sh", "-c", script, *words)


async def test_a_command_prints_headers(guard: Guard) -> None:
    await run_helper(guard, command("/usr/bin/printf", "{}"))
    before = fds_of(os.getpid())

    assert await run_helper(guard, shell("""echo '{"X-Key": " value ", "Y": ""}'""")) == {
        "X-Key": "value",
        "Y": "",
    }

    assert fds_of(os.getpid()) == before


async def test_no_shell_reads_the_command(guard: Guard) -> None:
    printed = await run_helper(guard, command("/usr/bin/printf", '{"X": "%s"}', "$HOME; `id` *"))

    assert printed == {"X": "$HOME; `id` *"}


async def test_a_command_has_no_input_and_may_say_on_stderr_what_it_likes(guard: Guard) -> None:
    script = "cat; head -c 300000 /dev/zero >&2; echo '{}'"

    assert await run_helper(guard, shell(script)) == {}


async def test_a_command_may_print_in_its_own_time(guard: Guard) -> None:
    assert await run_helper(guard, shell("""printf '{"X"'; sleep 0.1; echo ': "1"}'""")) == {"X": "1"}


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 3", "its headers_helper failed (exit status 3)"),
        (f'echo \'{{"X": "{SECRET}"}}\'; echo {SECRET} >&2; exit 1', "its headers_helper failed (exit status 1)"),
        ("kill -9 $$", "its headers_helper failed (signal SIGKILL)"),
        ("true", "its headers_helper printed something else than a JSON object of texts"),
        (f"echo {SECRET}", "its headers_helper printed something else than a JSON object of texts"),
        ("head -c 70000 /dev/zero", "its headers_helper printed more than 65536 bytes"),
    ],
)
async def test_a_command_that_fails_is_told_without_what_it_said(guard: Guard, script: str, why: str) -> None:
    with pytest.raises(ConnectFailed) as failed:
        await run_helper(guard, shell(script))

    assert failed.value.message == why


async def test_a_command_that_is_not_there_is_named(guard: Guard) -> None:
    with pytest.raises(ConnectFailed, match=r"its headers_helper cannot be run: .*/no/such"):
        await run_helper(guard, command("/no/such"))


async def test_a_command_that_takes_too_long_is_ended_with_all_that_it_has_started(
    guard: Guard,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(helper_module, "HELPER_SECONDS", 0.3)
    token = new_token()

    with pytest.raises(ConnectFailed, match=r"did not end within 0.3 s"):
        await run_helper(guard, command(sys.executable, "-I", "-S", DEAF, "hidden", token))

    assert nothing_left(token)


async def test_what_a_command_leaves_behind_is_ended(guard: Guard) -> None:
    token = new_token()
    # It holds the output open, as a program in the background does.
    script = f"sh -c 'sleep 1000; : {token}' & echo '{{}}'"

    assert await run_helper(guard, shell(script)) == {}
    assert nothing_left(token)


async def test_a_command_that_is_given_up_is_ended(guard: Guard) -> None:
    token = new_token()
    argv = (sys.executable, "-I", "-S", DEAF, "hidden", token)

    async with trio.open_nursery() as running:
        running.start_soon(run_helper, guard, command(*argv))
        await until(lambda: len(living(token)) == SIZES["hidden"])
        running.cancel_scope.cancel()

    assert nothing_left(token)


@pytest.mark.parametrize(
    "printed",
    [
        b"", b"[]", b"{", b'{"X": 1}', b'{"X": null}', b'{"X": {"Y": "Z"}}', b"\xff", b"[" * 60_000,
        b'{"": "a"}', b'{"a b": "c"}', b'{"X": "a\\r\\nY: b"}', b'{"X": "a\\u0000"}', b'{"X": "\\u00e9"}', b'{"X:": "a"}',
        b"{" + b",".join(b'"X%d": "a"' % number for number in range(65)) + b"}",
    ],
)  # fmt: skip
def test_what_cannot_be_headers_is_refused(printed: bytes) -> None:
    with pytest.raises(ConnectFailed) as failed:
        headers_in(printed)
    assert failed.value.message.startswith("its headers_helper printed something")


def test_a_command_is_found_and_gets_what_servers_get() -> None:
    environ = {"PATH": "/nowhere:/bin", "HOME": "/tmp", "LANG": "C", "TOKEN": SECRET, "OTHER": "x", "WORD": "a b"}
    server = Server(
        name="api", url="https://a.example", headers_helper=("sh", "-c", "${WORD}"), env_pass=("TOKEN",)
    )  # fmt: skip

    found = expand(server, environ)

    assert found.helper == ("/bin/sh", "-c", "a b")
    assert found.env == {"PATH": "/nowhere:/bin", "HOME": "/tmp", "LANG": "C", "TOKEN": SECRET}
    assert found.cwd == "/tmp"
    assert SECRET in found.secrets


def test_a_command_that_is_not_found_waits_for_its_run() -> None:
    server = Server(name="api", url="https://a.example", headers_helper=("no-such-helper",))

    assert expand(server, {"PATH": "/nowhere", "HOME": "/tmp"}).helper == ("no-such-helper",)


def test_without_a_command_nothing_of_the_environment_is_taken_along() -> None:
    server = Server(name="api", url="https://a.example")

    assert expand(server, {"PATH": "/bin", "HOME": "/tmp"}).env == {}
