"""A server that asks, reports and notifies, to see who hears it: `chatty_server.py LEDGER legacy|modern|both [eager]`.

What it receives goes into the ledger before it is handled, a JSON object a line: `{"pid", "got": MESSAGE}`; the first
line of a process is `{"pid", "start"}`. An `eager` one asks for a form and for roots when nothing is in flight yet.
The specification leaves it free to answer in any order; tools that misbehave say how.
"""

from __future__ import annotations

import heapq
import json
import os
import select
import sys
import time

# Beside this file: it runs as a script, with nothing but the standard library.
from chatty_tools import FORM, INVALID_PARAMS, NAMES, PREFIX, Call, NeedsInput, Refused, Tools, said

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from chatty_tools import Json, Steps

LEGACY, MODERN = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"), "2026-07-28"
UNKNOWN_METHOD, NOT_FOUND, WRONG_VERSION = -32601, -32002, -32022
CAPABILITIES = {"tools": {"listChanged": True}, "prompts": {"listChanged": True}, "logging": {}, "completions": {}}
CAPABILITIES |= {"resources": {"subscribe": True, "listChanged": True}}
INFO = {"name": "chatty", "version": "1"}
KINDS = ("tools", "prompts", "resources")
RESOURCES = [f"chatty://note/{number}" for number in range(1, 8)]
# Before each of these items a page ends; an empty cursor is one like any other.
PAGE_ENDS = {3: "", 6: "six"}


