"""A guardian and our end of its link, driven frame by frame; and what the system knows of its processes."""

from __future__ import annotations

import array
import contextlib
import gc
import marshal
import os
import secrets
import select
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from mcpd import guardian
from mcpd.upstream.launch import launch
from tests.upstream.deaf import SIZES

DEAF = os.path.join(os.path.dirname(__file__), "deaf.py")
# Nothing here takes long; a machine that does ten things at once makes it look so.
PATIENCE_SECONDS = 20.0
LOOK_SECONDS = 0.005
# A process that moves can slip through one look at all of them, not through so many.
LOOKS = 6

T = TypeVar("T")


def until(condition: Callable[[], T], *, seconds: float = PATIENCE_SECONDS) -> T:
    """Return the first true value of `condition`; the one place where time passes."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {value!r}"
        time.sleep(LOOK_SECONDS)
    return value


def new_scope() -> int:
    """Return the number of a place that nobody else has."""
    return secrets.randbelow(1 << 24)


def new_token() -> str:
    """Return a word by which the processes of one server can be told from all others."""
    return f"token-{secrets.token_hex(8)}"


def living(token: str) -> list[int]:
    """Return the processes with that word in their command line, the oldest first; what has ended has none.

    Looks at the youngest first: what moves is somebody else by the time all others have been looked at.
    """
    found: list[int] = []
    for pid in sorted(map(int, filter(str.isdigit, os.listdir("/proc"))), reverse=True):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
            if token.encode() in file.read():
                found.insert(0, pid)
    return found


def nothing_left(token: str) -> bool:
    """Whether no process with that word is there, however often one looks."""
    return not any(living(token) for _ in range(LOOKS))


def fds_of(pid: int) -> list[str]:
    """Return the numbers of the descriptors of a process, without the one that this takes."""
    gc.collect()  # what earlier tests have dropped is closed now, not later
    found = os.listdir(f"/proc/{pid}/fd")
    return found if pid != os.getpid() else found[:-1]


@dataclass
class Server:
    """What a spawn has given: our ends of the pipes, and what the guardian has answered."""

    token: str
    stdin: int
    stdout: int
    stderr: int
    request: int
    answer: tuple[Any, ...] = ()
    pidfd: int | None = None

    @property
    def pid(self) -> int:
        """The leader's."""
        assert self.answer[0] == "spawned", self.answer
        pid: int = self.answer[2]
        return pid

    def exited(self) -> Server:
        """Wait until the leader has exited."""
        assert self.pidfd is not None
        assert select.select([self.pidfd], [], [], PATIENCE_SECONDS)[0]
        return self

    def read(self) -> bytes:
        """Return all that it writes until its end."""
        with open(self.stdout, "rb", closefd=False) as file:
            return file.read()

    def close(self) -> None:
        """Let go of its pipes and its pidfd."""
        for fd in (self.stdin, self.stdout, self.stderr, self.pidfd):
            if fd is not None:
                os.close(fd)


