"""What the daemon asks of a client while a request waits."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from queue import Queue
from typing import TYPE_CHECKING, Any

import pytest

from mcpd_client import waiting
from mcpd_client.errors import ConnectionLost, RequestFailed, RequestRefused, RequestTimeout, Withdrawn
from mcpd_client.sync import Client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcpd_client.waiting import ServerRequest
    from tests.client.scripted import Peer

FORM = {"elicitation": {"form": {}}}


def question(request_id: object = "s1", method: str = "elicitation/create", **params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def cancelled(request_id: object, **params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id, **params}}


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    yield read, write
    os.close(read)
    os.close(write)


def asks(*messages: object, answers: list[Any], count: int = 1) -> Any:
    """A call that sends messages, waits for so many answers and returns."""

    def call(peer: Peer, request: dict[str, Any]) -> None:
        peer.send(*messages)
        answers.extend(peer.read() for _ in range(count))
        peer.answer(request, {"done": True})

    return call


def test_what_the_callback_returns_is_the_answer(serve: Any) -> None:
    answers: list[Any] = []
    asked: list[ServerRequest] = []
    serve({"mcpd/call": asks(question(message="hi", _meta={"mcpd/server": "demo"}), answers=answers)})

    def answer(request: ServerRequest) -> object:
        asked.append(request)
        return {"action": "accept", "content": {"answer": "é"}}

    with Client(on_request=answer) as client:
        assert client.call("demo", "ask") == {"done": True}

    assert answers == [{"jsonrpc": "2.0", "id": "s1", "result": {"action": "accept", "content": {"answer": "é"}}}]
    assert [(each.method, each.params["message"], each.server) for each in asked] == [
        ("elicitation/create", "hi", "demo")
    ]


def test_the_capabilities_are_declared_before_the_first_request(serve: Any) -> None:
    seen = serve({"mcpd/hello": {"version": 1}, "mcpd/status": {}})

    with Client(capabilities=FORM, project="/p") as client:
        client.status()
        client.hello(server="demo")

    assert [request["method"] for request in seen] == ["mcpd/hello", "mcpd/status", "mcpd/hello"]
    for hello in (seen[0], seen[2]):
        assert hello["params"]["capabilities"] == FORM
        assert hello["params"]["project"] == "/p"


def test_a_daemon_that_refuses_the_capabilities_is_not_used_without_them(serve: Any) -> None:
    seen = serve({"mcpd/hello": LookupError(3, "no", {"class": "bad_request"})})
    client = Client(capabilities=FORM)

    with pytest.raises(RequestFailed, match="no"):
        client.status()
    with pytest.raises(ConnectionLost):
        client.status()

    assert len(seen) == 1


def test_a_callback_of_one_request_takes_precedence(serve: Any) -> None:
    answers: list[Any] = []
    serve({"mcpd/call": asks(question(), answers=answers)})

    with Client(on_request=lambda _: "client") as client:
        client.request("mcpd/call", on_request=lambda _: "request")

    assert answers[0]["result"] == "request"


def test_a_refusal_is_answered_with_its_code(serve: Any) -> None:
    answers: list[Any] = []
    serve({"mcpd/call": asks(question(), answers=answers)})

    def refuse(_: ServerRequest) -> object:
        raise RequestRefused("no such mode", code=-32602)

    with Client(on_request=refuse) as client:
        assert client.call("demo", "ask") == {"done": True}

    assert answers[0]["error"] == {"code": -32602, "message": "no such mode"}


def test_a_callback_that_fails_ends_the_connection_and_says_so(serve: Any) -> None:
    answers: list[Any] = []
    serve({"mcpd/call": asks(question(), answers=answers)})

    def fail(_: ServerRequest) -> object:
        raise ZeroDivisionError

    client = Client(on_request=fail)
    with pytest.raises(ZeroDivisionError):
        client.call("demo", "ask")
    with pytest.raises(ConnectionLost):
        client.call("demo", "ask")


def test_questions_are_asked_one_after_another_in_their_order(serve: Any, pipe: tuple[int, int]) -> None:
    answers: list[Any] = []
    serve({"mcpd/call": asks(question("s1"), question("s2"), question(3), answers=answers, count=3)})
    os.write(pipe[1], b"x")
    depth: list[int] = []

    def answer(request: ServerRequest) -> object:
        depth.append(1)
        request.wait_readable(pipe[0])
        assert len(depth) == 1
        depth.pop()
        return {}

    with Client(on_request=answer) as client:
        client.call("demo", "ask")

    assert [answer["id"] for answer in answers] == ["s1", "s2", 3]


def test_a_question_that_is_withdrawn_while_it_is_asked_is_not_answered(serve: Any, pipe: tuple[int, int]) -> None:
    asking = threading.Event()
    later: list[Any] = []

    def call(peer: Peer, request: dict[str, Any]) -> None:
        peer.send(question("s1"))
        assert asking.wait(30)
        # The same number as the withdrawn one has as text, so that a mix-up would show.
        peer.send(cancelled(1), cancelled("s1", reason="timed out"), question("s2"))
        later.append(peer.read())
        peer.answer(request, {})

    serve({"mcpd/call": call})
    reasons: list[str] = []

    def answer(request: ServerRequest) -> object:
        if asking.is_set():
            return "second"
        asking.set()
        try:
            request.wait_readable(pipe[0])
        except Withdrawn as error:
            reasons.append(error.message)
            raise
        return "first"

    with Client(on_request=answer) as client:
        client.call("demo", "ask")

    assert reasons == ["timed out"]
    assert [(each["id"], each["result"]) for each in later] == [("s2", "second")]


def test_a_question_that_is_withdrawn_before_it_is_asked_is_never_asked(serve: Any) -> None:
    answers: list[Any] = []
    messages = (question("s1"), question("s2"), cancelled("s2"), question("s3"))
    serve({"mcpd/call": asks(b"".join(_line(each) for each in messages), answers=answers, count=2)})

    with Client(on_request=lambda request: request.method) as client:
        client.call("demo", "ask")

    assert [answer["id"] for answer in answers] == ["s1", "s3"]


def test_an_answer_whose_request_has_ended_is_told_to_be_none(serve: Any, pipe: tuple[int, int]) -> None:
    answers: Queue[Any] = Queue()

    def call(peer: Peer, request: dict[str, Any]) -> None:
        peer.send(question())
        peer.answer(request, {"done": True})
        answers.put(peer.read())

    serve({"mcpd/call": call})

    def answer(request: ServerRequest) -> object:
        request.wait_readable(pipe[0])
        return {}

    with Client(on_request=answer) as client:
        assert client.call("demo", "ask") == {"done": True}

    answer_sent = answers.get(timeout=30)
    assert (answer_sent["id"], answer_sent["error"]["code"]) == ("s1", -32603)


def test_notifications_are_handed_on_while_a_question_is_asked(serve: Any, pipe: tuple[int, int]) -> None:
    answers: list[Any] = []
    note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}
    serve({"mcpd/call": asks(question(), note, answers=answers)})

    with Client(on_request=lambda request: request.wait_readable(pipe[0])) as client:
        # The answer is there once the notification has come.
        client.call("demo", "ask", on_notification=lambda *_: os.write(pipe[1], b"x") and None)

    assert answers[0]["result"] is None


def test_a_daemon_that_goes_while_a_question_is_asked_ends_the_asking(serve: Any, pipe: tuple[int, int]) -> None:
    def call(peer: Peer, _: object) -> None:
        peer.send(question())
        peer.close()

    serve({"mcpd/call": call})

    client = Client(on_request=lambda request: request.wait_readable(pipe[0]))
    with pytest.raises(ConnectionLost) as caught:
        client.call("demo", "ask")

    assert caught.value.may_have_run


def test_closing_from_another_thread_ends_the_asking(serve: Any, pipe: tuple[int, int]) -> None:
    asking = threading.Event()
    serve({"mcpd/call": asks(question(), answers=[])})

    def answer(request: ServerRequest) -> object:
        asking.set()
        return request.wait_readable(pipe[0])

    client = Client(on_request=answer)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(client.call, "demo", "ask")
        assert asking.wait(30)
        client.close()

        assert isinstance(call.exception(30), ConnectionLost)


def test_the_time_for_a_request_counts_while_a_question_is_asked(serve: Any, pipe: tuple[int, int]) -> None:
    answers: list[Any] = []
    serve({"mcpd/call": asks(question(), answers=answers, count=2)})

    client = Client(timeout=0.05, on_request=lambda request: request.wait_readable(pipe[0]))
    with pytest.raises(RequestTimeout):
        client.call("demo", "ask")


def test_a_signal_that_does_not_interrupt_a_wait_ends_it_all_the_same(pipe: tuple[int, int]) -> None:
    """As one that comes just before the wait, a signal that another thread gets is only noted by Python."""
    main_thread = threading.main_thread()

    def signal_when_it_waits() -> None:
        while sys._current_frames()[main_thread.ident or 0].f_code is not waiting.poll.__code__ or not sleeps(
            main_thread
        ):
            os.sched_yield()
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, lambda *_: os.write(pipe[1], b"x") and None)
    thread = threading.Thread(target=signal_when_it_waits)
    thread.start()
    try:
        with waiting.woken_by_signals():
            assert waiting.poll((pipe[0],), 30) == [pipe[0]]
    finally:
        signal.signal(signal.SIGUSR1, before)
        thread.join()


def sleeps(thread: threading.Thread) -> bool:
    with open(f"/proc/self/task/{thread.native_id}/stat") as file:
        return file.read().rpartition(") ")[2].startswith("S")


def _line(message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"
