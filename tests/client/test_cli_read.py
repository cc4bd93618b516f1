"""`read`: a resource as it is, on a terminal, in a pipe and in a file."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from mcpd_client.cli.main import main
from mcpd_client.cli.read import expand
from mcpd_client.errors import UsageError
from tests.client.test_cli_commands import on_terminal

if TYPE_CHECKING:
    from pathlib import Path

    from tests.client.scripted import Peer

Capture = pytest.CaptureFixture[str]
CaptureBytes = pytest.CaptureFixture[bytes]

PICTURE = b"\x89PNG\r\n\x00\xff"
BLOB = {"uri": "x:p", "mimeType": "image/png", "blob": base64.b64encode(PICTURE).decode()}
VIEW = {"incarnation": 1, "bytes": 9000, "shown": 6, "truncated": True, "handle": "r1a2", "nextOffset": 6}
OMITTED = {
    "uri": "x:p",
    "mimeType": "text/plain",
    "text": "[blob …]",
    "_meta": {"mcpd/omitted": {"offset": 0, "bytes": 4096, "type": "blob", "mimeType": "image/png"}},
}


def note(text: str, uri: str = "x:a") -> dict[str, str]:
    return {"uri": uri, "mimeType": "text/plain", "text": text}


def read(*items: dict[str, Any], **view: Any) -> dict[str, Any]:
    return {"contents": list(items), "_meta": {"mcpd/view": view}}


def test_text_goes_to_a_pipe_exactly_as_it_is(serve: Any, capfd: Capture) -> None:
    text = "no end\x1b[31m of line\r\n\x00é"
    seen = serve({"mcpd/read": read(note(text))})

    assert main(["read", "files", "file:///a"]) == 0

    assert capfd.readouterr() == (text, "")
    assert seen[0]["params"] == {"server": "files", "uri": "file:///a"}


def test_a_terminal_gets_text_without_controls_and_a_last_newline(serve: Any) -> None:
    serve({"mcpd/read": read(note("\x1b[31mred\x1b[0m\u202e\n\n"))})

    assert on_terminal("read", "files", "x:a") == "red\n"


def test_several_texts_each_begin_on_a_line_of_their_own(serve: Any, capfd: Capture) -> None:
    serve({"mcpd/read": read(note("a"), note("b\n", "x:b"), note("c", "x:c"))})

    assert main(["read", "files", "x:a"]) == 0

    assert capfd.readouterr().out == "a\nb\nc\n"


def test_what_was_cut_is_said_on_stderr(serve: Any, capfd: Capture) -> None:
    serve({"mcpd/read": read(note("abcdef"), **VIEW)})

    assert main(["read", "files", "x:a", "--max-bytes", "6", "--timeout", "9"]) == 0
    assert capfd.readouterr() == ("abcdef", "shown 6 of 9000 bytes; the next part: mcpd fetch r1a2 --offset 6\n")

    assert main(["read", "files", "x:a", "-q"]) == 0
    assert capfd.readouterr() == ("abcdef", "")


def test_options_go_to_the_daemon(serve: Any) -> None:
    seen = serve({"mcpd/read": read(note("a"))})

    assert main(["read", "--timeout", "9", "files", "x:a", "--max-bytes", "6"]) == 0

    assert seen[0]["params"] == {"server": "files", "uri": "x:a", "max_bytes": 6, "timeout": 9.0}


def test_a_blob_goes_to_a_pipe_as_its_bytes(serve: Any, capfdbinary: CaptureBytes) -> None:
    serve({"mcpd/read": read(BLOB)})

    assert main(["read", "files", "x:p"]) == 0

    assert capfdbinary.readouterr() == (PICTURE, b"")


def test_a_blob_does_not_go_to_a_terminal(serve: Any) -> None:
    serve({"mcpd/read": read(BLOB)})

    assert on_terminal("read", "files", "x:p") == "[image/png 8 B: use -o FILE]\n"


def test_a_blob_that_was_too_large_to_be_shown_is_named_on_stderr(serve: Any, capfd: Capture) -> None:
    serve({"mcpd/read": read(OMITTED)})

    assert main(["read", "files", "x:p"]) == 0

    assert capfd.readouterr() == ("", "[image/png 3.0 KiB: use -o FILE]\n")


def test_text_among_blobs_is_printed_alone(serve: Any, capfd: Capture) -> None:
    serve({"mcpd/read": read(note("a"), BLOB)})

    assert main(["read", "files", "x:a"]) == 0

    assert capfd.readouterr() == ("a", "[image/png 8 B: use -o FILE]\n")


@pytest.mark.parametrize(("item", "content"), [(BLOB, PICTURE), (note("é\r\n"), "é\r\n".encode())])
def test_a_resource_is_written_to_a_file(
    serve: Any, home: Path, capfd: Capture, item: dict[str, str], content: bytes
) -> None:
    seen = serve({"mcpd/read": read(item)})

    assert main(["read", "files", "x:p", "-o", str(home / "out")]) == 0

    assert (home / "out").read_bytes() == content
    assert capfd.readouterr() == ("", f"{len(content)} bytes written to {home}/out\n")
    assert seen[0]["params"]["max_bytes"] == 16 * 1024 * 1024


def test_o_with_a_dash_is_stdout(serve: Any, capfdbinary: CaptureBytes) -> None:
    serve({"mcpd/read": read(BLOB)})

    assert main(["read", "files", "x:p", "-o", "-"]) == 0

    assert capfdbinary.readouterr().out == PICTURE


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (read(note("a"), BLOB), "the resource has 2 parts, and -o names one file"),
        (read(OMITTED, bytes=4096), "add --max-bytes 4096"),
        (read(OMITTED, bytes=90, kept=40), "of this server's results 40 bytes are kept"),
    ],
)
def test_what_one_file_cannot_hold_is_not_written(
    serve: Any, home: Path, capfd: Capture, result: dict[str, Any], words: str
) -> None:
    serve({"mcpd/read": result})

    assert main(["read", "files", "x:p", "-o", str(home / "out")]) == 2

    assert words in capfd.readouterr().err
    assert not (home / "out").exists()


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_read(serve: Any, home: Path) -> None:
    seen = serve({"mcpd/read": read(note("a"))})

    assert main(["read", "files", "x:a", "-o", str(home)]) == 2

    assert seen == []


def test_json_is_the_result_as_the_socket_gave_it(serve: Any, capfd: Capture) -> None:
    text = '{"contents":[{"uri":"x:a","text":"a","n":1.0}],"big":12345678901234567890123}'
    serve({"mcpd/read": lambda peer, _: peer.send(f'{{"jsonrpc":"2.0","id":1,"result":{text}}}\n'.encode())})

    assert main(["read", "files", "x:a", "--json"]) == 0

    assert capfd.readouterr() == (text + "\n", "")


@pytest.mark.parametrize(
    ("template", "values", "uri"),
    [
        ("file:///{name}", {}, "file:///{name}"),
        ("file:///{name}", {"name": "a b/é"}, "file:///a%20b%2F%C3%A9"),
        ("file:///{+path}?x={x}", {"path": "a/b c", "x": "1&2"}, "file:///a/b%20c?x=1%262"),
        ("a:{x}{x}", {"x": "~"}, "a:~~"),
    ],
)
def test_a_template_and_its_variables_make_a_uri(template: str, values: dict[str, str], uri: str) -> None:
    assert expand(template, values) == uri


@pytest.mark.parametrize(
    ("template", "values", "words"),
    [
        ("file:///{name}", {"nme": "x"}, "the template has no variable 'nme'"),
        ("file:///a", {"name": "x"}, "the template has no variable 'name'"),
        ("{a}/{b}", {"a": "x"}, "the variable 'b' has no value"),
    ],
)
def test_a_variable_without_a_match_is_an_error(template: str, values: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        expand(template, values)


def test_variables_come_from_the_command_line_and_from_files(serve: Any, home: Path) -> None:
    (home / "name").write_text("to do")
    seen = serve({"mcpd/read": read(note("a"))})

    assert main(["read", "files", "x:{a}/{b}", f"a=@{home}/name", "b=@@c"]) == 0

    assert seen[0]["params"]["uri"] == "x:to%20do/%40c"


LISTED = {"items": [{"uri": "file:///todo.md", "name": "t"}], "total": 1, "nextOffset": None}


@pytest.mark.parametrize("code", [-32002, -32602])
def test_a_resource_that_the_server_does_not_have_is_explained_by_its_list(
    serve: Any, capfd: Capture, code: int
) -> None:
    serve({"mcpd/read": LookupError(code, "not found", {}), "mcpd/resources": LISTED})

    assert main(["read", "files", "file:///tdo.md"]) == 5
    assert capfd.readouterr().err == "error: not found\n  did you mean file:///todo.md?\n"

    assert main(["read", "files", "zzz"]) == 5
    assert capfd.readouterr().err == "error: not found\n  try: mcpd resources files\n"

    assert main(["read", "files", "file:///todo.md"]) == 4
    assert capfd.readouterr().err == "error: not found\n"


def test_a_template_that_was_read_as_it_is_says_what_it_needs(serve: Any, capfd: Capture) -> None:
    serve({"mcpd/read": LookupError(-32602, "not found", {})})

    assert main(["read", "files", "x:{+id}/{b}"]) == 5

    assert capfd.readouterr().err == "error: not found\n  it needs id, b\n  add id=… b=…\n"


def test_an_answer_of_elicit_that_does_not_fit_ends_with_2(serve: Any, capfd: Capture) -> None:
    def ask(peer: Peer, request: dict[str, Any]) -> None:
        schema = {"properties": {"n": {"type": "integer"}}, "required": ["n"]}
        question = {"message": "How many?", "requestedSchema": schema}
        peer.send({"jsonrpc": "2.0", "id": "s1", "method": "elicitation/create", "params": question})
        assert peer.read()["result"] == {"action": "cancel"}
        peer.answer(request, read(note("abc")))

    serve({"mcpd/read": ask, "mcpd/hello": {}})

    assert main(["read", "files", "x:a", "--elicit", "accept-defaults"]) == 2

    out, err = capfd.readouterr()
    assert out == "abc"
    assert "write --elicit '{\"n\": 1}'" in err


def test_an_error_of_another_kind_asks_for_no_list(serve: Any, capfd: Capture) -> None:
    unknown = LookupError(1, "there is no server 'fles'", {"class": "unknown_server", "hint": "mcpd ls"})
    seen = serve({"mcpd/read": unknown})

    assert main(["--json", "read", "fles", "x:a"]) == 2

    assert json.loads(capfd.readouterr().err)["error"]["class"] == "unknown_server"
    assert [request["method"] for request in seen] == ["mcpd/read"]


def test_a_refusal_stands_where_the_list_cannot_be_had(serve: Any, capfd: Capture) -> None:
    serve({"mcpd/read": LookupError(-32002, "not found", {})})

    assert main(["read", "files", "x:a"]) == 4
    assert capfd.readouterr().err == "error: not found\n"


def test_the_next_part_of_what_was_read_can_be_fetched(serve: Any, capfd: Capture) -> None:
    seen = serve({"mcpd/fetch": read(note("ghi"), BLOB, bytes=9, shown=3, truncated=False, offset=6)})

    assert main(["fetch", "r1a2", "--offset", "6"]) == 0

    assert capfd.readouterr() == ("ghi", "[image/png, 9 bytes]\nthat was the end\n")
    assert seen[0]["params"] == {"handle": "r1a2", "offset": 6}
