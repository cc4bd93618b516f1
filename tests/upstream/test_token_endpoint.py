"""The token endpoint over real HTTP: what is sent, and that nothing it answers does any harm."""

from __future__ import annotations

import contextlib
import gzip
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

import pytest
import trio

from mcpd.errors import ConnectFailed, HttpFailed, McpdError
from mcpd.upstream import token_endpoint
from mcpd.upstream.token_endpoint import MAX_BYTES, post

FORM = {"grant_type": "refresh_token", "refresh_token": "s3cret +&é"}


class Endpoint:
    """A server whose answer is made by `react`; `asked` is what came."""

    def __init__(self, react: Callable[[BaseHTTPRequestHandler], None]) -> None:
        self.asked: list[tuple[str, dict[str, str], dict[str, str]]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                endpoint.asked.append((self.path, headers, dict(parse_qsl(body.decode()))))
                with contextlib.suppress(OSError):
                    react(self)

            do_GET = do_POST

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self.server.server_port}"


@contextlib.contextmanager
def serving(react: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[Endpoint]:
    endpoint = Endpoint(react)
    thread = threading.Thread(target=endpoint.server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.server.shutdown()
        endpoint.server.server_close()
        thread.join()


def answers(status: int, body: bytes = b"{}", **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def react(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        request.wfile.write(body)

    return react


async def ask(url: str, *, insecure: bool = False) -> Any:
    with trio.fail_after(30):
        return await post(url, FORM, {"Authorization": "Basic abc"}, insecure=insecure)


async def failure(url: str, *, insecure: bool = False) -> McpdError:
    with pytest.raises(McpdError) as failed:
        await ask(url, insecure=insecure)
    assert "s3cret" not in f"{failed.value!r} {failed.value.to_error()}"
    return failed.value


async def test_a_form_is_sent_and_the_answer_returned() -> None:
    with serving(answers(400, b'{"error": "x"}', Content_Type="application/json", Retry_After="3")) as endpoint:
        reply = await ask(f"{endpoint.origin}/token?a=b")

    assert (reply.status, reply.content_type, reply.retry_after) == (400, "application/json", "3")
    assert reply.body == b'{"error": "x"}'
    ((path, headers, form),) = endpoint.asked
    assert path == "/token?a=b"
    assert form == FORM
    assert headers["content-type"] == "application/x-www-form-urlencoded"
    assert headers["accept"] == "application/json"
    assert headers["authorization"] == "Basic abc"
    assert headers["accept-encoding"] == "identity"


async def test_a_redirect_is_not_followed() -> None:
    with serving(answers(307, b"", Location="/elsewhere")) as endpoint:
        reply = await ask(f"{endpoint.origin}/token")

    assert reply.status == 307
    assert len(endpoint.asked) == 1


async def test_an_answer_without_an_end_is_cut_off() -> None:
    with serving(answers(200, b"x" * (MAX_BYTES + 1))) as endpoint:
        problem = await failure(f"{endpoint.origin}/token")

    assert problem.message == f"token endpoint {endpoint.origin} answered with more than 1048576 bytes"
    assert problem.final


async def test_what_was_packed_although_nobody_asked_for_it_is_unpacked_up_to_the_limit() -> None:
    bomb = gzip.compress(b"{" + b" " * (50 * MAX_BYTES))
    with serving(answers(200, bomb, Content_Encoding="gzip")) as endpoint:
        problem = await failure(f"{endpoint.origin}/token")

    assert problem.message == f"token endpoint {endpoint.origin} answered with more than 1048576 bytes"


@pytest.mark.parametrize(
    "rude",
    [
        lambda request: request.connection.close(),
        lambda request: request.wfile.write(b"SSH-2.0-x\r\n"),
        lambda request: request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"),
        lambda request: request.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
    ],
)
async def test_what_is_no_answer_is_one_that_did_not_come(rude: Callable[[Any], None]) -> None:
    def react(request: BaseHTTPRequestHandler) -> None:
        rude(request)
        request.close_connection = True

    with serving(react) as endpoint:
        problem = await failure(f"{endpoint.origin}/token")

    assert isinstance(problem, ConnectFailed)
    assert problem.message.startswith(f"token endpoint {endpoint.origin} did not answer: ")
    assert not problem.final


async def test_a_server_that_is_silent_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_endpoint, "ANSWER_SECONDS", 0.1)
    done = threading.Event()
    with serving(lambda _: done.wait(30) and None) as endpoint:
        problem = await failure(f"{endpoint.origin}/token")
        done.set()

    assert isinstance(problem, ConnectFailed)


async def test_nobody_listens() -> None:
    with serving(answers(200)) as endpoint:
        pass

    problem = await failure(f"{endpoint.origin}/token")

    assert isinstance(problem, ConnectFailed)
    assert problem.may_have_run is False


@pytest.mark.parametrize(
    "url", ["http://as.example/token", "ftp://127.0.0.1/x", "file:///etc/passwd", "https://", "", "http://[x", "//a/b"]
)
async def test_secrets_go_nowhere_in_the_clear(url: str) -> None:
    problem = await failure(url)

    assert isinstance(problem, HttpFailed)
    assert problem.final


async def test_an_entry_may_allow_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(answers(200)) as endpoint:
        monkeypatch.setenv("http_proxy", endpoint.origin)  # no name is looked up
        reply = await ask("http://as.invalid/token", insecure=True)

    assert reply.status == 200
    assert endpoint.asked[0][0] == "http://as.invalid/token"


@pytest.mark.parametrize(
    ("name", "value"), [("SSL_CERT_FILE", "/no/such/file"), ("https_proxy", "gopher://x"), ("https_proxy", "http://[x")]
)
async def test_an_environment_that_cannot_be_used_is_no_crash(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)

    assert isinstance(await failure("https://127.0.0.1:1/token"), ConnectFailed)


def test_the_library_is_loaded_for_the_first_request_and_not_before() -> None:
    script = "import sys, mcpd.upstream.credentials; print([n for n in ('httpx2', 'httpcore2', 'mcp', 'jwt', 'cryptography') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
