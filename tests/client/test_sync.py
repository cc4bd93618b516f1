from __future__ import annotations

import fcntl
import os
import select
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import mcpd_client
from mcpd_client import waiting
from mcpd_client.errors import ConnectionLost, DaemonNotRunning, RemoteProtocolError, RequestFailed, RequestTimeout
from mcpd_client.sync import Client
from tests.client.scripted import Peer, ScriptedDaemon

PROGRESS = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}


def test_a_call_returns_the_result_as_it_is(serve: Any) -> None:
    result = {"content": [{"type": "text", "text": "hi"}]}
    seen = serve({"mcpd/call": result})

    with Client() as client:
        assert client.call("demo", "echo", {"text": "hi"}, timeout=5, max_bytes=100) == result

    assert seen[0]["params"] == {
        "server": "demo", "tool": "echo", "arguments": {"text": "hi"}, "timeout": 5, "max_bytes": 100,
    }  # fmt: skip


def test_the_client_is_connected_by_its_first_request_and_keeps_its_connection(socket_path: str) -> None:
    def script(peer: Peer) -> None:
        while request := peer.read():
            peer.answer(request, {"servers": [{"name": "demo"}]})

    with ScriptedDaemon(socket_path, script) as daemon:
        client = Client()
        assert client.servers() == [{"name": "demo"}]
        assert client.servers(every=True) == [{"name": "demo"}]
        client.close()

    assert daemon.connections == 1


def test_an_error_leaves_the_connection_as_it_is(serve: Any) -> None:
    error = LookupError(12, "timed out", {"class": "timeout", "may_have_run": True})
    serve({"mcpd/call": error, "mcpd/status": {"daemon": {}, "servers": []}})

    with Client() as client:
        with pytest.raises(RequestFailed) as caught:
            client.call("demo", "slow")
        assert client.status() == {"daemon": {}, "servers": []}

    assert (caught.value.code, caught.value.kind, caught.value.exit_code) == (12, "timeout", 7)
    assert caught.value.reason == "the call may have run"


def test_hello_says_who_is_there(serve: Any) -> None:
    seen = serve({"mcpd/hello": {"version": 1}})

    with Client(project="/p") as client:
        client.hello(server="demo")

    params = seen[0]["params"]
    assert (params["version"], params["project"], params["server"]) == (1, "/p", "demo")
    assert params["client"]["name"] == "mcpd_client"


def test_all_pages_of_tools_are_fetched(serve: Any) -> None:
    def tools(peer: Peer, request: dict[str, Any]) -> None:
        offset = request["params"]["offset"]
        page: dict[str, Any] = {"items": [{"name": f"t{offset}"}]}
        peer.answer(request, page if offset == 2 else {**page, "nextOffset": offset + 1})

    serve({"mcpd/tools": tools})

    with Client() as client:
        assert [tool["name"] for tool in client.tools("demo")] == ["t0", "t1", "t2"]


def test_the_parts_of_a_result_follow_each_other(serve: Any) -> None:
    def fetch(peer: Peer, request: dict[str, Any]) -> None:
        offset = request["params"]["offset"]
        view = {"bytes": 30, **({"nextOffset": 20} if offset == 10 else {})}
        peer.answer(request, {"content": [{"type": "text", "text": str(offset)}], "_meta": {"mcpd/view": view}})

    seen = serve({"mcpd/fetch": fetch})
    first = {"content": [], "_meta": {"mcpd/view": {"handle": "h", "nextOffset": 10}}}

    with Client() as client:
        parts = list(client.pages(first))

    assert [request["params"] for request in seen] == [{"handle": "h", "offset": 10}, {"handle": "h", "offset": 20}]
    assert len(parts) == 3


def test_a_result_that_is_whole_has_one_part() -> None:
    assert list(Client().pages({"content": []})) == [{"content": []}]


def test_notifications_are_handed_on_while_waiting(serve: Any) -> None:
    def slow(peer: Peer, request: dict[str, Any]) -> None:
        peer.send(PROGRESS, PROGRESS)
        peer.answer(request, {})

    serve({"mcpd/call": slow})
    noted: list[Any] = []

    with Client() as client:
        client.call("demo", "slow", on_notification=lambda method, params: noted.append((method, params)))

    assert noted == [("notifications/progress", {"progress": 1})] * 2


