"""A client of a run: calls tools until it is told that it is enough, and notes what it sent and was told.

    python client.py FOLDER SERIAL KIND SEED SERVERS MUTANT COMMAND…

Kinds: `wire` (several calls at once on one connection), `library` (the blocking client), `command` (one
`mcpd call` after the other). All of them start a daemon if there is none. A line per event goes to
`FOLDER/journal.SERIAL`, each with one write: `sent TOKEN SERVER TOOL`, `told TOKEN OUTCOME RAN MS SAID WHY`,
`stray WHAT`, and `left` at an orderly end. RAN is what the outcome says of the execution: yes, no, or `-`.
"""

from __future__ import annotations

import json
import os
import random
import select
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# An installed library comes first; without one the checkout's own is used.
sys.path.append(str(Path(__file__).parents[2] / "client"))

from mcpd_client import autostart
from mcpd_client.errors import (
    AddressError,
    ClientError,
    ConnectionLost,
    DaemonNotRunning,
    RequestFailed,
    RequestTimeout,
)
from mcpd_client.sync import Client

WINDOW = 4
THINK_SECONDS = 0.03
# Every deadline of the configuration is over long before this: who hears nothing then will never hear anything.
PATIENCE_SECONDS = 40.0
COMMAND_SECONDS = 60.0
# Who cannot leave the deadline to the configuration names it.
CALL_SECONDS = 2.0
RESENT = ("server_lost", "timeout", "shutting_down")
# Nothing may be cut: what is kept of a cut result is memory that a daemon holds on to.
MAX_BYTES = 1 << 20

# Weights of what is called: quick echoes, slow ones, big answers, big requests, and the rest.
TOOLS = (
    ("echo", 60), ("slow", 20), ("big", 5), ("pad", 5), ("fail", 3), ("refuse", 3), ("hang", 1), ("crash", 0.1),
)  # fmt: skip


@dataclass(frozen=True)
class Call:
    token: str
    server: str
    tool: str
    arguments: dict[str, Any]
    timeout: float | None
    since: float = field(default_factory=time.monotonic)

    @property
    def params(self) -> dict[str, Any]:
        chosen = {} if self.timeout is None else {"timeout": self.timeout}
        return {"server": self.server, "tool": self.tool, "arguments": self.arguments, "max_bytes": MAX_BYTES, **chosen}


