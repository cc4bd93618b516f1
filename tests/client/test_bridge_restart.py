from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.client.bridging import HELLO, INITIALIZE, Face, Host, notification, request

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.client.scripted import Peer

MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def acknowledge(peer: Peer, message: dict[str, Any]) -> None:
    peer.send(notification("notifications/subscriptions/acknowledged", _meta={SUBSCRIPTION: message["id"]}))


def end(daemon: Face, path: str) -> None:
    """Let a daemon end as one that is killed."""
    # In this order, so that nobody comes again.
    os.unlink(path)
    daemon.peer().sock.shutdown(socket.SHUT_RDWR)


def is_call(message: Any) -> bool:
    return message is not None and message.get("method") == "tools/call"


def replayed(daemon: Face, count: int) -> list[tuple[str, Any]]:
    """The next messages without the ids that a bridge makes itself."""
    return [(message["method"], message.get("params")) for message in (daemon.next() for _ in range(count))]


def test_the_next_daemon_is_told_the_session_and_the_host_notices_nothing(socket_path: str) -> None:
    settled: dict[str, Any] = {"logging__setLevel": {}, "resources__subscribe": {}, "resources__unsubscribe": {}}
    with Face(socket_path, **settled, subscriptions__listen=acknowledge) as old, Host("a") as host:
        host.initialize()
        host.send(
            request(2, "logging/setLevel", level="info"),
            request(3, "logging/setLevel", level="error"),
            request(4, "resources/subscribe", uri="x:é"),
            request(5, "resources/subscribe", uri="x:2"),
            request(6, "resources/unsubscribe", uri="x:2"),
            request("listen", "subscriptions/listen", notifications={"toolsListChanged": True}),
        )
        for _ in range(6):
            host.next()
        end(old, socket_path)

        with Face(socket_path, **settled, subscriptions__listen=acknowledge, ping={}) as new:
            hello = new.next()["params"]
            assert (hello["resumed"], hello["first_question"]) == (True, 1)
            assert replayed(new, 5) == [
                ("initialize", INITIALIZE),
                ("notifications/initialized", None),
                ("logging/setLevel", {"level": "error"}),
                ("resources/subscribe", {"uri": "x:é"}),
                ("subscriptions/listen", {"notifications": {"toolsListChanged": True}}),
            ]
            new.peer().send(notification("notifications/tools/list_changed"))
            host.send(request(7, "ping"))
            # Neither the answers to what was said again nor the second acknowledgement.
            assert host.next()["method"] == "notifications/tools/list_changed"
            assert host.next() == {"jsonrpc": "2.0", "id": 7, "result": {}}


def test_what_may_have_run_is_an_error_and_what_is_harmless_is_asked_again(socket_path: str) -> None:
    with Face(socket_path) as old, Host("a") as host:
        host.initialize()
        host.send(request(2, "tools/call", name="x"), request(3, "tools/list"), request("4", "tools/call", name="y"))
        host.send([request(5, "ping"), request(6, "ping")], request(7, "tools/call", name="z"))
        old.until(lambda message: isinstance(message, dict) and message.get("id") == 7)
        end(old, socket_path)

        with Face(socket_path, tools__list={"tools": []}) as new:
            errors = [host.next() for _ in range(5)]
            assert [error["id"] for error in errors] == [2, "4", 5, 6, 7]
            assert {error["error"]["code"] for error in errors} == {11}
            assert errors[0]["error"]["data"]["class"] == "server_lost"
            assert errors[0]["error"]["data"]["may_have_run"] is True
            assert host.next() == {"jsonrpc": "2.0", "id": 3, "result": {"tools": []}}
            assert new.methods(4) == ["mcpd/hello", "initialize", "notifications/initialized", "tools/list"]
            # Nothing else comes of it.
            host.send(request(8, "tools/list"))
            assert (host.next()["id"], new.next()["id"]) == (8, 8)


def test_what_was_cancelled_is_not_answered_any_more(socket_path: str) -> None:
    with Face(socket_path) as old, Host("a") as host:
        host.initialize()
        host.send(request(2, "tools/call"))
        old.until(is_call)
        host.send(notification("notifications/cancelled", requestId=2))
        old.until(lambda message: message.get("method") == "notifications/cancelled")
        end(old, socket_path)

        with Face(socket_path, ping={}):
            host.send(request(3, "ping"))
            assert host.next()["id"] == 3


