"""A slot whose remote server forgets its sessions."""

from __future__ import annotations

from dataclasses import replace

import trio

from mcpd.config.expand import Launch
from mcpd.config.model import Server
from mcpd.errors import HttpFailed
from mcpd.upstream.around import Listener, Surroundings, Transport
from mcpd.upstream.http import open_http
from mcpd.upstream.supervisor import Slot
from tests.upstream.conftest import Opens
from tests.upstream.fakes import Request as Asked
from tests.upstream.web import Request, Web, initialized, patience


async def test_a_request_is_not_sent_for_ever_to_a_server_that_forgets_each_session(web: Web, opens: Opens) -> None:
    async def forgot(request: Request) -> None:
        await request.answer(404)

    web.reactions.update({"initialize": initialized(**{"Mcp-Session-Id": "s"}), "tools/call": forgot})
    far = await opens(protocol="2025-11-25")

    async def connect(around: Surroundings, owner: Listener, launch: Launch, server: Server) -> Transport:
        return await open_http(lambda *_: far.keys, around, owner, launch, server)

    slot = Slot(far.server, replace(far.around, connect=connect))
    asked = Asked()
    slot.submit(asked)
    with trio.fail_after(patience()):
        await asked.over()

    assert isinstance(asked.problem, HttpFailed)
    assert asked.problem.may_have_run is False
    assert len(web.got("tools/call")) == 4
    await slot.stop()
