"""What is sent again, and what is not: elsewhere, with other credentials, a little later, over another connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from mcpd.errors import AuthRequired, ExchangeLost, HttpFailed
from tests.upstream.conftest import Opens
from tests.upstream.web import Far, Keys, Request, Web, initialized, modern


def says(status: int, **headers: str) -> Callable[[Request], Awaitable[None]]:
    async def react(request: Request) -> None:
        await request.answer(status, headers={name.replace("_", "-"): value for name, value in headers.items()})

    return react


# -- redirects -----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("where", ["/mcp/", "mcp/", "?x=1", "//{host}/other", "{url}/other"])
async def test_a_redirect_within_the_server_is_followed_with_all_there_is(far: Far, web: Web, status: int, where: str) -> None:
    location = where.format(url=web.url, host=web.url.split("/")[2])

    async def react(request: Request) -> None:
        await (says(status, Location=location)(request) if request.path == "/mcp" else request.result())

    web.reactions["tools/call"] = react
    request_id = far.ask("tools/call", modern(name="t"))

    assert (await far.ears.until(1))[0][:2] == ("message", request_id)
    first, second = web.seen
    assert (second.verb, second.message, second.headers) == (first.verb, first.message, first.headers)
    assert second.path != "/mcp"


@pytest.mark.parametrize(
    ("status", "location", "words"),
    [
        (301, "/mcp/", "redirects to {url}/ (HTTP 301)"),
        (302, "/mcp/", "redirects to {url}/ (HTTP 302)"),
        (303, "/mcp/", "redirects to {url}/ (HTTP 303)"),
        (307, "https://other.example/mcp?token=x", "redirects to https://other.example (HTTP 307)"),
        (307, "http://127.0.0.1:1/mcp", "redirects to http://127.0.0.1:1 (HTTP 307)"),
        (308, "//127.0.0.1/mcp", "redirects to http://127.0.0.1 (HTTP 308)"),
        (307, "file:///etc/passwd", "redirects to nowhere (HTTP 307)"),
        (307, "http://[::1", "redirects to nowhere (HTTP 307)"),
        (307, "http://x:99999999/", "redirects to nowhere (HTTP 307)"),
    ],
)
async def test_any_other_redirect_is_named_and_not_followed(far: Far, web: Web, status: int, location: str, words: str) -> None:
    web.reactions["tools/call"] = says(status, Location=location)
    far.ask()

    problem = await far.problem()
    assert isinstance(problem, HttpFailed)
    assert problem.message == "server 'far' " + words.format(url=web.url)
    assert (problem.may_have_run, problem.hint) == (False, "put the new address into url of server far")
    assert len(web.seen) == 1


async def test_a_circle_of_redirects_is_left(far: Far, web: Web) -> None:
    web.reactions["tools/call"] = says(307, Location="/mcp?again")
    far.ask()

    assert (await far.problem()).message == "server 'far' redirects more than 5 times (HTTP 307)"
    assert len(web.seen) == 6


# -- credentials ---------------------------------------------------------------------------------


def wants(key: str) -> Callable[[Request], Awaitable[None]]:
    async def react(request: Request) -> None:
        if request.headers.get("authorization") == key:
            await request.result()
        else:
            await request.answer(401, headers={"WWW-Authenticate": 'Bearer error="invalid_token"'})

    return react


async def test_a_request_is_sent_again_with_the_credentials_that_replace_the_old_ones(opens: Opens, web: Web) -> None:
    far = await opens({"Authorization": "old"}, {"Authorization": "new"})
    web.reactions["tools/call"] = wants("new")
    request_id = far.ask()

    assert (await far.ears.until(1))[0][:2] == ("message", request_id)
    assert far.keys.renewals == [(401, 'Bearer error="invalid_token"', {"Authorization": "old"})]
    assert [one.message for one in web.seen] == [web.seen[0].message] * 2


async def test_it_is_sent_again_twice_and_not_more_often(opens: Opens, web: Web) -> None:
    far = await opens(*[{"Authorization": str(number)} for number in range(9)])
    web.reactions["tools/call"] = wants("none of them")
    far.ask()

    problem = await far.problem()
    assert "HTTP 401" in problem.message
    assert (len(web.seen), problem.may_have_run) == (3, False)


async def test_a_transport_that_nobody_can_sign_in_is_over(far: Far, web: Web) -> None:
    web.reactions["tools/call"] = wants("none")
    far.ask()

    heard = await far.ears.until(2)
    assert [what for what, _, _ in heard] == ["failed", "over"]
    problem = heard[0][2]
    assert isinstance(problem, AuthRequired)
    assert (problem.server, problem.may_have_run, problem.hint) == ("far", False, "mcpd login far")
    assert far.transport.problem is problem
    assert far.transport.over


async def test_those_who_are_being_answered_still_are(far: Far, web: Web) -> None:
    free = trio.Event()

    async def slow(request: Request) -> None:
        await free.wait()
        await request.result()

    web.reactions.update({"slow": slow, "tools/call": wants("none")})
    slow_id = far.ask("slow")
    await web.until("slow")
    request_id = far.ask()
    assert (await far.ears.until(1))[0][:2] == ("failed", request_id)
    await wait_all_tasks_blocked()
    assert not far.transport.over

    free.set()
    assert [(what, origin) for what, origin, _ in (await far.ears.until(3))[1:]] == [("message", slow_id), ("over", b"")]


async def test_but_not_for_ever(far: Far, web: Web, autojump_clock: MockClock) -> None:
    web.reactions.update({"slow": Request.until_gone, "tools/call": wants("none")})
    far.ask("slow")
    await web.until("slow")
    far.ask()

    assert [what for what, _, _ in await far.ears.until(2)] == ["failed", "over"]


async def test_a_scope_that_is_missing_concerns_one_request(far: Far, web: Web) -> None:
    web.reactions["tools/call"] = says(403, WWW_Authenticate='Bearer error="insufficient_scope"')
    far.ask()

    problem = await far.problem()
    assert isinstance(problem, AuthRequired)
    await wait_all_tasks_blocked()
    assert not far.transport.over


async def test_what_is_forbidden_for_good_is_a_failure(far: Far, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    async def in_vain(self: Keys, status: int, challenge: str, used: object) -> bool:
        await trio.lowlevel.checkpoint()
        return False

    monkeypatch.setattr(Keys, "renew", in_vain)
    web.reactions["tools/call"] = says(403)
    far.ask()

    problem = await far.problem()
    assert isinstance(problem, HttpFailed)
    assert (problem.message, problem.may_have_run) == ("server 'far' answered HTTP 403 (application/json)", False)


async def test_a_401_with_the_same_credentials_wants_a_sign_in(far: Far, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    async def in_vain(self: Keys, status: int, challenge: str, used: object) -> bool:
        await trio.lowlevel.checkpoint()
        return False

    monkeypatch.setattr(Keys, "renew", in_vain)
    web.reactions["tools/call"] = says(401)
    far.ask()

    problem = await far.problem()
    assert isinstance(problem, AuthRequired)
    assert (problem.hint, problem.details["login"]) == ("mcpd login far", "mcpd login far")


# -- a little later ------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 503])
async def test_a_short_pause_is_waited_for_once(far: Far, web: Web, status: int, autojump_clock: MockClock) -> None:
    async def react(request: Request) -> None:
        await (says(status, Retry_After="1")(request) if len(web.seen) == 1 else request.result())

    web.reactions["tools/call"] = react
    request_id = far.ask()

    assert (await far.ears.until(1))[0][:2] == ("message", request_id)
    first, second = web.seen
    assert second.at - first.at == pytest.approx(1.0)


async def test_a_request_that_waits_has_not_run(far: Far, web: Web) -> None:
    web.reactions["tools/call"] = says(429, Retry_After="1")
    far.ask()
    await web.until("tools/call")
    await wait_all_tasks_blocked()

    assert far.transport.withdraw(far.frame)


@pytest.mark.parametrize(
    ("pause", "requests", "told"), [("1", 2, 1.0), ("3", 1, 3.0), ("3600", 1, 3600.0), ("", 1, None), ("soon", 1, None)]
)
async def test_any_other_pause_is_the_callers(
    far: Far, web: Web, pause: str, requests: int, told: float | None, autojump_clock: MockClock
) -> None:
    web.reactions["tools/call"] = says(429, Retry_After=pause)
    far.ask()

    problem = await far.problem()
    assert isinstance(problem, HttpFailed)
    assert (problem.retry_after_seconds, problem.may_have_run, len(web.seen)) == (told, False, requests)


# -- connections ---------------------------------------------------------------------------------


async def test_connections_are_used_again(far: Far, web: Web) -> None:
    for _ in range(3):
        await far.asked()
        await wait_all_tasks_blocked()

    assert [one.connection for one in web.seen] == [1, 1, 1]


async def test_a_connection_is_not_trusted_when_it_has_been_idle_for_long(
    far: Far, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpd.upstream.http_client.IDLE_SECONDS", -1.0)
    other = Far(web, far.around.nursery, Keys())
    await other.open()
    for _ in range(2):
        await other.asked()
        await wait_all_tasks_blocked()
    await other.transport.end(0, 0)

    assert [one.connection for one in web.seen] == [1, 2]


class Drops:
    """A server that closes each connection when a second request comes on it."""

    async def __call__(self, request: Request) -> None:
        await (request.close() if request.nth > 1 else Web.usual(request))


async def test_what_does_no_harm_is_sent_again_when_a_kept_connection_is_dropped(far: Far, web: Web) -> None:
    web.reactions["tools/list"] = Drops()
    await far.asked("tools/list")
    await wait_all_tasks_blocked()

    assert (await far.asked("tools/list"))[0] == "message"
    assert [(one.connection, one.nth) for one in web.seen] == [(1, 1), (1, 2), (2, 1)]


async def test_a_call_is_not(far: Far, web: Web) -> None:
    web.reactions["tools/call"] = Drops()
    await far.asked()
    await wait_all_tasks_blocked()
    far.ask()

    problem = await far.problem()
    assert isinstance(problem, ExchangeLost)
    assert problem.may_have_run is True
    assert len(web.seen) == 2


async def test_a_server_that_keeps_dropping_them_gets_a_new_one_for_each_request(far: Far, web: Web) -> None:
    web.reactions.update(dict.fromkeys(("tools/list", "tools/call"), Drops()))
    for _ in range(3):
        assert (await far.asked("tools/list"))[0] == "message"
        await wait_all_tasks_blocked()
    for _ in range(3):
        assert (await far.asked())[0] == "message"
        await wait_all_tasks_blocked()

    assert {one.nth for one in web.got("tools/call")} == {1}


async def test_what_is_dropped_on_a_new_connection_is_lost(far: Far, web: Web) -> None:
    web.reactions["tools/list"] = Request.close
    far.ask("tools/list")

    assert isinstance(await far.problem(), ExchangeLost)
    assert len(web.seen) == 1


async def test_many_requests_share_the_connections_of_one_pool(far: Far, web: Web) -> None:
    for wave in range(1, 4):
        for _ in range(64):
            far.ask()
        await far.ears.until(64 * wave)
        await wait_all_tasks_blocked()

    assert len({one.connection for one in web.seen}) <= 64


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
async def test_this_machine_is_reached_without_a_proxy(
    nursery: trio.Nursery, web: Web, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "http://127.0.0.1:1")
    far = Far(web, nursery, Keys())
    await far.open()

    assert (await far.asked())[0] == "message"
    await far.transport.end(0, 0)


async def test_others_are_reached_through_the_proxy_of_the_environment(
    nursery: trio.Nursery, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", web.url.removesuffix("/mcp"))
    far = Far(web, nursery, Keys(), url="http://far.example/mcp", insecure=True)
    await far.open()
    web.reactions["initialize"] = initialized(**{"Mcp-Session-Id": "s"})
    web.reactions["tools/call"] = says(502)

    await far.begin()
    assert (await far.asked("tools/list"))[0] == "message"
    assert (await far.asked())[0] == "failed"
    assert {(one.path, one.headers["host"]) for one in web.seen} == {("http://far.example/mcp", "far.example")}
    await far.transport.end(0, 0)


async def test_unless_it_is_to_be_left_aside(nursery: trio.Nursery, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", web.url.removesuffix("/mcp"))
    monkeypatch.setenv("NO_PROXY", "invalid")
    far = Far(web, nursery, Keys(), url="http://far.invalid/mcp", insecure=True)
    await far.open()
    far.ask()

    assert "no connection" in (await far.problem()).message
    assert web.seen == []
    await far.transport.end(0, 0)


async def test_a_header_that_cannot_be_sent_is_not_shown(web: Web, opens: Opens) -> None:
    far = await opens({"X-Key": "schlüssel\nhunter2"})

    far.ask()
    problem = await far.problem()

    assert "header" in problem.message
    assert problem.may_have_run is False
    assert "hunter2" not in problem.message
    assert "schl" not in problem.message
