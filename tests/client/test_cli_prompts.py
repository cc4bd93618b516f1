"""`prompt` and `complete`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from mcpd_client.cli.main import main
from tests.client.test_cli_commands import on_terminal

if TYPE_CHECKING:
    from pathlib import Path

Capture = pytest.CaptureFixture[str]


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": {"type": "text", "text": text}}


def prompt(*messages: dict[str, Any], **view: Any) -> dict[str, Any]:
    return {"description": "d", "messages": list(messages), "_meta": {"mcpd/view": view}}


def test_messages_are_printed_below_their_roles(serve: Any, capfd: Capture) -> None:
    picture = {"role": "user", "content": {"type": "image", "mimeType": "image/png", "data": "AAAA"}}
    seen = serve({"mcpd/prompt": prompt(said("Look:\n"), picture, said("\x1b[31mYes", "assistant"))})

    assert main(["prompt", "github", "review", "pr=12", "style=a=b"]) == 0

    assert capfd.readouterr() == (
        "user:\nLook:\n\nuser:\n[image/png, 3 bytes]\n\nassistant:\n\x1b[31mYes\n",
        "",
    )
    assert seen[0]["params"] == {"server": "github", "name": "review", "arguments": {"pr": "12", "style": "a=b"}}


def test_a_terminal_gets_messages_without_controls(serve: Any) -> None:
    serve({"mcpd/prompt": prompt(said("\x1b[31mred", "us\x1b[2Jer"))})

    assert on_terminal("prompt", "github", "review", "--no-color") == "user:\nred\n"


@pytest.mark.parametrize(
    ("words", "arguments"),
    [(["github.review"], {}), (["github.review", "a=b"], {"a": "b"}), (["github.review", "a=b", "c="], {"a": "b", "c": ""})],
)
def test_server_and_prompt_may_be_one_word(serve: Any, words: list[str], arguments: dict[str, str]) -> None:
    seen = serve({"mcpd/prompt": prompt(said("x"))})

    assert main(["prompt", *words]) == 0

    assert seen[0]["params"] == {"server": "github", "name": "review", "arguments": arguments}


def test_an_argument_may_come_from_a_file(serve: Any, home: Path) -> None:
    (home / "diff").write_text("+é\n")
    seen = serve({"mcpd/prompt": prompt(said("x"))})

    assert main(["prompt", "github", "review", f"diff=@{home}/diff", "at=@@me"]) == 0

    assert seen[0]["params"]["arguments"] == {"diff": "+é\n", "at": "@me"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["github"], "error: no prompt is named\n  try: mcpd prompts github\n"),
        (["github", "review", "x"], "error: an argument is k=v or k=@FILE, and its value a text, not 'x'\n"),
        (["github", "review", "n:=1"], "error: an argument is k=v or k=@FILE, and its value a text, not 'n:=1'\n"),
        (["github", "review", "a=1", "a=2"], "error: the argument 'a' is there twice\n"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_sent(
    serve: Any, capfd: Capture, words: list[str], message: str
) -> None:
    seen = serve({})

    assert main(["prompt", *words]) == 2

    assert capfd.readouterr() == ("", message)
    assert seen == []


def test_what_was_cut_is_said_on_stderr(serve: Any, capfd: Capture) -> None:
    view = {"bytes": 90, "shown": 3, "truncated": True, "handle": "r1", "nextOffset": 3}
    seen = serve({"mcpd/prompt": prompt(said("abc"), **view)})

    assert main(["prompt", "github", "review", "--max-bytes", "3"]) == 0

    assert capfd.readouterr() == ("user:\nabc\n", "shown 3 of 90 bytes; the next part: mcpd fetch r1 --offset 3\n")
    assert seen[0]["params"]["max_bytes"] == 3


def test_the_next_part_of_a_prompt_can_be_fetched(serve: Any, capfd: Capture) -> None:
    serve({"mcpd/fetch": prompt(said("def"), bytes=6, shown=3, truncated=False, offset=3)})

    assert main(["fetch", "r1", "--offset", "3"]) == 0

    assert capfd.readouterr() == ("def", "that was the end\n")


def test_json_is_the_result_as_the_socket_gave_it(serve: Any, capfd: Capture) -> None:
    text = '{"messages":[{"role":"user","content":{"type":"text","text":"a","n":1.0}}]}'
    serve({"mcpd/prompt": lambda peer, _: peer.send(f'{{"jsonrpc":"2.0","id":1,"result":{text}}}\n'.encode())})

    assert main(["prompt", "github", "review", "--json"]) == 0

    assert capfd.readouterr() == (text + "\n", "")


LISTED = {
    "items": [{"name": "review", "arguments": [{"name": "pr", "required": True}, {"name": "style"}]}],
    "total": 1,
}


def test_a_refusal_is_explained_by_the_list(serve: Any, capfd: Capture) -> None:
    serve({"mcpd/prompt": LookupError(-32602, "invalid params", {}), "mcpd/prompts": LISTED})

    assert main(["prompt", "github", "reveiw"]) == 5
    assert capfd.readouterr().err == "error: invalid params\n  did you mean review?\n"

    assert main(["prompt", "github", "review"]) == 4
    assert capfd.readouterr().err == "error: invalid params\n  it needs pr\n"

    assert main(["prompt", "github", "review", "prr=1", "style=x"]) == 4
    assert capfd.readouterr().err == "error: invalid params\n  it has no argument 'prr'; it needs pr\n"

    assert main(["--json", "prompt", "github", "review"]) == 4
    assert json.loads(capfd.readouterr().err)["error"]["reason"] == "it needs pr"

    assert main(["--json", "prompt", "github", "zzz"]) == 5
    error = json.loads(capfd.readouterr().err)["error"]
    assert (error["code"], error["server"], error["hint"]) == (-32602, "github", "mcpd prompts github")


@pytest.mark.parametrize("listed", [{"items": [], "total": 0}, LookupError(-32601, "unknown method", {})])
def test_a_server_without_the_capability_is_said_to_have_none(serve: Any, capfd: Capture, listed: object) -> None:
    refusal = LookupError(-32601, "method not found", {})
    methods = ("mcpd/prompt", "mcpd/read", "mcpd/complete")
    serve({**dict.fromkeys(methods, refusal), "mcpd/prompts": listed, "mcpd/resources": listed})

    for words, what in (
        (["prompt", "demo", "review"], "prompts"),
        (["read", "demo", "file:///a"], "resources"),
        (["complete", "demo", "prompt", "review", "style"], "completions"),
    ):
        assert main(words) == 5
        assert capfd.readouterr().err == f"error: server 'demo' has no {what}\n"


def test_completions_are_printed_one_by_one(serve: Any, capfd: Capture) -> None:
    seen = serve({"mcpd/complete": {"completion": {"values": ["short", "sho\x1b[31mw\n"], "total": 7, "hasMore": True}}})

    assert main(["complete", "github", "prompt", "review", "style", "sh", "pr=12"]) == 0

    assert capfd.readouterr() == ("short\nshow\n", "shown 2 of 7; there are more\n")
    assert seen[0]["params"] == {
        "server": "github",
        "ref": {"type": "ref/prompt", "name": "review"},
        "argument": {"name": "style", "value": "sh"},
        "context": {"arguments": {"pr": "12"}},
    }


def test_variables_of_a_template_are_completed_too(serve: Any, capfd: Capture) -> None:
    seen = serve({"mcpd/complete": {"completion": {"values": []}}})

    assert main(["complete", "files", "template", "file:///{path}", "path"]) == 0
    assert main(["complete", "files", "resource", "file:///{path}", "path", "--json"]) == 0

    assert capfd.readouterr() == ('{"completion":{"values":[]}}\n', "")
    assert seen[0]["params"]["ref"] == {"type": "ref/resource", "uri": "file:///{path}"}
    assert seen[0]["params"]["argument"] == {"name": "path", "value": ""}