def test_a_request_of_the_daemon_is_refused(serve: Any) -> None:
    answers: list[Any] = []

    def ask(peer: Peer, request: dict[str, Any]) -> None:
        peer.send({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": {}})
        answers.append(peer.read())
        peer.answer(request, {})

    serve({"mcpd/call": ask})

    with Client() as client:
        assert client.call("demo", "ask") == {}

    assert answers[0]["id"] == 1
    assert answers[0]["error"]["code"] == -32601


def test_a_timeout_closes_the_connection(serve: Any) -> None:
    ended = threading.Event()

    def hang(peer: Peer, _: object) -> None:
        assert peer.read() is None
        ended.set()

    serve({"mcpd/status": hang})
    client = Client(timeout=0.05)

    with pytest.raises(RequestTimeout, match=r"mcpd/status within 0\.05 s"):
        client.status()

    assert ended.wait(30)
    with pytest.raises(ConnectionLost) as caught:
        client.status()
    assert not caught.value.may_have_run


def test_a_daemon_that_ends_after_reading_may_have_run_it(serve: Any) -> None:
    serve({"mcpd/call": lambda peer, _: peer.drop()})

    with Client() as client, pytest.raises(ConnectionLost) as caught:
        client.call("demo", "echo")

    assert caught.value.may_have_run


def test_a_daemon_that_ends_without_reading_has_run_nothing(socket_path: str) -> None:
    sent = threading.Event()

    def script(peer: Peer) -> None:
        assert sent.wait(30)
        peer.drop()

    with ScriptedDaemon(socket_path, script), Client() as client, ThreadPoolExecutor(1) as pool:
        call = pool.submit(client.call, "demo", "echo")
        _wait_sent(client)
        sent.set()
        error = call.exception(30)

    assert isinstance(error, ConnectionLost)
    assert not error.may_have_run


def test_a_daemon_that_ends_after_a_ping_that_it_has_not_read_may_have_run_it(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "PATIENCE_SECONDS", 0.02)

    def end(peer: Peer, _: object) -> None:
        select.select([peer.sock], [], [])
        peer.drop()

    serve({"mcpd/call": end})

    with Client() as client, pytest.raises(ConnectionLost) as caught:
        client.call("demo", "slow")

    assert caught.value.may_have_run


def test_nonsense_ends_the_connection(serve: Any) -> None:
    serve({"mcpd/status": lambda peer, _: peer.send(b"nonsense\n")})

    with Client() as client, pytest.raises(RemoteProtocolError):
        client.status()


def test_a_silent_daemon_is_asked_whether_it_lives(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PATIENCE_SECONDS", 0.02)

    def slow(peer: Peer, request: dict[str, Any]) -> None:
        ping = peer.read()
        assert ping is not None
        assert ping["method"] == "ping"
        peer.fail(ping, -32601, "never heard of it")
        peer.answer(request, {"done": True})

    serve({"mcpd/call": slow})

    with Client() as client:
        assert client.call("demo", "slow") == {"done": True}


def test_a_daemon_that_does_not_even_answer_that_is_given_up(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PATIENCE_SECONDS", 0.02)
    monkeypatch.setattr(waiting, "ANSWER_SECONDS", 0.02)
    serve({"mcpd/call": lambda peer, _: [peer.read(), peer.read()]})

    with Client() as client, pytest.raises(ConnectionLost, match="no answer to a ping") as caught:
        client.call("demo", "slow")

    assert caught.value.may_have_run


def test_threads_take_turns_and_get_their_own_answers(serve: Any) -> None:
    serve({"mcpd/call": lambda peer, request: peer.answer(request, request["params"]["arguments"])})

    with Client() as client, ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda n: client.call("demo", "echo", {"n": n}), range(200)))

    assert results == [{"n": n} for n in range(200)]


def test_closing_wakes_a_thread_that_waits(serve: Any) -> None:
    started = threading.Event()

    def hang(peer: Peer, _: object) -> None:
        started.set()
        peer.read()

    serve({"mcpd/call": hang})
    client = Client()

    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(client.call, "demo", "slow")
        assert started.wait(30)
        client.close()
        error = call.exception(30)

    assert isinstance(error, ConnectionLost)
    assert error.may_have_run


def test_without_a_daemon_there_is_an_error(home: object) -> None:
    with pytest.raises(DaemonNotRunning), Client(autostart=False):
        pass


def test_the_package_imports_no_event_loop_and_nothing_of_the_daemon(home: object) -> None:
    program = (
        "import sys, mcpd_client; light = set(sys.modules); mcpd_client.Client; "
        "print(*(m for m in ('trio', 'asyncio', 'structlog', 'msgspec', 'mcpd', 'typing') if m in sys.modules)); "
        "print(*(m for m in light if m.startswith('mcpd_client.')))"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "\n\n"


def test_the_package_has_no_other_names() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        _ = mcpd_client.nothing  # type: ignore[attr-defined]
    assert mcpd_client.RequestFailed is RequestFailed


def _wait_sent(client: Client) -> None:
    """Wait until the other side has not read yet what the client sent: SIOCOUTQ, by its number."""
    assert client._link.sock is not None
    while int.from_bytes(fcntl.ioctl(client._link.sock, 0x5411, bytes(4)), sys.byteorder) == 0:
        os.sched_yield()
