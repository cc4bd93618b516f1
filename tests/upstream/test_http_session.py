"""Sessions over HTTP: what a legacy server is told with every request, what a modern one is told with each, and the end."""

from __future__ import annotations

import json

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from mcpd.errors import HttpFailed
from tests.upstream.conftest import Opens
from tests.upstream.web import Far, Request, Web, initialized, modern

# -- legacy --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("revision", "said"),
    [("2025-11-25", "2025-11-25"), ("2025-06-18", "2025-06-18"), ("2025-03-26", None), ("2024-11-05", None)],
)
async def test_what_was_agreed_is_said_with_every_request_from_the_revision_on_that_wants_it(
    far: Far, web: Web, revision: str, said: str | None
) -> None:
    web.reactions["initialize"] = initialized(revision, **{"Mcp-Session-Id": "s-1"})
    await far.begin()
    await far.asked()
    far.transport.send(b'{"jsonrpc":"2.0","id":"q","result":{}}')
    await web.until("answer")

    first, *others = web.seen
    assert not {"mcp-session-id", "mcp-protocol-version", "mcp-method"} & set(first.headers)
    assert {one.headers.get("mcp-session-id") for one in others} == {"s-1"}
    assert {one.headers.get("mcp-protocol-version") for one in others} == {said}


async def test_the_header_of_the_probe_is_not_carried_over_to_initialize(far: Far, web: Web) -> None:
    async def refuses(request: Request) -> None:
        await request.answer(400, b"Unsupported protocol version", "text/plain")

    web.reactions.update({"server/discover": refuses, "initialize": initialized("2025-06-18")})
    await far.asked("server/discover", modern())
    await far.begin()

    assert web.got("server/discover")[0].headers["mcp-protocol-version"] == "2026-07-28"
    assert "mcp-protocol-version" not in web.got("initialize")[0].headers
    assert web.got("notifications/initialized")[0].headers["mcp-protocol-version"] == "2025-06-18"


async def test_a_server_may_do_without_sessions(far: Far, web: Web) -> None:
    web.reactions["initialize"] = initialized()
    await far.begin()
    await far.asked()
    await far.transport.end(0, 0)

    assert {"mcp-session-id" in one.headers for one in web.seen} == {False}
    assert web.got("DELETE") == []


@pytest.mark.parametrize("session_id", ["a b", "\xe9", "x" * 5000])
async def test_an_id_that_must_not_be_is_not_sent_back(far: Far, web: Web, session_id: str) -> None:
    web.reactions["initialize"] = initialized(**{"Mcp-Session-Id": session_id})
    await far.begin()

    assert "mcp-session-id" not in web.got("notifications/initialized")[0].headers


async def test_requests_follow_the_notification_that_opens_the_session(far: Far, web: Web) -> None:
    opened = trio.Event()

    async def react(request: Request) -> None:
        await opened.wait()
        await request.answer(202, kind=None)

    web.reactions.update({"initialize": initialized(), "notifications/initialized": react})
    await far.begin()
    far.ask()
    await wait_all_tasks_blocked()
    assert web.got("tools/call") == []
    assert far.transport.untouched(far.frame)

    opened.set()
    await web.until("tools/call")


async def test_they_do_not_wait_for_it_for_ever(far: Far, web: Web, autojump_clock: MockClock) -> None:
    web.reactions.update({"initialize": initialized(), "notifications/initialized": Request.until_gone})
    await far.begin()
    far.ask()

    assert len(await far.ears.until(2)) == 2


async def test_the_probe_that_is_still_open_is_given_up_when_the_session_is_agreed(far: Far, web: Web) -> None:
    gone = trio.Event()

    async def never_answers(request: Request) -> None:
        try:
            await request.until_gone()
        finally:
            gone.set()

    web.reactions.update({"server/discover": never_answers, "initialize": initialized()})
    far.ask("server/discover", modern())
    await web.until("server/discover")
    await far.begin()

    await gone.wait()


SESSION_LOST = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "Bad Request: No valid session ID provided"}}


@pytest.mark.parametrize(("status", "body"), [(404, b""), (404, b"{}"), (400, json.dumps(SESSION_LOST).encode())])
async def test_a_session_that_the_server_has_forgotten_is_said_so_and_not_given_back(
    far: Far, web: Web, status: int, body: bytes
) -> None:
    async def forgot(request: Request) -> None:
        await request.answer(status, body)

    web.reactions.update({"initialize": initialized(**{"Mcp-Session-Id": "s"}), "tools/call": forgot})
    await far.begin()
    request_id = far.ask()

    assert (await far.ears.until(2))[1] == ("forgotten", request_id, None)
    await far.transport.end(0, 0)
    assert web.got("DELETE") == []


