"""Which calls a sign-in can save: those that certainly did not run."""

from __future__ import annotations

from typing import Any

import pytest

from mcpd_client.cli.auth import wants_more
from mcpd_client.cli.main import main
from mcpd_client.cli.signing import wanted

MISSING = {"class": "auth_required", "server": "s", "may_have_run": False}
Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("result", "is_one"),
    [
        ({"error": {"data": MISSING}}, True),
        ({"error": {"data": {**MISSING, "may_have_run": True}}}, False),
        ({"error": {"data": {**MISSING, "may_have_run": None}}}, False),
        ({"error": {"data": {"class": "auth_required", "server": "s"}}}, False),
        ({"error": {"data": {**MISSING, "class": "http"}}}, False),
        ({"error": {"data": {**MISSING, "server": None}}}, False),
        ({"error": {"message": "auth_required"}}, False),
        ({"error": None}, False),
        ({}, False),
    ],
)
def test_only_a_call_that_did_not_run_for_want_of_a_sign_in_is_made_again(result: dict[str, Any], is_one: bool) -> None:
    assert (wanted(result) is not None) is is_one


@pytest.mark.parametrize(
    ("asked", "requested", "is_more"),
    [
        ({"error": "insufficient_scope", "scopes": ["a", "b"]}, ["a"], True),
        ({"error": "insufficient_scope", "scopes": ["a"]}, ["a", "b"], False),
        ({"error": "insufficient_scope"}, ["a"], False),
        ({"error": "insufficient_scope", "scopes": ["a"]}, None, True),
        ({"error": "invalid_token", "scopes": ["b"]}, ["a"], False),
        (None, ["a"], False),
    ],
)
def test_another_sign_in_is_worth_it_if_it_asks_for_more(
    asked: object, requested: list[str] | None, is_more: bool
) -> None:
    assert wants_more(asked, None if requested is None else {"requested_scopes": requested}) is is_more


@pytest.mark.parametrize("argv", [["call", "s", "t"], ["call", "s", "t", "--json"], ["tools", "s"]])
def test_without_a_terminal_and_login_the_answer_is_printed_as_it_is(
    serve: Any, capfd: Capture, argv: list[str]
) -> None:
    seen = serve({"mcpd/cli": {"exit": 3, "stdout": "", "stderr": "error: sign in\n", "error": {"data": MISSING}}})

    assert main(argv) == 3

    assert capfd.readouterr() == ("", "error: sign in\n")
    assert [one["method"] for one in seen] == ["mcpd/cli"]
