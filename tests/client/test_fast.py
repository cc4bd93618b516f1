from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from mcpd_client import fast

if TYPE_CHECKING:
    from pathlib import Path


def answer(out: str) -> dict[str, object]:
    return {"exit": 0, "stdout": out, "stderr": ""}


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

    def receive() -> None:
        with open(read, "rb") as file:
            received.append(file.read())

    reader = threading.Thread(target=receive)
    reader.start()

    fast.write_bytes(write, content)

    os.close(write)
    reader.join()
    assert received == [content]
