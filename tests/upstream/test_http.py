"""One message over HTTP: what is sent, what counts as an answer, and what is said where there is none."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Awaitable, Callable, Mapping

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from mcpd.config.model import Limits
from mcpd.errors import ConnectFailed, ExchangeLost, HttpFailed, TooLarge
from tests.upstream.conftest import Opens
from tests.upstream.web import NEVER_SECONDS, Far, Request, Web, initialized, modern


def answers(
    status: int, body: bytes = b"", kind: str | None = "application/json", headers: Mapping[str, str] | None = None
) -> Callable[[Request], Awaitable[None]]:
    async def react(request: Request) -> None:
        await request.answer(status, body.replace(b"ID", str(request.message["id"]).encode()), kind, headers)

    return react


# -- answers -------------------------------------------------------------------------------------


async def test_a_request_is_a_post_and_its_answer_comes_back_with_its_origin(far: Far, web: Web) -> None:
    request_id = far.ask("tools/call", {"name": "t", "arguments": {"a": "é"}})

    assert await far.ears.until(1) == [("message", request_id, {"jsonrpc": "2.0", "id": 1, "result": {}})]
    (seen,) = web.seen
    assert (seen.verb, seen.path) == ("POST", "/mcp")
    assert seen.message["params"] == {"name": "t", "arguments": {"a": "é"}}
    assert seen.headers["accept"] == "application/json, text/event-stream"
    assert seen.headers["content-type"] == "application/json"
    assert seen.headers["user-agent"].startswith("mcpd/")
    assert "cookie" not in seen.headers


GOOD = b'{"jsonrpc":"2.0","id":ID,"result":{"x":1}}'
RIGHT: list[tuple[str, int, bytes, str | None]] = [
    ("in capitals, with a charset", 200, GOOD, "Application/JSON; charset=UTF-8"),
    ("with a suffix", 200, GOOD, "application/vnd.mcp+json"),
    ("of no type", 200, GOOD, None),
    ("with a byte order mark", 200, b"\xef\xbb\xbf" + GOOD, "application/json"),
    ("with blanks around it", 200, b"\r\n " + GOOD + b"\n", "application/json"),
    ("over several lines", 200, GOOD.replace(b",", b",\r\n  "), "application/json"),
    ("with another status", 203, GOOD, "application/json"),
    ("with the number as a string", 200, GOOD.replace(b"ID", b'"ID"'), "application/json"),
]


@pytest.mark.parametrize(("status", "body", "kind"), [row[1:] for row in RIGHT], ids=[row[0] for row in RIGHT])
async def test_an_answer_may_come(far: Far, web: Web, status: int, body: bytes, kind: str | None) -> None:
    web.reactions["tools/call"] = answers(status, body, kind)

    request_id = far.ask()

    ((what, origin, message),) = await far.ears.until(1)
    assert (what, origin, message["result"]) == ("message", request_id, {"x": 1})


async def test_an_answer_may_be_compressed(far: Far, web: Web) -> None:
    async def react(request: Request) -> None:
        assert request.headers["accept-encoding"] == "gzip"
        half, rest = request.line("x" * 5_000_000)[:9], request.line("x" * 5_000_000)[9:]
        await request.answer(200, gzip.compress(half) + gzip.compress(rest), headers={"Content-Encoding": "gzip"})

    web.reactions["tools/call"] = react
    far.ask()

    ((_, _, message),) = await far.ears.until(1)
    assert len(message["result"]) == 5_000_000


async def test_an_error_that_names_no_request_is_that_of_its_own(far: Far, web: Web) -> None:
    web.reactions["tools/call"] = answers(200, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"no"}}')
    far.ask()

    ((_, _, message),) = (await far.ears.until(1))[:1]
    assert message == {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "no"}}


@pytest.mark.parametrize("status", [400, 404, 405, 422, 500])
async def test_a_refusal_in_the_words_of_json_rpc_is_passed_on(far: Far, web: Web, status: int) -> None:
    error = {"code": -32602, "message": "no", "data": {"why": "x"}}
    web.reactions["tools/call"] = answers(status, json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode())
    far.ask()

    assert await far.ears.until(1) == [("message", b"1", {"jsonrpc": "2.0", "id": 1, "error": error})]


# -- no answers ----------------------------------------------------------------------------------

NO_MESSAGE = "with no JSON-RPC message in it"
WRONG: list[tuple[str, int, bytes, str | None, str, bool]] = [
    ("nothing", 200, b"", "application/json", f"answered HTTP 200 (application/json) {NO_MESSAGE}: it is empty", True),
    ("accepted", 202, b"", None, f"HTTP 202 {NO_MESSAGE}: it is empty", True),
    ("a page", 200, b"<html><b>Log in</b>\n<p>please</html>", "text/html; charset=x", f"HTTP 200 (text/html) {NO_MESSAGE}: Log in please", True),
    ("other JSON", 200, b'{"ok":true}', "application/json", 'in it: {"ok":true}', True),
    ("half of it", 200, GOOD[:20], "application/json", "in it: {", True),
    ("no JSON", 200, b"hello\x1b[31m", "application/json", "in it: hello [31m", True),
    ("a list", 200, b"[]", "application/json", "in it: []", True),
    ("the answer to another", 200, b'{"jsonrpc":"2.0","id":99,"result":{}}', "application/json", NO_MESSAGE, True),
    ("a gateway's error", 502, b"<h1>502 Bad Gateway</h1>", "text/html", "HTTP 502 (text/html): 502 Bad Gateway", True),
    ("an error of the server", 500, b"oops", "text/plain", "HTTP 500 (text/plain): oops", True),
    ("too early, for long", 503, b"", None, "HTTP 503", False),
    ("not found", 404, b"no such page", "text/plain", "HTTP 404 (text/plain): no such page", False),
    ("not so", 400, b"Bad Request", "text/plain", "HTTP 400 (text/plain): Bad Request", False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "body", "kind", "words", "may_have_run"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG]
)
async def test_what_is_no_answer_fails_at_once_and_says_what_came(
    far: Far, web: Web, status: int, body: bytes, kind: str | None, words: str, may_have_run: bool
) -> None:
    web.reactions["tools/call"] = answers(status, body, kind)
    far.ask()

    problem = await far.problem()
    assert isinstance(problem, HttpFailed)
    assert problem.message.startswith("server 'far' answered HTTP ")
    assert words in problem.message
    assert (problem.server, problem.may_have_run) == ("far", may_have_run)


async def test_what_is_said_of_an_answer_is_short_and_knows_no_secrets(far: Far, web: Web) -> None:
    far.keys.secrets = frozenset({"tok-en-12345"})
    body = b"<!-- x -->" + b"hunter2secret tok-en-12345 " + b"x" * 5000
    web.reactions["tools/call"] = answers(500, body, "text/html")
    far.ask()

    problem = await far.problem()
    assert problem.message.startswith("server 'far' answered HTTP 500 (text/html): [redacted] [redacted] xxx")
    assert len(problem.message) < 300


async def test_a_body_that_is_cut_off_fails_its_request(far: Far, web: Web) -> None:
    async def react(request: Request) -> None:
        await request.answer(200, request.line("x" * 100)[:50], headers={"Content-Length": "150"})
        await request.close()

    web.reactions["tools/call"] = react
    far.ask()

    problem = await far.problem()
    assert isinstance(problem, ExchangeLost)
    assert problem.message.startswith("server 'far': HTTP 200 (application/json), but the answer broke off: ")
    assert problem.may_have_run is True


async def test_what_cannot_be_uncompressed_fails_its_request(far: Far, web: Web) -> None:
    web.reactions["tools/call"] = answers(200, b"\x1f\x8bxxxxxxxxxxxxxx", headers={"Content-Encoding": "gzip"})
    web.reactions["resources/read"] = answers(200, b"xxx", headers={"Content-Encoding": "br"})

    far.ask()
    far.ask("resources/read")

    await far.ears.until(2)
    words = {origin: problem.message for _, origin, problem in far.ears.heard}
    assert "cannot be uncompressed" in words[b"1"]
    assert "a coding that was not asked for, br" in words[b"2"]


async def test_an_answer_over_the_limit_is_not_read_to_its_end(opens: Opens, web: Web) -> None:
    async def announces(request: Request) -> None:
        await request.answer(200, b"{", headers={"Content-Length": "1000000000000"})
        await request.until_gone()

    async def never_ends(request: Request) -> None:
        await request.head(200, "application/json", {"Transfer-Encoding": "chunked"})
        while True:
            await request.chunk(b" " * 1000)

    async def is_a_bomb(request: Request) -> None:
        await request.answer(200, gzip.compress(b" " * 50_000_000), headers={"Content-Encoding": "gzip"})

    far = await opens(limits=Limits(message_bytes=100_000))
    for method, reaction in (("a", announces), ("b", never_ends), ("c", is_a_bomb)):
        web.reactions[method] = reaction
        far.ask(method)

    for _, _, problem in await far.ears.until(3):
        assert isinstance(problem, TooLarge)
        assert "the answer is longer than 100000 bytes (limits.message_bytes)" in problem.message


async def test_a_request_that_fails_is_the_only_one_that_does(far: Far, web: Web) -> None:
    web.reactions["bad"] = answers(500)

    for method in ("good", "bad", "good"):
        far.ask(method)

    heard = await far.ears.until(3)
    assert sorted((origin, what) for what, origin, _ in heard) == [(b"1", "message"), (b"2", "failed"), (b"3", "message")]
    assert not far.transport.over


# -- notifications and answers -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [(202, b"", None), (204, b"", None), (200, b"null", "application/json"), (202, b"Accepted", "text/plain"), (200, b"data: x\n\n", "text/event-stream")],
)  # fmt: skip
async def test_whatever_says_yes_to_a_notification_is_fine(far: Far, web: Web, status: int, body: bytes, kind: str | None) -> None:
    async def react(request: Request) -> None:
        headers = {} if status == 204 else {"Content-Length": str(len(body))}
        await request.head(status, kind, headers)
        await request.send(body)

    web.reactions["notifications/x"] = react
    far.tell("notifications/x", {"a": 1})
    await web.until("notifications/x")
    await wait_all_tasks_blocked()

    assert (far.ears.heard, far.transport.counts, far.transport.backlog_bytes) == ([], {}, 0)


async def test_a_notification_that_fails_is_counted_and_nothing_else(far: Far, web: Web, autojump_clock: MockClock) -> None:
    async def fails(request: Request) -> None:
        await request.answer(500)

    web.reactions.update({"notifications/x": fails, "notifications/y": Request.until_gone})
    far.tell("notifications/x")
    far.tell("notifications/y")
    await web.until("notifications/y")
    assert far.transport.backlog_bytes > 0
    await trio.sleep(NEVER_SECONDS)

    assert (far.ears.heard, far.transport.counts, far.transport.backlog_bytes) == ([], {"untold": 2}, 0)
    assert far.log.events == ["upstream.untold"]


async def test_the_answer_to_a_question_of_the_server_is_a_post_too(far: Far, web: Web) -> None:
    far.transport.send(b'{"jsonrpc":"2.0","id":"q1","result":{}}')

    seen = await web.until("answer")
    assert seen.message == {"jsonrpc": "2.0", "id": "q1", "result": {}}


# -- taking back and giving up -------------------------------------------------------------------


async def test_a_request_can_be_taken_back_until_it_is_written(far: Far, web: Web) -> None:
    far.ask()
    frame = far.frame

    assert far.transport.untouched(frame)
    assert far.transport.withdraw(frame)
    assert not far.transport.withdraw(frame)
    await wait_all_tasks_blocked()
    assert (web.seen, far.ears.heard) == ([], [])


async def test_a_request_that_is_on_its_way_cannot_be_taken_back(far: Far, web: Web) -> None:
    web.reactions["tools/call"] = Request.until_gone
    far.ask()
    await web.until("tools/call")

    assert not far.transport.untouched(far.frame)
    assert not far.transport.withdraw(far.frame)


async def test_equal_messages_are_told_apart(far: Far, web: Web) -> None:
    web.reactions["notifications/x"] = Request.until_gone
    first = far.tell("notifications/x")
    await web.until("notifications/x")
    second = far.tell("notifications/x")

    assert first == second
    assert (far.transport.untouched(first), far.transport.untouched(second)) == (False, True)


async def test_a_legacy_request_that_is_given_up_frees_its_connection_and_the_server_is_told(far: Far, web: Web) -> None:
    gone = trio.Event()

    async def react(request: Request) -> None:
        try:
            await request.until_gone()
        finally:
            gone.set()

    web.reactions.update({"initialize": initialized(), "tools/call": react})
    await far.begin()
    request_id = far.ask()
    await web.until("tools/call")
    far.tell("notifications/cancelled", {"requestId": int(request_id), "reason": "x"})

    await gone.wait()
    told = await web.until("notifications/cancelled")
    assert told.message["params"] == {"requestId": 2, "reason": "x"}


async def test_the_end_of_its_stream_is_all_that_a_modern_server_is_told_of_a_request_that_is_given_up(far: Far, web: Web) -> None:
    gone = trio.Event()

    async def react(request: Request) -> None:
        await request.stream()
        try:
            await request.until_gone()
        finally:
            gone.set()

    web.reactions["tools/call"] = react
    request_id = far.ask("tools/call", modern(name="t"))
    await web.until("tools/call")
    far.tell("notifications/cancelled", {"requestId": int(request_id)})

    await gone.wait()
    await wait_all_tasks_blocked()
    assert [one.method for one in web.seen] == ["tools/call"]


# -- no connection -------------------------------------------------------------------------------


async def test_a_server_that_is_not_there_has_not_got_the_request(opens: Opens) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        far = await opens(url=f"http://127.0.0.1:{taken.getsockname()[1]}/mcp")
        far.ask()
        problem = await far.problem()

    assert isinstance(problem, ConnectFailed)
    assert problem.message == "server 'far': no connection: connection refused"
    assert problem.may_have_run is False


async def test_a_server_whose_name_nobody_knows_has_not_got_it_either(opens: Opens) -> None:
    far = await opens(url="https://nowhere.invalid/mcp")
    far.ask()

    problem = await far.problem()
    assert isinstance(problem, ConnectFailed)
    assert problem.message.startswith("server 'far': no connection: ")


async def test_a_server_that_does_not_speak_tls_has_not_got_it_either(opens: Opens, web: Web) -> None:
    far = await opens(url=web.url.replace("http:", "https:"))
    far.ask()

    assert isinstance(await far.problem(), ConnectFailed)


@pytest.mark.parametrize("header", [{"X-A": "a\r\nX-B: c"}, {"X-A": "a\0"}, {"X A": "b"}, {"X-\u00c4": "b"}])
async def test_a_header_that_cannot_be_sent_is_not(opens: Opens, web: Web, header: dict[str, str]) -> None:
    far = await opens(header)
    far.ask()

    problem = await far.problem()
    assert problem.may_have_run is False
    assert web.seen == []
