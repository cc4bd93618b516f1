"""What the chatty server can be asked to do: each method of `Tools` is a tool, one that yields waits."""

from __future__ import annotations

import json
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from chatty_server import Server

    Json = dict[str, Any]
    # Yields seconds to sleep, a key to be released by, or a question; is sent the response to that.
    Steps = Generator[float | str | Json, Any, Json]

PREFIX = "io.modelcontextprotocol/"
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
INVALID_PARAMS = -32602
FORM = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}


class Refused(Exception):
    """A request gets a JSON-RPC error: code, message."""


class NeedsInput(Exception):
    """A request of the modern era is answered with this result, and comes again with the input."""


class Call:
    """A request under way."""

    def __init__(self, server: Server, identity: object, params: Json) -> None:
        self.server, self.id, self.params, self.meta = server, identity, params, params.get("_meta") or {}
        self.is_modern = PREFIX + "protocolVersion" in self.meta
        self.steps: Steps
        self.question: str | None = None

    @property
    def capabilities(self) -> Json:
        """What the client can be asked, as said for this request or for the session."""
        return self.meta.get(PREFIX + "clientCapabilities", {}) if self.is_modern else self.server.client

    def inquire(self, method: str, params: Json, state: str | None, rude: bool) -> Steps:
        """Ask the client something; return its response, or an error where it cannot be asked."""
        if method.partition("/")[0] not in self.capabilities and not rude:
            return {"error": {"code": 0, "message": "nobody"}}
        if not self.is_modern:
            return (yield {"method": method, "params": params})
        if "inputResponses" in self.params:
            if self.params.get("requestState") != state:
                raise Refused(INVALID_PARAMS, "this is not the state that the question had")
            return {"result": self.params["inputResponses"]["it"]}
        asked = {"resultType": "input_required", "inputRequests": {"it": {"method": method, "params": params}}}
        raise NeedsInput(asked | ({} if state is None else {"requestState": state}))


class Tools:
    """What can be called: each method is a tool; one that yields waits."""

    def __init__(self, server: Server) -> None:
        self.server, self.counted = server, 0

    def echo(self, call: Call, text: str, times: int = 1, delay: float = 0) -> Json | Steps:
        return self._late(text * times, delay) if delay else said(text * times)

    def _late(self, text: str, delay: float) -> Steps:
        yield delay
        return said(text)

    def progress(self, call: Call, text: str, steps: int, delay: float = 0) -> Steps:
        for step in range(1, steps + 1):
            yield delay
            self.report(call, step, f"{text} {step}")
        return said(text)

    def report(self, call: Call, step: int, message: str) -> None:
        """Report progress to the one who wants it."""
        if "progressToken" in call.meta:
            params = {"progressToken": call.meta["progressToken"], "progress": step, "message": message}
            self.server.tell("notifications/progress", params)

    def ask(self, call: Call, question: str, state: str | None = None, rude: bool = False) -> Steps:
        form = {"mode": "form", "message": question, "requestedSchema": FORM}
        return answered(question, (yield from call.inquire("elicitation/create", form, state, rude)))

    def sample(self, call: Call, text: str) -> Steps:
        messages = [{"role": "user", "content": {"type": "text", "text": text}}]
        params = {"messages": messages, "maxTokens": 9}
        return answered(text, (yield from call.inquire("sampling/createMessage", params, "s", False)))

    def roots(self, call: Call) -> Steps:
        response = yield from call.inquire("roots/list", {}, "r", False)
        return said(json.dumps(response.get("result") or response["error"]["message"]))

    def hold(self, call: Call, key: str, text: str = "") -> Steps:
        yield key
        return said(text or key)

    def release(self, call: Call, key: str) -> Json:
        held, self.server.held = self.server.held, []
        for other in held:
            if other[0] == key:
                self.server.advance(other[1], None)
            else:
                self.server.held.append(other)
        return said(str(sum(other[0] == key for other in held)))

    def withdraw(self, call: Call) -> Json:
        """Take back every question that is open, and give up the calls that they were for."""
        for question, other in list(self.server.asked.items()):
            self.server.tell("notifications/cancelled", {"requestId": question, "reason": "not needed"})
            del self.server.asked[question]
            self.server.reply(other, said("withdrawn"))
        return said("done")

    def change(self, call: Call, n: int, kind: str = "tools") -> Json:
        self.server.extra[kind] = (n, self.server.extra[kind][1] + 1)
        self.server.publish(f"notifications/{kind}/list_changed", {}, lambda wanted: wanted.get(f"{kind}ListChanged"))
        return said(str(n))

    def update(self, call: Call, uri: str) -> Json:
        about = {"uri": uri}
        wants = self.server.listens or uri in self.server.subscribed
        if wants:
            subscribed = "resourceSubscriptions"
            self.server.publish("notifications/resources/updated", about, lambda w: uri in w.get(subscribed, ()))
        return said(uri)

    def log(self, call: Call, level: str, text: str) -> Json:
        least = call.meta.get(PREFIX + "logLevel") if call.is_modern else self.server.level
        if least is not None and LEVELS.index(level) >= LEVELS.index(least):
            self.server.tell("notifications/message", {"level": level, "logger": "chatty", "data": text})
        return said(text)

    def where(self, call: Call) -> Json:
        env = {name: value for name, value in os.environ.items() if name.startswith("CHATTY_")}
        return said(json.dumps({"cwd": os.getcwd(), "pid": os.getpid(), "env": env}))

    def count(self, call: Call) -> Json:
        self.counted += 1
        return said(str(self.counted))

    def deaf(self, call: Call, until: str, question: str) -> Steps:
        """Read nothing until there is such a file, and only then ask: whatever was cancelled meanwhile is not known."""
        while not os.path.exists(until):
            time.sleep(0.005)
        return (yield from self.ask(call, question, rude=True))

    def noisy(self, call: Call, text: str) -> Json:
        """Say this and that before the answer, in one breath with it."""
        self.report(call, 1, text)
        self.server.tell("notifications/message", {"level": "emergency", "data": text})
        self.server.tell("notifications/nobody/knows", {"requestId": call.id, "text": text})
        self.server.tell("notifications/progress", {"progressToken": "not yours", "progress": 1, "message": text})
        return said(text)

    def stray(self, call: Call, text: str) -> Json:
        """Answer what nobody asked, beside the answer."""
        for stray in (call.id + 1, 10**9, 0, -1, None, "1", "s1", 1.5):
            self.server.send({"id": stray, "result": said(f"stray {text}")})
        return said(text)

    def junk(self, call: Call, text: str) -> Json:
        """Print what is no JSON-RPC around the answer."""
        self.server.out += b'Listening...\n\n{"id":\n[]\nnull\n{}\n\xff\xfe\n'
        self.server.reply(call, said(text))
        self.server.out += b"DEBUG: answered\n"
        raise NeedsInput({})

    def twice(self, call: Call, text: str) -> Json:
        """Answer twice."""
        self.server.reply(call, said(text))
        return said(f"again {text}")


NAMES = [name for name in vars(Tools) if not name.startswith("_") and name != "report"]


def said(text: str) -> Json:
    """Return a result of one text."""
    return {"content": [{"type": "text", "text": text}]}


def answered(question: str, response: Json) -> Json:
    """Return what became of a question, in one text."""
    if "error" in response:
        return said(f"{question} -> error {response['error']['code']}")
    result = response["result"]
    given = result.get("content") or {}
    return said(
        f"{question} -> {result.get('action', 'result')} {given.get('answer') or given.get('text', '')}".strip()
    )
