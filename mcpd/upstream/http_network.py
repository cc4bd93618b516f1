"""How the bytes of HTTP reach a server: trio's sockets, as the engine of httpx2 wants them.

Against the backend that the engine brings, a request leaves in one piece instead of two, nothing is
timed that has no limit, and it is known exactly whether its write has begun.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

import httpcore2
import trio


class Attempt:
    """What has become of one request so far.

    Attributes:
        began: its write has begun: the server may have it.
        fresh: its connection was made for it.
        head: of a request with a body, until that comes: empty before it was written, None afterwards.
    """

    __slots__ = ("began", "fresh", "head")

    def __init__(self) -> None:
        self.began = self.fresh = False
        self.head: bytes | None = None

    async def trace(self, event: str, info: Any) -> None:
        """Take note of what the engine does, where it does it over other sockets than these."""
        if event == "http11.send_request_headers.started":
            self.began |= info["request"].method != b"CONNECT"
        elif event == "connection.connect_tcp.started":
            self.fresh = True


# The request that the running task sends.
current: ContextVar[Attempt] = ContextVar("current")


def _limit(options: Mapping[str, Any]) -> float:
    """Return how long a step may take."""
    seconds = options.get("timeout")
    return float("inf") if seconds is None else float(seconds)


class Backend(httpcore2.AsyncNetworkBackend):
    """Makes connections."""

    async def connect_tcp(self, host: str, port: int, *_: Any, **options: Any) -> httpcore2.AsyncNetworkStream:
        """Connect to whichever of the host's addresses answers first."""
        current.get().fresh = True
        try:
            with trio.fail_after(_limit(options)):
                return Stream(await trio.open_tcp_stream(host, port))
        except trio.TooSlowError as problem:
            raise httpcore2.ConnectTimeout("timed out") from problem
        except OSError as problem:
            raise httpcore2.ConnectError(str(problem)) from problem

    async def sleep(self, seconds: float) -> None:
        """Pause."""
        await trio.sleep(seconds)


class Stream(httpcore2.AsyncNetworkStream):
    """One connection."""

    def __init__(self, stream: trio.SocketStream | trio.SSLStream[trio.SocketStream]) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, *_: Any, **options: Any) -> bytes:
        """Return what comes next; nothing at the end."""
        try:
            return bytes(await self._stream.receive_some(max_bytes))
        except (trio.BrokenResourceError, trio.ClosedResourceError) as problem:
            raise httpcore2.ReadError(str(problem)) from problem

    async def write(self, buffer: bytes, *_: Any, **options: Any) -> None:
        """Send; the head of a request waits for its body."""
        attempt = current.get()
        if attempt.head is not None:
            if not attempt.head:
                attempt.head = buffer
                return
            buffer, attempt.head = attempt.head + buffer, None
        if not buffer:
            return
        attempt.began = True
        try:
            await self._stream.send_all(buffer)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as problem:
            raise httpcore2.WriteError(str(problem)) from problem

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, *_: Any, **options: Any
    ) -> httpcore2.AsyncNetworkStream:
        """Agree on TLS."""
        if not isinstance(self._stream, trio.SocketStream):
            raise httpcore2.ConnectError("there is TLS already")
        stream = trio.SSLStream(self._stream, ssl_context, server_hostname=server_hostname, https_compatible=True)
        try:
            with trio.fail_after(_limit(options)):
                await stream.do_handshake()
        except trio.TooSlowError as problem:
            await trio.aclose_forcefully(stream)
            raise httpcore2.ConnectTimeout("timed out") from problem
        except trio.BrokenResourceError as problem:
            await trio.aclose_forcefully(stream)
            raise httpcore2.ConnectError(str(problem)) from problem
        except trio.Cancelled:
            await trio.aclose_forcefully(stream)
            raise
        return Stream(stream)

    def get_extra_info(self, info: str) -> Any:
        """Answer what the engine wants to know of a connection that it has kept."""
        if info == "is_readable":
            return self._socket.is_readable()
        if info == "ssl_object" and isinstance(self._stream, trio.SSLStream):
            return self._stream
        return None

    @property
    def _socket(self) -> Any:
        stream = self._stream
        return (stream.transport_stream if isinstance(stream, trio.SSLStream) else stream).socket
