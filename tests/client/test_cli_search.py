from __future__ import annotations

import json
from typing import Any

import pytest

from mcpd_client.cli.main import main
from tests.client.test_cli_commands import on_terminal

FOUND = {
    "items": [
        {"server": "demo", "name": "add", "title": "Add", "description": "Add two\nnumbers.", "score": 0.8},
        {"server": "\x1b[31mmath", "name": "sum", "title": "Sum up", "score": 0.5},
        {"server": "other", "name": "plus", "score": 0.25},
    ],
    "total": 3,
}
LATE = {"code": 12, "message": "server 'slow' did not list its tools within 2 s", "data": {"class": "timeout"}}

Capture = pytest.CaptureFixture[str]


def test_what_is_found_is_a_line_each_with_the_best_first(serve: Any, capfd: Capture) -> None:
    seen = serve({"mcpd/search": FOUND})

    assert main(["search", "add", "two numbers"]) == 0

    out, err = capfd.readouterr()
    assert out == "demo\tadd\tAdd two numbers.\n\x1b[31mmath\tsum\tSum up\nother\tplus\t-\n"
    assert err == ""
    assert seen[0]["params"] == {"query": "add two numbers", "limit": 10}


def test_on_a_terminal_it_is_a_table(serve: Any) -> None:
    serve({"mcpd/search": FOUND})

    assert on_terminal("search", "add", "--no-color") == (
        "SERVER  TOOL  DESCRIPTION\n"
        "demo    add   Add two numbers.\n"
        "math    sum   Sum up\n"
        "other   plus  -\n"
    )  # fmt: skip


def test_the_result_is_printed_as_json_and_nothing_else(serve: Any, capfd: Capture) -> None:
    seen = serve({"mcpd/search": {**FOUND, "total": 9, "problems": [LATE]}})

    assert main(["search", "add", "--json", "--limit", "3", "--server", "demo"]) == 0

    out, err = capfd.readouterr()
    assert json.loads(out) == {**FOUND, "total": 9, "problems": [LATE]}
    assert out.count("\n") == 1
    assert err == "shown 3 of 9; more: --limit N\n"
    assert seen[0]["params"] == {"query": "add", "limit": 3, "server": "demo"}


def test_nothing_found_is_no_error_and_says_so(serve: Any, capfd: Capture) -> None:
    serve({"mcpd/search": {"items": [], "total": 0}})

    assert main(["search", "zebra", "crossing"]) == 0
    assert capfd.readouterr() == ("", "no tool matches 'zebra crossing'; all tools: mcpd tools\n")

    assert main(["search", "-q", "zebra"]) == 0
    assert capfd.readouterr() == ("", "")


def test_servers_that_were_not_searched_are_named(serve: Any, capfd: Capture) -> None:
    serve({"mcpd/search": {**FOUND, "problems": [LATE]}})

    assert main(["search", "add"]) == 0

    assert capfd.readouterr().err == "not searched: server 'slow' did not list its tools within 2 s\n"


@pytest.mark.parametrize("limit", ["0", "101", "-1", "many", "1.5", "²"])
def test_a_limit_is_a_number_up_to_a_hundred(limit: str, home: Any, capfd: Capture) -> None:
    assert main(["search", "x", f"--limit={limit}"]) == 2

    assert "--limit takes a number from 1 to 100" in capfd.readouterr().err
