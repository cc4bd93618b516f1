"""One client of a crowd: what it asks for, and whether each line that it gets is its own, expected, and right."""

from __future__ import annotations

import contextlib
import json
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from tests.integration.ears import Ears

if TYPE_CHECKING:
    from tests.integration.crowd import Tally

Json = dict[str, Any]

NAMES = re.compile(rb"e\d+c\d+l\d+n")
# Where who asks is known for certain, and so is who is asked.
CERTAIN = ("asking", "modern")


@dataclass
class Pending:
    """A request under way: `check` takes its answer, `steps` are the reports of progress that are owed before it."""

    check: Callable[[Json], None]
    mark: str
    steps: int = 0
    seen: int = 0
    can_be_cancelled: bool = False
    token: object = None


def exactly(result: object) -> Callable[[Json], None]:
    """Return a check for this very result."""

    def check(answer: Json) -> None:
        assert answer.get("result") == result, f"wanted {result!r}, got {answer}"

    return check


def key(identity: object) -> tuple[str, object]:
    """Return an id that is equal only to one of the same type."""
    return type(identity).__name__, identity


class Caller:
    """A client that sends without waiting.

    Attributes:
        pending: its requests under way, by id.
        ears: what it listens to.
    """

    def __init__(self, path: str, name: str, manner: str, tally: Tally) -> None:
        self.name, self.manner, self.tally = name, manner, tally
        self.life = int(name.partition("l")[2].removesuffix("n"))
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)
        self.sock.setblocking(False)
        self.out, self._rest = b"", b""
        self._ids = count(1)
        self.pending: dict[tuple[str, object], Pending] = {}
        self.ears = Ears(self)
        self._tokens: dict[tuple[str, object], Pending] = {}
        self._given_up: dict[tuple[str, object], Pending] = {}
        self._asks: dict[str, str] = {}
        self._questions: dict[str, str] = {}
        self._late: list[Json] = []
        capabilities = {} if manner == "mute" else {"elicitation": {"form": {}}}
        self.request("mcpd/hello", {"version": 1, "capabilities": capabilities}, Pending(self._greeted, "hello"))

    def close(self) -> None:
        """Leave; what it waits for is given up."""
        self.tally.given_up.update(one.mark for one in self.pending.values())
        self.sock.close()

    def missing(self) -> str:
        """Say what it still waits for."""
        waiting = [f"{identity}: {one.mark}" for (_, identity), one in self.pending.items()]
        due = [f"{what} caused by {owner.name}" for what, owner in self.ears.due.items()]
        return f"{self.name} waits for {', '.join([*waiting, *due][:8])}" if waiting or due else ""

    # -- bytes -----------------------------------------------------------------------------------

    def send(self, message: Json) -> None:
        """Write a message, now or when there is room."""
        self.tally.messages += 1
        self.out += json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        """Write what can be written."""
        with contextlib.suppress(BlockingIOError):
            self.out = self.out[self.sock.send(self.out) :] if self.out else b""

    def read(self) -> None:
        """Take the lines that have come."""
        data = self.sock.recv(1 << 18)
        assert data, f"the daemon has closed the connection of {self.name}"
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self.tally.messages += 1
            message = json.loads(line)
            # A message of a legacy server's log belongs to no client.
            if (
                message.get("method") != "notifications/message"
                or message["params"]["_meta"]["mcpd/server"] == "modern"
            ):
                strangers = {*NAMES.findall(line)} - {self.name.encode()}
                assert not strangers, f"crossed: {self.name} got {line!r}"
            self._take(message)

    def _take(self, message: Json) -> None:
        if "method" not in message:
            self._answered(message)
        elif "id" in message:
            self._asked(message)
        elif message["method"] == "notifications/progress":
            self._progressed(message["params"])
        elif message["method"] == "notifications/cancelled":
            assert message["params"]["requestId"] in self._questions, f"{self.name} was never asked that: {message}"
        else:
            self.ears.hear(message["method"], message["params"])

    # -- requests and their answers ----------------------------------------------------------------

    def request(self, method: str, params: Json, pending: Pending) -> None:
        """Send a request; the ids are the same for all clients, numbers and texts."""
        number = next(self._ids)
        identity = number if number % 2 else str(number)
        self.pending[key(identity)] = pending
        if pending.steps:
            pending.token = number if number % 4 else str(number)
            self._tokens[key(pending.token)] = pending
            params = {**params, "_meta": {"progressToken": pending.token}}
        self.send({"id": identity, "method": method, "params": params})

    def ask(self, method: str, params: Json, check: Callable[[Json], None]) -> None:
        """Send a request that is about nobody's text, and is not cancelled."""
        self.request(method, params, Pending(check, f"{method} {params['server']}"))

    def mark(self) -> str:
        """Return the mark of the next request."""
        number = next(self._ids)
        return f"{self.name}{number}."

    def _answered(self, message: Json) -> None:
        identity = key(message["id"])
        one = self.pending.pop(identity, None)
        if one is None:
            late = self._given_up.pop(identity, None)
            assert late is not None, f"{self.name} was told twice, or what it has not asked: {message}"
            return
        one.check(message)
        if one.steps:
            assert one.seen == one.steps, f"lost: {one.steps - one.seen} reports of {one.mark}"
            del self._tokens[key(one.token)]

    def cancel(self, most: int) -> None:
        """Give up some requests; an answer may be on its way already."""
        chosen = [identity for identity, one in self.pending.items() if one.can_be_cancelled][1::2][:most]
        for identity in chosen:
            one = self._given_up[identity] = self.pending.pop(identity)
            self.tally.given_up.add(one.mark)
            self.send({"method": "notifications/cancelled", "params": {"requestId": identity[1]}})

    def _progressed(self, params: Json) -> None:
        one = self._tokens.get(key(params["progressToken"]))
        assert one is not None, f"{self.name} has no such token, or not any more: {params}"
        one.seen += 1
        assert (params["progress"], params["message"]) == (one.seen, f"{one.mark} {one.seen}"), f"crossed: {params}"

    def _greeted(self, answer: Json) -> None:
        assert answer["result"]["version"] == 1, answer

    # -- calls -----------------------------------------------------------------------------------

    def call(
        self,
        server: str,
        tool: str,
        arguments: Callable[[str], Json],
        expected: Callable[[str], str | None],
        *,
        steps: int = 0,
        for_others: bool = False,
    ) -> str:
        """Call a tool and return the mark; arguments and the expected text are made of that.

        A text of None is a number that nobody else has got. What is done `for_others` is not cancelled.
        """
        mark = self.mark()
        text = expected(mark)

        def check(answer: Json) -> None:
            found = self.text(answer)
            if text is None:
                assert found not in self.tally.numbers[server], f"two clients got the number {found}"
                self.tally.numbers[server].add(found)
            else:
                assert found == text, f"{self.name} wanted {text!r} and got {found!r}"

        params = {"server": server, "tool": tool, "arguments": arguments(mark)}
        self.request("mcpd/call", params, Pending(check, mark, steps, can_be_cancelled=not for_others))
        return mark

    def text(self, answer: Json) -> str:
        assert "result" in answer, answer
        view = answer["result"]["_meta"]["mcpd/view"]
        assert view.get("incarnation", 1) == 1, answer
        return "".join(item["text"] for item in answer["result"]["content"])

    def call_and_fetch(self, server: str, tool: str, times: int, max_bytes: int) -> None:
        """Call for a long text, and then fetch what comes next, at an offset that all clients use."""
        mark = self.mark()
        whole = mark * times

        def first(answer: Json) -> None:
            text, view = self.text(answer), answer["result"]["_meta"]["mcpd/view"]
            assert whole.startswith(text), f"crossed: {answer}"
            params = {"handle": view["handle"], "offset": view["nextOffset"], "max_bytes": max_bytes}
            self.request("mcpd/fetch", params, Pending(lambda page: second(page, view["nextOffset"]), mark))

        def second(answer: Json, offset: int) -> None:
            text = self.text(answer)
            assert text, answer
            assert text == whole[offset : offset + len(text)], f"crossed: {answer}"

        params = {"server": server, "tool": tool, "arguments": {"text": mark, "times": times}, "max_bytes": max_bytes}
        self.request("mcpd/call", params, Pending(first, mark, can_be_cancelled=True))

    def call_and_be_asked(self, server: str) -> None:
        """Call a tool that asks; who cannot be asked, or not for certain, gets to hear that."""
        mark = self.mark()
        allowed = {
            "accept": (f"{mark} -> accept {mark}",),
            "late": (f"{mark} -> accept {mark}",),
            "decline": (f"{mark} -> decline",),
            "cancel": (f"{mark} -> cancel",),
        }.get(self.manner, (f"{mark} -> cancel", f"{mark} -> decline", f"{mark} -> error"))
        if server not in CERTAIN:
            allowed = (*allowed, f"{mark} -> cancel", f"{mark} -> error")

        def check(answer: Json) -> None:
            if self.manner in ("error", "mute") and "error" in answer:
                return
            assert self.text(answer).startswith(allowed), f"{self.name}, {self.manner}, {server}: {answer}"

        self._asks[mark] = server
        params = {"server": server, "tool": "ask", "arguments": {"question": mark}}
        self.request("mcpd/call", params, Pending(check, mark, can_be_cancelled=True))

    def _asked(self, message: Json) -> None:
        """Judge a question, and answer it as is one's manner."""
        identity, params = message["id"], message["params"]
        assert self.manner != "mute", f"{self.name} cannot be asked: {message}"
        assert isinstance(identity, str), message
        assert identity not in self._questions, f"two questions have one id: {message}"
        server, (prefix, _, mark) = params["_meta"]["mcpd/server"], params["message"].partition(" ")
        # It may have been cancelled meanwhile, but each is asked once.
        assert (message["method"], prefix, self._asks.pop(mark, None)) == ("elicitation/create", f"[{server}]", server)
        self._questions[identity] = mark
        self.tally.done[f"asked {server}"] += 1
        if self.manner == "error":
            self.send({"id": identity, "error": {"code": -1, "message": "no"}})
        elif self.manner in ("decline", "cancel"):
            self.send({"id": identity, "result": {"action": self.manner}})
        else:
            self._late.append({"id": identity, "result": {"action": "accept", "content": {"answer": mark}}})
            if self.manner == "accept":
                self.answer_late()

    def answer_late(self) -> None:
        """Answer what was asked before."""
        late, self._late = self._late, []
        for answer in late:
            self.send(answer)

    # -- resources, prompts, completion --------------------------------------------------------------

    def read_uri(self, server: str, uri: str | None) -> None:
        """Read a resource that all clients read, or one that nobody else reads."""
        mark = self.mark()
        wanted = uri or f"chatty://echo/{mark}"

        def check(answer: Json) -> None:
            (content,) = answer["result"]["contents"]
            assert (content["uri"], content["text"]) == (wanted, wanted.rpartition("/")[2]), answer

        self.request("mcpd/read", {"server": server, "uri": wanted}, Pending(check, mark, can_be_cancelled=True))

    def prompt(self, server: str) -> None:
        """Get a prompt."""
        mark = self.mark()

        def check(answer: Json) -> None:
            (message,) = answer["result"]["messages"]
            assert message["content"]["text"] == f"Hello {mark}", answer

        params = {"server": server, "name": "greet", "arguments": {"name": mark}}
        self.request("mcpd/prompt", params, Pending(check, mark, can_be_cancelled=True))

    def complete(self, server: str) -> None:
        """Complete an argument."""
        mark = self.mark()

        def check(answer: Json) -> None:
            assert answer["result"]["completion"]["values"] == [f"{mark}-one", f"{mark}-two"], answer

        ref, argument = {"type": "ref/prompt", "name": "greet"}, {"name": "name", "value": mark}
        params = {"server": server, "ref": ref, "argument": argument}
        self.request("mcpd/complete", params, Pending(check, mark, can_be_cancelled=True))
