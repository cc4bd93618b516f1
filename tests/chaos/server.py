"""A tiny MCP server that notes what it executes and has the faults of its kind.

    python server.py FOLDER NAME KIND [MUTANT]

Kinds: `plain`, `modern` (speaks 2026-07-28 only), `family` (has a grandchild in a session of its own),
`deaf` (ignores the end of its input and SIGTERM), `slow` (takes its time to start), `crashing` (ends by
itself, again and again). SIGUSR1 makes any of them hang for good, SIGUSR2 makes it write garbage, SIGHUP
makes it slow for a while. Two lines per execution go to `FOLDER/ledger.NAME`: when it begins and ends.
"""

from __future__ import annotations

import heapq
import json
import os
import random
import resource
import select
import signal
import sys
import time
from typing import Any, NoReturn

RLIMIT_RTTIME = 15
START_SECONDS = 0.7
SLUGGISH_SECONDS = 2.0
DELAY_SECONDS = 0.3
WRONG_ONE_IN = 40
MODERN, LEGACY = "2026-07-28", "2025-11-25"
ABOUT = {"capabilities": {"tools": {}}, "serverInfo": {"name": "chaos", "version": "1"}}
TEXT, NUMBER = {"type": "string"}, {"type": "number"}
ARGUMENTS = {"token": TEXT, "seconds": NUMBER, "size": {"type": "integer"}, "pad": TEXT}
TOOLS = ("echo", "hang", "crash", "fail", "refuse")


