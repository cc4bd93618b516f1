from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from mcpd_client.cli.events import format_event
from mcpd_client.cli.main import main
from mcpd_client.cli.render import Style

if TYPE_CHECKING:
    from tests.client.scripted import Peer

READY = {"time": "2020-01-01T10:00:00.000Z", "event": "state", "server": "demo", "state": "ready", "pid": 8}
LATER = {"time": "2020-01-01T10:00:01.000Z", "event": "state", "server": "demo", "state": "stopping", "pid": 8}

Capture = pytest.CaptureFixture[str]


def text(event: str, **facts: object) -> str:
    """Return what a line says of an event of `demo`."""
    line = format_event({"time": "T", "event": event, "server": "demo", **facts}, style=Style(1), columns=None)
    return line.removeprefix("T demo: ").removesuffix("\n")


def test_events_are_printed_a_line_each(serve: Any, capfd: Capture) -> None:
    seen = serve({"mcpd/events": {"events": [READY, LATER]}})

    assert main(["events", "demo", "--tail", "5"]) == 0

    assert capfd.readouterr().out == (
        "2020-01-01T10:00:00.000Z demo: ready (pid 8)\n2020-01-01T10:00:01.000Z demo: stopping\n"
    )
    assert seen[0]["params"] == {"tail": 5, "follow": False, "server": "demo"}


def test_with_json_each_event_is_a_line_as_it_came(serve: Any, capfd: Capture) -> None:
    serve({"mcpd/events": {"events": [READY, LATER]}})

    assert main(["events", "--json"]) == 0

    assert [json.loads(line) for line in capfd.readouterr().out.splitlines()] == [READY, LATER]


@pytest.mark.parametrize("together", [True, False])
def test_who_follows_sees_how_things_are_between_what_was_and_what_comes(
    serve: Any, capfd: Capture, together: bool
) -> None:
    rows = [{"name": "demo", "state": "ready"}]

    def events(peer: Peer, request: dict[str, Any]) -> None:
        later = {"jsonrpc": "2.0", "method": "mcpd/event", "params": LATER}
        other = {"jsonrpc": "2.0", "method": "other", "params": {}}
        result = {"events": [READY], "servers": rows}
        if together:
            answer = {"jsonrpc": "2.0", "id": request["id"], "result": result}
            peer.send(b"".join(json.dumps(one).encode() + b"\n" for one in (answer, other, later)))
        else:
            peer.answer(request, result)
            peer.send(other, later)
        peer.close()

    seen = serve({"mcpd/events": events})

    assert main(["events", "-f", "--json"]) == 6
    out, err = capfd.readouterr()
    assert [json.loads(line) for line in out.splitlines()] == [READY, {"event": "servers", "servers": rows}, LATER]
    assert json.loads(err)["error"]["class"] == "connection_lost"
    assert seen[0]["params"] == {"tail": 50, "follow": True}

    assert main(["events", "-f"]) == 6
    assert [line.partition("demo: ")[2] for line in capfd.readouterr().out.splitlines()] == [
        "ready (pid 8)",
        "stopping",
    ]


def test_of_a_copy_the_project_is_named(serve: Any, capfd: Capture) -> None:
    line = {"time": "T", "server": "demo", "stream": "stderr", "text": "hello", "project": "/srv/shop"}
    serve({"mcpd/events": {"events": [{**READY, "project": "/srv/shop"}]}, "mcpd/logs": {"lines": [line]}})

    assert main(["events"]) == 0
    assert capfd.readouterr().out == "2020-01-01T10:00:00.000Z demo (/srv/shop): ready (pid 8)\n"

    assert main(["logs"]) == 0
    assert capfd.readouterr().out == "T demo (/srv/shop): hello\n"


def test_what_happened_is_said_in_words() -> None:
    assert text("state", state="starting", incarnation=1, scope="user") == "starting"
    assert text("state", state="stopping", pid=8, leaving=True) == "stopping for good"
    assert text("state", state="failed", reason="it\nbroke") == "failed: it broke"
    assert text("state", state="starting", reason="it broke before") == "starting"
    assert (
        text("call", tool="echo", outcome="done", seconds=0.01234, client=3, incarnation=1)
        == "call of echo by client 3: done in 0.0123 s"
    )
    assert text("list_changed", kind="tools", revision=2, items=8) == "its tools have changed: 8 now"
    assert text("config", added=["a", "b"], removed=[], changed=["c"]) == "configuration read: added a, b; changed c"
    assert text("config", added=[], removed=[]) == "configuration read: nothing has changed"
    assert text("missed", count=4, servers=[]) == "4 events were missed"


def test_an_event_that_is_not_known_is_shown_with_all_it_says() -> None:
    assert text("question", kind="elicitation", client=3, action="accept") == (
        "question kind=elicitation client=3 action=accept"
    )
    assert text("state", strange=1) == "state strange=1"


def test_nothing_of_an_event_reaches_the_terminal_as_a_command() -> None:
    event = {"time": "\x1b[2J", "event": "\x1b[31mx", "server": "de\x07mo", "a": "\x1b]0;t\x07b\n"}

    for columns in None, 80:
        assert format_event(event, style=Style(1), columns=columns) == " demo: x a=b\n"


def test_a_tail_is_a_number(home: Any, capfd: Capture) -> None:
    assert main(["events", "--tail", "all"]) == 2
    assert "-n takes a number, not 'all'" in capfd.readouterr().err
