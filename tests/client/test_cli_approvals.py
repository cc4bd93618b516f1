from __future__ import annotations

from typing import Any

import pytest

from mcpd_client.cli.approvals import format_approval
from mcpd_client.cli.main import main
from mcpd_client.cli.progress import Notices, ProgressLine
from mcpd_client.cli.render import Style

Capture = pytest.CaptureFixture[str]

ROW = {
    "id": "a1",
    "server": "files",
    "tool": "write",
    "arguments": '{"path":"/etc"}',
    "client": {"pid": 7, "exe": "/usr/bin/node", "name": "agent", "project": "/srv/project"},
    "expires_in_seconds": 299.6,
}
WAITING = {"id": "a1", "server": "files", "tool": "wri\x1b[2Jte", "seconds": 300}


def shown(**more: object) -> str:
    return format_approval({**ROW, **more}, style=Style(1))


def test_all_that_there_is_to_decide_by_is_shown() -> None:
    assert shown() == (
        "a1  files.write  (300 s left)\n"
        "    from pid 7, /usr/bin/node, which calls itself 'agent', in /srv/project\n"
        '    with {"path":"/etc"}\n'
    )


@pytest.mark.parametrize(
    "more",
    [
        {"tool": "a\x1b[2Jb\nc"},
        {"arguments": "a\x1b]0;x\x07b\rc\u202e"},
        {"client": {"pid": 7, "name": "\x1b[1mx", "exe": "/a\nb", "project": "/c\x9bd"}},
        {"definition": {"diff": "+\x1b[31mred\n-\x07bell\n"}},
    ],
)
def test_nothing_of_it_can_do_anything_to_a_terminal(more: dict[str, object]) -> None:
    text = shown(**more)

    assert [char for char in text if (char < " " and char != "\n") or char in "\x7f\x9b\u202e"] == []
    assert all(line.startswith(("a1  ", "    ")) for line in text.splitlines())


def test_cut_arguments_say_how_long_they_are() -> None:
    assert "with xxx … (9000 bytes in all)" in shown(arguments="xxx", arguments_bytes=9000)


def test_a_definition_that_is_held_back_is_shown_without_a_caller() -> None:
    row = {"id": "d1", "server": "files", "tool": "write", "definition": {"diff": "--- pinned\n+++ now\n-a\n+b\n"}}

    assert format_approval(row, style=Style(1)).splitlines()[-4:] == ["    --- pinned", "    +++ now", "    -a", "    +b"]


def test_nothing_that_waits_is_said_so(serve: Any, capfd: Capture) -> None:
    serve({"mcpd/approvals": {"approvals": []}})

    assert main(["approvals"]) == 0
    assert capfd.readouterr().out == "nothing waits for a nod\n"


def test_a_nod_and_a_refusal_say_what_for(serve: Any, capfd: Capture) -> None:
    seen = serve({"mcpd/approve": {}, "mcpd/deny": {}})

    assert main(["approve", "a1", "--remember"]) == 0
    assert main(["deny", "a2", "--reason", "no"]) == 0

    assert capfd.readouterr().out == "approved a1\ndenied a2\n"
    assert [one["params"] for one in seen] == [{"id": "a1", "remember": True}, {"id": "a2", "reason": "no"}]


@pytest.mark.parametrize(("is_quiet", "said"), [(False, True), (True, False)])
def test_a_call_says_what_it_waits_for_and_what_to_type(capfd: Capture, is_quiet: bool, said: bool) -> None:
    Notices(None, is_quiet=is_quiet)("mcpd/waiting", WAITING)

    text = capfd.readouterr().err
    assert ("'write' waits for a nod; in another terminal: mcpd approve a1" in text) is said
    assert "\x1b" not in text


def test_progress_is_still_shown(capfd: Capture) -> None:
    Notices(ProgressLine(columns=80), is_quiet=True)("notifications/progress", {"progress": 1, "message": "half"})

    assert "half" in capfd.readouterr().err
