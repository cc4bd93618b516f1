"""A slot whose server is remote: how it starts, what ends it, and what does not."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock

from mcpd.errors import AuthRequired, ConnectFailed, HttpFailed, McpdError, ServerUnavailable, VersionMismatch
from mcpd.upstream.http_post import Poster
from mcpd.upstream.lifecycle import State
from mcpd.upstream.supervisor import Slot
from tests.upstream.conftest import Opens
from tests.upstream.fakes import Request as Call
from tests.upstream.fakes import submit
from tests.upstream.web import Far, Request, Web, initialized

DISCOVERED = {"supportedVersions": ["2026-07-28"], "capabilities": {}}


def result(what: object) -> Callable[[Request], Awaitable[None]]:
    async def react(request: Request) -> None:
        await request.result(what)

    return react


def status(number: int, body: bytes = b"") -> Callable[[Request], Awaitable[None]]:
    async def react(request: Request) -> None:
        await request.answer(number, body)

    return react


def error(code: int, **data: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": "no", "data": data}}).encode()


async def failure(slot: Slot) -> McpdError:
    with pytest.raises(McpdError) as caught:
        await slot.start()
    return caught.value


def legacy(web: Web, **headers: str) -> None:
    web.reactions.update({"server/discover": status(400), "initialize": initialized(**headers)})


# -- the start -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reactions", "era", "methods"),
    [
        ({"server/discover": result(DISCOVERED)}, "modern", ["server/discover"]),
        ({"server/discover": status(400), "initialize": initialized()}, "legacy", ["server/discover", "initialize", "notifications/initialized"]),
        ({"server/discover": status(404, error(-32601)), "initialize": initialized()}, "legacy", ["server/discover", "initialize", "notifications/initialized"]),
        ({"server/discover": status(200), "initialize": initialized()}, "legacy", ["server/discover", "initialize", "notifications/initialized"]),
    ],
)  # fmt: skip
async def test_the_first_answer_tells_the_era(
    far: Far, web: Web, reactions: dict[str, Callable[[Request], Awaitable[None]]], era: str, methods: list[str]
) -> None:
    web.reactions.update(reactions)
    slot = far.slot()
    session = await slot.ready()
    if era == "legacy":
        await web.until("notifications/initialized")

    assert (session.era, slot.state) == (era, State.READY)
    assert [one.method for one in web.seen if one.verb == "POST"] == methods
    await slot.stop()


async def test_a_server_that_refuses_the_first_request_of_its_own_revision_is_asked_again(far: Far, web: Web) -> None:
    async def react(request: Request) -> None:
        first = len(web.seen) == 1
        await (status(400, error(-32022, supported=["2026-07-28"])) if first else result(DISCOVERED))(request)

    web.reactions["server/discover"] = react
    slot = far.slot()

    assert (await slot.ready()).era == "modern"
    await slot.stop()


@pytest.mark.parametrize(
    ("reactions", "kind", "words"),
    [
        ({"server/discover": status(502)}, HttpFailed, "could not be started: answered HTTP 502"),
        ({"server/discover": status(400), "initialize": status(404)}, HttpFailed, "could not be started: answered HTTP 404"),
        ({"server/discover": status(400), "initialize": status(200)}, HttpFailed, "it is empty"),
        ({"server/discover": status(400), "initialize": status(400, error(-32600))}, ServerUnavailable, "it refused initialize: no (code -32600)"),
        ({"server/discover": status(400, error(-32022, supported=["2099-01-01"]))}, VersionMismatch, "the server speaks 2099-01-01"),
        ({"server/discover": status(401)}, AuthRequired, "sign in"),
        ({"server/discover": Request.close}, HttpFailed, "the connection ended before an answer"),
    ],
)  # fmt: skip
async def test_a_start_that_fails_says_why_at_once(
    far: Far, web: Web, reactions: dict[str, Callable[[Request], Awaitable[None]]], kind: type[McpdError], words: str
) -> None:
    web.reactions.update(reactions)
    slot = far.slot()

    problem = await failure(slot)
    assert type(problem) is kind or (kind is HttpFailed and isinstance(problem, HttpFailed))
    assert words in problem.message
    assert problem.message.count("server 'far'") == 1
    assert problem.may_have_run is False
    await slot.stop()


async def test_a_server_that_is_not_there_is_tried_again_for_the_next_who_asks(
    opens: Opens, web: Web, autojump_clock: MockClock
) -> None:
    far = await opens(url="http://127.0.0.1:1/mcp")
    slot = far.slot()

    problem = await failure(slot)
    assert isinstance(problem, ConnectFailed)
    assert slot.state is State.BACKOFF
    await slot.stop()


# -- signing in ----------------------------------------------------------------------------------


def guarded(key: str, then: Callable[[Request], Awaitable[None]]) -> Callable[[Request], Awaitable[None]]:
    async def react(request: Request) -> None:
        await (then if request.headers.get("authorization") == key else status(401))(request)

    return react


async def test_a_server_that_wants_a_sign_in_waits_for_one(far: Far, web: Web) -> None:
    web.reactions["server/discover"] = guarded("right", result(DISCOVERED))
    slot = far.slot()
    problem = await failure(slot)
    assert isinstance(problem, AuthRequired)
    assert (slot.state, problem.hint, problem.details["error"]) == (State.NEEDS_AUTH, "mcpd login far", "invalid_token")

    (call,) = submit(slot, "t")
    assert call.outcomes[0][0] == "failure"
    assert len(web.seen) == 1

    far.keys.given = [{"Authorization": "right"}]
    await slot.start()
    assert slot.state is State.READY
    await slot.stop()


async def test_a_credential_that_runs_out_ends_the_session_and_not_the_daemon(far: Far, web: Web) -> None:
    web.reactions["server/discover"] = result(DISCOVERED)
    slot = far.slot()
    await slot.ready()
    web.reactions["tools/call"] = status(401)
    (call,) = submit(slot, "t")
    await call.over()
    await slot.closed()

    assert isinstance(call.problem, AuthRequired)
    assert slot.state is State.NEEDS_AUTH


# -- a session that is forgotten -----------------------------------------------------------------


async def test_all_whose_session_is_forgotten_are_answered_by_one_new_one(far: Far, web: Web) -> None:
    sessions = iter(("first", "second", "third"))

    async def initialize(request: Request) -> None:
        await initialized(**{"Mcp-Session-Id": next(sessions)})(request)

    async def call(request: Request) -> None:
        await (status(404) if request.headers["mcp-session-id"] == "first" else result({"content": []}))(request)

    legacy(web)
    web.reactions.update({"initialize": initialize, "tools/call": call})
    slot = far.slot()
    await slot.ready()
    calls = submit(slot, *"abcdef")
    for one in calls:
        assert await one.over() == [("result", {"content": []})]

    assert len(web.got("initialize")) == 2
    assert "mcp-session-id" not in web.got("initialize")[1].headers
    await slot.stop()
    assert [one.headers["mcp-session-id"] for one in web.got("DELETE")] == ["second"]


async def test_who_is_being_answered_still_is_when_others_find_the_session_forgotten(far: Far, web: Web) -> None:
    free = trio.Event()

    async def call(request: Request) -> None:
        if request.message["params"]["name"] == "slow":
            await free.wait()
            await request.result({"content": ["slow"]})
        else:
            await (status(404) if len(web.got("initialize")) == 1 else result({"content": []}))(request)

    legacy(web, **{"Mcp-Session-Id": "s"})
    web.reactions["tools/call"] = call
    slot = far.slot()
    await slot.ready()
    (slow,) = submit(slot, "slow")
    await web.until("tools/call")
    (quick,) = submit(slot, "quick")
    assert await quick.over() == [("result", {"content": []})]
    free.set()

    assert await slow.over() == [("result", {"content": ["slow"]})]
    await slot.stop()


# -- failures of one -----------------------------------------------------------------------------


async def test_a_call_that_fails_leaves_the_session_as_it_is(far: Far, web: Web) -> None:
    web.reactions["server/discover"] = result(DISCOVERED)
    slot = far.slot()
    await slot.ready()
    web.reactions["tools/call"] = status(502)
    (call,) = submit(slot, "t")
    await call.over()

    assert isinstance(call.problem, HttpFailed)
    assert (slot.state, slot.incarnations) == (State.READY, 1)
    await slot.stop()


async def test_a_server_that_answers_neither_a_call_nor_the_question_whether_it_is_there_is_begun_anew(
    far: Far, web: Web
) -> None:
    legacy(web)
    web.reactions.update({"tools/call": Request.until_gone, "ping": status(502)})
    slot = far.slot()
    await slot.ready()
    (call,) = submit(slot, "t")
    await web.until("tools/call")
    slot.give_up(call, "timed out", timed_out=True)
    await web.until("ping")
    del web.reactions["tools/call"]
    (other,) = submit(slot, "u")

    assert await other.over() == [("result", {})]
    assert len(web.got("initialize")) == 2
    await slot.stop()


async def test_what_breaks_in_a_transport_ends_one_incarnation_and_nothing_else(
    far: Far, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks(self: Poster, post: object) -> None:
        await trio.lowlevel.checkpoint()
        raise ZeroDivisionError("a bug")

    web.reactions["server/discover"] = result(DISCOVERED)
    slot = far.slot()
    await slot.ready()
    with monkeypatch.context() as patch:
        patch.setattr(Poster, "ask", breaks)
        (call,) = submit(slot, "t")
        await call.over()
        await slot.closed()

    assert isinstance(call, Call)
    assert "upstream.crashed" in far.log.events
    await slot.start()
    assert slot.state is State.READY
    await slot.stop()


async def test_a_stop_gives_the_session_back(far: Far, web: Web) -> None:
    legacy(web, **{"Mcp-Session-Id": "s"})
    slot = far.slot()
    await slot.ready()
    await slot.stop()

    assert [one.headers["mcp-session-id"] for one in web.got("DELETE")] == ["s"]
    assert slot.state is State.STOPPED
