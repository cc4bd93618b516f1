"""A blocking client of the daemon, for scripts and for the command line.

One connection, one request at a time; threads may share a client and take turns. A request that runs
into its timeout closes the connection, since half a line may be on its way; open a new client then.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time

from mcpd_client import autostart as starting
from mcpd_client.errors import ConnectionLost, RequestFailed, RequestTimeout
from mcpd_client.waiting import Link, Waiting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any, Self

    from mcpd_client.connection import Reply
    from mcpd_client.waiting import OnNotification, OnRequest

PROTOCOL_VERSION = 1
# The largest page of a list that the daemon gives.
PAGE_ITEMS = 100
# How much later than the daemon's own deadline a call is given up here: time for its answer to arrive.
GRACE_SECONDS = 10.0


class Client:
    """A connection to the daemon; a context manager.

    Args:
        path: the socket; by default found by the address rule.
        autostart: start a daemon if there is none; MCPD_NO_AUTOSTART=1 forbids it.
        timeout: seconds that a request may take if it does not say otherwise; None is for ever.
        project: the folder that decides which project's servers are meant; by default the daemon
            takes the working directory of this process.
        command: what starts a daemon; see `autostart.connect`.
        capabilities: what the daemon may ask of this client, as in `{"elicitation": {"form": {}}}`; they
            are declared when it connects.
        on_request: called with a `ServerRequest` when the daemon asks something while a request waits. What it
            returns is the result. It may raise `RequestRefused` to answer with an error, and must not use this
            client. Without it everything is refused at once.
    """

    def __init__(
        self,
        path: str | None = None,
        autostart: bool = True,
        timeout: float | None = None,
        *,
        project: str | None = None,
        command: Sequence[str] | None = None,
        capabilities: Mapping[str, object] | None = None,
        on_request: OnRequest | None = None,
    ) -> None:
        self._path = path
        self._command = command
        self._autostart = autostart
        self._timeout = timeout
        self._project = project
        self._capabilities = capabilities
        self._on_request = on_request
        self._lock = threading.Lock()
        self._link = Link()

    @classmethod
    def adopt(cls, sock: socket.socket, request_id: int, received: bytes) -> Self:
        """Return a client that goes on with a connection over which one request has been sent already."""
        client = cls(autostart=False)
        client._link.sock = sock
        client._link.core.adopt(request_id)
        if received:
            client._link.core.receive_data(received)
        return client

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def peer_pid(self) -> int:
        """Return the process that listened on the socket when it was set up, as the kernel says."""
        assert self._link.sock is not None  # noqa: S101
        return int.from_bytes(self._link.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], sys.byteorder)

    def connect(self) -> None:
        """Connect now instead of with the first request; does nothing if that has been done.

        Raises:
            DaemonNotRunning: nobody listens, and none was or could be started.
            AddressError: the path of the socket cannot be used.
        """
        with self._lock:
            self._open()

    def close(self) -> None:
        """Close the connection, which cancels what is running; may be called from another thread."""
        self._link.close(ConnectionLost("the client has been closed", may_have_run=self._link.core.has_pending))

    def request(
        self,
        method: str,
        params: object = None,
        *,
        timeout: float | None = None,
        on_notification: OnNotification | None = None,
        on_request: OnRequest | None = None,
    ) -> Any:
        """Return the result of one request.

        Args:
            method: any method of the socket.
            params: what JSON can say; None is an empty object.
            timeout: seconds; None is the client's own.
            on_notification: called with method and params of each notification that comes meanwhile.
            on_request: called for each request of the daemon that comes meanwhile; default is the client's own.

        Raises:
            RequestFailed: the daemon answered with an error.
            RequestTimeout: nothing came in time; the connection is closed.
            ConnectionLost: the connection ended.
        """
        return self.request_reply(
            method, params, timeout=timeout, on_notification=on_notification, on_request=on_request
        ).result

    def request_reply(
        self,
        method: str,
        params: object = None,
        *,
        timeout: float | None = None,
        on_notification: OnNotification | None = None,
        on_request: OnRequest | None = None,
    ) -> Reply:
        """Like `request`, but return the whole reply, which also has the result's own text."""
        with self._lock:
            self._open()
            seconds = self._timeout if timeout is None else timeout
            return self._exchange(method, params, seconds, on_notification, on_request)

    def wait_reply(
        self,
        request_id: int,
        on_notification: OnNotification | None = None,
        on_request: OnRequest | None = None,
    ) -> Reply:
        """Wait for the reply to a request that somebody else has sent (see `adopt`)."""
        with self._lock:
            return Waiting(self._link, request_id, None, on_notification, on_request or self._on_request).reply()

    def follow(self, on_notification: OnNotification) -> None:
        """Hand on notifications until the connection ends; ends with ConnectionLost."""
        # No request has the id 0, so that only the end of the connection ends this.
        self.wait_reply(0, on_notification)

    def hello(self, **members: object) -> Any:
        """Introduce this client; `members` are more of the parameters of `mcpd/hello`."""
        return self.request("mcpd/hello", {**self._introduction(), **members})

    def servers(self, *, every: bool = False) -> list[dict[str, Any]]:
        """Return one row per server; with `every` also those of other projects."""
        rows: list[dict[str, Any]] = self.request("mcpd/servers", {"all": True} if every else {})["servers"]
        return rows

    def status(self) -> Any:
        """Return `{daemon, servers}`."""
        return self.request("mcpd/status")

    def tools(self, server: str | None = None) -> list[dict[str, Any]]:
        """Return the tools of one server or of all, all pages of them."""
        params: dict[str, object] = {"limit": PAGE_ITEMS} if server is None else {"limit": PAGE_ITEMS, "server": server}
        items: list[dict[str, Any]] = []
        offset: int | None = 0
        while offset is not None:
            page = self.request("mcpd/tools", {**params, "offset": offset})
            items += page["items"]
            offset = page.get("nextOffset")
        return items

    def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, object] | None = None,
        *,
        timeout: float | None = None,
        max_bytes: int | None = None,
        on_notification: OnNotification | None = None,
    ) -> Any:
        """Call a tool and return its result, cut to `max_bytes` of text; see `pages` for the rest.

        Args:
            server: its name.
            tool: its name there.
            arguments: as the tool's schema wants them.
            timeout: seconds; the daemon cancels the tool then.
            max_bytes: how much text to return at once; None leaves it to the daemon.
            on_notification: called for each notification that comes meanwhile.
        """
        params: dict[str, object] = {"server": server, "tool": tool, "arguments": dict(arguments or {})}
        if timeout is not None:
            params["timeout"] = timeout
        if max_bytes is not None:
            params["max_bytes"] = max_bytes
        # The daemon keeps the deadline and knows what became of the tool; this limit is for a daemon that does not.
        wait_seconds = None if timeout is None else timeout + GRACE_SECONDS
        return self.request("mcpd/call", params, timeout=wait_seconds, on_notification=on_notification)

    def fetch(self, handle: str, *, offset: int | None = None, max_bytes: int | None = None) -> Any:
        """Return the next part of a result that was cut, in the shape of a result."""
        given = {"handle": handle, "offset": offset, "max_bytes": max_bytes}
        return self.request("mcpd/fetch", {key: value for key, value in given.items() if value is not None})

    def pages(self, result: Any) -> Iterator[Any]:
        """Yield `result` and then, part by part, what was cut off it."""
        yield result
        view = view_of(result)
        while (handle := view.get("handle")) is not None and (offset := view.get("nextOffset")) is not None:
            result = self.fetch(handle, offset=offset)
            view = {"handle": handle, **view_of(result)}
            yield result

    def _open(self) -> None:
        if self._link.sock is not None or self._link.core.closed:
            return
        may_start = self._autostart and not starting.is_forbidden(os.environ)
        self._link.sock = starting.connect(self._path, autostart=may_start, command=self._command)
        if self._capabilities is not None:
            # Before anything else: what a request may ask back is decided when it comes.
            try:
                self._exchange("mcpd/hello", self._introduction(), self._timeout, None, None)
            except RequestFailed as error:
                self._link.close(error)
                raise

    def _introduction(self) -> dict[str, object]:
        params: dict[str, object] = {
            "version": PROTOCOL_VERSION,
            "client": {"name": "mcpd_client", "pid": os.getpid()},
        }
        if self._project is not None:
            params["project"] = self._project
        if self._capabilities is not None:
            params["capabilities"] = dict(self._capabilities)
        return params

    def _exchange(
        self,
        method: str,
        params: object,
        seconds: float | None,
        on_notification: OnNotification | None,
        on_request: OnRequest | None,
    ) -> Reply:
        deadline = None if seconds is None else time.monotonic() + seconds
        request_id, data = self._link.core.start(method, params)
        try:
            self._link.send_request(data, deadline)
            return Waiting(self._link, request_id, deadline, on_notification, on_request or self._on_request).reply()
        except TimeoutError:
            error = RequestTimeout(f"the daemon did not answer {method} within {seconds:g} s")
            self._link.close(error)
            raise error from None
        except RequestFailed:
            raise
        except BaseException:
            # Lost, or interrupted in the middle: closing tells the daemon to stop.
            self.close()
            raise


def view_of(result: Any) -> dict[str, Any]:
    """Return what a bounded result says about itself: bytes, shown, truncated, handle, nextOffset."""
    view: dict[str, Any] = (result.get("_meta") or {}).get("mcpd/view") or {}
    return view
