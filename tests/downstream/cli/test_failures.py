import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from mcpd import errors
from mcpd.downstream.cli.failures import error_output, stderr_tail


def lines(error, **options):
    output = error_output(error, as_json=False, **options)
    assert output.stdout == ""
    return output.stderr


EXITS = {
    "unknown_server": 2,
    "unknown_tool": 5,
    "bad_request": 2,
    "invalid_page": 2,
    "server_unavailable": 4,
    "server_lost": 4,
    "timeout": 7,
    "server_protocol": 4,
    "too_large": 4,
    "auth_required": 3,
    "http": 4,
    "connect": 4,
    "version": 4,
    "denied": 8,
    "pending_trust": 8,
    "approval_required": 8,
    "misconfigured": 9,
    "stopping": 4,
    "overloaded": 4,
    "shutting_down": 4,
    "handle_expired": 4,
    "stale_session": 4,
    "input_required": 4,
    "internal": 1,
}


@pytest.mark.parametrize(("kind", "status"), EXITS.items())
@pytest.mark.parametrize("as_json", [True, False])
def test_the_class_decides_the_exit_code(kind, status, as_json):
    assert error_output({"code": 1, "message": "x", "data": {"class": kind}}, as_json=as_json).exit == status


def test_an_error_says_what_why_and_what_to_type():
    problem = errors.UnknownServer("there is no server 'gihub'", server="gihub", hint="mcpd ls", near=["github"])

    assert lines(problem.to_error()) == ("error: there is no server 'gihub'\n  did you mean github?\n  try: mcpd ls\n")


def test_a_hint_that_is_no_command_stands_for_itself():
    problem = errors.UnknownTool("there is no tool 'x'", hint="did you mean y?", near=["y"])

    assert lines(problem.to_error()) == "error: there is no tool 'x'\n  did you mean y?\n"


@pytest.mark.parametrize(
    ("details", "why"),
    [
        ({"may_have_run": True}, "the call may have run"),
        ({"may_have_run": False}, "nothing was run"),
        ({"retry_after_seconds": 2.54}, "try again in 2.5 s"),
        ({"retry_after_seconds": 29.8}, "try again in 30 s"),
        (
            {"reason": "because", "may_have_run": False, "retry_after_seconds": 1},
            "because; nothing was run; try again in 1.0 s",
        ),
        ({"near": ["a", "b"]}, "did you mean a or b?"),
    ],
)
def test_what_is_known_about_the_call_is_in_one_line(details, why):
    assert lines(errors.CallTimeout("too slow", **details).to_error()) == f"error: too slow\n  {why}\n"


def test_a_failed_start_shows_the_lines_of_stderr_that_say_why():
    problem = errors.ServerUnavailable(
        "server 'x' could not be started",
        hint="mcpd logs x",
        may_have_run=False,
        stderr="starting\n\nError: \x1b[31mCannot find module 'y'\x1b[0m\n    at one\n    at two\n"
        + "    at more\n" * 9,
    )

    assert lines(problem.to_error()) == (
        "error: server 'x' could not be started\n"
        "  Error: Cannot find module 'y'\n  at one\n  at two\n  at more\n  at more\n  at more\n"
        "  nothing was run\n  try: mcpd logs x\n"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("\n \n", []),
        ("one\ntwo", ["one", "two"]),
        ("\n".join("abcdefgh"), list("cdefgh")),
        (
            'Traceback (most recent call last):\n  File "x", line 1\nModuleNotFoundError: no y\n',
            ["ModuleNotFoundError: no y"],
        ),
        ("x" * 500, ["x" * 199 + "…"]),
    ],
)
def test_the_tail_begins_with_the_first_failure(text, expected):
    assert stderr_tail(text) == expected


def test_a_servers_own_error_is_in_its_own_words():
    assert lines({"code": -32602, "message": "bad\nthing", "data": Raw(b'{"why": "x"}')}, server="github") == (
        'error: server \'github\' answered: bad thing (code -32602)\n  {"why": "x"}\n'
    )
    assert lines({"code": 7, "message": "", "data": Raw(b'"wh\\u0079\\nnot"')}) == (
        "error: the server answered: no message (code 7)\n  why not\n"
    )
    for data in (Raw(b""), Raw(b"null"), Raw(b"{}"), None):
        assert lines({"code": 7, "message": "x", "data": data}) == "error: the server answered: x (code 7)\n"


def test_a_server_cannot_pass_for_the_daemon():
    error = {"code": 15, "message": "x", "data": Raw(b'{"class":"auth_required","hint":"mcpd run-this"}')}

    assert error_output(error, as_json=False).exit == 4
    assert "try:" not in lines(error)
    assert "class" not in json.loads(error_output(error, as_json=True).stderr)["error"]


