from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from mcpd_client import fast
from tests.client.scripted import Peer, ScriptedDaemon

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = [sys.executable, "-m", "mcpd_client"]
# What would double the time of a call if the fast path imported it.
HEAVY = {
    "__future__", "argparse", "asyncio", "contextlib", "dataclasses", "enum", "json", "mcpd", "msgspec", "pathlib", "re",
    "selectors", "shutil", "signal", "socket", "structlog", "subprocess", "threading", "traceback", "trio", "typing",
}  # fmt: skip


def answer(out: str = "", err: str = "", status: int = 0) -> dict[str, object]:
    return {"exit": status, "stdout": out, "stderr": err}


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, timeout=60, check=False, **options)


def test_what_the_daemon_answers_is_printed_and_its_exit_code_returned(serve: Any, home: Path) -> None:
    seen = serve({"mcpd/cli": answer("é\n", "note\n", 5)})

    done = run("call", "demo", "echo", "text=hi", cwd=home)

    assert (done.stdout, done.stderr, done.returncode) == ("é\n".encode(), b"note\n", 5)
    assert [request["params"] for request in seen] == [{"argv": ["call", "demo", "echo", "text=hi"], "cwd": str(home)}]


def test_a_large_result_arrives_whole(serve: Any) -> None:
    out = "0123456789abcde\n" * 327_680
    serve({"mcpd/cli": answer(out)})

    assert run("tools").stdout == out.encode()


def test_the_endpoint_file_leads_to_a_daemon_elsewhere(serve: Any, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve({"mcpd/cli": answer("found\n")})
    state = home / ".local/state/mcpd"
    state.mkdir(parents=True)
    (state / "endpoint.json").write_text(json.dumps({"socket": f"{home}/run/mcpd/mcpd.sock", "pid": 1}))
    monkeypatch.setenv("XDG_RUNTIME_DIR", f"{home}/other")

    assert run("tools").stdout == b"found\n"


def test_a_call_imports_nothing_heavy(serve: Any) -> None:
    serve({"mcpd/cli": answer("hi\n")})
    program = (
        "import sys; before = set(sys.modules); from mcpd_client import fast; "
        "status = fast.run(['call', 'demo', 'echo', 'text=hi']); "
        "print(status, *sorted(set(sys.modules) - before))"
    )

    # -S -I, so that nothing of the environment's site-packages counts.
    path = f"import sys; sys.path.insert(0, {os.path.dirname(os.path.dirname(fast.__file__))!r}); "
    done = subprocess.run(
        [sys.executable, "-S", "-I", "-c", path + program], capture_output=True, text=True, check=True
    )

    greeting, line = done.stdout.splitlines()
    status, *imported = line.split()
    assert (greeting, status) == ("hi", "0")
    assert not HEAVY & set(imported)
    assert {name for name in imported if not name.startswith("mcpd_client")} <= {
        # `os` and its own, which a Python with a site has already.
        "os", "os.path", "posixpath", "genericpath", "stat", "_stat", "_collections_abc", "abc", "_abc",
        "_json", "_socket",
    }  # fmt: skip


def test_without_a_daemon_it_says_where_it_looked(socket_path: str) -> None:
    done = run("call", "demo", "echo", "text=hi")

    assert done.returncode == 6
    assert done.stdout == b""
    assert done.stderr.decode() == (
        f"error: the daemon is not running: nobody listens on {socket_path}\n  try: mcpd up\n"
    )


def test_progress_is_handed_over_with_the_connection_and_nothing_is_sent_twice(serve: Any) -> None:
    def slow(peer: Peer, request: dict[str, Any]) -> None:
        peer.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}})
        peer.answer(request, answer("done\n"))

    seen = serve({"mcpd/cli": slow})

    done = run("call", "demo", "slow")

    assert (done.stdout, done.stderr, done.returncode) == (b"done\n", b"", 0)
    assert len(seen) == 1


def test_a_reply_of_another_shape_is_understood_all_the_same(serve: Any) -> None:
    def loose(peer: Peer, request: dict[str, Any]) -> None:
        peer.send({"result": answer("done\n"), "id": request["id"], "jsonrpc": "2.0"})

    seen = serve({"mcpd/cli": loose})

    assert run("call", "demo", "echo").stdout == b"done\n"
    assert len(seen) == 1


def test_an_error_of_the_daemon_is_explained(serve: Any) -> None:
    serve({"mcpd/cli": LookupError(31, "the daemon is stopping", {"class": "shutting_down", "retry_after_seconds": 2})})

    done = run("call", "demo", "echo")

    assert done.stderr == b"error: the daemon is stopping\n  try again in 2.0 s\n"
    assert done.returncode == 4


def test_a_connection_that_ends_after_the_daemon_has_read_may_have_run_the_call(serve: Any) -> None:
    seen = serve({"mcpd/cli": lambda peer, _: peer.close()})

    done = run("call", "demo", "echo")

    assert done.returncode == 6
    assert b"the call may have run" in done.stderr
    assert len(seen) == 1


def test_a_connection_that_ends_in_the_middle_of_the_reply_may_have_run_the_call(serve: Any) -> None:
    def half(peer: Peer, _: object) -> None:
        peer.send(b'{"jsonrpc":"2.0","id":1,"result":{"exit":0,"stdout":"ha')
        peer.close()

    seen = serve({"mcpd/cli": half})

    done = run("call", "demo", "echo", "--json")

    assert done.returncode == 6
    assert json.loads(done.stderr)["error"]["data"] == {"may_have_run": True}
    assert done.stdout == b""
    assert len(seen) == 1