@dataclass
class Link:
    """A guardian of our own."""

    scope: int = field(default_factory=new_scope)
    instance: int = 1

    def __post_init__(self) -> None:
        self.pid, self.sock = launch(self.scope, self.instance)
        self.sock.settimeout(PATIENCE_SECONDS)
        self._buffer = bytearray()
        self._fds: list[int] = []
        self._early: list[tuple[Any, ...]] = []
        self._last = 0
        self.servers: list[Server] = []

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()
        guardian.kill_tree(self.pid)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        for server in self.servers:
            server.close()

    def close(self) -> None:
        """Be a daemon that has died. Idempotent."""
        self.sock.close()

    def died(self) -> None:
        """Wait for the guardian's end."""
        os.waitpid(self.pid, 0)

    # -- frames ----------------------------------------------------------------------------------

    def frame(self, kind: str, *rest: int) -> tuple[int, bytes]:
        """Return a request as bytes, and its number."""
        self._last += 1
        body = marshal.dumps((kind, self._last, *rest))
        return self._last, len(body).to_bytes(guardian.HEAD_BYTES, "big") + body

    def send(self, data: bytes, fds: Sequence[int] = ()) -> None:
        """Send bytes, with descriptors perhaps."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        assert self.sock.sendmsg([data], rights) == len(data)

    def receive(self) -> tuple[Any, ...]:
        """Return the next frame; a pidfd that comes with it waits in the order of its coming."""
        while len(self._buffer) < guardian.HEAD_BYTES or len(self._buffer) < self._size():
            data, ancillary, _, _ = self.sock.recvmsg(1 << 16, 1024)
            assert data, "the guardian has ended"
            self._buffer += data
            for _, _, content in ancillary:
                self._fds += array.array("i", content)
        size = self._size()
        frame: tuple[Any, ...] = marshal.loads(bytes(self._buffer[guardian.HEAD_BYTES : size]))
        del self._buffer[:size]
        return frame

    def _size(self) -> int:
        return guardian.HEAD_BYTES + int.from_bytes(self._buffer[: guardian.HEAD_BYTES], "big")

    def wait(self, request: int) -> tuple[Any, ...]:
        """Return the answer to one request; other answers wait for their turn."""
        for frame in self._early:
            if frame[1] == request:
                self._early.remove(frame)
                return frame
        while (frame := self.receive())[1] != request:
            self._early.append(frame)
        return frame

    # -- servers ---------------------------------------------------------------------------------

    def ask(
        self, argv: Sequence[str], env: Mapping[str, str] | None = None, cwd: str = "/", token: str = ""
    ) -> tuple[Server, bytes, list[int]]:
        """Prepare the request for a server: what will be known of it, the bytes, and its ends of the pipes."""
        (in_r, in_w), (out_r, out_w), (err_r, err_w) = (os.pipe() for _ in range(3))
        content = os.memfd_create("spawn")
        os.write(content, marshal.dumps((list(argv), dict(env or {}), cwd)))
        os.lseek(content, 0, os.SEEK_SET)
        request, data = self.frame("spawn")
        server = Server(token, in_w, out_r, err_r, request)
        self.servers.append(server)
        return server, data, [in_r, out_w, err_w, content]

    def spawn(self, argv: Sequence[str], **more: Any) -> Server:
        """Ask for a server and wait for the answer, whatever it is."""
        server, data, fds = self.ask(argv, **more)
        self.send(data, fds)
        for fd in fds:
            os.close(fd)
        return self.answered(server)

    def answered(self, server: Server) -> Server:
        """Wait for the answer to a request for a server."""
        server.answer = self.wait(server.request)
        if server.answer[0] == "spawned":
            server.pidfd = self._fds.pop(0)
        return server

    def deaf(self, kind: str) -> Server:
        """Start a server of a kind, and wait until all of its processes are there."""
        token = new_token()
        argv = [sys.executable, "-I", "-S", DEAF, kind, token]
        server = self.spawn(argv, env={"PATH": "/usr/bin:/bin"}, token=token)
        assert server.answer[0] == "spawned", server.answer
        assert os.read(server.stdout, 3) == b"up\n"
        until(lambda: len(living(token)) == SIZES[kind])
        return server

    def run(self, *argv: str) -> tuple[bytes, object]:
        """Let a program run to its end; return what it has written, and its wait status."""
        server = self.spawn(argv)
        return server.read(), self.end(server.exited())

    def mark(self, number: int) -> int:
        """Return the mark of the server with that number, counted from its first one."""
        return guardian.mark_of(self.scope, self.instance, number)

    def end(self, server: Server) -> object:
        """Have a server ended, and return its leader's wait status."""
        request, data = self.frame("end", server.pid)
        self.send(data)
        kind, _, status = self.wait(request)
        assert kind == "ended"
        return status