def test_questions_of_a_daemon_that_is_gone_are_withdrawn_and_their_late_answers_dropped(socket_path: str) -> None:
    def ask(peer: Peer, message: dict[str, Any]) -> None:
        for number in (1, 2, 3):
            peer.send(request(f"s{number}", "elicitation/create"))
        peer.send(notification("notifications/cancelled", requestId="s2"))

    with Face(socket_path, tools__call=ask) as old, Host("a") as host:
        host.send(request(1, "tools/call"))
        assert [host.next().get("id") for _ in range(4)] == ["s1", "s2", "s3", None]
        host.send({"jsonrpc": "2.0", "id": "s1", "result": {"action": "accept"}})
        old.until(lambda message: message.get("id") == "s1")
        end(old, socket_path)

        with Face(socket_path, ping={}) as new:
            withdrawn = host.next()
            assert (withdrawn["method"], withdrawn["params"]["requestId"]) == ("notifications/cancelled", "s3")
            assert host.next()["error"]["code"] == 11
            assert new.next()["params"]["first_question"] == 4
            host.send({"jsonrpc": "2.0", "id": "s3", "result": {}}, {"jsonrpc": "2.0", "id": "s2", "error": {}})
            host.send(request(2, "ping"))
            assert (host.next()["id"], new.next()["id"]) == (2, 2)
            new.peer().send(request("s4", "roots/list"))
            assert host.next()["id"] == "s4"
            host.send({"jsonrpc": "2.0", "id": "s4", "result": {"roots": []}})
            assert new.next()["id"] == "s4"


def test_what_was_not_sent_is_sent_to_the_next_daemon(socket_path: str) -> None:
    is_over = threading.Event()
    # A daemon that reads no more.
    with Face(socket_path, ping=lambda *_: is_over.wait(60)) as old, Host("a") as host:
        host.send(request(1, "ping"))
        old.until(lambda message: message["method"] == "ping")
        # Far more than a socket holds; its last byte is certainly not there.
        host.send(request(2, "tools/call", text="x" * 3_000_000))
        assert host.process.poll() is None
        end(old, socket_path)
        with Face(socket_path, ping={}, tools__call={"content": []}):
            assert {host.next()["id"] for _ in range(2)} == {1, 2}
            is_over.set()


def test_a_request_that_no_daemon_survives_is_given_up(socket_path: str) -> None:
    def leave(peer: Peer, message: dict[str, Any]) -> None:
        peer.close()

    with Face(socket_path, tools__list=leave), Host("a") as host:
        host.send(request(1, "tools/list"))

        assert host.next()["error"]["code"] == 11


def test_a_session_that_the_next_daemon_refuses_is_offered_again_with_the_next_request(socket_path: str) -> None:
    with Face(socket_path) as old, Host("a") as host:
        host.initialize()
        end(old, socket_path)

        refusals = iter([True, False])

        def refuse(peer: Peer, message: dict[str, Any]) -> None:
            if next(refusals):
                peer.fail(message, 23, "it is misconfigured")
            else:
                peer.answer(message, {})

        with Face(socket_path, initialize=refuse, tools__list={"tools": []}) as new:
            assert new.methods(3) == ["mcpd/hello", "initialize", "notifications/initialized"]
            host.send(request(2, "ping"))
            new.until(lambda message: message["method"] == "ping")
            host.send(request(3, "tools/list"))

            assert host.next()["id"] == 3


def test_without_a_daemon_initialize_is_answered_and_all_else_refused_with_the_reason(socket_path: str) -> None:
    with Host("github") as host:
        result = host.initialize("i")["result"]
        assert result["protocolVersion"] == "2025-06-18"
        assert result["serverInfo"]["name"] == "github"
        assert result["capabilities"]["tools"] == {"listChanged": True}

        host.send(request(2, "tools/list"), request(3, "ping"))
        error, pong = host.next(), host.next()
        assert (error["error"]["code"], error["error"]["data"]["class"]) == (40, "daemon_unreachable")
        assert socket_path in error["error"]["message"]
        assert (error["error"]["data"]["may_have_run"], error["error"]["data"]["hint"]) == (False, "mcpd up")
        assert pong == {"jsonrpc": "2.0", "id": 3, "result": {}}

        with Face(socket_path, tools__list={"tools": []}) as daemon:
            assert daemon.next()["params"]["resumed"] is True
            assert replayed(daemon, 2) == [("initialize", INITIALIZE), ("notifications/initialized", None)]
            host.send(request(4, "tools/list"))
            assert host.next() == {"jsonrpc": "2.0", "id": 4, "result": {"tools": []}}
        host.send(request(5, "tools/list"))
        assert host.next()["id"] == 5
        host.process.terminate()
        reason = f"mcpd bridge: the daemon is not running: nobody listens on {socket_path} (try: mcpd up)"
        gone = "mcpd bridge: the daemon is gone; waiting for the next one"
        assert host.errors().splitlines() == [reason, gone, reason]


