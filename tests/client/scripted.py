"""A daemon that follows a script: a real Unix socket, and a thread for each connection."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Peer:
    """The daemon's end of one connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._file = sock.makefile("rb")

    def read(self) -> dict[str, Any] | None:
        """Return the next message, None at the end."""
        line = self._file.readline()
        return json.loads(line) if line else None

    def read_line(self) -> bytes:
        """Return the next line as it came, nothing at the end."""
        return self._file.readline()

    def send(self, *messages: object) -> None:
        """Send messages; bytes go out as they are."""
        for message in messages:
            data = message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
            self.sock.sendall(data)

    def answer(self, request: dict[str, Any], result: object) -> None:
        """Answer a request as the daemon would: no spaces, members in its order."""
        body = json.dumps(result, ensure_ascii=False, separators=(",", ":"))
        self.send(f'{{"jsonrpc":"2.0","id":{json.dumps(request["id"])},"result":{body}}}\n'.encode())

    def fail(self, request: dict[str, Any], code: int, message: str, **data: object) -> None:
        """Answer a request with an error."""
        error = {"code": code, "message": message, "data": data}
        self.send({"jsonrpc": "2.0", "id": request["id"], "error": error})

    def drop(self) -> None:
        """Close the connection as a process that ends does: what has not been read makes it a reset."""
        self._file.close()
        self.sock.close()

    def close(self) -> None:
        """Close the connection, also for those who read from it."""
        self._file.close()
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()


class ScriptedDaemon:
    """Listens on a path and runs a script for each connection; a context manager.

    Attributes:
        requests: every message that a script has read with `answers`, in order.
        connections: how many have been accepted.
    """

    def __init__(self, path: str, script: Callable[[Peer], None], *, backlog: int = 128) -> None:
        self.path = path
        self.requests: list[dict[str, Any]] = []
        self.connections = 0
        self.failures: list[BaseException] = []
        self._script = script
        self._backlog = backlog
        self._peers: list[Peer] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def __enter__(self) -> ScriptedDaemon:
        self._listener.bind(self.path)
        self._listener.listen(self._backlog)
        self._spawn(self._accept)
        return self

    def __exit__(self, *exc_info: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        for peer in self._peers:
            with contextlib.suppress(OSError):
                peer.sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        self._listener.close()
        assert not self.failures, self.failures

    def _spawn(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            peer = Peer(sock)
            self._peers.append(peer)
            self._spawn(self._serve, peer)

    def _serve(self, peer: Peer) -> None:
        try:
            self._script(peer)
        except (OSError, ValueError):
            pass
        except Exception as error:  # noqa: BLE001  # a thread has nobody else to tell
            self.failures.append(error)
        finally:
            peer.close()


def answers(results: dict[str, Any], seen: list[dict[str, Any]]) -> Callable[[Peer], None]:
    """Return a script that answers by method, and notes each request in `seen`.

    A value that is callable is called with peer and request; an exception's arguments are code, message
    and data of an error.
    """

    def script(peer: Peer) -> None:
        while (request := peer.read()) is not None:
            seen.append(request)
            result = results.get(request["method"], LookupError(-32601, f"no method {request['method']}", {}))
            if "id" not in request:
                continue
            if callable(result):
                result(peer, request)
            elif isinstance(result, LookupError):
                code, message, data = result.args
                peer.fail(request, code, message, **data)
            else:
                peer.answer(request, result)

    return script