def test_a_daemon_that_closes_without_reading_is_asked_again(socket_path: str, home: Path) -> None:
    turns: list[str] = []

    def script(peer: Peer) -> None:
        turns.append("turn")
        if len(turns) == 1:
            # Wait until the request is there, and close without having read it.
            select.select([peer.sock], [], [])
            peer.drop()
            return
        request = peer.read()
        assert request is not None
        peer.answer(request, answer("second\n"))

    with ScriptedDaemon(socket_path, script) as daemon:
        done = run("call", "demo", "echo")

    assert (done.stdout, done.returncode) == (b"second\n", 0)
    assert daemon.connections == 2


@pytest.mark.parametrize("arguments", [["call", "demo", "echo"], ["call", "demo", "echo", "-v"]])
def test_a_daemon_that_is_leaving_and_has_run_nothing_is_asked_again(serve: Any, arguments: list[str]) -> None:
    turns: list[str] = []

    def cli(peer: Peer, request: dict[str, Any]) -> None:
        turns.append("turn")
        if len(turns) == 1:
            peer.fail(request, 31, "the daemon is stopping", **{"class": "shutting_down", "may_have_run": False})
        else:
            peer.answer(request, answer("second\n"))

    serve({"mcpd/cli": cli})

    assert run(*arguments).stdout == b"second\n"


def test_an_interrupted_call_says_in_json_that_it_may_have_run(serve: Any) -> None:
    started = threading.Event()

    def hang(peer: Peer, _: object) -> None:
        started.set()
        peer.read()

    serve({"mcpd/cli": hang, "mcpd/read": hang})
    for words in ("call", "demo", "slow"), ("read", "demo", "a:b"):
        started.clear()
        with subprocess.Popen([*COMMAND, *words, "--json"], stderr=subprocess.PIPE) as process:
            assert started.wait(30)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)

        assert process.returncode == 130
        error = json.loads(err)["error"]
        assert (error["class"], error["data"]) == ("interrupted", {"may_have_run": True})


def test_an_interrupted_call_closes_its_connection(serve: Any) -> None:
    started, ended = threading.Event(), threading.Event()

    def hang(peer: Peer, _: object) -> None:
        started.set()
        assert peer.read() is None
        ended.set()

    serve({"mcpd/cli": hang})

    with subprocess.Popen([*COMMAND, "call", "demo", "slow"], stderr=subprocess.PIPE) as process:
        assert started.wait(30)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)

    assert (process.returncode, err) == (130, b"interrupted; the call may have run\n")
    assert ended.wait(30)


def test_a_reader_that_has_gone_ends_it_silently(serve: Any) -> None:
    serve({"mcpd/cli": answer("x" * 1_000_000)})
    read, write = os.pipe()
    os.close(read)

    done = subprocess.run([*COMMAND, "tools"], stdout=write, stderr=subprocess.PIPE, check=False, timeout=60)

    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_full_disk_is_an_error(serve: Any) -> None:
    serve({"mcpd/cli": answer("x\n")})

    with open("/dev/full", "wb") as full:
        done = subprocess.run([*COMMAND, "tools"], stdout=full, stderr=subprocess.PIPE, check=False, timeout=60)

    assert (done.returncode, done.stderr) == (1, b"error: the output could not be written: No space left on device\n")


def test_an_argument_that_is_not_utf8_is_a_usage_error(serve: Any) -> None:
    seen = serve({"mcpd/cli": answer()})

    done = subprocess.run([*map(os.fsencode, COMMAND), b"call", b"demo", b"\xff=1"], capture_output=True, check=False)

    assert done.returncode == 2
    assert done.stderr.decode() == "error: argument 3 is not UTF-8: \ufffd=1\n"
    assert seen == []


def test_closed_standard_files_are_not_mistaken_for_the_socket(serve: Any) -> None:
    seen = serve({"mcpd/cli": answer("hi\n")})

    done = subprocess.run(["sh", "-c", f"{sys.executable} -m mcpd_client tools <&- >&- 2>&-"], check=False, timeout=60)

    assert done.returncode == 0
    assert len(seen) == 1


def test_on_a_terminal_the_daemon_learns_its_width_and_progress_is_shown(serve: Any) -> None:
    def slow(peer: Peer, request: dict[str, Any]) -> None:
        token = request["params"]["_meta"]["progressToken"]
        params = {"progressToken": token, "progress": 1, "total": 2, "message": "half \x1b[31mway"}
        peer.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        peer.answer(request, answer("done\n"))

    seen = serve({"mcpd/cli": slow})

    controller, terminal = pty.openpty()
    with subprocess.Popen([*COMMAND, "call", "demo", "slow"], stdout=terminal, stderr=terminal, stdin=terminal) as done:
        os.close(terminal)
        shown = _read_all(controller)

    assert done.returncode == 0
    assert seen[0]["params"]["columns"] == 80
    assert shown == b"\r\x1b[K[##########..........] 1/2 half way\r\x1b[Kdone\r\n"


def _read_all(fd: int) -> bytes:
    chunks = []
    try:
        while chunk := os.read(fd, 65536):
            chunks.append(chunk)
    except OSError:
        # A terminal whose other side has gone says EIO instead of an end.
        pass
    os.close(fd)
    return b"".join(chunks)
