"""Clients in one thread that use the same ids, tokens, URIs and offsets, and what each may get to read.

Every text carries the mark of the request that it was made for, such as `e3c1l0n17.`: client 1 of crowd 3, its first
life, its 17th request. `caller.py` judges what comes; here is what they do, and what it must have led to in the end.
"""

from __future__ import annotations

import re
import select
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from tests.integration.caller import Caller, Pending, exactly
from tests.integration.chatty import lines, started
from tests.integration.ears import LEVELS

if TYPE_CHECKING:
    from tests.integration.world import World

Json = dict[str, Any]

CALLS = ["echo", "echo", "echo", "echo", "progress", "progress", "big", "count", "pages", "cancel", "leave", "settle"]
EVERYTHING = [
    *CALLS, "ask", "ask", "ask", "read", "read", "prompt", "complete", "subscribe", "subscribe", "unsubscribe",
    "update", "update", "change", "level", "log", "log",
]  # fmt: skip
PATIENCE_SECONDS = 30.0
# More than this of one client's is refused as too much.
MOST_PENDING = 200
STEPS = 4
TIMES, PAGE_BYTES = 20, 48
URIS = ("chatty://echo/same", "chatty://note/1")
KINDS = ("tools", "prompts", "resources", "templates")
MARK = re.compile(r"e\d+c\d+l\d+n\d+\.")


class Step(NamedTuple):
    """One of the things that happen: who does what, and how much of it, which also decides where."""

    client: int
    act: str
    size: int


@dataclass
class Tally:
    """What all the crowds of a world have done.

    `given_up` are the marks of requests that were cancelled or whose client left, `numbers` what the counters of the
    servers have said.
    """

    messages: int = 0
    crowds: int = 0
    changes: int = 0
    done: Counter[str] = field(default_factory=Counter)
    given_up: set[str] = field(default_factory=set)
    numbers: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