class Play:
    """What all kinds of clients share: the choices, the journal, and the word that it is enough."""

    def __init__(self, folder: str, serial: str, seed: str, servers: str, mutant: str, command: list[str]) -> None:
        self.folder, self.serial, self.mutant, self.command = folder, serial, mutant, command
        self.daemon = [*command, "daemon", "--ready-fd", "3"]
        self.servers = servers.split(",")
        self.random = random.Random(f"{seed}/{serial}")
        self._journal = os.open(f"{folder}/journal.{serial}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._count = 0

    @property
    def is_over(self) -> bool:
        return os.path.exists(f"{self.folder}/enough")

    def note(self, *words: object) -> None:
        os.write(self._journal, " ".join(map(str, words)).encode() + b"\n")

    def next_call(self) -> Call:
        self._count += 1
        token, choose = f"{self.serial}-{self._count}", self.random
        what = choose.choices([name for name, _ in TOOLS], [weight for _, weight in TOOLS])[0]
        arguments: dict[str, Any] = {"token": token}
        if what == "slow":
            arguments["seconds"] = round(choose.uniform(0.02, 0.6), 3)
        elif what == "big":
            arguments["size"] = choose.randrange(1000, 100_000)
        elif what == "pad":
            arguments["pad"] = "y" * choose.randrange(1000, 150_000)
        tool = "echo" if what in ("slow", "big", "pad") else what
        call = Call(token, choose.choice(self.servers), tool, arguments, choose.choice((None, None, 0.3, 1.0)))
        self.note("sent", token, call.server, what)
        return call

    def told(self, call: Call, outcome: str, ran: object = None, said: str = "-", why: object = "") -> None:
        milliseconds = (time.monotonic() - call.since) * 1000
        word = {True: "yes", False: "no"}.get(ran, "-")  # type: ignore[call-overload]
        self.note("told", call.token, outcome, word, f"{milliseconds:.1f}", said, json.dumps(str(why)[:300]))

    def told_result(self, call: Call, result: dict[str, Any]) -> None:
        said = result["content"][0]["text"]
        self.told(call, "tool_error" if result.get("isError") else "done", said=said)

    def told_error(self, call: Call, error: dict[str, Any]) -> str:
        """Note an error of the daemon, or one that it passed on; return its class."""
        data: dict[str, Any] = error["data"] if isinstance(error.get("data"), dict) else {}
        # Errors that the client itself has made have their class outside of the data.
        kind = str(data.get("class") or error.get("class") or "upstream_error")
        said = str(data.get("token") or "-") if kind == "upstream_error" else "-"
        self.told(call, kind, data.get("may_have_run"), said, error.get("message"))
        return kind

    def rest(self, most: float) -> None:
        time.sleep(self.random.uniform(0, most))


class Wire:
    """Several calls at once on a connection of its own making, until that is lost or to be left."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.pending: dict[int, Call] = {}
        # What was given up, or sent twice in secret: an answer to it is no surprise, but only one.
        self.silent: set[int] = set()
        self.last_id = 0
        self.is_leaving = False
        self.next_at = 0.0
        self.buffer = bytearray()

    def run(self) -> None:
        try:
            self.sock = autostart.connect(command=self.play.daemon)
        except (DaemonNotRunning, AddressError) as problem:
            self.play.note("unreachable", json.dumps(str(problem)))
            self.play.rest(0.3)
            return
        with self.sock:
            self.sock.settimeout(PATIENCE_SECONDS)
            try:
                self._talk()
            except OSError as problem:
                self._lose(problem)

    def _talk(self) -> None:
        while not self._is_done():
            self._fill()
            if select.select([self.sock], [], [], 0.02)[0]:
                chunk = self.sock.recv(1 << 18)
                if not chunk:
                    self._lose("end of stream")
                    return
                self.buffer += chunk
                self._lines()
            if any(time.monotonic() - call.since > PATIENCE_SECONDS for call in self.pending.values()):
                self._lose("silence", "no_answer")
                return

    def _is_done(self) -> bool:
        self.is_leaving |= self.play.is_over
        return self.is_leaving and not self.pending

    def _fill(self) -> None:
        now = time.monotonic()
        while len(self.pending) < WINDOW and not self.is_leaving and now >= self.next_at:
            self._send(self.play.next_call())
            self.next_at = now + self.play.random.uniform(0, THINK_SECONDS)
            if self.play.random.random() < 0.01:
                self._cancel()

    def _send(self, call: Call) -> int:
        self.last_id += 1
        message = {"jsonrpc": "2.0", "id": self.last_id, "method": "mcpd/call", "params": call.params}
        self.pending[self.last_id] = call  # before it is sent, since that may fail half-way
        self.sock.sendall(json.dumps(message).encode() + b"\n")
        return self.last_id

    def _cancel(self) -> None:
        request_id = self.play.random.choice(list(self.pending))
        self.silent.add(request_id)
        self.play.told(self.pending.pop(request_id), "cancelled")
        message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id}}
        self.sock.sendall(json.dumps(message).encode() + b"\n")

    def _lines(self) -> None:
        while (end := self.buffer.find(b"\n")) >= 0:
            line = bytes(self.buffer[:end])
            del self.buffer[: end + 1]
            self._take(line)

    def _take(self, line: bytes) -> None:
        message = json.loads(line)
        request_id = message.get("id")
        call = self.pending.pop(request_id, None)
        if call is None:
            if request_id in self.silent:
                self.silent.discard(request_id)
            else:
                self.play.note("stray", line[:300].decode(errors="replace"))
        elif "result" in message:
            self.play.told_result(call, message["result"])
        else:
            kind = self.play.told_error(call, message["error"])
            self.is_leaving |= kind == "shutting_down"
            if self.play.mutant == "resend" and kind in RESENT:
                request_id = self._send(call)
                del self.pending[request_id]
                self.silent.add(request_id)

    def _lose(self, why: object, outcome: str = "connection_lost") -> None:
        for call in self.pending.values():
            self.play.told(call, outcome, why=why)
        self.pending.clear()


class Library:
    """One call after the other with the blocking client."""

    def __init__(self, play: Play) -> None:
        self.play = play

    def run(self) -> None:
        try:
            with Client(command=self.play.daemon) as client:
                while not self.play.is_over and self._call(client):
                    self.play.rest(THINK_SECONDS)
        except ClientError as problem:
            self.play.note("unreachable", json.dumps(str(problem)))
        self.play.rest(0.1)

    def _call(self, client: Client) -> bool:
        """Do one call; say whether the connection can go on."""
        call = self.play.next_call()
        try:
            result = client.call(call.server, call.tool, call.arguments, timeout=call.timeout or CALL_SECONDS, max_bytes=MAX_BYTES)
        except RequestFailed as problem:
            error = {"message": problem.message, "data": problem.data}
            return self.play.told_error(call, error) != "shutting_down"
        except ConnectionLost as problem:
            self.play.told(call, "connection_lost", problem.may_have_run, why=problem)
        except RequestTimeout as problem:
            self.play.told(call, "no_answer", why=problem)
        except ClientError as problem:
            self.play.told(call, problem.kind, False if isinstance(problem, DaemonNotRunning) else None, why=problem)
        else:
            self.play.told_result(call, result)
            return True
        return False


class Command:
    """One `mcpd call` after the other."""

    def __init__(self, play: Play) -> None:
        self.play = play

    def run(self) -> None:
        call = self.play.next_call()
        arguments = {key: value for key, value in call.arguments.items() if key != "pad"}
        words = [call.server, call.tool, "--json", "--args", json.dumps(arguments)]
        words += ["--timeout", str(call.timeout or CALL_SECONDS), "--max-bytes", str(MAX_BYTES)]
        child = subprocess.Popen(
            [*self.play.command, "call", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            out, err = child.communicate(timeout=COMMAND_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            self.play.told(call, "no_answer", why="the command does not end")
            return
        self._read(call, child.returncode, out, err)
        self.play.rest(10 * THINK_SECONDS)

    def _read(self, call: Call, status: int, out: bytes, err: bytes) -> None:
        try:
            if status in (0, 5) and out:
                self.play.told_result(call, json.loads(out))
            else:
                self.play.told_error(call, json.loads(err)["error"])
        except (ValueError, LookupError, TypeError) as problem:
            self.play.told(call, "unreadable", why=f"{problem!r} {status} {out[:200]!r} {err[:200]!r}")


KINDS: dict[str, Any] = {"wire": Wire, "library": Library, "command": Command}


def main() -> None:
    folder, serial, kind, seed, servers, mutant, *command = sys.argv[1:]
    play = Play(folder, serial, seed, servers, mutant, command)
    while not play.is_over:
        KINDS[kind](play).run()
    play.note("left")


if __name__ == "__main__":
    main()
