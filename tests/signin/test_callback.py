from __future__ import annotations

import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from mcpd.signin.answer import Answer
from mcpd.signin.callback import MAX_CONNECTIONS, MAX_HEAD_BYTES, Callback, PortTaken, listen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

GOOD = "GET /callback?code=c&state=right HTTP/1.1\r\nHost: x\r\n\r\n"


@asynccontextmanager
async def listening() -> AsyncIterator[Callback]:
    callback = await listen()
    callback.expect("right")
    async with trio.open_nursery() as nursery:
        await nursery.start(callback.serve)
        yield callback
        nursery.cancel_scope.cancel()


async def ask(callback: Callback, request: str) -> str:
    """Return all that is answered."""
    with trio.fail_after(10):
        async with await trio.open_tcp_stream("127.0.0.1", callback.port) as stream:
            await stream.send_all(request.encode())
            return b"".join([part async for part in stream]).decode()


async def test_the_answer_with_the_right_state_is_taken_and_thanked_for() -> None:
    async with listening() as callback:
        said = await ask(callback, GOOD)
        await callback.wait()

    assert said.startswith("HTTP/1.1 200 OK\r\n")
    assert "no-store" in said
    assert callback.answer == Answer(state="right", code="c")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ("GET /callback?code=c&state=wrong HTTP/1.1\r\n\r\n", "400"),
        ("GET /callback?code=c HTTP/1.1\r\n\r\n", "400"),
        ("GET /callback HTTP/1.1\r\n\r\n", "400"),
        ("GET /favicon.ico HTTP/1.1\r\n\r\n", "404"),
        ("GET /callback/x?code=c&state=right HTTP/1.1\r\n\r\n", "404"),
        ("POST /callback?code=c&state=right HTTP/1.1\r\n\r\n", "405"),
        ("HEAD /callback?code=c&state=right HTTP/1.1\r\n\r\n", "405"),
        ("GET http://[ HTTP/1.1\r\n\r\n", "400"),
        ("nonsense\r\n\r\n", "400"),
        (f"GET /callback?code=c&state=right HTTP/1.1\r\nX: {'x' * MAX_HEAD_BYTES}", "431"),
    ],
)
async def test_anything_else_changes_nothing(request_: str, status: str) -> None:
    async with listening() as callback:
        said = await ask(callback, request_)
        assert callback.answer is None
        await ask(callback, GOOD)
        await callback.wait()

    assert said.split(" ")[1] == status
    assert callback.answer == Answer(state="right", code="c")


async def test_nothing_of_a_request_is_in_its_answer() -> None:
    async with listening() as callback:
        said = await ask(callback, "GET /callback?error=%3Cscript%3Eevil&state=right HTTP/1.1\r\nevil: evil\r\n\r\n")

    assert "evil" not in said
    assert "refused" in said


async def test_the_first_answer_counts() -> None:
    async with listening() as callback:
        await ask(callback, GOOD)
        again = await ask(callback, GOOD.replace("code=c", "code=d"))

    assert again.split(" ")[1] == "400"
    assert callback.answer == Answer(state="right", code="c")


async def test_who_connects_and_says_nothing_keeps_nobody_out() -> None:
    async with listening() as callback:
        silent = [await trio.open_tcp_stream("127.0.0.1", callback.port) for _ in range(MAX_CONNECTIONS - 1)]
        await ask(callback, GOOD)
        await callback.wait()
        for stream in silent:
            await stream.aclose()

    assert callback.answer is not None


async def test_it_listens_on_this_machine_alone_and_says_so() -> None:
    callback = await listen()

    assert callback.redirect_uri == f"http://127.0.0.1:{callback.port}/callback"
    await callback.aclose()
    with pytest.raises(OSError, match="connect"):
        await trio.open_tcp_stream("127.0.0.1", callback.port)


async def test_a_port_that_is_taken_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(PortTaken, match="cannot be listened on"):
        await listen(other.getsockname()[1])