class Server:
    """The protocol of both eras, message by message."""

    def __init__(self, ledger: str, era: str, is_eager: bool) -> None:
        self.ledger = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.era, self.is_eager, self.tools, self.out = era, is_eager, Tools(self), b""
        self.client: Json = {}  # the capabilities of the legacy session
        self.level: str | None = "debug"
        self.subscribed: set[str] = set()
        self.listens: dict[object, Json] = {}
        self.extra = dict.fromkeys(KINDS, (0, 0))
        self.asked: dict[str, Call] = {}
        self.held: list[tuple[str, Call]] = []
        self.sleeping: list[tuple[float, int, Call]] = []
        self.number = 0

    def run(self) -> None:
        """Serve until the end of input."""
        me, rest = b'{"pid":%d,' % os.getpid(), b""
        os.write(self.ledger, me + b'"start":true}\n')
        while True:
            wait = max(0.0, self.sleeping[0][0] - time.monotonic()) if self.sleeping else None
            if select.select([0], [], [], wait)[0]:
                if not (data := os.read(0, 1 << 18)):
                    return
                *lines, rest = (rest + data).split(b"\n")
                os.write(self.ledger, b"".join(me + b'"got":%b}\n' % line for line in lines))
                for line in lines:
                    self.take(json.loads(line))
            while self.sleeping and self.sleeping[0][0] <= time.monotonic():
                self.advance(heapq.heappop(self.sleeping)[2], None)
            out, self.out = memoryview(self.out), b""
            while out:
                out = out[os.write(1, out) :]

    # -- saying ----------------------------------------------------------------------------------

    def send(self, message: Json) -> None:
        """Say something when this batch is done."""
        self.out += json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"

    def tell(self, method: str, params: Json) -> None:
        """Send a notification."""
        self.send({"method": method, "params": params})

    def publish(self, method: str, params: Json, wanted: Any) -> None:
        """Notify everyone who wants to know: each subscription of the modern era, or the legacy session."""
        for identity, filters in self.listens.items():
            if wanted(filters):
                self.tell(method, {**params, "_meta": {PREFIX + "subscriptionId": identity}})
        if self.era != "modern" and not self.listens:
            self.tell(method, params)

    def reply(self, call: Call, result: Json) -> None:
        """Answer with a result."""
        if call.is_modern:
            result = {"resultType": "complete", **result, "_meta": {PREFIX + "serverInfo": INFO}}
        self.send({"id": call.id, "result": result})

    # -- hearing ---------------------------------------------------------------------------------

    def take(self, message: Json) -> None:
        """Handle one message."""
        if "method" not in message:
            if (call := self.asked.pop(message["id"], None)) is not None:
                self.advance(call, message)
            return
        params = message.get("params") or {}
        if "id" in message:
            self.request(Call(self, message["id"], params), message["method"])
        elif message["method"] == "notifications/cancelled":
            self.cancel(params["requestId"])
        elif message["method"] == "notifications/initialized" and self.is_eager:
            form = {"message": "eager", "requestedSchema": FORM}
            self.send({"id": "eager-1", "method": "elicitation/create", "params": form})
            self.send({"id": "eager-2", "method": "roots/list"})

    def request(self, call: Call, method: str) -> None:
        """Answer a request, now or later."""
        try:
            result = self.answer(call, method)
        except Refused as refused:
            self.send({"id": call.id, "error": {"code": refused.args[0], "message": refused.args[1]}})
        else:
            if isinstance(result, dict):
                self.reply(call, result)
            elif result is not None:
                call.steps = result
                self.advance(call, None)

    def advance(self, call: Call, response: Json | None) -> None:
        """Go on with a call that has waited."""
        try:
            wish = call.steps.send(response)
        except StopIteration as end:
            return self.reply(call, end.value)
        except NeedsInput as needs:
            return self.reply(call, needs.args[0])
        except Refused as refused:
            return self.send({"id": call.id, "error": {"code": refused.args[0], "message": refused.args[1]}})
        self.number += 1
        if isinstance(wish, str):
            self.held.append((wish, call))
        elif isinstance(wish, dict):
            self.asked[f"q{self.number}"] = call
            self.send({"id": f"q{self.number}", **wish})
        else:
            heapq.heappush(self.sleeping, (time.monotonic() + wish, self.number, call))

    def cancel(self, identity: object) -> None:
        """Forget a call, and what was asked for it."""
        self.listens.pop(identity, None)
        self.held = [one for one in self.held if one[1].id != identity]
        self.sleeping = sorted(one for one in self.sleeping if one[2].id != identity)
        for question in [question for question, call in self.asked.items() if call.id == identity]:
            del self.asked[question]
            self.tell("notifications/cancelled", {"requestId": question})

    def answer(self, call: Call, method: str) -> Json | Steps | None:
        """Return the result of a request, or the steps to it, or nothing if it was answered already."""
        is_modern, given = call.is_modern, call.params
        if is_modern and call.meta[PREFIX + "protocolVersion"] != MODERN:
            raise Refused(WRONG_VERSION, "unsupported version")
        if self.era == ("legacy" if is_modern else "modern"):
            raise Refused(UNKNOWN_METHOD, f"{method} is of another era")
        kept = {"ttlMs": 3_600_000, "cacheScope": "public"} if is_modern else {}
        match method:
            case "tools/call":
                return self.call(call, given["name"], given.get("arguments") or {})
            case "server/discover" if is_modern:
                return {"supportedVersions": [MODERN], "capabilities": CAPABILITIES, **kept}
            case "initialize" if not is_modern:
                self.client = given["capabilities"]
                version = given["protocolVersion"] if given["protocolVersion"] in LEGACY else LEGACY[-1]
                return {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": INFO}
            case "ping" if not is_modern:
                return {}
            case "logging/setLevel" if not is_modern:
                self.level = given["level"]
                return {}
            case "resources/subscribe" | "resources/unsubscribe" if not is_modern:
                (self.subscribed.add if method == "resources/subscribe" else self.subscribed.discard)(given["uri"])
                return {}
            case "subscriptions/listen" if is_modern:
                self.listens[call.id] = given["notifications"]
                about = {"notifications": given["notifications"], "_meta": {PREFIX + "subscriptionId": call.id}}
                self.tell("notifications/subscriptions/acknowledged", about)
                return None
            case "tools/list":
                return self.page("tools", [{"name": n, "inputSchema": {"type": "object"}} for n in NAMES], given, kept)
            case "prompts/list":
                arguments = [{"name": "name", "required": True}, {"name": "tone"}]
                return self.page("prompts", [{"name": "greet", "arguments": arguments}], given, kept)
            case "resources/list":
                return self.page("resources", [{"uri": uri, "name": uri[-1]} for uri in RESOURCES], given, kept)
            case "resources/templates/list":
                return {"resourceTemplates": [{"uriTemplate": "chatty://echo/{text}", "name": "echo"}], **kept}
            case "resources/read" if given["uri"].startswith("chatty://echo/") or given["uri"] in RESOURCES:
                text = given["uri"].rpartition("/")[2]
                return {"contents": [{"uri": given["uri"], "mimeType": "text/plain", "text": text}], **kept}
            case "resources/read":
                raise Refused(INVALID_PARAMS if is_modern else NOT_FOUND, "there is no such resource")
            case "prompts/get" if given["name"] == "greet" and "name" in (given.get("arguments") or {}):
                text = " ".join((given["arguments"].get("tone", "Hello"), given["arguments"]["name"]))
                return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
            case "prompts/get":
                raise Refused(INVALID_PARAMS, "there is no such prompt, or its argument is missing")
            case "completion/complete":
                value = given["argument"]["value"]
                return {"completion": {"values": [f"{value}-one", f"{value}-two"], "total": 2, "hasMore": False}}
        raise Refused(UNKNOWN_METHOD, f"method not found: {method}")

    def page(self, kind: str, items: list[Json], given: Json, kept: Json) -> Json:
        """Return the page of a list that begins at a cursor."""
        n, changes = self.extra[kind]
        extra = [{"name": f"extra-{number}", "description": f"change {changes}"} for number in range(1, n + 1)]
        shape = {"tools": {"inputSchema": {"type": "object"}}, "resources": {}, "prompts": {}}[kind]
        uris = [{"uri": f"chatty://extra/{one['name']}"} if kind == "resources" else {} for one in extra]
        items = items + [one | shape | uri for one, uri in zip(extra, uris, strict=True)]
        starts = {cursor: start for start, cursor in PAGE_ENDS.items()}
        if given.get("cursor", "") not in starts:
            raise Refused(INVALID_PARAMS, "there is no such cursor")
        start = starts[given["cursor"]] if "cursor" in given else 0
        end = next((end for end in PAGE_ENDS if start < end < len(items)), None)
        return {kind: items[start:end], **({"nextCursor": PAGE_ENDS[end]} if end else {}), **kept}

    def call(self, call: Call, name: str, given: Json) -> Json | Steps | None:
        """Run a tool."""
        if name.startswith("extra-"):
            return said(name)
        if name not in NAMES:
            raise Refused(INVALID_PARAMS, f"unknown tool {name}")
        try:
            result: Json | Steps = getattr(self.tools, name)(call, **given)
        except NeedsInput:
            return None
        return result


if __name__ == "__main__":
    Server(sys.argv[1], sys.argv[2], "eager" in sys.argv[3:]).run()
