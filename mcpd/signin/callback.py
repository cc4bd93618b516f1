"""The page on this machine to which the browser comes back: one answer, then it is gone.

Whatever else asks for it learns nothing and changes nothing: only a GET of `/callback` with the state of the request
that is waited for is an answer. Nothing of what was asked is in what is answered.

Spec: RFC 8252, 7.3 and 8.3: the loopback address itself, not a name for it.
"""

from __future__ import annotations

import errno
from urllib.parse import urlsplit

import trio

from .answer import Answer, read_query

HOST = "127.0.0.1"
PATH = "/callback"
# More than any browser sends for a page of one's own.
MAX_HEAD_BYTES = 32768
# A browser opens connections in advance, and sends nothing over them.
CONNECTION_SECONDS = 10.0
MAX_CONNECTIONS = 32

_PAGE = """\
<!doctype html><html lang="en"><head><meta charset="utf-8"><title>mcpd</title></head>
<body><h1>{title}</h1><p>{text}</p></body></html>
"""
_HEADERS = (
    "Content-Type: text/html; charset=utf-8\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
    "Content-Security-Policy: default-src 'none'\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n"
)
RECEIVED = ("200 OK", "mcpd has the answer", "Your terminal says whether you are signed in. You can close this page.")
REFUSED = ("200 OK", "Not signed in", "The sign-in was refused; your terminal says more. You can close this page.")
NOT_FOUND = ("404 Not Found", "Nothing here", "This is not the page of a sign-in.")
NOT_ALLOWED = ("405 Method Not Allowed", "Nothing here", "This page can only be looked at.")
NOT_MEANT = ("400 Bad Request", "Not this one", "This is no answer to the sign-in that mcpd waits for.")
TOO_LARGE = ("431 Request Header Fields Too Large", "Too much", "This is no answer to the sign-in that mcpd waits for.")


class PortTaken(Exception):
    """Somebody else listens on the port that was asked for."""


class Callback:
    """A listener for one answer.

    Attributes:
        redirect_uri: where the browser is to be sent.
        answer: what has come; None until then.
    """

    def __init__(self, listener: trio.SocketListener) -> None:
        self._listener = listener
        self._state: str | None = None
        self._open = 0
        self._came = trio.Event()
        self.answer: Answer | None = None
        self.port: int = listener.socket.getsockname()[1]
        self.redirect_uri = f"http://{HOST}:{self.port}{PATH}"

    def expect(self, state: str) -> None:
        """Take the answer to the request with this state, and no other."""
        self._state = state

    def offer(self, answer: Answer | None) -> bool:
        """Take an answer that has come, on whichever way, if it is the one; say whether it is."""
        if self.answer is not None or answer is None or not answer.is_for(self._state):
            return False
        self.answer = answer
        self._came.set()
        return True

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Answer requests until cancelled; those that came before were kept waiting."""
        task_status.started()
        await trio.serve_listeners(self._handle, [self._listener])

    async def wait(self) -> None:
        """Wait for the answer."""
        await self._came.wait()

    async def aclose(self) -> None:
        """Stop listening."""
        await self._listener.aclose()

    async def _handle(self, stream: trio.SocketStream) -> None:
        async with stream:
            if self._open >= MAX_CONNECTIONS:
                return
            self._open += 1
            try:
                with trio.move_on_after(CONNECTION_SECONDS):
                    await self._exchange(stream)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return  # it has gone
            finally:
                self._open -= 1

    async def _exchange(self, stream: trio.SocketStream) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            if len(head) > MAX_HEAD_BYTES:
                return await stream.send_all(response(TOO_LARGE))
            if not (more := await stream.receive_some(MAX_HEAD_BYTES)):
                return None
            head += more
        what, answer = judge(head)
        is_wanted = answer is not None and answer.is_for(self._state) and self.answer is None
        if answer is not None and not is_wanted:
            what = NOT_MEANT
        try:
            await stream.send_all(response(what))
            await stream.send_eof()
        finally:
            # The page matters less than the answer, which is good for one time.
            if is_wanted:
                self.offer(answer)


def judge(head: bytes) -> tuple[tuple[str, str, str], Answer | None]:
    """Return what to say to a request, and the answer in it."""
    method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    target, _, version = rest.partition(" ")
    if not version.startswith("HTTP/1."):
        return NOT_MEANT, None
    try:
        parts = urlsplit(target)
    except ValueError:
        return NOT_MEANT, None
    if parts.path != PATH:
        return NOT_FOUND, None
    if method != "GET":
        return NOT_ALLOWED, None
    answer = read_query(parts.query)
    if answer is None:
        return NOT_MEANT, None
    return (REFUSED if answer.error else RECEIVED), answer


def response(what: tuple[str, str, str]) -> bytes:
    """Return a whole response."""
    status, title, text = what
    body = _PAGE.format(title=title, text=text).encode()
    return f"HTTP/1.1 {status}\r\n{_HEADERS}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def listen(port: int = 0) -> Callback:
    """Return a callback that listens on this machine alone; 0 is any free port.

    Raises:
        PortTaken: Somebody else has that port.
    """
    try:
        (listener,) = await trio.open_tcp_listeners(port, host=HOST, backlog=MAX_CONNECTIONS)
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            raise PortTaken(f"port {port} of {HOST} cannot be listened on: {error.strerror}") from None
        raise
    return Callback(listener)
