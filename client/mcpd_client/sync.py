"""A blocking client of the daemon, for scripts and for the command line.

One connection, one request at a time; threads may share a client and take turns. A request that runs
into its timeout closes the connection, since half a line may be on its way; open a new client then.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time

from mcpd_client import autostart as starting
from mcpd_client.connection import ClientConnection, Reply
from mcpd_client.errors import ClientError, ConnectionLost, RequestFailed, RequestTimeout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, NoReturn, Self

PROTOCOL_VERSION = 1
READ_BYTES = 262144
# The largest page of a list that the daemon gives.
PAGE_ITEMS = 100
# How much later than the daemon's own deadline a call is given up here: time for its answer to arrive.
GRACE_SECONDS = 10.0
# A request without a timeout may take hours; but a daemon that is silent for this long is asked whether it
# lives, and given up if it does not answer that.
PATIENCE_SECONDS = 30.0
ANSWER_SECONDS = 10.0


class Client:
    """A connection to the daemon; a context manager.

    Args:
        path: the socket; by default found by the address rule.
        autostart: start a daemon if there is none; MCPD_NO_AUTOSTART=1 forbids it.
        timeout: seconds that a request may take if it does not say otherwise; None is for ever.
        project: the folder that decides which project's servers are meant; by default the daemon
            takes the working directory of this process.
        command: what starts a daemon; see `autostart.connect`.
    """

    def __init__(
        self,
        path: str | None = None,
        autostart: bool = True,
        timeout: float | None = None,
        *,
        project: str | None = None,
        command: Sequence[str] | None = None,
    ) -> None:
        self._path = path
        self._command = command
        self._autostart = autostart
        self._timeout = timeout
        self._project = project
        self._lock = threading.Lock()
        self._connection = ClientConnection()
        self._sock: socket.socket | None = None
        # Whether nothing has come, or gone out, since the last request; and whether a ping is out.
        self._is_unread = False
        self._has_asked = False

    @classmethod
    def adopt(cls, sock: socket.socket, request_id: int, received: bytes) -> Self:
        """Return a client that goes on with a connection over which one request has been sent already."""
        client = cls(autostart=False)
        client._sock = sock
        client._connection.adopt(request_id)
        if received:
            client._connection.receive_data(received)
        return client

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def peer_pid(self) -> int:
        """Return the process that listened on the socket when it was set up, as the kernel says."""
        assert self._sock is not None  # noqa: S101
        return int.from_bytes(self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], sys.byteorder)

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
        may_have_run = self._connection.has_pending
        self._connection.close(ConnectionLost("the client has been closed", may_have_run=may_have_run))
        if (sock := self._sock) is not None:
            # Wakes a thread that is reading; closing alone would leave it there.
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def request(
        self,
        method: str,
        params: object = None,
        *,
        timeout: float | None = None,
        on_notification: Callable[[str, Any], None] | None = None,
    ) -> Any:
        """Return the result of one request.

        Args:
            method: any method of the socket.
            params: what JSON can say; None is an empty object.
            timeout: seconds; None is the client's own.
            on_notification: called with method and params of each notification that comes meanwhile.

        Raises:
            RequestFailed: the daemon answered with an error.
            RequestTimeout: nothing came in time; the connection is closed.
            ConnectionLost: the connection ended.
        """
        return self.request_reply(method, params, timeout=timeout, on_notification=on_notification).result

    def request_reply(
        self,
        method: str,
        params: object = None,
        *,
        timeout: float | None = None,
        on_notification: Callable[[str, Any], None] | None = None,
    ) -> Reply:
        """Like `request`, but return the whole reply, which also has the result's own text."""
        seconds = self._timeout if timeout is None else timeout
        deadline = None if seconds is None else time.monotonic() + seconds
        with self._lock:
            self._open()
            request_id, data = self._connection.start(method, params)
            try:
                # A send that fails has not delivered the newline: the daemon cannot run what has no end.
                self._send(data, deadline, may_have_run=False)
                self._is_unread = True
                return self._wait_reply(request_id, deadline, on_notification)
            except TimeoutError:
                error = RequestTimeout(f"the daemon did not answer {method} within {seconds:g} s")
                self._give_up(error)
                raise error from None
            except RequestFailed:
                raise
            except BaseException:
                # Lost, or interrupted in the middle: closing tells the daemon to stop.
                self.close()
                raise

    def wait_reply(self, request_id: int, on_notification: Callable[[str, Any], None] | None = None) -> Reply:
        """Wait for the reply to a request that somebody else has sent (see `adopt`)."""
        with self._lock:
            return self._wait_reply(request_id, None, on_notification)

    def follow(self, on_notification: Callable[[str, Any], None]) -> None:
        """Hand on notifications until the connection ends; ends with ConnectionLost."""
        # No request has the id 0, so that only the end of the connection ends this.
        self.wait_reply(0, on_notification)

    def hello(self, **members: object) -> Any:
        """Introduce this client; `members` are more of the parameters of `mcpd/hello`."""
        params: dict[str, object] = {
            "version": PROTOCOL_VERSION,
            "client": {"name": "mcpd_client", "pid": os.getpid()},
        }
        if self._project is not None:
            params["project"] = self._project
        return self.request("mcpd/hello", {**params, **members})

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
        on_notification: Callable[[str, Any], None] | None = None,
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
        if self._sock is None and not self._connection.closed:
            may_start = self._autostart and not starting.is_forbidden(os.environ)
            self._sock = starting.connect(self._path, autostart=may_start, command=self._command)

    def _send(self, data: bytes, deadline: float | None, *, may_have_run: bool) -> None:
        """Send all of `data`; `may_have_run` says what is true of the request under way if that fails."""
        assert self._sock is not None  # noqa: S101
        self._sock.settimeout(PATIENCE_SECONDS if deadline is None else _remaining(deadline))
        try:
            self._sock.sendall(data)
        except TimeoutError:
            if deadline is not None:
                raise
            self._lose(f"it has read nothing for {PATIENCE_SECONDS:.0f} s", may_have_run=may_have_run)
        except OSError as error:
            self._lose(str(error.strerror), may_have_run=may_have_run)

    def _wait_reply(
        self, request_id: int, deadline: float | None, on_notification: Callable[[str, Any], None] | None
    ) -> Reply:
        while True:
            self._hand_on(on_notification)
            reply = self._connection.take_reply(request_id)
            if reply is not None:
                return reply
            self._receive(deadline)

    def _receive(self, deadline: float | None) -> None:
        """Take in what comes next; without a deadline, ask a daemon that is silent for long whether it is there."""
        assert self._sock is not None  # noqa: S101
        patience = ANSWER_SECONDS if self._has_asked else PATIENCE_SECONDS
        self._sock.settimeout(patience if deadline is None else _remaining(deadline))
        try:
            data = self._sock.recv(READ_BYTES)
        except TimeoutError:
            if deadline is not None:
                raise
            if self._has_asked:
                self._lose(f"no answer to a ping within {ANSWER_SECONDS:.0f} s", may_have_run=True)
            self._has_asked = True
            # From here on it may be the ping that has not been read.
            self._is_unread = False
            self._send(self._connection.ping(), None, may_have_run=True)
            return
        except OSError as error:
            # Linux reports a reset, not an end, exactly if the other side closed with bytes unread; the end of
            # the request is among them if nothing has come back for it.
            self._lose(
                str(error.strerror), may_have_run=not (self._is_unread and isinstance(error, ConnectionResetError))
            )
        self._has_asked = self._is_unread = False
        self._connection.receive_data(data)

    def _hand_on(self, on_notification: Callable[[str, Any], None] | None) -> None:
        for message in self._connection.take_incoming():
            if "id" in message:
                # Nothing was offered in a hello, so that nothing should be asked; still, silence would block.
                answer = self._connection.refuse(message["id"], "this client answers no requests")
                self._send(answer, None, may_have_run=True)
            elif on_notification is not None:
                on_notification(message["method"], message.get("params"))

    def _lose(self, reason: str, *, may_have_run: bool) -> NoReturn:
        self._give_up(ConnectionLost(f"the connection to the daemon is lost: {reason}", may_have_run=may_have_run))
        self._connection.raise_cause()

    def _give_up(self, cause: ClientError) -> None:
        self._connection.close(cause)
        self.close()


def view_of(result: Any) -> dict[str, Any]:
    """Return what a bounded result says about itself: bytes, shown, truncated, handle, nextOffset."""
    view: dict[str, Any] = (result.get("_meta") or {}).get("mcpd/view") or {}
    return view


def _remaining(deadline: float | None) -> float | None:
    if deadline is None:
        return None
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    return remaining
