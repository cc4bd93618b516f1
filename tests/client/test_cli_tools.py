from __future__ import annotations

import base64
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from mcpd_client.cli.main import main
from mcpd_client.cli.tools import file_names

if TYPE_CHECKING:
    from pathlib import Path

Capture = pytest.CaptureFixture[str]
PICTURE = b"\x89PNG\r\n"
IMAGE = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(PICTURE).decode()}
TEXT = {"type": "text", "text": "a picture"}


def answer(result: object) -> dict[str, object]:
    return {"exit": 0, "stdout": json.dumps(result) + "\n", "stderr": ""}


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["text=@a b.txt"], ["a b.txt"]),
        (["n:=@a.json", "list[]=@b", "x.y=@c"], ["a.json", "b", "c"]),
        (["text=@-"], ["-"]),
        (["text=@@home"], []),
        (["mail=a@b", "text=x=@y"], []),
        (["--args", "@f"], ["f"]),
        (["--args=@f"], ["f"]),
        (["--args", "-"], ["-"]),
        (["--args=-"], ["-"]),
        (['{"a":"=@x"}', '[1,"=@x"]'], []),
        (["demo", "echo", "-q"], []),
    ],
)
def test_the_files_of_a_call_are_found(arguments: list[str], names: list[str]) -> None:
    assert file_names(arguments) == names