def test_a_host_of_the_modern_era_is_kept_as_well(socket_path: str) -> None:
    with Host() as host:
        host.send(request(1, "server/discover", _meta=MODERN))
        found = host.next()["result"]
        assert (found["supportedVersions"], found["resultType"]) == (["2026-07-28"], "complete")
        host.send(request(2, "subscriptions/listen"), request(3, "tools/list", _meta=MODERN))
        assert host.next()["error"]["code"] == 40

        with Face(socket_path, subscriptions__listen=acknowledge) as daemon:
            assert daemon.next()["params"]["resumed"] is True
            assert daemon.next()["id"] == 2
            assert host.next()["method"] == "notifications/subscriptions/acknowledged"


def test_a_path_that_cannot_be_used_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{home}/{'x' * 120}"
    monkeypatch.setenv("MCPD_SOCKET", path)
    monkeypatch.delenv("MCPD_NO_AUTOSTART")
    with Host("a") as host:
        host.send(request(1, "tools/list"))

        assert path in host.next()["error"]["message"]


def test_a_daemon_that_cannot_be_started_is_explained_by_what_it_says(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "file").write_text("")
    monkeypatch.setenv("MCPD_SOCKET", f"{home}/file/s")
    monkeypatch.delenv("MCPD_NO_AUTOSTART")
    with Host("a") as host:
        assert "result" in host.initialize()
        host.send(request(2, "tools/call"))

        error = host.next()["error"]
        assert (error["code"], error["data"]["class"]) == (44, "bad_address")
        assert f"{home}/file" in error["message"]


@pytest.fixture
def start_lock(socket_path: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The lock that every start of a daemon waits for, held; whoever has waited finds that a start has failed."""
    monkeypatch.delenv("MCPD_NO_AUTOSTART")
    fd = os.open(f"{os.path.dirname(socket_path)}/start.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.write(fd, f"{time.monotonic_ns() + 10**15}\nno daemon in a test\n".encode())
    yield fd
    os.close(fd)


def test_a_start_that_takes_long_does_not_keep_initialize_waiting(socket_path: str, start_lock: int) -> None:
    with Host("a") as host:
        assert host.initialize()["result"]["serverInfo"]["name"] == "a"
        host.send(request(2, "tools/list"))
        # The start goes on; a daemon that comes by another way is as good.
        with Face(socket_path, tools__list={"tools": []}):
            assert host.next() == {"jsonrpc": "2.0", "id": 2, "result": {"tools": []}}
            # When that start has come to nothing, it does not matter any more.
            fcntl.flock(start_lock, fcntl.LOCK_UN)
            host.send(request(3, "tools/list"))
            assert host.next()["id"] == 3


def test_a_daemon_that_is_stuck_does_not_keep_initialize_waiting(socket_path: str) -> None:
    with Face(socket_path, mcpd__hello=lambda *_: None) as stuck, Host("a") as host:
        assert host.initialize()["result"]["serverInfo"]["name"] == "a"
        # It has been told nothing that it could still do.
        assert [stuck.next()["method"], stuck.next()] == ["mcpd/hello", None]


def test_a_daemon_that_refuses_the_hello_is_quoted(socket_path: str) -> None:
    def refuse(peer: Peer, message: dict[str, Any]) -> None:
        peer.fail(message, 3, "mcpd/hello: version 1 is not spoken here")

    with Face(socket_path, mcpd__hello=refuse), Host("a") as host:
        host.send(request(1, "tools/call"))

        assert "version 1 is not spoken here" in host.next()["error"]["message"]


def test_a_daemon_that_leaves_before_the_hello_is_tried_again(socket_path: str) -> None:
    comings = iter(range(9))

    def greet(peer: Peer, message: dict[str, Any]) -> None:
        if next(comings) < 2:
            peer.close()
        else:
            peer.answer(message, HELLO)

    with Face(socket_path, mcpd__hello=greet, tools__call={"content": []}), Host("a") as host:
        host.send(request(1, "tools/call"))

        assert host.next() == {"jsonrpc": "2.0", "id": 1, "result": {"content": []}}


def test_the_end_of_stdin_with_no_daemon_to_be_had_is_the_end(socket_path: str) -> None:
    with Host("a") as host:
        host.send(
            request(1, "initialize", **INITIALIZE), notification("notifications/initialized"), request(2, "tools/call")
        )
        host.hang_up()

        assert [sorted(host.next()), host.next()["error"]["code"]] == [["id", "jsonrpc", "result"], 40]
        assert host.status() == 0


def test_the_endpoint_file_leads_to_a_daemon_elsewhere(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = home / ".local/state/mcpd"
    state.mkdir(parents=True)
    (state / "endpoint.json").write_text(json.dumps({"socket": f"{home}/there", "pid": 1}))
    with Face(f"{home}/there", tools__list={"tools": []}), Host("a") as host:
        host.send(request(1, "tools/list"))

        assert host.next()["result"] == {"tools": []}
