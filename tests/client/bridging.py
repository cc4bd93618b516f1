"""Both neighbours of a bridge: a host that spawned it, and a daemon that it talks to."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

from tests.client.scripted import Peer, ScriptedDaemon

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_SECONDS = 30
HELLO = {"version": 1, "daemon": {"version": "0", "pid": 1}, "features": []}
INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"sampling": {}},
    "clientInfo": {"name": "h", "version": "1"},
}


def request(request_id: object, method: str, **params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def notification(method: str, **params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


class Host:
    """A host, and the bridge that it has spawned; a context manager that leaves no process."""

    def __init__(self, *arguments: str, reads: bool = True, **options: Any) -> None:
        command = [sys.executable, "-m", "mcpd_client", "bridge", *arguments]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, **options
        )
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        if reads:
            self.read_on()

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.process.kill()
        self.process.wait()
        for file in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert file is not None
            with contextlib.suppress(OSError):
                file.close()
        if self._reader.ident is not None:
            self._reader.join(PATIENCE_SECONDS)

    def read_on(self) -> None:
        """Begin to read what the bridge says."""
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(OSError, ValueError), os.fdopen(os.dup(self.process.stdout.fileno()), "rb") as file:
            for line in file:
                self._lines.put(line)
        self._lines.put(b"")

    def send(self, *messages: object) -> None:
        """Send messages; bytes go out as they are."""
        data = b"".join(each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n" for each in messages)
        assert self.process.stdin is not None
        view = memoryview(data)
        while view:
            view = view[self.process.stdin.write(view) :]

    def send_what_fits(self, data: bytes) -> int:
        """Write until the bridge takes no more; return how much it took."""
        assert self.process.stdin is not None
        fd = self.process.stdin.fileno()
        os.set_blocking(fd, False)
        sent, room = 0, select.poll()
        room.register(fd, select.POLLOUT)
        while sent < len(data) and room.poll(1000):
            with contextlib.suppress(BlockingIOError):
                sent += os.write(fd, data[sent : sent + 65536])
        os.set_blocking(fd, True)
        return sent

    def next_line(self) -> bytes:
        """Return the next line that the bridge has written, nothing at the end."""
        return self._lines.get(timeout=PATIENCE_SECONDS)

    def next(self) -> Any:
        """Return the next message that the bridge has written."""
        line = self.next_line()
        assert line, "the bridge has ended"
        return json.loads(line)

    def initialize(self, request_id: object = 1) -> Any:
        """Do the handshake; return the answer."""
        self.send(request(request_id, "initialize", **INITIALIZE))
        answer = self.next()
        self.send(notification("notifications/initialized"))
        return answer

    def hang_up(self) -> None:
        """Close the bridge's stdin."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def status(self) -> int:
        """Wait for the bridge's end; return its exit code."""
        return self.process.wait(PATIENCE_SECONDS)

    def errors(self) -> str:
        """Return what the bridge has written on stderr, once it has ended."""
        self.status()
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def memory(self) -> int:
        """Return how much memory the bridge has in use, in KiB."""
        with open(f"/proc/{self.process.pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


class Face:
    """A daemon that answers a bridge by method; what is not in `answers` is left open.

    A value of `answers` that is callable is called with peer and message. The hello is answered unless it is there.

    Args:
        path: where it listens; what is there already makes way.
        holds: whether it keeps its end of a connection open after a bridge has closed the other.
        answers: results by method, with two underscores for the slash.
    """

    def __init__(self, path: str, *, holds: bool = False, **answers: Any) -> None:
        self._holds = holds
        self._over = threading.Event()
        self._answers = {"mcpd/hello": HELLO, "initialize": {"serverInfo": {"name": "real", "version": "2"}}}
        self._answers |= {name.replace("__", "/"): value for name, value in answers.items()}
        self._seen: queue.Queue[Any] = queue.Queue()
        self._peers: queue.Queue[Peer] = queue.Queue()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        self._daemon = ScriptedDaemon(path, self._serve)

    def __enter__(self) -> Face:
        self._daemon.__enter__()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._over.set()
        self._daemon.__exit__()

    def _serve(self, peer: Peer) -> None:
        self._peers.put(peer)
        while line := peer.read_line():
            try:
                message = json.loads(line)
            except ValueError:
                message = line
            self._seen.put(message)
            if isinstance(message, dict) and "method" in message:
                self._answer(peer, message)
        self._seen.put(None)
        if self._holds:
            self._over.wait(PATIENCE_SECONDS)

    def _answer(self, peer: Peer, message: dict[str, Any]) -> None:
        answer = self._answers.get(message["method"])
        if callable(answer):
            answer(peer, message)
        elif "id" in message and (answer is not None or str(message["id"]).startswith("mcpd-bridge-")):
            peer.answer(message, {} if answer is None else answer)

    def peer(self) -> Peer:
        """Return the next connection that a bridge has made."""
        return self._peers.get(timeout=PATIENCE_SECONDS)

    def next(self) -> Any:
        """Return the next message that a bridge has sent, bytes if it is not JSON, None at the end of a connection."""
        return self._seen.get(timeout=PATIENCE_SECONDS)

    def methods(self, count: int) -> list[str]:
        """Return the methods of the next messages."""
        return [self.next().get("method") for _ in range(count)]

    def until(self, accept: Callable[[Any], bool]) -> Any:
        """Return the next message that is accepted, and forget those before it."""
        while not accept(message := self.next()):
            assert message is not None, "the connection has ended"
        return message
