"""A server that notes in a file whatever it runs, and misbehaves as it is told: `ledger_server.py LEDGER [HOW…]`.

HOW: `deaf` minds neither SIGTERM nor the end of its input; `child` and `hidden` have a deaf child, in the group
or in a session of its own after a double fork; `silent` never answers anything, `broken` ends at once.
Notes are lines: `start PID`, and then the tool and the text of each call.
"""

import json
import os
import select
import signal
import sys
import time

HOUR_SECONDS = 3600
FLOOD_BYTES = 1 << 20
TOOLS = ("note", "slow", "never", "hang", "stop", "die", "big", "flood", "shout")


class Server:
    """The protocol, and what the tools do."""

    def __init__(self, ledger: str) -> None:
        self.ledger = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.sleeping: list[tuple[float, object]] = []
        self.flood = b""
        self.count = 0

    def note(self, *words: object) -> None:
        """Append a line."""
        os.write(self.ledger, (" ".join(map(str, words)) + "\n").encode())

    def say(self, identity: object, **members: object) -> None:
        """Answer a request."""
        data = memoryview(json.dumps({"jsonrpc": "2.0", "id": identity, **members}).encode() + b"\n")
        while data:
            data = data[os.write(1, data) :]

    def result(self, identity: object, text: str) -> None:
        """Answer a call."""
        self.say(identity, result={"content": [{"type": "text", "text": text}]})

    def run(self) -> None:
        """Serve until the end of input."""
        rest = b""
        while True:
            now = time.monotonic()
            for when, identity in [one for one in self.sleeping if one[0] <= now]:
                self.sleeping.remove((when, identity))
                self.result(identity, "awake")
            wait = min((when - now for when, _ in self.sleeping), default=None)
            if select.select([0], [], [], 0 if self.flood else wait)[0]:
                if not (data := os.read(0, 1 << 20)):
                    return
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self.take(json.loads(line))
            elif self.flood:
                os.write(1, self.flood)

    def take(self, message: dict) -> None:
        """Handle one message."""
        identity, params = message.get("id"), message.get("params") or {}
        match message["method"]:
            case "tools/call":
                self.call(identity, params["name"], params.get("arguments") or {})
            case "tools/list":
                schema = {"type": "object"}
                self.say(identity, result={"tools": [{"name": name, "inputSchema": schema} for name in TOOLS]})
            case "initialize":
                about = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
                self.say(identity, result={**about, "serverInfo": {"name": "ledger", "version": "1"}})
            case "ping":
                self.say(identity, result={})
            case _ if identity is not None:
                self.say(identity, error={"code": -32601, "message": "method not found"})

    def call(self, identity: object, tool: str, given: dict) -> None:
        """Note a call, and do what its tool is for."""
        text = given.get("text", "")
        self.note(tool, text)
        match tool:
            case "note":
                self.result(identity, text)
            case "slow":
                self.sleeping.append((time.monotonic() + given.get("seconds", HOUR_SECONDS), identity))
            case "hang":
                time.sleep(HOUR_SECONDS)
            case "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "big":
                self.result(identity, "x" * given["n"])
            case "flood":
                params = {"level": "info", "data": "x" * 900}
                note = {"jsonrpc": "2.0", "method": "notifications/message", "params": params}
                line = json.dumps(note).encode() + b"\n"
                self.flood = line * (FLOOD_BYTES // len(line))
                self.result(identity, "it comes")
            case "shout":
                os.write(2, b"y" * given["n"])
                self.result(identity, "shouted")


def be_deaf() -> None:
    """Mind no polite signal."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def start_child(*, hidden: bool) -> None:
    """Have a deaf child that outlives its parent."""
    child = os.fork()
    if child:
        if hidden:
            os.waitpid(child, 0)
        return
    be_deaf()
    if hidden:
        os.setsid()
        if os.fork():
            os._exit(0)
    time.sleep(HOUR_SECONDS)


def main(ledger: str, *how: str) -> None:
    """Be a server."""
    server = Server(ledger)
    server.note("start", os.getpid())
    if "broken" in how:
        sys.exit(3)
    if "deaf" in how:
        be_deaf()
    for kind in ("child", "hidden"):
        if kind in how:
            start_child(hidden=kind == "hidden")
    if "silent" not in how:
        server.run()
    if "deaf" in how or "silent" in how:
        time.sleep(HOUR_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