class Server:
    def __init__(self, folder: str, name: str, kind: str, mutant: str) -> None:
        self.folder, self.kind, self.mutant = folder, kind, mutant
        self.ledger = os.open(f"{folder}/ledger.{name}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.due: list[tuple[float, int, Any, str, int]] = []
        self.running: dict[Any, str] = {}
        self.numbers = self.answers = 0
        self.last_token = ""
        self.sluggish_until = self.ends_at = 0.0
        self.has_garbage = False

    def note(self, word: str, token: str) -> None:
        os.write(self.ledger, f"{word} {token} {time.monotonic():.3f} {os.getpid()}\n".encode())

    # -- its faults ------------------------------------------------------------------------------

    def begin(self) -> None:
        signal.signal(signal.SIGUSR1, self.hang)
        signal.signal(signal.SIGUSR2, self.plan_garbage)
        signal.signal(signal.SIGHUP, self.be_slow)
        match self.kind:
            case "family":
                have_grandchild(self.folder, keeps_mark=self.mutant != "leak")
            case "deaf":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            case "slow":
                time.sleep(START_SECONDS)
            case "crashing":
                if random.random() < 0.3:
                    sys.exit(3)
                self.ends_at = time.monotonic() + random.uniform(0.1, 2.0)

    def hang(self, *_: object) -> NoReturn:
        while True:
            time.sleep(1000)

    def be_slow(self, *_: object) -> None:
        self.sluggish_until = time.monotonic() + SLUGGISH_SECONDS

    def plan_garbage(self, *_: object) -> None:
        self.has_garbage = True

    def garbage(self) -> None:
        self.has_garbage = False
        lines = [b"not a message at all", b"\xff\xfe\x00\x01", b'{"jsonrpc":"2.0","id":', b"[1,2", b"[]", b"null", b"{}"]
        lines += [b'{"jsonrpc":"2.0","id":987654321,"result":{"content":[]}}', b'{"jsonrpc":"2.0","id":null,"result":{}}']
        lines += [b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}', b"x" * 100_000]
        lines += [b'{"jsonrpc":"2.0","id":"q1","method":"roots/list"}', b'{"jsonrpc":"2.0","id":7,"method":"ping"}']
        # The cut-off twin of an answer that is still to come.
        lines += [b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"ty' % one for one in list(self.running)[:1]]
        random.shuffle(lines)
        self.write(b"\n".join(lines) + b"\n")

    # -- the protocol ----------------------------------------------------------------------------

    def run(self) -> None:
        buffer = bytearray()
        while True:
            if self.has_garbage:
                self.garbage()
            if not select.select([0], [], [], self.wake())[0]:
                continue
            chunk = os.read(0, 1 << 16)
            if not chunk:
                if self.kind == "deaf":
                    self.hang()
                return
            buffer += chunk
            while (end := buffer.find(b"\n")) >= 0:
                line = bytes(buffer[:end])
                del buffer[: end + 1]
                self.take(json.loads(line))

    def wake(self) -> float:
        """Answer what is due; return for how long nothing will be."""
        now = time.monotonic()
        if self.ends_at and now > self.ends_at:
            sys.exit(4)
        while self.due and self.due[0][0] <= now:
            _, _, request_id, token, size = heapq.heappop(self.due)
            if self.running.pop(request_id, None) is not None:
                self.note("end", token)
                self.answer(request_id, token, size)
        return min(0.2, self.due[0][0] - now) if self.due else 0.2

    def take(self, message: dict[str, Any]) -> None:
        request_id, params = message.get("id"), message.get("params") or {}
        match message.get("method"):
            case "notifications/cancelled":
                self.running.pop(params.get("requestId"), None)
            case _ if request_id is None:
                pass
            case "initialize" if self.kind != "modern":
                self.send(request_id, result={"protocolVersion": LEGACY, **ABOUT})
            case "server/discover" if self.kind == "modern":
                self.send(request_id, result={"supportedVersions": [MODERN], **ABOUT})
            case "ping":
                self.send(request_id, result={})
            case "tools/list":
                schema = {"type": "object", "properties": ARGUMENTS, "required": ["token"]}
                self.send(request_id, result={"tools": [{"name": tool, "inputSchema": schema} for tool in TOOLS]})
            case "tools/call":
                self.call(request_id, params["name"], params.get("arguments") or {})
            case None:
                pass
            case method:
                self.send(request_id, error={"code": -32601, "message": f"no method {method}"})

    def call(self, request_id: Any, tool: str, arguments: dict[str, Any]) -> None:
        token = arguments["token"]
        self.note("begin", token)
        match tool:
            case "crash":
                os._exit(5)
            case "fail":
                self.note("end", token)
                self.send(request_id, error={"code": -32000, "message": "failed as asked", "data": {"token": token}})
            case "refuse":
                self.note("end", token)
                self.send(request_id, result={"content": [{"type": "text", "text": token}], "isError": True})
            case "hang":
                self.running[request_id] = token
            case _:
                delay = arguments.get("seconds", 0.0)
                if time.monotonic() < self.sluggish_until:
                    delay += DELAY_SECONDS
                self.running[request_id] = token
                self.numbers += 1
                entry = time.monotonic() + delay, self.numbers, request_id, token, arguments.get("size", 0)
                heapq.heappush(self.due, entry)

    def answer(self, request_id: Any, token: str, size: int) -> None:
        self.answers += 1
        is_wrong = self.mutant == "wrong_token" and not self.answers % WRONG_ONE_IN
        content = [{"type": "text", "text": self.last_token if is_wrong else token}]
        self.last_token = token
        if size:
            content.append({"type": "text", "text": "x" * size})
        self.send(request_id, result={"content": content})

    def send(self, request_id: Any, **what: Any) -> None:
        if self.kind == "modern" and "result" in what:
            what["result"] = {"resultType": "complete", **what["result"]}
        self.write(json.dumps({"jsonrpc": "2.0", "id": request_id, **what}).encode() + b"\n")

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(1, rest) :]


def have_grandchild(folder: str, *, keeps_mark: bool) -> None:
    """Leave a grandchild behind: another session, an empty environment, perhaps with our pipes in its hands."""
    if os.fork():
        os.wait()
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    if not keeps_mark:
        resource.setrlimit(RLIMIT_RTTIME, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    if random.random() < 0.5:
        os.closerange(0, 3)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.execve("/bin/sleep", [f"{folder}/grandchild", "100000"], {})


if __name__ == "__main__":
    folder, name, kind, *mutant = sys.argv[1:]
    server = Server(folder, name, kind, "".join(mutant))
    server.begin()
    try:
        server.run()
    except BrokenPipeError:
        os._exit(6)
