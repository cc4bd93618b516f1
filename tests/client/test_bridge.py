from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.client.bridging import INITIALIZE, Face, Host, notification, request
from tests.client.scripted import Peer
from tests.client.terminal import CTRL_D, Terminal

if TYPE_CHECKING:
    from pathlib import Path

TOOLS = {"tools": [{"name": "echo"}]}


def test_lines_go_both_ways_as_they_are(socket_path: str) -> None:
    with Face(socket_path) as daemon, Host("github") as host:
        line = b'{"id":"\\u00fc", "method":"tools/call","jsonrpc":"2.0", "params":{"name":"x","n":1e400,"u":"\xe2\x80\xa8"}}\n'
        host.send(line)
        peer = daemon.peer()
        assert daemon.next()["method"] == "mcpd/hello"
        assert daemon.next() == json.loads(line)
        answer = b'{"jsonrpc":"2.0","id":"\xc3\xbc","result":{"n":12345678901234567890123,"e":1e400}}\n'
        peer.send(answer)

        assert host.next_line() == answer


def test_the_hello_says_who_is_there_and_what_is_to_be_shown(
    socket_path: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", "/src/é")
    monkeypatch.setenv("CODEX_THREAD_ID", "t1")
    monkeypatch.setenv("CODEX_API_KEY", "hidden")
    given = ("--mode=search", "--project", "sub", "--separator", "__", "--description-bytes", "200")
    with Face(socket_path) as daemon, Host(*given, cwd=home) as host:
        params = daemon.next()["params"]

        told = params["client"]["host"]
        assert (params["client"]["name"], params["client"]["pid"]) == ("bridge", host.process.pid)
        assert (told["ppid"], told["CLAUDE_PROJECT_DIR"], told["CODEX_THREAD_ID"]) == (str(os.getpid()), "/src/é", "t1")
        assert "hidden" not in json.dumps(params)
        assert {name: params[name] for name in params if name != "client"} == {
            "version": 1, "first_question": 1, "resumed": False, "mode": "search", "project": f"{home}/sub", "separator": "__",
            "description_bytes": 200,
        }  # fmt: skip


@pytest.mark.parametrize(
    ("names", "expected"), [(("a",), {"server": "a"}), (("a", "b"), {"servers": ["a", "b"]}), ((), {})]
)
def test_one_name_is_a_server_and_several_are_all_of_them(
    socket_path: str, names: tuple[str, ...], expected: dict[str, object]
) -> None:
    with Face(socket_path) as daemon, Host(*names):
        params = daemon.next()["params"]

        assert {name: params[name] for name in ("server", "servers") if name in params} == expected


def test_global_options_before_the_command_are_taken(socket_path: str, home: Path) -> None:
    with Face(socket_path) as daemon:
        command = [sys.executable, "-m", "mcpd_client", "--project", str(home), "bridge", "a"]
        done = subprocess.run(command, input=b"", timeout=60, check=True)

        assert done.returncode == 0
        assert daemon.next()["params"]["project"] == str(home)


def test_garbage_batches_and_blank_lines_do_no_harm(socket_path: str) -> None:
    with Face(socket_path, tools__list=TOOLS) as daemon, Host("a") as host:
        host.send(b"\r\n\n hello \r\n\xff\xfe\x00\n", [request(1, "x"), 5], b'{"id":null,"method":"y"}\r\n', b"NaN\n")
        host.send(request(2, "tools/list"))

        assert host.next()["result"] == TOOLS
        assert [daemon.next() for _ in range(6)][1:] == [
            b"hello\n", b"\xff\xfe\x00\n", [request(1, "x"), 5], {"id": None, "method": "y"}, pytest.approx(float("nan"), nan_ok=True),
        ]  # fmt: skip


def test_ten_megabytes_go_through(socket_path: str) -> None:
    def echo(peer: Peer, message: dict[str, Any]) -> None:
        peer.answer(message, message["params"])

    with Face(socket_path, tools__call=echo), Host("a") as host:
        host.send(request(1, "tools/call", text="x" * 10_000_000))

        assert len(host.next()["result"]["text"]) == 10_000_000


def test_what_a_host_does_not_read_stays_with_the_daemon(socket_path: str) -> None:
    count, line = 4000, json.dumps(notification("notifications/message", data="x" * 10_000)).encode() + b"\n"

    def flood(peer: Peer, message: dict[str, Any]) -> None:
        for _ in range(count):
            peer.send(line)

    with Face(socket_path, tools__call=flood, ping={}) as daemon, Host("a", reads=False) as host:
        host.send(request(1, "tools/call"))
        daemon.until(lambda message: message["method"] == "tools/call")
        # What the host says still goes through, as long as the daemon reads.
        host.send(request(2, "ping"))
        assert host.memory() < 16_000

        host.read_on()
        assert [host.next_line() for _ in range(count)] == [line] * count
        assert host.next()["id"] == 2
        assert host.memory() < 16_000


def test_what_the_daemon_does_not_read_stays_with_the_host(socket_path: str) -> None:
    may_go_on = threading.Event()
    with Face(socket_path, ping=lambda *_: may_go_on.wait(60)) as daemon, Host("a") as host:
        host.send(request(1, "ping"))
        daemon.until(lambda message: message["method"] == "ping")
        data = b"".join(json.dumps(request(n, "tools/call", text="x" * 10_000)).encode() + b"\n" for n in range(2000))

        sent = host.send_what_fits(data)
        assert sent < 4_000_000
        assert host.memory() < 20_000

        may_go_on.set()
        host.send(data[sent:])
        assert [daemon.next()["id"] for _ in range(2000)] == [*range(2000)]


def test_what_is_too_long_is_refused_by_its_id_and_an_answer_fails_the_question(socket_path: str) -> None:
    def ask(peer: Peer, message: dict[str, Any]) -> None:
        peer.send(request("s1", "sampling/createMessage"))

    filler = b"x" * (64 * 1024 * 1024)
    with Face(socket_path, tools__call=ask) as daemon, Host("a") as host:
        host.send(request(1, "tools/call"))
        assert host.next()["id"] == "s1"
        host.send(b'{"jsonrpc":"2.0","id":"s1","result":{"x":"' + filler + b'"}}\n')
        refusal = daemon.until(lambda message: message.get("id") == "s1")
        assert (refusal["error"]["code"], refusal["error"]["data"]["class"]) == (14, "too_large")
        host.send(b'{"method":"tools/call","params":{"x":"' + filler + b'"},"jsonrpc":"2.0","id":7}\n')
        refusal = host.next()
        assert (refusal["id"], refusal["error"]["code"]) == (7, 14)


def test_a_host_that_writes_headers_gets_headers(socket_path: str) -> None:
    with Face(socket_path, tools__list=TOOLS) as daemon, Host("a") as host:
        body = b'{"jsonrpc":"2.0",\r\n"id":1,"method":"tools/list"}'
        host.send(b"content-length: %d\r\nContent-Type: x\r\n\r\n%s" % (len(body), body))

        assert daemon.until(lambda message: "result" not in message and message["method"] != "mcpd/hello")["id"] == 1
        assert host.next_line().lower().startswith(b"content-length: ")
        assert host.next_line() == b"\r\n"
        host.hang_up()
        assert json.loads(host.next_line())["result"] == TOOLS


def test_the_end_of_stdin_is_passed_on_and_what_is_pending_is_answered(socket_path: str) -> None:
    with Face(socket_path, holds=True) as daemon, Host("a") as host:
        host.send(request(1, "tools/call"), notification("x"), request(2, "tools/call"))
        host.hang_up()
        peer = daemon.peer()
        messages = [daemon.next() for _ in range(5)]
        assert messages[-1] is None

        peer.sock.sendall(b'{"jsonrpc":"2.0","id":1,"result":{}}\n{"jsonrpc":"2.0","id":2,"result":{}}\n')

        assert [host.next()["id"], host.next()["id"]] == [1, 2]
        assert (host.status(), host.errors()) == (0, "")


def test_a_last_line_without_its_end_counts(socket_path: str) -> None:
    with Face(socket_path, tools__list=TOOLS), Host("a") as host:
        host.send(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
        host.hang_up()

        assert host.next()["result"] == TOOLS
        assert host.status() == 0


def test_a_daemon_that_leaves_after_the_end_of_stdin_is_the_last_one(socket_path: str) -> None:
    with Face(socket_path) as daemon, Host("a") as host:
        host.send(request(1, "tools/list"), request(2, "tools/call"))
        host.hang_up()
        assert daemon.methods(3) == ["mcpd/hello", "tools/list", "tools/call"]
        assert daemon.next() is None

        assert sorted(host.next()["id"] for _ in range(2)) == [1, 2]
        assert host.status() == 0


def test_a_host_that_has_gone_altogether_is_not_waited_for(socket_path: str) -> None:
    with Face(socket_path) as daemon, Host("a", reads=False) as host:
        host.send(request(1, "tools/call"))
        daemon.until(lambda message: message["method"] == "tools/call")
        host.hang_up()
        assert host.process.stdout is not None
        host.process.stdout.close()

        assert (host.status(), host.errors()) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_at_once_without_a_word(socket_path: str, number: signal.Signals) -> None:
    with Face(socket_path) as daemon, Host("a") as host:
        host.send(request(1, "tools/call"))
        daemon.until(lambda message: message["method"] == "tools/call")

        host.process.send_signal(number)

        assert (host.status(), host.errors()) == (128 + number, "")


@pytest.mark.parametrize("end", ["hang up", "signal"])
def test_standard_output_is_left_as_it_was_found(socket_path: str, end: str) -> None:
    read, write = os.pipe()
    with Face(socket_path) as daemon:
        command = [sys.executable, "-m", "mcpd_client", "bridge"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=write)
        daemon.until(lambda message: message["method"] == "mcpd/hello")
        if end == "signal":
            process.terminate()
        process.communicate(timeout=60)

    assert os.get_blocking(write)
    os.close(read)
    os.close(write)


def test_it_is_small_and_imports_nothing_heavy(socket_path: str) -> None:
    program = (
        "import sys; sys.argv = ['mcpd', 'bridge', 'a']\n"
        "import mcpd_client.fast as fast, os\n"
        "os._exit = lambda status: print(*sys.modules, file=sys.stderr)\n"
        "fast.main()"
    )
    with Face(socket_path, tools__list=TOOLS), Host("a") as host:
        host.send(request(1, "initialize", **INITIALIZE), request(2, "tools/list"))
        host.next()
        host.next()
        assert host.memory() < 12 * 1024

        done = subprocess.run([sys.executable, "-c", program], input=b"", capture_output=True, timeout=60, check=True)
        loaded = {name for name in done.stderr.decode().split() if not name.startswith("mcpd_client")}
        assert not loaded & {
            "argparse",
            "contextlib",
            "enum",
            "json",
            "re",
            "socket",
            "selectors",
            "signal",
            "subprocess",
        }


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("--mode", "x"), "--mode"),
        (("--names",), "--names"),
        (("--separator", "a/b"), "--separator takes up to 8 letters"),
        (("--separator", ""), "--separator"),
        (("a", "a"), "'a' is named twice"),
        (("--nothing",), "--nothing"),
        (("--project", ""), "--project needs a value"),
    ],
)
def test_a_mistake_in_the_options_is_explained(home: Path, arguments: tuple[str, ...], what: str) -> None:
    with Host(*arguments) as host:
        assert host.next_line() == b""
        assert host.status() == 2
        errors = host.errors()

    assert errors.startswith("error: ")
    assert what in errors
    assert "mcpd bridge --help" in errors


def test_the_help_has_examples_for_hosts(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mcpd_client", "bridge", "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert "claude mcp add github -- mcpd bridge github" in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 80


def test_who_starts_it_by_hand_is_told_what_it_waits_for(socket_path: str) -> None:
    with Face(socket_path), Terminal("bridge", "github") as terminal:
        terminal.read_until("mcpd bridge --help")
        terminal.type(CTRL_D)
        assert terminal.finish() == 0
