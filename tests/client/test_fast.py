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

Serve = "Callable[[dict[str, Any]], list[dict[str, Any]]]"
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


@pytest.mark.parametrize(
    "arguments",
    [
        "call demo echo text=hi",
        "call demo.echo --json text=hi --timeout 5 -q",
        "call demo echo --timeout=5 --field content[0].text",
        'call demo echo --args {"a":1}',
        "call demo echo text:=[1] a[]=2 b.c=3 mail=a@b",
        "tools",
        "tools demo --schema --all",
    ],
)
def test_the_daemon_alone_can_run_it(arguments: str) -> None:
    assert fast.is_plain(arguments.split())


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "status",
        "--json call demo echo",
        "call -h",
        "call demo echo --help",
        "call demo echo text=@file",
        "call demo echo text:=@file",
        "call demo echo text=@-",
        "call demo echo --args @file",
        "call demo echo --args -",
        "call demo echo --args=@file",
        "call demo echo --args=-",
        "call demo echo -o x",
        "call demo echo -ox",
        "call demo echo --output=x",
        "call demo echo --save dir",
        "call demo echo --ask",
        "call demo echo --socket /s",
        "call demo echo --socket=/s",
        "call demo echo --config /c",
        "call demo echo --project /p",
        "call demo echo --no-autostart",
        "call demo echo -v",
        "call demo echo --no-color",
        "call demo echo -- --socket",
    ],
)
def test_the_client_has_to_look_at_it(arguments: str) -> None:
    assert not fast.is_plain(arguments.split())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"exit":0,"stdout":"hi\\n","stderr":""}', (0, "hi\n", "")),
        ('{"exit":5,"stdout":"","stderr":"error: \\"no\\"\\n"}', (5, "", 'error: "no"\n')),
        ('{"exit":130,"stdout":"\\u00e9\\ud83d\\ude00\\\\\\/","stderr":"\\t"}', (130, "é😀\\/", "\t")),
        ('{"exit":0,"stdout":"é😀","stderr":","}', (0, "é😀", ",")),
        ('{"exit":0,"stdout":"\\",\\"stderr\\":\\"x","stderr":""}', (0, '","stderr":"x', "")),
    ],
)
def test_a_reply_is_read_without_a_parser(line: str, expected: tuple[int, str, str]) -> None:
    assert fast.parse_answer(f'{{"jsonrpc":"2.0","id":1,"result":{line}}}\n'.encode()) == expected


def test_a_reply_of_five_megabytes_is_read() -> None:
    out = 'line "é"\n' * 600_000
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "result": answer(out)}, separators=(",", ":"))

    assert fast.parse_answer(line.encode() + b"\n") == (0, out, "")


@pytest.mark.parametrize(
    "received",
    [
        b"",
        b'{"jsonrpc":"2.0","id":1,"result":{"exit":0,"stdout":"","stderr":""}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"exit":0,"stdout":"","stderr":"","more":1}}\n',
        b'{"jsonrpc":"2.0","id":1,"result":{"exit":0,"stdout":"un',
        b'{"jsonrpc":"2.0","id":1,"result":{"exit":x,"stdout":"","stderr":""}}\n',
        b'{"jsonrpc":"2.0","id":1,"result":{"exit":0,"stderr":"","stdout":""}}\n',
        b'{"jsonrpc":"2.0","id":1,"result":{"exit":0,"stdout":"\xff","stderr":""}}\n',
        b'{"jsonrpc":"2.0","id":1,"result":{"exit":0,"stdout":"\x01","stderr":""}}\n',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":3,"message":"m"}}\n',
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":{}}\n',
        b'{"jsonrpc":"2.0","id":1,"result":{"exit":0,"stdout":"","stderr":""}}\n{"jsonrpc":"2.0"}\n',
    ],
)
def test_anything_else_is_left_to_the_full_command_line(received: bytes) -> None:
    assert fast.parse_answer(received) is None


def test_the_request_is_one_line_with_arguments_and_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    request = fast.make_request(["call", "demo", "echo", 'text="é"\n\\'])

    assert request.count(b"\n") == 1
    assert json.loads(request) == {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "mcpd/cli",
        "params": {"argv": ["call", "demo", "echo", 'text="é"\n\\'], "cwd": str(tmp_path)},
    }


def test_a_directory_that_has_been_deleted_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    assert json.loads(fast.make_request(["tools"]))["params"]["cwd"] == "/"


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
    done = subprocess.run([sys.executable, "-S", "-I", "-c", path + program], capture_output=True, text=True, check=True)

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
        f"error: the daemon is not running: nobody listens on {socket_path}\n  run: mcpd up\n"
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

    assert done.stderr == b"error: the daemon is stopping\n  try again in 2 s\n"
    assert done.returncode == 4


def test_a_connection_that_ends_after_the_daemon_has_read_may_have_run_the_call(serve: Any) -> None:
    seen = serve({"mcpd/cli": lambda peer, _: peer.close()})

    done = run("call", "demo", "echo")

    assert done.returncode == 6
    assert b"it may have run" in done.stderr
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
            peer.close()
            return
        request = peer.read()
        assert request is not None
        peer.answer(request, answer("second\n"))

    with ScriptedDaemon(socket_path, script) as daemon:
        done = run("call", "demo", "echo")

    assert (done.stdout, done.returncode) == (b"second\n", 0)
    assert daemon.connections == 2


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

    assert (process.returncode, err) == (130, b"")
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


def test_nobody_asks_for_progress_that_nobody_sees() -> None:
    assert "_meta" not in json.loads(fast.make_request(["call", "demo", "slow"]))["params"]


def test_a_daemon_of_another_user_is_not_used(serve: Any, socket_path: str) -> None:
    serve({})

    assert fast.connect_to(socket_path, os.geteuid() + 1) is None


def test_writing_waits_for_a_pipe_in_non_blocking_mode() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    content = b"x" * 1_000_000
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(_read_all(read)))
    reader.start()

    fast.write_bytes(write, content)

    os.close(write)
    reader.join()
    assert received == [content]


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