async def test_without_a_session_404_is_just_that(far: Far, web: Web) -> None:
    async def missing(request: Request) -> None:
        await request.answer(404)

    web.reactions.update({"initialize": initialized(), "tools/call": missing})
    await far.begin()
    far.ask()

    assert isinstance(await far.problem(), HttpFailed)


async def test_a_session_is_given_back_at_the_end(far: Far, web: Web) -> None:
    web.reactions["initialize"] = initialized(**{"Mcp-Session-Id": "s"})
    await far.begin()
    await far.transport.end(5, 2)
    await far.transport.end(5, 2)

    (delete,) = web.got("DELETE")
    assert (delete.headers["mcp-session-id"], delete.headers["mcp-protocol-version"]) == ("s", "2025-11-25")
    assert far.transport.over


async def test_a_server_that_does_not_take_it_back_is_left(far: Far, web: Web, autojump_clock: MockClock) -> None:
    web.reactions.update({"initialize": initialized(**{"Mcp-Session-Id": "s"}), "DELETE": Request.until_gone})
    await far.begin()
    before = trio.current_time()
    await far.transport.end(5, 2)

    assert trio.current_time() - before == pytest.approx(2.0)


async def test_one_that_is_killed_is_not_given_back(far: Far, web: Web) -> None:
    web.reactions["initialize"] = initialized(**{"Mcp-Session-Id": "s"})
    await far.begin()
    far.transport.kill()
    await far.transport.end(5, 2)

    assert (web.got("DELETE"), far.ears.heard[-1][0], far.transport.over) == ([], "over", True)


async def test_what_is_in_flight_at_the_end_is_broken_off(far: Far, web: Web) -> None:
    gone = trio.Event()

    async def never_answers(request: Request) -> None:
        try:
            await request.until_gone()
        finally:
            gone.set()

    web.reactions["tools/call"] = never_answers
    far.ask()
    await web.until("tools/call")
    await far.transport.end(0, 0)

    await gone.wait()
    assert far.ears.heard == []
    far.ask()
    await wait_all_tasks_blocked()
    assert len(web.seen) == 1


# -- modern --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "t"}, "t"),
        ("tools/call", {"name": "é"}, "=?base64?w6k=?="),
        ("prompts/get", {"name": "p"}, "p"),
        ("resources/read", {"uri": "file:///a b"}, "file:///a b"),
        ("tasks/get", {"taskId": "1"}, "1"),
        ("tools/list", {"name": "not a name"}, None),
        ("tools/call", {"name": 7}, None),
    ],
)
async def test_a_modern_request_says_in_headers_what_its_body_says(
    far: Far, web: Web, method: str, params: dict[str, object], name: str | None
) -> None:
    far.ask(method, modern(**params))

    seen = await web.until(method)
    assert seen.headers["mcp-protocol-version"] == "2026-07-28"
    assert seen.headers["mcp-method"] == method
    assert seen.headers.get("mcp-name") == name


async def test_a_modern_server_has_no_sessions_whatever_it_says(far: Far, web: Web) -> None:
    async def react(request: Request) -> None:
        await request.result(headers={"Mcp-Session-Id": "s", "Set-Cookie": "a=b"})

    web.reactions.update({"server/discover": react, "tools/call": react})
    await far.asked("server/discover", modern())
    await far.asked("tools/call", modern(name="t"))
    await far.transport.end(0, 0)

    assert {"mcp-session-id" in one.headers or "cookie" in one.headers for one in web.seen} == {False}
    assert web.got("DELETE") == []


def tool(name: str, **headers: str) -> dict[str, object]:
    properties = {member: {"type": "string", "x-mcp-header": header} for member, header in headers.items()}
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


async def test_arguments_are_mirrored_as_the_list_of_tools_says_that_has_passed(far: Far, web: Web) -> None:
    lists = [[tool("t", a="Region"), tool("bad", a="not a name")], [tool("t")]]

    async def react(request: Request) -> None:
        await request.result({"tools": lists.pop(0)})

    web.reactions["tools/list"] = react
    for method, params in (
        ("tools/list", {}), ("tools/call", {"name": "t", "arguments": {"a": "é"}}), ("tools/call", {"name": "bad", "arguments": {"a": "x"}}),
        ("tools/list", {}), ("tools/call", {"name": "t", "arguments": {"a": "x"}}),
    ):  # fmt: skip
        await far.asked(method, modern(**params))

    assert [one.headers.get("mcp-param-region") for one in web.got("tools/call")] == ["=?base64?w6k=?=", None, None]


