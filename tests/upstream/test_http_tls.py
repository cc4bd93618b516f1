"""TLS: who is believed, and what is said of others."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from mcpd.errors import ConnectFailed
from mcpd.upstream import http_client
from tests.upstream.web import Far, Keys, Web

# A key and a certificate that it has signed for localhost.
CERTIFICATE = Path(__file__).with_name("localhost.pem")


class Tls(Web):
    """A server that speaks TLS."""

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(CERTIFICATE)
        (listener,) = await trio.open_ssl_over_tcp_listeners(0, context, host="127.0.0.1", https_compatible=True)
        self.url = f"https://127.0.0.1:{listener.transport_listener.socket.getsockname()[1]}/mcp"
        task_status.started()
        await trio.serve_listeners(self._serve, [listener])  # type: ignore[arg-type]  # the streams are alike


@pytest.fixture
async def tls(nursery: trio.Nursery) -> Tls:
    server = Tls()
    await nursery.start(server.run)
    return server


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    """Who is believed is read once in the life of a daemon."""
    http_client._trusting.cache_clear()
    yield
    http_client._trusting.cache_clear()


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
async def test_who_is_believed_can_be_said_in_the_environment(
    nursery: trio.Nursery, tls: Tls, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    far = Far(tls, nursery, Keys(), url=tls.url.replace("127.0.0.1", name))
    await far.open()

    assert [(await far.asked())[0], (await far.asked())[0]] == ["message", "message"]
    assert [one.connection for one in tls.seen] == [1, 1]
    await far.transport.end(0, 0)


async def test_nobody_else_is_and_nothing_is_sent(nursery: trio.Nursery, tls: Tls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    far = Far(tls, nursery, Keys())
    await far.open()
    far.ask()

    problem = await far.problem()
    assert isinstance(problem, ConnectFailed)
    assert problem.message.startswith("server 'far': no connection: the certificate cannot be trusted: self-signed certificate")
    assert (problem.may_have_run, tls.seen) == (False, [])
    await far.transport.end(0, 0)
