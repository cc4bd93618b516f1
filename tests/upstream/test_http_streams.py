"""Streams: those that answer a request, those that go on with one, and that of the server itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from mcpd.config.model import Limits
from mcpd.errors import ExchangeLost, HttpFailed, TooLarge
from tests.upstream.conftest import Opens
from tests.upstream.web import Far, Request, Web, initialized, modern


def message(method: str, **params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def answer(request: Request, result: object = None) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": request.message.get("id", 2), "result": result or {}}


def streams(*events: Any, end: bool = True) -> Callable[[Request], Awaitable[None]]:
    """React with a stream of these messages; None is the answer."""

    async def react(request: Request) -> None:
        await request.stream()
        for event in events:
            await request.event(answer(request) if event is None else event)
        await (request.end() if end else request.until_gone())

    return react


# -- the stream that answers ---------------------------------------------------------------------


async def test_what_comes_over_the_stream_of_a_request_belongs_to_it(far: Far, web: Web) -> None:
    progress, question = message("notifications/progress", progress=1), {**message("roots/list"), "id": "q"}
    web.reactions["tools/call"] = streams(progress, question, None)
    far.ask("ping")
    request_id = far.ask()

    heard = await far.ears.until(4)
    assert [what for _, origin, what in heard if origin == request_id] == [progress, question, answer(web.got("tools/call")[0])]


async def test_what_comes_together_with_the_answer_and_after_it_is_handed_over_too(far: Far, web: Web) -> None:
    first, last = message("notifications/message", data=1), message("notifications/message", data=2)
    web.reactions["tools/call"] = streams(*[first] * 100, None, last)
    far.ask()

    heard = await far.ears.until(102)
    assert [what for _, _, what in heard[:100]] == [first] * 100
    assert heard[101][2] == last


async def test_a_stream_that_stays_open_after_the_answer_is_left(far: Far, web: Web, autojump_clock: MockClock) -> None:
    left = trio.Event()

    async def react(request: Request) -> None:
        try:
            await streams(None, end=False)(request)
        finally:
            left.set()

    web.reactions["tools/call"] = react
    far.ask()

    await far.ears.until(1)
    await left.wait()
    assert len(far.ears.heard) == 1


async def test_the_connection_of_a_stream_that_has_ended_is_used_again(far: Far, web: Web) -> None:
    web.reactions["tools/call"] = streams(None)
    for count in (1, 2, 3):
        far.ask()
        await far.ears.until(count)
        await wait_all_tasks_blocked()

    assert [(one.connection, one.nth) for one in web.seen] == [(1, 1), (1, 2), (1, 3)]


async def test_events_of_other_names_and_without_data_are_no_messages(far: Far, web: Web) -> None:
    async def react(request: Request) -> None:
        await request.stream()
        await request.chunk(b"\xef\xbb\xbf: hi\n\nretry: 5\n\nid: 7\n\nevent: ping\ndata: {}\n\ndata\n\ndata:\n\nx: y\n\n")
        await request.chunk(b"event: message\r\ndata: {\r\ndata:  \"jsonrpc\":\"2.0\",\r\ndata: \"id\":1,\"result\":{\"t\":\"a\xe2\x80\xa8b\"}}\r\n\r\n")
        await request.end()

    web.reactions["tools/call"] = react
    far.ask()

    assert await far.ears.until(1) == [("message", b"1", {"jsonrpc": "2.0", "id": 1, "result": {"t": "a\u2028b"}})]


async def test_an_event_over_the_limit_fails_its_request_only(opens: Opens, web: Web) -> None:
    async def react(request: Request) -> None:
        await request.stream()
        while True:
            await request.chunk(b"data: " + b"x" * 1000)

    far = await opens(limits=Limits(message_bytes=10_000))
    web.reactions["tools/call"] = react
    far.ask()

    problem = await far.problem()
    assert isinstance(problem, TooLarge)
    assert (problem.may_have_run, far.transport.over) == (True, False)


async def test_what_an_event_has_that_is_no_message_does_not_answer(far: Far, web: Web) -> None:
    web.reactions["tools/call"] = streams({"error": "Session not found"})
    far.ask()

    problem = await far.problem()
    assert isinstance(problem, ExchangeLost)
    assert problem.message == "server 'far': the stream ended without the answer (HTTP 200, text/event-stream)"
    assert problem.may_have_run is True


# -- going on ------------------------------------------------------------------------------------


def breaks_off(first: bytes, *, cut: bool = False) -> Callable[[Request], Awaitable[None]]:
    async def react(request: Request) -> None:
        await request.stream()
        await request.chunk(first)
        await (request.close() if cut else request.end())

    return react


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("pause_ms", [500, 0, 3000])
async def test_a_stream_that_breaks_off_is_gone_on_with_after_the_pause_that_the_server_wants(
    far: Far, web: Web, pause_ms: int, cut: bool, autojump_clock: MockClock
) -> None:
    broke_at = []

    async def call(request: Request) -> None:
        broke_at.append(trio.current_time())
        await breaks_off(b"id: t-1\nretry: %d\ndata:\n\n" % pause_ms, cut=cut)(request)

    async def rest(request: Request) -> None:
        if "last-event-id" in request.headers:
            await streams(message("notifications/message"), {**answer(request), "id": 2})(request)
        else:
            await request.answer(405)

    web.reactions.update({"initialize": initialized("2025-06-18", **{"Mcp-Session-Id": "s"}), "tools/call": call, "GET": rest})
    await far.begin("2025-06-18")
    request_id = far.ask()

    heard = await far.ears.until(3)
    assert [(what, origin) for what, origin, _ in heard[1:]] == [("message", request_id)] * 2
    resumed = web.got("GET")[-1]
    assert resumed.headers["last-event-id"] == "t-1"
    assert (resumed.headers["mcp-session-id"], resumed.headers["mcp-protocol-version"]) == ("s", "2025-06-18")
    assert resumed.at - broke_at[0] == pytest.approx(pause_ms / 1000)


async def test_it_is_gone_on_with_as_often_as_it_brings_something(far: Far, web: Web, autojump_clock: MockClock) -> None:
    def rest(request: Request) -> Awaitable[None]:
        last = int(request.headers.get("last-event-id", "0"))
        if last >= 30:
            return streams({**answer(request), "id": 2})(request)
        return breaks_off(b"id: %d\nretry: 10\ndata:\n\n" % (last + 1))(request) if last else request.answer(405)

    web.reactions.update({"initialize": initialized(), "tools/call": breaks_off(b"id: 1\ndata:\n\n"), "GET": rest})
    await far.begin()
    request_id = far.ask()

    assert (await far.ears.until(2))[1][:2] == ("message", request_id)
    assert [one.headers["last-event-id"] for one in web.got("GET")[1:]] == [str(number) for number in range(1, 31)]


async def test_a_stream_that_never_brings_anything_is_lost_in_the_end(far: Far, web: Web, autojump_clock: MockClock) -> None:
    def rest(request: Request) -> Awaitable[None]:
        return streams()(request) if "last-event-id" in request.headers else request.answer(405)

    web.reactions.update({"initialize": initialized(), "tools/call": breaks_off(b"id: 1\ndata:\n\n"), "GET": rest})
    await far.begin()
    far.ask()

    assert isinstance(await far.problem(), ExchangeLost)
    assert len(web.got("GET")) < 10


@pytest.mark.parametrize("status", [400, 404, 405, 200])
async def test_a_rest_that_is_not_to_be_had_is_lost_and_may_have_run(
    far: Far, web: Web, status: int, autojump_clock: MockClock
) -> None:
    async def rest(request: Request) -> None:
        await request.answer(status if "last-event-id" in request.headers else 405)

    web.reactions.update(
        {"initialize": initialized(**{"Mcp-Session-Id": "s"}), "tools/call": breaks_off(b"id: 1\ndata:\n\n"), "GET": rest}
    )
    await far.begin()
    far.ask()

    problem = await far.problem()
    assert isinstance(problem, ExchangeLost)
    assert problem.message.endswith(f"cannot be gone on with (HTTP {status})")
    assert problem.may_have_run is True
    assert [what for what, _, _ in far.ears.heard] == ["message", "failed"]


async def test_a_modern_stream_is_not_gone_on_with(far: Far, web: Web, autojump_clock: MockClock) -> None:
    web.reactions["tools/call"] = breaks_off(b"id: 1\nretry: 0\ndata:\n\n")
    far.ask("tools/call", modern(name="t"))

    assert isinstance(await far.problem(), ExchangeLost)
    assert web.got("GET") == []


# -- the stream of the server --------------------------------------------------------------------


async def test_a_legacy_session_listens_to_what_belongs_to_no_request(far: Far, web: Web) -> None:
    changed = message("notifications/tools/list_changed")
    web.reactions.update({"initialize": initialized(**{"Mcp-Session-Id": "s"}), "GET": streams(changed, end=False)})
    await far.begin()

    assert (await far.ears.until(2))[1] == ("message", b"", changed)
    (get,) = web.got("GET")
    assert get.headers["accept"] == "text/event-stream"
    assert (get.headers["mcp-session-id"], get.headers["mcp-protocol-version"]) == ("s", "2025-11-25")
    assert "last-event-id" not in get.headers
    assert "content-type" not in get.headers


async def test_it_is_asked_for_when_the_session_is_open_and_not_before(far: Far, web: Web) -> None:
    web.reactions["initialize"] = initialized()
    await far.begin()
    await web.until("GET")

    assert [one.method for one in web.seen] == ["initialize", "notifications/initialized", "GET"]


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [(405, b"", None), (404, b"", "text/plain"), (400, b"", None), (200, b'{"error":{}}', "application/json"), (200, b"<html>", "text/html"),
     (204, b"", None), (500, b"", None), (307, b"", None)],
)  # fmt: skip
async def test_a_server_without_one_is_asked_once(
    far: Far, web: Web, status: int, body: bytes, kind: str | None, autojump_clock: MockClock
) -> None:
    async def react(request: Request) -> None:
        await request.head(status, kind, {} if status == 204 else {"Content-Length": str(len(body))})
        await request.send(body)

    web.reactions.update({"initialize": initialized(), "GET": react})
    await far.begin()
    await web.until("GET")
    await trio.sleep(1000)

    assert len(web.got("GET")) == 1
    assert not far.transport.over


async def test_one_that_ends_is_asked_for_again_where_it_ended(far: Far, web: Web, autojump_clock: MockClock) -> None:
    web.reactions.update({"initialize": initialized(), "GET": breaks_off(b"id: 7\nretry: 700\ndata: {}\n\n")})
    await far.begin()

    first, second = await web.until("GET"), await web.until("GET", 2)
    assert second.headers["last-event-id"] == "7"
    assert second.at - first.at == pytest.approx(0.7)


async def test_one_that_ends_again_and_again_is_asked_for_less_and_less(far: Far, web: Web, autojump_clock: MockClock) -> None:
    web.reactions.update({"initialize": initialized(), "GET": streams()})
    await far.begin()

    last = await web.until("GET", 10)
    assert last.at - web.got("GET")[8].at == pytest.approx(60.0)


async def test_one_that_wants_to_be_asked_at_once_is_not_asked_all_the_time(
    far: Far, web: Web, autojump_clock: MockClock
) -> None:
    web.reactions.update({"initialize": initialized(), "GET": breaks_off(b"retry: 0\n\n")})
    await far.begin()

    first, second = await web.until("GET"), await web.until("GET", 2)
    assert second.at - first.at == pytest.approx(0.5)


async def test_one_that_does_not_answer_holds_up_nothing(far: Far, web: Web) -> None:
    web.reactions.update({"initialize": initialized(), "GET": Request.until_gone})
    await far.begin()
    await web.until("GET")
    far.ask()

    assert len(await far.ears.until(2)) == 2


async def test_a_modern_server_has_none(far: Far, web: Web) -> None:
    await far.asked("server/discover", modern())
    await far.asked("tools/call", modern(name="t"))
    await wait_all_tasks_blocked()

    assert web.got("GET") == []


async def test_a_failure_of_the_connection_before_an_answer_is_no_answer(far: Far, web: Web) -> None:
    web.reactions["tools/call"] = Request.close
    far.ask()

    problem = await far.problem()
    assert isinstance(problem, HttpFailed)
    assert problem.message.startswith("server 'far': the connection ended before an answer: ")
    assert problem.may_have_run is True