def test_files_are_read_by_the_client_and_sent_along(
    serve: Any, home: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    (home / "note.txt").write_text("é\n")
    monkeypatch.chdir(home)
    seen = serve({"mcpd/cli": {"exit": 3, "stdout": "out\n", "stderr": "err\n"}})

    assert main(["--json", "call", "demo", "echo", "text=@note.txt", "--timeout", "5"]) == 3

    assert capfd.readouterr() == ("out\n", "err\n")
    assert seen[0]["params"] == {
        "argv": ["call", "--json", "demo", "echo", "text=@note.txt", "--timeout", "5"],
        "cwd": str(home),
        "files": {"note.txt": "é\n"},
    }


def test_stdin_is_read_if_it_is_asked_for(serve: Any) -> None:
    seen = serve({"mcpd/cli": {"exit": 0, "stdout": "", "stderr": ""}})

    subprocess.run(
        [sys.executable, "-m", "mcpd_client", "call", "demo", "echo", "--args", "-"],
        input=b"{}",
        check=True,
        timeout=60,
    )

    assert seen[0]["params"]["files"] == {"-": "{}"}


def test_a_file_that_is_not_text_is_refused(serve: Any, home: Path, capfd: Capture) -> None:
    (home / "binary").write_bytes(b"ab\xff")
    seen = serve({})

    assert main(["call", "demo", "echo", f"text=@{home}/binary"]) == 2

    assert capfd.readouterr().err == f"error: {home}/binary is not UTF-8 text (byte 2)\n"
    assert seen == []


def test_options_of_the_client_do_not_reach_the_daemon(serve: Any, home: Path, socket_path: str) -> None:
    seen = serve({"mcpd/hello": {}, "mcpd/cli": {"exit": 0, "stdout": "", "stderr": ""}})

    arguments = ["--socket", socket_path, "--project", str(home), "-v", "--no-color", "--no-autostart"]
    assert main(["call", "demo", "echo", *arguments, "--", "--socket"]) == 0

    assert seen[1]["params"]["argv"] == ["call", "demo", "echo", "--", "--socket"]


def test_tools_go_the_same_way(serve: Any, capfd: Capture) -> None:
    seen = serve({"mcpd/cli": {"exit": 0, "stdout": "echo\n", "stderr": ""}})

    assert main(["--quiet", "tools", "demo", "--all"]) == 0

    assert capfd.readouterr().out == "echo\n"
    assert seen[0]["params"]["argv"] == ["tools", "-q", "demo", "--all"]


def test_a_picture_is_written_to_a_file(serve: Any, home: Path, capfd: Capture) -> None:
    seen = serve({"mcpd/cli": answer({"content": [TEXT, IMAGE]})})

    assert main(["call", "demo", "image", "-o", f"{home}/x.png"]) == 0

    assert (home / "x.png").read_bytes() == PICTURE
    assert capfd.readouterr() == ("a picture", f"{len(PICTURE)} bytes written to {home}/x.png\n")
    assert seen[0]["params"]["argv"] == ["call", "--json", "--max-bytes", "16777216", "demo", "image"]


def test_a_picture_is_written_to_stdout(serve: Any, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    serve({"mcpd/cli": answer({"content": [IMAGE]})})

    assert main(["call", "demo", "image", "-o-"]) == 0

    assert capfdbinary.readouterr().out == PICTURE


def test_text_is_written_to_a_file_as_it_would_be_printed(serve: Any, home: Path) -> None:
    serve({"mcpd/cli": answer({"content": [{"type": "text", "text": "é"}]})})

    assert main(["call", "demo", "echo", "--output", f"{home}/x.txt"]) == 0

    assert (home / "x.txt").read_bytes() == "é\n".encode()


def test_several_pictures_do_not_fit_into_one_file(serve: Any, home: Path, capfd: Capture) -> None:
    serve({"mcpd/cli": answer({"content": [IMAGE, IMAGE]})})

    assert main(["call", "demo", "image", "-o", f"{home}/x.png"]) == 2

    assert not (home / "x.png").exists()
    assert "--save" in capfd.readouterr().err


def test_what_is_not_text_is_saved_under_new_names(serve: Any, home: Path, capfd: Capture) -> None:
    blob = {"type": "resource", "resource": {"uri": "x:/y", "mimeType": "../../etc", "blob": "AAAA"}}
    serve({"mcpd/cli": answer({"content": [TEXT, IMAGE, IMAGE, blob], "_meta": {"mcpd/view": {"truncated": True}}})})

    assert main(["call", "demo", "image", "--save", f"{home}/new/folder"]) == 0

    saved = sorted((home / "new" / "folder").glob("mcpd-*"))
    assert [path.read_bytes() for path in saved] == [b"\0\0\0", PICTURE, PICTURE]
    assert [path.suffix for path in saved] == [".etc", ".png", ".png"]
    out, err = capfd.readouterr()
    assert out == "a picture"
    assert err.count("] saved to ") == 3
    assert "was cut" in err


def test_a_failed_call_writes_nothing(serve: Any, home: Path, capfd: Capture) -> None:
    serve({"mcpd/cli": {"exit": 5, "stdout": "", "stderr": '{"error":{}}\n'}})

    assert main(["call", "demo", "fail", "-o", f"{home}/x"]) == 5

    assert capfd.readouterr().err == '{"error":{}}\n'
    assert not (home / "x").exists()


@pytest.mark.parametrize("out", ["nonsense", "[]"])
def test_a_daemon_that_answers_nonsense_is_an_error(out: str, serve: Any, home: Path, capfd: Capture) -> None:
    serve({"mcpd/cli": {"exit": 0, "stdout": out, "stderr": ""}})

    assert main(["call", "demo", "image", "-o", f"{home}/x"]) == 6


def test_content_that_is_not_base64_is_an_error(serve: Any, home: Path, capfd: Capture) -> None:
    serve({"mcpd/cli": answer({"content": [{"type": "audio", "mimeType": "audio/wav", "data": "!"}]})})

    assert main(["call", "demo", "sound", "-o", f"{home}/x"]) == 1

    assert capfd.readouterr().err == "error: the server sent content that is not base64\n"


def test_a_folder_that_cannot_be_made_is_an_error_before_the_call(serve: Any, home: Path, capfd: Capture) -> None:
    (home / "file").touch()
    seen = serve({})

    assert main(["call", "demo", "image", "--save", f"{home}/file"]) == 2

    assert capfd.readouterr().err.startswith(f"error: --save needs a directory, and {home}/file cannot be one")
    assert seen == []


def test_a_file_that_cannot_be_written_is_an_error_before_the_call(serve: Any, home: Path, capfd: Capture) -> None:
    serve({"mcpd/cli": answer({"content": [IMAGE]})})

    assert main(["call", "demo", "image", "-o", f"{home}/no/x"]) == 2

    assert capfd.readouterr().err.startswith(f"error: cannot write {home}/no/x\n")
