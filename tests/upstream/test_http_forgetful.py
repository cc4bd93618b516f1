"""A slot whose remote server forgets its sessions, or lets nobody in for a while."""

from __future__ import annotations

import json
from dataclasses import replace

import trio

from mcpd.config.expand import Launch
from mcpd.config.model import Server, Stop
from mcpd.errors import AuthRequired, HttpFailed
from mcpd.upstream.around import Listener, Surroundings, Transport
from mcpd.upstream.http import open_http
from mcpd.upstream.lifecycle import State
from mcpd.upstream.supervisor import Slot
from tests.upstream.conftest import Opens
from tests.upstream.fakes import Request as Asked
from tests.upstream.web import Far, Request, Web, initialized, patience


def _slot(far: Far) -> Slot:
    """Return the slot of a server."""

    async def connect(around: Surroundings, owner: Listener, launch: Launch, server: Server) -> Transport:
        return await open_http(lambda *_: far.keys, around, owner, launch, server)

    return Slot(far.server, replace(far.around, connect=connect))


async def test_a_request_is_not_sent_for_ever_to_a_server_that_forgets_each_session(web: Web, opens: Opens) -> None:
    async def forgot(request: Request) -> None:
        await request.answer(404)

    web.reactions.update({"initialize": initialized(**{"Mcp-Session-Id": "s"}), "tools/call": forgot})
    far = await opens(protocol="2025-11-25")

    slot = _slot(far)
    asked = Asked()
    slot.submit(asked)
    with trio.fail_after(patience()):
        await asked.over()

    assert isinstance(asked.problem, HttpFailed)
    assert asked.problem.may_have_run is False
    assert len(web.got("tools/call")) == 4
    await slot.stop()


async def test_a_start_after_a_sign_in_does_not_count_on_a_session_that_is_being_left(web: Web, opens: Opens) -> None:
    async def lets_in(request: Request) -> None:
        if json.loads(request.body)["params"]["name"] == "slow":
            await request.until_gone()
        elif "authorization" in request.headers:
            await request.result({})
        else:
            await request.answer(401)

    web.reactions.update({"initialize": initialized(), "tools/call": lets_in})
    far = await opens(protocol="2025-11-25", stop=Stop(drain_seconds=0.0))
    slot = _slot(far)
    slow, refused, again = Asked("slow"), Asked("t"), Asked("t")
    slot.submit(slow)
    await web.until("tools/call")
    slot.submit(refused)
    with trio.fail_after(patience()):
        await refused.over()
        assert isinstance(refused.problem, AuthRequired)
        far.keys.given = [{"Authorization": "Bearer t"}]

        await slot.start()
        slot.submit(again)
        await again.over()

    assert again.outcomes == [("result", {})]
    assert slot.incarnations == 2
    await slot.stop()


async def test_a_copy_that_waits_for_a_sign_in_is_let_in_when_there_was_one(web: Web, opens: Opens) -> None:
    async def lets_in(request: Request) -> None:
        if "authorization" in request.headers:
            await request.result({})
        else:
            await request.answer(401)

    web.reactions.update({"initialize": initialized(), "tools/call": lets_in})
    far = await opens(protocol="2025-11-25")
    slot = _slot(far)
    refused, again = Asked(), Asked()
    slot.submit(refused)
    with trio.fail_after(patience()):
        await refused.over()
        await slot.closed()
        assert slot.state is State.NEEDS_AUTH
        far.keys.given = [{"Authorization": "Bearer t"}]

        slot.let_in()
        slot.submit(again)
        await again.over()

    assert again.outcomes == [("result", {})]
    await slot.stop()
