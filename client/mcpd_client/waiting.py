"""One connection over a blocking socket, and the wait for a reply while the daemon may tell and ask other things."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections import deque
from errno import EBADF

from mcpd_client.connection import ClientConnection, Reply
from mcpd_client.errors import ClientError, ConnectionLost, RequestRefused, Withdrawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, NoReturn

    OnNotification = Callable[[str, Any], None]
    OnRequest = Callable[["ServerRequest"], object]

READ_BYTES = 262144
# A request without a timeout may take hours; but a daemon that is silent for this long is asked whether it
# lives, and given up if it does not answer that.
PATIENCE_SECONDS = 30.0
ANSWER_SECONDS = 10.0
INTERNAL_ERROR = -32603

# Becomes readable when a signal comes, while `woken_by_signals`: signals are the process's, not a connection's.
_wake_fds: list[int] = []


class ServerRequest:
    """A request of the daemon, mostly a server's: `elicitation/create`, `sampling/createMessage`, `roots/list`.

    Attributes:
        method: its name.
        params: as they came; an empty object if there were none.
    """

    __slots__ = ("_wait", "method", "params")

    def __init__(self, method: str, params: object, wait: Callable[[tuple[int, ...]], None]) -> None:
        self.method = method
        self.params: dict[str, Any] = params if isinstance(params, dict) else {}
        self._wait = wait

    @property
    def server(self) -> str | None:
        """The name of the server that asks."""
        meta = self.params.get("_meta")
        name = meta.get("mcpd/server") if isinstance(meta, dict) else None
        return name if isinstance(name, str) else None

    def wait_readable(self, *fds: int) -> None:
        """Wait until one of these descriptors can be read; notifications are handed on meanwhile.

        Raises:
            Withdrawn: the daemon does not want the answer any more; let it pass.
            ClientError: the connection ended; let it pass.
        """
        self._wait(fds)


class Link:
    """The socket and the state of its protocol.

    Attributes:
        core: the connection without I/O.
        sock: None until it is connected.
    """

    def __init__(self) -> None:
        self.core = ClientConnection()
        self.sock: socket.socket | None = None
        # Whether nothing has come, or gone out, since the last request; and whether a ping is out.
        self._is_unread = False
        self._has_asked = False

    def close(self, cause: ClientError) -> None:
        """Close the connection; of several causes the first one counts. May be called from another thread."""
        self.core.close(cause)
        if (sock := self.sock) is not None:
            # Wakes a thread that is reading; closing alone would leave it there.
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def send_request(self, data: bytes, deadline: float | None) -> None:
        """Send a request."""
        # A send that fails has not delivered the newline: the daemon cannot run what has no end.
        self.send(data, deadline, may_have_run=False)
        self._is_unread = True

    def send(self, data: bytes, deadline: float | None, *, may_have_run: bool) -> None:
        """Send all of `data`; `may_have_run` says what is true of the request under way if that fails.

        Raises:
            TimeoutError: the deadline passed.
            ClientError: the connection is lost.
        """
        assert self.sock is not None  # noqa: S101
        try:
            self.sock.settimeout(PATIENCE_SECONDS if deadline is None else _remaining(deadline))
            self.sock.sendall(data)
        except TimeoutError:
            if deadline is not None:
                raise
            self._lose(f"it has read nothing for {PATIENCE_SECONDS:.0f} s", may_have_run=may_have_run)
        except OSError as error:
            self._lose(str(error.strerror), may_have_run=may_have_run)

    def receive(self, deadline: float | None) -> None:
        """Take in what comes next; without a deadline, ask a daemon that is silent for long whether it is there.

        Raises:
            TimeoutError: the deadline passed.
            ClientError: the connection is lost.
        """
        assert self.sock is not None  # noqa: S101
        patience = ANSWER_SECONDS if self._has_asked else PATIENCE_SECONDS
        try:
            if not poll((self.sock.fileno(),), patience if deadline is None else _remaining(deadline)):
                raise TimeoutError
            data = self.sock.recv(READ_BYTES)
        except TimeoutError:
            if deadline is not None:
                raise
            if self._has_asked:
                self._lose(f"no answer to a ping within {ANSWER_SECONDS:.0f} s", may_have_run=True)
            self._has_asked = True
            # From here on it may be the ping that has not been read.
            self._is_unread = False
            self.send(self.core.ping(), None, may_have_run=True)
            return
        except OSError as error:
            # Linux reports a reset, not an end, exactly if the other side closed with bytes unread; the end of
            # the request is among them if nothing has come back for it.
            self._lose(
                str(error.strerror), may_have_run=not (self._is_unread and isinstance(error, ConnectionResetError))
            )
        self._has_asked = self._is_unread = False
        self.core.receive_data(data)

    def _lose(self, reason: str, *, may_have_run: bool) -> NoReturn:
        self.close(ConnectionLost(f"the connection to the daemon is lost: {reason}", may_have_run=may_have_run))
        self.core.raise_cause()


class Waiting:
    """The wait for one reply; what comes meanwhile goes to the two callbacks.

    Args:
        link: the connection.
        request_id: the request that has been sent.
        deadline: when to give up, or None.
        on_notification: called with method and params of each notification.
        on_request: called for each request of the daemon, one at a time; without it they are refused.
    """

    def __init__(
        self,
        link: Link,
        request_id: int,
        deadline: float | None,
        on_notification: OnNotification | None,
        on_request: OnRequest | None,
    ) -> None:
        self._link = link
        self._request_id = request_id
        self._deadline = deadline
        self._on_notification = on_notification
        self._on_request = on_request
        self._requests: deque[dict[str, Any]] = deque()

    def reply(self) -> Reply:
        """Return the reply.

        Raises:
            RequestFailed: the daemon answered with an error.
            TimeoutError: the deadline passed.
            ClientError: the connection ended.
        """
        while True:
            self._hand_on()
            while self._requests:
                self._answer(self._requests.popleft())
            if (reply := self._link.core.take_reply(self._request_id)) is not None:
                return reply
            self._link.receive(self._deadline)

    def _hand_on(self) -> None:
        for message in self._link.core.take_incoming():
            if "id" in message:
                self._requests.append(message)
            elif self._on_notification is not None:
                self._on_notification(message["method"], message.get("params"))

    def _answer(self, message: dict[str, Any]) -> None:
        """Answer one request of the daemon, unless it is withdrawn before that."""
        core, request_id = self._link.core, message["id"]
        if core.withdrawal(request_id) is not None:
            core.forget(request_id)
            return
        try:
            line = self._ask(message)
        except RequestRefused as error:
            line = core.refuse(request_id, error.message, error.code)
        except Withdrawn as error:
            if core.withdrawal(request_id) is not None:
                core.forget(request_id)
                return
            # It was this client that gave up, and silence would let the server wait.
            line = core.refuse(request_id, error.message, INTERNAL_ERROR)
        except BaseException:
            self._link.close(ConnectionLost("a request of the daemon was not answered", may_have_run=True))
            raise
        self._link.send(line, None, may_have_run=True)

    def _ask(self, message: dict[str, Any]) -> bytes:
        if self._on_request is None:
            raise RequestRefused("this client answers no requests")
        request_id = message["id"]
        request = ServerRequest(message["method"], message.get("params"), lambda fds: self._wait(request_id, fds))
        return self._link.core.respond(request_id, self._on_request(request))

    def _wait(self, request_id: object, fds: tuple[int, ...]) -> None:
        """Wait for one of `fds`, see `ServerRequest.wait_readable`; what the daemon sends is taken in first."""
        while True:
            self._check_wanted(request_id)
            assert self._link.sock is not None  # noqa: S101
            sock_fd = self._link.sock.fileno()
            try:
                ready = poll((sock_fd, *fds), None if self._deadline is None else _remaining(self._deadline))
            except (OSError, TimeoutError):
                # The time is up, or another thread has just closed the connection.
                continue
            if sock_fd in ready:
                self._link.receive(None)
                self._hand_on()
            elif ready:
                return

    def _check_wanted(self, request_id: object) -> None:
        core = self._link.core
        if core.closed:
            core.raise_cause()
        if (reason := core.withdrawal(request_id)) is not None:
            raise Withdrawn(reason)
        if core.has_reply(self._request_id):
            raise Withdrawn("the request that it belonged to has ended")
        if self._deadline is not None and self._deadline <= time.monotonic():
            raise Withdrawn("the time for the request is up")


@contextlib.contextmanager
def woken_by_signals() -> Iterator[None]:
    """Let a signal end a wait even if it comes just before the wait begins; for the main thread of a program.

    Python only notes a signal when it comes, and looks at its notes between two steps of the program: a wait
    that has been entered in the meantime would last until something else ends it.
    """
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    _wake_fds.append(read)
    try:
        yield
    finally:
        _wake_fds.remove(read)
        signal.set_wakeup_fd(before)
        os.close(read)
        os.close(write)


def poll(fds: Sequence[int], seconds: float | None) -> list[int]:
    """Return which of `fds` can be read, once one can; none if the time is up.

    Raises:
        OSError: one is closed.
    """
    if min(fds) < 0:
        raise OSError(EBADF, os.strerror(EBADF))
    deadline = None if seconds is None else time.monotonic() + seconds
    poller = select.poll()
    for fd in (*fds, *_wake_fds):
        poller.register(fd, select.POLLIN)
    while True:
        ready = [fd for fd, _ in poller.poll(None if deadline is None else max(deadline - time.monotonic(), 0) * 1000)]
        found = [fd for fd in ready if fd not in _wake_fds]
        if found or not ready:
            return found
        # What the signal's handler raises has been raised by now; this one wants to go on.
        os.read(ready[0], READ_BYTES)


def _remaining(deadline: float) -> float:
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    return remaining