class Strict:
    """A server that wants an argument mirrored, and says so in its list on two pages."""

    def __init__(self) -> None:
        self.pages = {None: {"tools": [tool("other")], "nextCursor": "2"}, "2": {"tools": [tool("t", a="Region")]}}

    async def call(self, request: Request) -> None:
        if request.headers.get("mcp-param-region") == "x":
            await request.result()
        else:
            error = {"code": -32020, "message": "Header mismatch"}
            await request.answer(400, json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "error": error}).encode())

    async def list(self, request: Request) -> None:
        page = self.pages[request.message["params"].get("cursor")]
        if "cursor" not in request.message["params"]:
            await request.result(page)
            return
        await request.stream()
        await request.event({"jsonrpc": "2.0", "id": request.message["id"], "result": page})
        await request.end()


async def test_a_call_that_was_refused_for_want_of_a_header_is_repeated_once_the_list_says_which(far: Far, web: Web) -> None:
    strict = Strict()
    web.reactions.update({"tools/call": strict.call, "tools/list": strict.list})
    request_id = far.ask("tools/call", modern(name="t", arguments={"a": "x"}))

    assert await far.ears.until(1) == [("message", request_id, {"jsonrpc": "2.0", "id": 1, "result": {}})]
    assert [one.method for one in web.seen] == ["tools/call", "tools/list", "tools/list", "tools/call"]
    assert {one.headers["mcp-protocol-version"] for one in web.seen} == {"2026-07-28"}


async def test_a_call_whose_headers_would_be_the_same_is_not_repeated(far: Far, web: Web) -> None:
    strict = Strict()
    strict.pages["2"] = {"tools": []}
    web.reactions.update({"tools/call": strict.call, "tools/list": strict.list})
    far.ask("tools/call", modern(name="t", arguments={"a": "x"}))

    ((_, _, message),) = await far.ears.until(1)
    assert message["error"]["code"] == -32020
    assert len(web.got("tools/call")) == 1


async def test_an_error_of_the_list_is_not_the_callers(far: Far, web: Web) -> None:
    async def fails(request: Request) -> None:
        await request.answer(500)

    web.reactions.update({"tools/call": Strict().call, "tools/list": fails})
    far.ask("tools/call", modern(name="t", arguments={"a": "x"}))

    ((_, _, message),) = await far.ears.until(1)
    assert message["error"]["code"] == -32020


# -- the probe -----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 404, 405, 200, 202])
async def test_whatever_else_comes_back_for_the_probe_is_a_refusal_of_it(far: Far, web: Web, status: int) -> None:
    async def react(request: Request) -> None:
        await request.answer(status, b"<html>", "text/html")

    web.reactions["server/discover"] = react
    request_id = far.ask("server/discover", modern())

    ((what, origin, message),) = await far.ears.until(1)
    assert (what, origin, message["id"], message["error"]["code"]) == ("message", request_id, 1, -32601)


@pytest.mark.parametrize("status", [429, 500, 502])
async def test_what_says_nothing_of_the_era_fails_the_probe(far: Far, web: Web, status: int) -> None:
    async def react(request: Request) -> None:
        await request.answer(status)

    web.reactions["server/discover"] = react
    far.ask("server/discover", modern())

    assert f"HTTP {status}" in (await far.problem()).message


async def test_the_hint_for_a_server_that_takes_no_initialize_names_the_older_transport(far: Far, web: Web) -> None:
    async def react(request: Request) -> None:
        await request.answer(405)

    web.reactions["initialize"] = react
    far.ask("initialize", {})

    assert "allow_legacy_sse = true" in str((await far.problem()).hint)


# -- the user's headers --------------------------------------------------------------------------


async def test_the_headers_of_the_user_win_over_ours_but_not_over_the_protocols(opens: Opens, web: Web) -> None:
    far = await opens({
        "X-Key": "k", "user-agent": "me", "ACCEPT": "*/*", "Mcp-Session-Id": "x", "mcp-method": "x", "Mcp-Param-A": "x",
        "Content-Length": "0", "Transfer-Encoding": "chunked", "Connection": "close", "Host": "elsewhere",
    })  # fmt: skip
    far.ask("tools/call", modern(name="t"))

    seen = await web.until("tools/call")
    assert (seen.headers["x-key"], seen.headers["user-agent"], seen.headers["host"]) == ("k", "me", "elsewhere")
    assert seen.headers["accept"] == "application/json, text/event-stream"
    assert seen.headers["mcp-method"] == "tools/call"
    assert int(seen.headers["content-length"]) == len(seen.body)
    assert not {"mcp-session-id", "mcp-param-a", "transfer-encoding", "connection"} & set(seen.headers)
