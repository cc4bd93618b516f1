"""The older transport: one stream for all answers, and an address for what is sent."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from mcpd.errors import ConnectFailed, HttpFailed, ServerLost
from tests.upstream.conftest import Opens
from tests.upstream.web import Far, Request, Web


class Old:
    """A server of 2024-11-05: what is posted to its address is answered over its stream."""

    def __init__(self, web: Web, address: str = "/messages?session=1") -> None:
        self.web, self.address = web, address
        self.stream: Request
        self.ended = trio.Event()
        web.reactions["GET"] = self.get
        for method in ("server/discover", "initialize", "notifications/initialized", "tools/call", "answer", "notifications/cancelled"):
            web.reactions[method] = self.post

    async def get(self, request: Request) -> None:
        self.stream = request
        await request.stream()
        await request.chunk(b"event: endpoint\ndata: %b\n\n" % self.address.encode())
        await self.ended.wait()
        await request.end()

    async def post(self, request: Request) -> None:
        if request.path == "/mcp":
            await request.answer(405)
            return
        await request.answer(202, b"Accepted", "text/plain")
        if request.method == "initialize":
            await self.answer(request, {"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {"name": "old"}})
        elif request.method == "tools/call":
            await self.answer(request, {"content": []})

    async def answer(self, request: Request, result: object) -> None:
        await self.stream.event({"jsonrpc": "2.0", "id": request.message["id"], "result": result})


async def test_a_server_of_the_older_transport_is_spoken_to_as_it_wants(opens: Opens, web: Web) -> None:
    Old(web)
    far = await opens(allow_legacy_sse=True)
    await far.begin("2024-11-05")
    what, origin, message = await far.asked()

    assert (what, origin, message["result"]) == ("message", b"", {"content": []})
    assert [(one.verb, one.path, one.method) for one in web.seen] == [
        ("POST", "/mcp", "initialize"),
        ("GET", "/mcp", "GET"),
        ("POST", "/messages?session=1", "initialize"),
        ("POST", "/messages?session=1", "notifications/initialized"),
        ("POST", "/messages?session=1", "tools/call"),
    ]
    assert "mcp-protocol-version" not in web.seen[-1].headers


async def test_its_answers_and_its_cancels_are_posted_too(opens: Opens, web: Web) -> None:
    Old(web)
    far = await opens(allow_legacy_sse=True)
    await far.begin("2024-11-05")
    far.transport.send(b'{"jsonrpc":"2.0","id":"q","result":{}}')
    far.tell("notifications/cancelled", {"requestId": 99})

    assert {(await web.until(method)).path for method in ("answer", "notifications/cancelled")} == {"/messages?session=1"}


async def test_it_is_not_looked_for_where_the_entry_does_not_allow_it(far: Far, web: Web) -> None:
    Old(web)
    far.ask("initialize", {})

    assert isinstance(await far.problem(), HttpFailed)
    assert web.got("GET") == []


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/messages", "https://evil.example/", "//evil.example/x", "http://[", "file:///etc"])
async def test_an_address_on_another_server_is_refused(opens: Opens, web: Web, address: str) -> None:
    Old(web, address)
    far = await opens(allow_legacy_sse=True)
    far.ask("initialize", {})

    problem = await far.problem()
    assert isinstance(problem, HttpFailed)
    assert problem.message.startswith("server 'far' wants its messages sent to another server, ")
    assert {one.path for one in web.seen} == {"/mcp"}


async def test_the_end_of_its_stream_is_that_of_the_session(opens: Opens, web: Web) -> None:
    old = Old(web)
    far = await opens(allow_legacy_sse=True)
    await far.begin("2024-11-05")
    old.ended.set()

    assert (await far.ears.until(2))[1][0] == "over"
    assert isinstance(far.transport.problem, ServerLost)
    assert far.transport.problem.message == "server 'far' ended its stream"


async def test_a_message_that_it_refuses_fails_alone(opens: Opens, web: Web) -> None:
    async def refuses(request: Request) -> None:
        await request.answer(500)

    Old(web)
    web.reactions["tools/call"] = refuses
    far = await opens(allow_legacy_sse=True)
    await far.begin("2024-11-05")
    what, _, problem = await far.asked()

    assert (what, isinstance(problem, HttpFailed), far.transport.over) == ("failed", True, False)


async def test_a_server_of_neither_transport_fails(opens: Opens, web: Web) -> None:
    async def refuses(request: Request) -> None:
        await request.answer(404)

    web.reactions.update({"initialize": refuses, "GET": refuses})
    far = await opens(allow_legacy_sse=True)
    far.ask("initialize", {})

    problem = await far.problem()
    assert isinstance(problem, HttpFailed)
    assert "HTTP 404" in problem.message


async def test_a_server_of_the_newer_one_is_not_asked_for_the_older(opens: Opens, web: Web) -> None:
    async def refuses(request: Request) -> None:
        await request.answer(400, b'{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}}')

    web.reactions["initialize"] = refuses
    far = await opens(allow_legacy_sse=True)
    await far.asked("initialize", {})
    await wait_all_tasks_blocked()

    assert [what for what, _, _ in far.ears.heard] == ["message"]
    assert web.got("GET") == []


async def test_a_server_that_is_not_there_is_not_there(opens: Opens) -> None:
    far = await opens(allow_legacy_sse=True, url="http://127.0.0.1:1/mcp")
    far.ask("initialize", {})

    assert isinstance(await far.problem(), ConnectFailed)