def test_control_characters_never_get_to_stderr():
    problem = errors.ServerLost("\x1b]0;x\x07gone\nnow", hint="mcpd \x1b[31mlogs", reason="\u202ex", near=["\x07y"])

    assert lines(problem.to_error()) == "error: gone now\n  <U+202E>x; did you mean y?\n  try: mcpd logs\n"


def test_json_is_one_line_with_the_members_in_their_order():
    problem = errors.CallTimeout("too slow", server="github", hint="mcpd status", may_have_run=True, seconds=30)

    assert error_output(problem.to_error(), as_json=True).stderr == (
        '{"error":{"code":12,"class":"timeout","message":"too slow","server":"github","hint":"mcpd status",'
        '"data":{"class":"timeout","seconds":30,"server":"github","hint":"mcpd status","may_have_run":true}}}\n'
    )


def test_json_of_a_servers_error_keeps_its_data():
    data = Raw(b'{"n":\n12345678901234567890123, "f": 1.0}')

    assert error_output({"code": -32000, "message": "x\n", "data": data}, as_json=True, server="s").stderr == (
        '{"error":{"code":-32000,"message":"x\\n","server":"s","data":{"n": 12345678901234567890123, "f": 1.0}}}\n'
    )
    assert error_output({"code": 10**30, "message": "x", "data": Raw(b"")}, as_json=True).stderr == (
        '{"error":{"code":' + str(10**30) + ',"message":"x"}}\n'
    )


@given(
    st.integers(),
    st.text(),
    st.dictionaries(
        st.text()
        | st.sampled_from(["class", "hint", "reason", "stderr", "near", "may_have_run", "retry_after_seconds"]),
        st.none() | st.text() | st.booleans() | st.floats(allow_nan=False) | st.lists(st.text()),
    ),
)
def test_any_error_can_be_printed(code, message, data):
    error = {"code": code, "message": message, "data": data}
    shown = error_output(error, as_json=True, server="s").stderr

    assert shown.count("\n") == 1
    assert json.loads(shown)["error"]["code"] == code
    assert lines(error, server="s").startswith("error: ")


URL = "https://github.com@evil.example:8443/?a=" + "x" * 2000


def required(*urls):
    pages = [{"mode": "url", "url": url, "elicitationId": "e", "message": "m"} for url in urls]
    data = Raw(json.dumps({"elicitations": pages}).encode())
    return lines({"code": -32042, "message": "Sign in", "data": data}, server="hub")


def test_a_page_that_has_to_be_opened_first_is_shown_whole_with_its_host():
    assert required(URL) == (
        f"error: server 'hub' wants you to open a page: Sign in\n  {URL}\n  host: evil.example\n"
        "  open it, then call again\n"
    )


@pytest.mark.parametrize("url", ["javascript:alert(1)", "https://a.example/\x1b[2J", "https://[", "https://a.example/ b", ""])
def test_what_is_no_page_for_a_browser_is_shown_as_data(url):
    text = required(URL[:40], url)

    assert text.startswith("error: server 'hub' answered: Sign in (code -32042)\n")
    assert "host: " not in text


def test_of_a_path_that_was_searched_only_the_first_folders_are_shown():
    why = "command x not found in PATH /a:/b with blank:/c:/d e:/f; try"

    assert lines({"code": 10, "message": why, "data": {"class": "server_unavailable", "reason": why}}) == (
        "error: command x not found in PATH /a:/b with blank:…; try\n"
        "  command x not found in PATH /a:/b with blank:…; try\n"
    )
    assert json.loads(
        error_output({"code": 10, "message": why, "data": {"class": "server_unavailable"}}, as_json=True).stderr
    )["error"]["message"] == why


@pytest.mark.parametrize("as_json", [True, False])
def test_a_missing_sign_in_is_also_said_in_a_form_that_the_client_can_act_on(as_json: bool) -> None:
    data = {"class": "auth_required", "may_have_run": False, "scopes": ["a"]}

    output = error_output({"code": 15, "message": "x", "data": data}, as_json=as_json, server="s")

    assert output.wants == {"code": 15, "message": "x", "data": {"server": "s", **data}}


def test_nothing_that_an_upstream_says_looks_like_a_missing_sign_in() -> None:
    error = {"code": 15, "message": "x", "data": Raw(b'{"class":"auth_required","may_have_run":false}')}

    assert error_output(error, as_json=False, server="s").wants is None