class Crowd:
    """Some clients of one daemon, from their connection to their end."""

    SERVERS: ClassVar[dict[str, tuple[str, Json]]] = {
        "legacy": ("legacy", {}),
        "asking": ("legacy", {"interactive": ["ask"]}),
        "modern": ("modern", {}),
    }
    # How a client answers when it is asked; a mute one has not said that it can be.
    MANNERS: ClassVar[list[str]] = ["accept", "accept", "late", "decline", "cancel", "error", "mute"]

    def __init__(self, path: str, tally: Tally, manners: list[str]) -> None:
        self._path, self._tally = path, tally
        tally.crowds += 1
        self.callers = [self._open(number, manner, 0) for number, manner in enumerate(manners)]

    def _open(self, number: int, manner: str, life: int) -> Caller:
        return Caller(self._path, f"e{self._tally.crowds}c{number}l{life}n", manner, self._tally)

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *failure: object) -> None:
        for caller in self.callers:
            caller.close()

    # -- time ------------------------------------------------------------------------------------

    def turn(self, wait: float = 0.0) -> bool:
        """Write and read what can be; return whether there was anything."""
        writers = [caller.sock for caller in self.callers if caller.out]
        readable, writable, _ = select.select([caller.sock for caller in self.callers], writers, [], wait)
        for caller in self.callers:
            if caller.sock in writable:
                caller.flush()
            if caller.sock in readable:
                caller.read()
        return bool(readable)

    def until(self, most: int, *callers: Caller) -> None:
        """Wait until none of these has more than so many requests under way; with 0, nothing at all is owed to them."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while any(len(caller.pending) > most or (caller.ears.due and not most) for caller in callers):
            if not self.turn(0.02):
                for caller in self.callers:
                    caller.answer_late()
                assert time.monotonic() < deadline, "lost: " + "; ".join(
                    filter(None, map(Caller.missing, self.callers))
                )

    def settle(self) -> None:
        """Wait for everything that is owed to anybody, and let what should not come come."""
        self.until(0, *self.callers)
        for caller in self.callers:
            caller.request("ping", {}, Pending(exactly({}), "ping"))
        self.until(0, *self.callers)

    # -- what they do ----------------------------------------------------------------------------

    def warm_up(self) -> None:
        """Start every server, with somebody there who can be asked."""
        for server in self.SERVERS:
            self.callers[0].call(server, "echo", lambda mark: {"text": mark}, str)
        self.settle()

    def take(self, step: Step) -> None:
        """Do one thing, and read what there is."""
        caller = self.callers[step.client % len(self.callers)]
        self.until(MOST_PENDING, caller)
        server = list(self.SERVERS)[step.size % 3]
        self._tally.done[step.act] += 1
        getattr(self, f"_{step.act}")(caller, server, step.size // 3)
        while self.turn():
            pass

    def _echo(self, caller: Caller, server: str, size: int) -> None:
        for number in range(size + 8):
            delay = {"delay": number * 7 % 5 / 1000} if number % 3 == 0 else {}
            caller.call(server, "echo", lambda mark, more=delay: {"text": mark, **more}, str)

    def _progress(self, caller: Caller, server: str, size: int) -> None:
        for number in range(size // 3 + 3):
            about = {"steps": STEPS, "delay": number % 2 / 1000}
            caller.call(server, "progress", lambda mark, more=about: {"text": mark, **more}, str, steps=STEPS)

    def _big(self, caller: Caller, server: str, size: int) -> None:
        for _ in range(size // 8 + 1):
            caller.call_and_fetch(server, "echo", TIMES, PAGE_BYTES)

    def _count(self, caller: Caller, server: str, size: int) -> None:
        for _ in range(size // 4 + 1):
            caller.call(server, "count", lambda mark: {}, lambda mark: None)

    def _pages(self, caller: Caller, server: str, size: int) -> None:
        for number, kind in enumerate(KINDS):
            caller.ears.list(server, kind, offset=(size + number) % 2, limit=1 + size % 5)

    def _cancel(self, caller: Caller, server: str, size: int) -> None:
        caller.cancel(size % 5 + 1)

    def _leave(self, caller: Caller, server: str, size: int) -> None:
        """Go without a word, and come again as somebody who uses the same ids."""
        caller.close()
        number = self.callers.index(caller)
        for other in self.callers:
            other.ears.due = {what: by for what, by in other.ears.due.items() if by is not caller}
        self.callers[number] = self._open(number, caller.manner, caller.life + 1)

    def _settle(self, caller: Caller, server: str, size: int) -> None:
        self.until(0, caller)

    def _ask(self, caller: Caller, server: str, size: int) -> None:
        for _ in range(size % 3 + 1):
            caller.call_and_be_asked(server)

    def _read(self, caller: Caller, server: str, size: int) -> None:
        for number in range(size // 4 + 2):
            caller.read_uri(server, None if number % 2 else URIS[size % 2])

    def _prompt(self, caller: Caller, server: str, size: int) -> None:
        for _ in range(size // 4 + 1):
            caller.prompt(server)

    def _complete(self, caller: Caller, server: str, size: int) -> None:
        for _ in range(size // 4 + 1):
            caller.complete(server)

    def _subscribe(self, caller: Caller, server: str, size: int) -> None:
        caller.ears.subscribe(server, URIS[size % 2])

    def _unsubscribe(self, caller: Caller, server: str, size: int) -> None:
        caller.ears.unsubscribe(server, URIS[size % 2])

    def _update(self, caller: Caller, server: str, size: int) -> None:
        uri = URIS[size % 2]
        for other in self.callers:
            if other.ears.subscribed.get((server, uri)) == "on":
                other.ears.due["updated", server, uri] = caller
        caller.call(server, "update", lambda mark: {"uri": uri}, lambda mark: uri, for_others=True)

    def _change(self, caller: Caller, server: str, size: int) -> None:
        self._tally.changes += 1
        for other in self.callers:
            if other.ears.listed.get(server) == "yes":
                other.ears.due["changed", server, "tools"] = caller
        number = self._tally.changes % 7
        caller.call(server, "change", lambda mark: {"n": number}, lambda mark: str(number), for_others=True)

    def _level(self, caller: Caller, server: str, size: int) -> None:
        caller.ears.log_level(server, LEVELS[size % len(LEVELS)])

    def _log(self, caller: Caller, server: str, size: int) -> None:
        caller.ears.log(server, LEVELS[size * 5 % len(LEVELS)])


def ledgers_agree(world: World, tally: Tally) -> None:
    """Check what the servers have received: nothing twice, no id twice, and no cancellation of what was wanted."""
    for name in Crowd.SERVERS:
        ids: set[object] = set()
        tokens: set[object] = set()
        marks: Counter[str] = Counter()
        owners: dict[object, str] = {}
        for message in (line["got"] for line in lines(world, name) if "got" in line):
            if message.get("method") == "notifications/cancelled":
                mark = owners.get(message["params"]["requestId"], "")
                assert mark in tally.given_up | {""}, f"{name} was told to give up {mark}, which is still wanted"
            if "id" not in message or "method" not in message:
                continue
            params = message["params"]
            token = params.get("_meta", {}).get("progressToken")
            assert message["id"] not in ids, f"{name} got the id {message['id']!r} twice"
            assert token is None or token not in tokens, f"{name} got the token {token!r} twice"
            ids.add(message["id"])
            tokens.add(token)
            if found := MARK.search(str(params)):
                owners[message["id"]] = found[0]
                marks[found[0]] += message["method"] == "tools/call" and "inputResponses" not in params
        assert [mark for mark, times in marks.items() if times > 1] == [], f"{name} got requests twice"
        assert len(started(world, name)) == 1
