"""`resources`, `templates`, `prompts`: lists of what servers offer besides tools."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpd_client.cli.main import main
from tests.client.scripted import Peer
from tests.client.test_cli_commands import on_terminal

Capture = pytest.CaptureFixture[str]

TODO = {"server": "files", "uri": "file:///todo.md", "name": "todo", "mimeType": "text/markdown", "size": 2048}
PLAN = {"server": "files", "uri": "file:///plan.pdf", "name": "plan", "description": "What \x1b[31mwe\ndo"}
REVIEW = {
    "server": "github",
    "name": "review",
    "title": "Review a change",
    "description": "Ask for a review.",
    "arguments": [{"name": "pr", "required": True, "description": "its number"}, {"name": "style"}, "odd"],
}


def listing(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    count = len(items)
    return {"items": list(items), "total": count, "shown": count, "nextOffset": None, "truncated": False, **more}


def paged(items: list[dict[str, Any]], size: int) -> Any:
    """Return a script that gives a list in pages."""

    def answer(peer: Peer, request: dict[str, Any]) -> None:
        offset = request["params"].get("offset", 0)
        page, end = items[offset : offset + size], offset + size
        more = {"nextOffset": end, "truncated": True} if end < len(items) else {}
        peer.answer(request, listing(*page, **{"total": len(items), **more}))

    return answer


def test_resources_in_a_pipe_are_rows_of_server_uri_type_and_description(serve: Any, capfd: Capture) -> None:
    seen = serve({"mcpd/resources": listing(TODO, PLAN)})

    assert main(["resources"]) == 0

    assert capfd.readouterr() == (
        "files\tfile:///todo.md\ttext/markdown\ttodo\nfiles\tfile:///plan.pdf\t-\tWhat we do\n",
        "",
    )
    assert seen[0]["params"] == {"limit": 100}


def test_prompts_on_a_terminal_are_a_table_with_their_arguments(serve: Any) -> None:
    serve({"mcpd/prompts": listing(REVIEW, {"server": "github", "name": "hello"})})

    assert on_terminal("prompts", "github", "--no-color") == (
        "SERVER  PROMPT  ARGUMENTS   DESCRIPTION\n"
        "github  review  pr [style]  Ask for a review.\n"
        "github  hello   -\n"
    )


def test_templates_are_listed_under_both_names(serve: Any, capfd: Capture) -> None:
    template = {"server": "files", "uriTemplate": "file:///{+path}", "name": "any file"}
    seen = serve({"mcpd/templates": listing(template)})

    assert main(["templates", "files"]) == main(["resources", "files", "--templates"]) == 0

    assert capfd.readouterr().out == "files\tfile:///{+path}\t-\tany file\n" * 2
    assert [request["params"] for request in seen] == [{"server": "files", "limit": 100}] * 2


def test_a_list_that_goes_on_says_how_to_get_all_of_it(serve: Any, capfd: Capture) -> None:
    items = [{**TODO, "uri": f"file:///{number}"} for number in range(5)]
    serve({"mcpd/resources": paged(items, 2)})

    assert main(["resources", "files"]) == 0
    out, err = capfd.readouterr()
    assert len(out.splitlines()) == 2
    assert err == "shown 2 of 5 resources; all of them: mcpd resources files --all\n"

    assert main(["resources", "files", "--all"]) == 0
    out, err = capfd.readouterr()
    assert [line.split("\t")[1] for line in out.splitlines()] == [item["uri"] for item in items]
    assert err == ""

    assert main(["resources", "files", "--all", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert (found["items"], found["shown"], found["total"], found["nextOffset"]) == (items, 5, 5, None)


def test_a_list_in_json_is_the_page_as_the_socket_gave_it(serve: Any, capfd: Capture) -> None:
    text = '{"items":[{"uri":"a","priority":1.0,"size":12345678901234567890123}],"total":1}'
    serve({"mcpd/resources": lambda peer, _: peer.send(f'{{"jsonrpc":"2.0","id":1,"result":{text}}}\n'.encode())})

    assert main(["resources", "--json"]) == 0

    assert capfd.readouterr() == (text + "\n", "")


def test_what_is_missing_in_a_list_is_said_on_stderr(serve: Any, capfd: Capture) -> None:
    problems = [{"code": 10, "message": "server 'x' \x1b[31mis down", "data": {}}]
    notes = {"incomplete": ["files: it has more"], "set_aside": ["files: item 2: odd"], "stale_servers": ["one"]}
    page = listing(problems=problems, stale=True, **notes)
    serve({"mcpd/resources": page, "mcpd/prompts": listing()})

    assert main(["resources"]) == 0
    assert capfd.readouterr() == (
        "",
        "error: server 'x' is down\nthe list is not complete: files: it has more\nleft out: files: item 2: odd\n"
        "the list of 'one' is an earlier one; for a newer one: mcpd start one\n",
    )

    assert main(["prompts"]) == 0
    assert capfd.readouterr() == ("", "no prompts\n")
    assert main(["resources", "-q"]) == 0
    assert capfd.readouterr() == ("", "")


def test_one_prompt_is_explained_with_a_command_to_begin_with(serve: Any, capfd: Capture) -> None:
    seen = serve({"mcpd/prompts": listing(REVIEW)})

    assert main(["prompts", "github", "review"]) == 0

    assert capfd.readouterr().out == (
        "github.review\nReview a change\n\n  Ask for a review.\n\n"
        "arguments:\n  pr: its number\n  style (may be left out)\n\n"
        "example:\n  mcpd prompt github review pr=…\n"
    )
    assert seen[0]["params"] == {"server": "github", "name": "review"}


def test_one_resource_is_explained(serve: Any, capfd: Capture) -> None:
    serve({"mcpd/resources": listing(TODO)})

    assert main(["resources", "files", "file:///todo.md"]) == 0
    assert capfd.readouterr().out == "file:///todo.md\n  name: todo\n  type: text/markdown\n  size: 2.0 KiB\n"


def test_one_item_in_json_is_the_descriptor_as_its_server_wrote_it(serve: Any, capfd: Capture) -> None:
    item = '{"server":"files","uri": "x:a","n":1.0,"e":1e5,"size":12345678901234567890123}'
    page = f'{{"items":[{item}],"total":1}}'
    serve({"mcpd/resources": lambda peer, _: peer.send(f'{{"jsonrpc":"2.0","id":1,"result":{page}}}\n'.encode())})

    assert main(["resources", "files", "x:a", "--json"]) == 0

    assert capfd.readouterr().out == item + "\n"


def test_a_name_that_is_not_there_has_its_own_exit_code(serve: Any, capfd: Capture) -> None:
    missing = LookupError(2, "server 'files' has no resource 'x'", {"class": "unknown_tool", "hint": "did you mean y?"})
    serve({"mcpd/resources": missing})

    assert main(["resources", "files", "x"]) == 5
    assert capfd.readouterr().err == "error: server 'files' has no resource 'x'\n  did you mean y?\n"
