"""A server with all that the conformance suite asks for, on stdin and stdout: `fixture.py --era legacy|modern|both`.

What it offers is in `tools.py` and `offers.py`. Pinned to one era it knows nothing of the other, as old and new servers do.
Standard library only, a thread for each call, up as soon as Python is.
"""

from __future__ import annotations

import argparse
import json
import queue
import sys
import threading
from collections.abc import Callable
from itertools import count
from typing import Any

import offers
from seal import Seal
from shapes import Failed, text
from tools import TOOLS, tools

Json = dict[str, Any]

LEGACY, MODERN = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"), "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
VERSION, CAPABILITIES, LEVEL = f"{PREFIX}protocolVersion", f"{PREFIX}clientCapabilities", f"{PREFIX}logLevel"
SUBSCRIPTION, IDENTITY = f"{PREFIX}subscriptionId", f"{PREFIX}serverInfo"
INFO = {"name": "everything", "version": "1.0.0"}
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602
NOT_FOUND, NO_CAPABILITY, WRONG_VERSION = -32002, -32021, -32022
ANSWER_SECONDS = 20.0
# The capability that each question needs.
NEEDS = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
# May take their time, and may ask.
THREADED = ("tools/call", "prompts/get", "resources/read")
CACHED = (*LISTS, "resources/read", "server/discover")
# What can be listened to, and the notification that it brings.
KINDS = {"toolsListChanged": "tools/list_changed", "promptsListChanged": "prompts/list_changed"}


class Refused(Exception):
    """A request gets a JSON-RPC error: code, message, data."""


class Unanswered(Exception):
    """No error: what a modern request needs from the client before it can go on."""

    def __init__(self, questions: Json, answered: Json | None) -> None:
        self.questions, self.answered = questions, answered


class Call:
    """One request under way, and what a tool or a prompt can do with it."""

    def __init__(self, server: Server, message: Json) -> None:
        self.server, self.id, self.method = server, message["id"], message["method"]
        self.params: Json = message.get("params") or {}
        self.meta: Json = self.params.get("_meta") or {}
        self.is_modern = server.is_modern(self.meta)
        self.is_cancelled = False

    def can(self, capability: str) -> bool:
        """Whether the client has declared it, for this request or for the session."""
        return capability in (self.meta[CAPABILITIES] if self.is_modern else self.server.client or {})

    def log(self, level: str, text: str) -> None:
        """Log a message, if the client wants it: in legacy revisions one that has said nothing gets `info`."""
        least = self.meta.get(LEVEL) if self.is_modern else self.server.level
        if least in LEVELS and LEVELS.index(level) >= LEVELS.index(least):
            self.server.notify("message", {"level": level, "logger": "everything", "data": text})

    def progress(self, done: int, total: int) -> None:
        token = self.meta.get("progressToken")
        if token is not None:
            told = {"progressToken": token, "progress": done, "total": total, "message": f"{done} of {total}"}
            self.server.notify("progress", told)

    def ask(self, questions: dict[str, tuple[str, Json]], *, keep: bool = False) -> Json:
        """Ask the client in the way of the era, all at once, and return its answers.

        Args:
            questions: the method and the parameters of each, by a key.
            keep: give a modern client a state that it has to bring back.

        Raises:
            Refused: The client cannot be asked, or it answers with an error.
            Unanswered: The answers come with the same request, once more.
        """
        if not self.is_modern:
            waiting = {key: self.server.ask(method, params) for key, (method, params) in questions.items()}
            return {key: answer() for key, answer in waiting.items()}
        for method, _ in questions.values():
            if not self.can(NEEDS[method]):
                raise Refused(NO_CAPABILITY, "a capability is missing", {"requiredCapabilities": {NEEDS[method]: {}}})
        answers = self._answers()
        missing = {key: asked for key, asked in questions.items() if not isinstance(answers.get(key), dict)}
        if missing:
            wanted = {key: {"method": method, "params": params} for key, (method, params) in missing.items()}
            raise Unanswered(wanted, answers if keep else None)
        return answers

    def _answers(self) -> Json:
        """Return what was answered in this round, and in those that the state tells of."""
        given = self.params.get("inputResponses", {})
        if not isinstance(given, dict):
            raise Refused(INVALID_PARAMS, "inputResponses is no object")
        return given if "requestState" not in self.params else self.server.told(self.params["requestState"]) | given


class Server:
    """The process: who speaks to it, and in which way."""

    def __init__(self, era: str) -> None:
        self.era = era
        self.client: Json | None = None  # what a legacy client can do, from `initialize` on
        self.level = "info"
        self._writing = threading.Lock()
        self._calls: dict[Any, Call] = {}
        self._listens: dict[Any, Json] = {}
        self._questions: dict[str, queue.SimpleQueue[Json]] = {}
        self._numbers = count(1)
        self._seal = Seal()
        self._methods: dict[str, Callable[[Call], Json | None]] = {
            "tools/list": lambda call: {"tools": tools()},
            "prompts/list": lambda call: {"prompts": offers.prompts()},
            "resources/list": lambda call: {"resources": offers.RESOURCES},
            "resources/templates/list": lambda call: {"resourceTemplates": offers.TEMPLATES},
            "tools/call": self._call_tool,
            "prompts/get": self._get_prompt,
            "resources/read": self._read,
            "completion/complete": offers.complete,
        }
        self._modern = self._methods | {"server/discover": self._discover, "subscriptions/listen": self._listen}
        self._legacy = self._methods | {
            "initialize": self._initialize,
            "ping": lambda call: {},
            "logging/setLevel": self._set_level,
            "resources/subscribe": lambda call: {},
            "resources/unsubscribe": lambda call: {},
        }

    def is_modern(self, meta: Json) -> bool:
        return self.era == "modern" or (self.era == "both" and (VERSION in meta or CAPABILITIES in meta))

    # -- what goes in and out --------------------------------------------------------------------

    def run(self) -> None:
        for line in sys.stdin.buffer:
            try:
                message = json.loads(line)
            except ValueError:
                self._write({"id": None, "error": {"code": PARSE_ERROR, "message": "this is not JSON"}})
                continue
            if not isinstance(message, dict):
                self._write({"id": None, "error": {"code": INVALID_REQUEST, "message": "this is no message"}})
            elif "method" not in message:
                self._on_answer(message)
            elif "id" not in message:
                self._on_notification(message["method"], message.get("params") or {})
            else:
                call = self._calls[message["id"]] = Call(self, message)
                if call.method in THREADED:
                    threading.Thread(target=self._serve, args=(call,), daemon=True).start()
                else:
                    self._serve(call)

    def _write(self, message: Json) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False) + "\n"
        with self._writing:
            sys.stdout.buffer.write(line.encode())
            sys.stdout.buffer.flush()

    def notify(self, what: str, params: Json | None = None) -> None:
        self._write({"method": f"notifications/{what}", **({} if params is None else {"params": params})})

    def ask(self, method: str, params: Json) -> Callable[[], Json]:
        """Ask a legacy client; what is returned waits for the answer.

        Raises:
            Refused: The client has not declared that it can be asked this.
        """
        if NEEDS[method] not in (self.client or {}):
            raise Refused(INVALID_REQUEST, f"the client has no capability {NEEDS[method]}")
        identity = f"question-{next(self._numbers)}"
        answers = self._questions[identity] = queue.SimpleQueue()
        self._write({"id": identity, "method": method, "params": params})

        def answer() -> Json:
            said = answers.get(timeout=ANSWER_SECONDS)
            if "error" in said:
                raise Refused(said["error"]["code"], f"the client says: {said['error']['message']}")
            result: Json = said["result"]
            return result

        return answer

    def changed(self, kind: str) -> None:
        """Tell all who listen that a list is another one now."""
        if self.client is not None:
            self.notify(KINDS[kind])
        for identity, filters in list(self._listens.items()):
            if filters.get(kind):
                self.notify(KINDS[kind], {"_meta": {SUBSCRIPTION: identity}})

    def told(self, state: object) -> Json:
        """Return what a state tells that a client has brought back.

        Raises:
            Refused: It is not as it was given.
        """
        found = self._seal.open(str(state))
        if found is None:
            raise Refused(INVALID_PARAMS, "this is not the state that was given")
        return found

    def _on_answer(self, message: Json) -> None:
        waiting = self._questions.pop(str(message.get("id")), None)
        if waiting is not None:
            waiting.put(message)

    def _on_notification(self, method: str, params: Json) -> None:
        if method == "notifications/cancelled":
            self._listens.pop(params.get("requestId"), None)
            call = self._calls.get(params.get("requestId"))
            if call is not None:
                call.is_cancelled = True

    # -- requests --------------------------------------------------------------------------------

    def _serve(self, call: Call) -> None:
        said: Json
        try:
            result = self._result(call)
        except Unanswered as unanswered:
            state = {} if unanswered.answered is None else {"requestState": self._seal.close(unanswered.answered)}
            said = {"result": {"resultType": "input_required", "inputRequests": unanswered.questions, **state}}
        except Refused as refused:
            code, message, *data = refused.args
            said = {"error": {"code": code, "message": message, **({"data": data[0]} if data else {})}}
        else:
            said = {"result": result}
        self._calls.pop(call.id, None)
        # A listen goes on without an answer, and nobody waits for that of a cancelled call.
        if not call.is_cancelled and said != {"result": None}:
            self._write({"id": call.id, **said})

    def _result(self, call: Call) -> Json | None:
        if not call.is_modern:
            if self.era == "both" and self.client is None and call.method not in ("initialize", "ping"):
                raise Refused(INVALID_PARAMS, "neither a session nor a complete _meta")
            if call.method not in self._legacy:
                raise Refused(UNKNOWN_METHOD, f"no method {call.method}")
            if self.client is None and call.method not in ("initialize", "ping"):
                raise Refused(INVALID_REQUEST, "no session yet")
            return self._legacy[call.method](call)
        if not {VERSION, CAPABILITIES} <= call.meta.keys():
            raise Refused(INVALID_PARAMS, "_meta has to name the revision and the capabilities of the client")
        if call.meta[VERSION] != MODERN:
            told = {"supported": [MODERN], "requested": call.meta[VERSION]}
            raise Refused(WRONG_VERSION, "this revision is not spoken here", told)
        if call.method not in self._modern:
            raise Refused(UNKNOWN_METHOD, f"no method {call.method}")
        result = self._modern[call.method](call)
        if result is None:
            return None
        cache = {"ttlMs": 60_000, "cacheScope": "public"} if call.method in CACHED else {}
        return {**result, "resultType": "complete", **cache, "_meta": {IDENTITY: INFO}}

    def _initialize(self, call: Call) -> Json:
        self.client = call.params["capabilities"]
        wanted = call.params["protocolVersion"]
        return {
            "protocolVersion": wanted if wanted in LEGACY else LEGACY[-1],
            "capabilities": offers.CAPABILITIES,
            "serverInfo": INFO,
            "instructions": offers.INSTRUCTIONS,
        }

    def _discover(self, call: Call) -> Json:
        about = {"capabilities": offers.CAPABILITIES, "instructions": offers.INSTRUCTIONS}
        return {"supportedVersions": [MODERN], **about}

    def _set_level(self, call: Call) -> Json:
        if call.params.get("level") not in LEVELS:
            raise Refused(INVALID_PARAMS, "no such level")
        self.level = call.params["level"]
        return {}

    def _listen(self, call: Call) -> None:
        wanted: Json = call.params.get("notifications") or {}
        honoured: Json = {kind: True for kind in KINDS if wanted.get(kind)}
        if wanted.get("resourceSubscriptions"):
            honoured["resourceSubscriptions"] = wanted["resourceSubscriptions"]
        self._listens[call.id] = honoured
        self.notify("subscriptions/acknowledged", {"notifications": honoured, "_meta": {SUBSCRIPTION: call.id}})

    def _call_tool(self, call: Call) -> Json:
        tool = TOOLS.get(call.params.get("name", ""))
        if tool is None:
            raise Refused(INVALID_PARAMS, f"no tool {call.params.get('name')}")
        try:
            content = tool.run(call, **(call.params.get("arguments") or {}))
        except Failed as failed:
            return {"content": [text(str(failed))], "isError": True}
        except Refused as refused:
            # In modern revisions this is for the client; in legacy ones it is what a client has answered.
            if call.is_modern:
                raise
            return {"content": [text(refused.args[1])], "isError": True}
        return {"content": content}

    def _get_prompt(self, call: Call) -> Json:
        prompt = offers.PROMPTS.get(call.params.get("name", ""))
        arguments = call.params.get("arguments") or {}
        if prompt is None or set(prompt.arguments) - set(arguments):
            raise Refused(INVALID_PARAMS, "no such prompt, or an argument is missing")
        return {"messages": [{"role": "user", "content": each} for each in prompt.run(call, **arguments)]}

    def _read(self, call: Call) -> Json:
        uri = call.params.get("uri", "")
        contents = offers.read(uri)
        if contents is None:
            raise Refused(INVALID_PARAMS if call.is_modern else NOT_FOUND, "Resource not found", {"uri": uri})
        return {"contents": [{"uri": uri, **contents}]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--era", choices=("legacy", "modern", "both"), default="both")
    Server(parser.parse_args().era).run()


if __name__ == "__main__":
    main()
