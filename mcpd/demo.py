"""A tiny MCP server on stdin and stdout, to try things with: `mcpd demo-server`.

Speaks both eras, message by message: `initialize` (2024-11-05 to 2025-11-25) and per-request metadata
(2026-07-28).  A plain file for the standard library alone, single-threaded, up as soon as Python is.
"""

from __future__ import annotations

import heapq
import json
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False  # typing itself would cost more than all the rest of the start
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any

    Json = dict[str, Any]
    # A tool that waits: yields seconds to sleep or a question, is sent the response, returns the result.
    Steps = Generator[float | Json, Any, Json]

LEGACY, MODERN = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"), "2026-07-28"
VERSION, CAPABILITIES = "io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities"
INFO = {"name": "mcpd-demo", "title": "mcpd demo", "version": "1.0"}
ABOUT = {"capabilities": {"tools": {}}, "instructions": "Harmless tools to try an MCP client with."}
CACHE = {"ttlMs": 3_600_000, "cacheScope": "public"}
PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD, INVALID_PARAMS, WRONG_VERSION = -32700, -32600, -32601, -32602, -32022
# How long calls may go on after the end of input: a client that has gone needs no answer.
GRACE_SECONDS = 2.0


class Refused(Exception):
    """A request gets a JSON-RPC error: code, message, data."""


class Call:
    """One request under way, and the tools: the docstring of each is the description that clients see."""

    def __init__(self, server: Server, identity: str | int, params: Json) -> None:
        self.server, self.id, self.params = server, identity, params
        meta = params.get("_meta")
        self.meta: Json = meta if isinstance(meta, dict) else {}
        self.steps: Steps
        self.is_modern = VERSION in self.meta or CAPABILITIES in self.meta

    @property
    def can_ask(self) -> bool:
        """Whether the client shows forms, as declared for this request or for the session."""
        declared = (self.meta[CAPABILITIES] if self.is_modern else self.server.capabilities or {}).get("elicitation")
        return isinstance(declared, dict) and (not declared or "form" in declared)

    def echo(self, text: str) -> Json:
        """Give back the text unchanged."""
        return self.say(text)

    def add(self, a: float, b: float) -> Json:
        """Add two numbers; integers of any size exactly."""
        try:
            total = a + b
            # A client may have written 1 as 1.0; beyond 2**53 a float stands for many integers.
            if abs(total) <= 2**53 and total == int(total):
                total = int(total)
            if abs(total) < float("inf"):
                return self.say(str(total)) | {"structuredContent": {"sum": total}}
        except (OverflowError, ValueError):
            pass
        return self.fail("the sum is too large")

    def counter(self) -> Json:
        """Count the calls of this tool since its process started (1, 2, 3 …): shows who shares a process."""
        self.server.count += 1
        return self.say(str(self.server.count))

    def slow(self, seconds: float, steps: int) -> Steps:
        """Sleep, with a report of progress after each step; other calls go on, and it can be cancelled."""
        token = self.meta.get("progressToken")
        for done in range(1, steps + 1):
            yield seconds / steps
            if token is not None:
                params = {"progressToken": token, "progress": done, "total": steps}
                params["message"] = f"step {done} of {steps}"
                self.server.send({"method": "notifications/progress", "params": params})
        return self.say(f"slept {seconds} seconds")

    def big(self, n: int) -> Json:
        """Give back a long text of numbered lines, 64 characters each with the newline."""
        lines = (f"{number:010d} ".ljust(63, ".") for number in range(n // 64 + 1))
        return self.say("\n".join(lines)[:n])

    def fail(self, message: str) -> Json:
        """Fail: the result says isError."""
        return self.say(message) | {"isError": True}

    def image(self) -> Json:
        """Give back a small picture, a PNG of 64 by 64 pixels."""
        import zlib
        from binascii import b2a_base64

        # Eight bits of red, green and blue; each row begins with its filter, none.
        header = (64).to_bytes(4, "big") * 2 + bytes((8, 2, 0, 0, 0))
        rows = b"".join(b"\0" + bytes(v for x in range(64) for v in (x * 4, y * 4, 160)) for y in range(64))
        png = b"\x89PNG\r\n\x1a\n"
        for kind, body in ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")):
            png += len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")
        return {
            "content": [{"type": "image", "data": b2a_base64(png, newline=False).decode(), "mimeType": "image/png"}]
        }

    def ask(self, question: str) -> Steps:
        """Ask the user a question through the client (elicitation) and give back the answer."""
        form = {"message": question, "requestedSchema": FORM}
        state = f"asked: {question}"
        match self.params.get("inputResponses") if self.is_modern else None:
            case {"answer": reply}:
                if self.params.get("requestState") != state:
                    raise Refused(INVALID_PARAMS, "requestState does not belong to this question")
            case _ if not self.can_ask:
                return self.fail("there is nobody to ask: call it at a terminal, or with --elicit")
            case _ if self.is_modern:
                requests = {"answer": {"method": "elicitation/create", "params": {"mode": "form", **form}}}
                return {"resultType": "input_required", "inputRequests": requests, "requestState": state}
            case _:
                reply = (yield form).get("result")
        match reply:
            case {"action": "accept", "content": {"answer": str(text)}}:
                return self.say(text)
            case {"action": "decline" | "cancel" as action}:
                return self.say(f"no answer: {action}")
        return self.fail("no answer that fits the form")

    def say(self, text: str) -> Json:
        """Return a result of one text."""
        return {"content": [{"type": "text", "text": text}]}


# fmt: off
ARGUMENTS: dict[str, Json] = {
    "echo": {"text": {"type": "string", "description": "Any text"}},
    "add": {"a": {"type": "number", "description": "The first number"},
            "b": {"type": "number", "description": "The second number"}},
    "counter": {},
    "slow": {"seconds": {"type": "number", "description": "How long in all", "minimum": 0, "maximum": 86400, "default": 1},
             "steps": {"type": "integer", "description": "How many reports", "minimum": 1, "maximum": 10000, "default": 10}},
    "big": {"n": {"type": "integer", "description": "How many characters", "minimum": 0, "maximum": 1 << 28, "default": 100000}},
    "fail": {"message": {"type": "string", "description": "The text of the error", "default": "this tool always fails"}},
    "image": {},
    "ask": {"question": {"type": "string", "description": "What to ask", "default": "What is your answer?"}},
}
FORM = {"type": "object", "properties": {"answer": {"type": "string", "title": "Answer"}}, "required": ["answer"]}
SUM = {"type": "object", "properties": {"sum": {"type": "number", "description": "a + b"}}, "required": ["sum"]}
TYPES = {"string": ("text", str), "number": ("a number", int | float), "integer": ("a whole number", int)}
# fmt: on


def described(name: str) -> Json:
    """Return what tools/list says about a tool."""
    required = [key for key, about in ARGUMENTS[name].items() if "default" not in about]
    schema = {"type": "object", "properties": ARGUMENTS[name], "required": required, "additionalProperties": False}
    hints = {"readOnlyHint": name != "counter", "destructiveHint": False}
    hints |= {"idempotentHint": name not in ("counter", "ask"), "openWorldHint": name == "ask"}
    about = {"name": name, "title": name.capitalize(), "description": getattr(Call, name).__doc__, "annotations": hints}
    return about | {"inputSchema": schema} | ({"outputSchema": SUM} if name == "add" else {})


def checked(known: Json, given: Json) -> Json:
    """Return the arguments with defaults filled in; raise ValueError naming the one that does not fit."""
    if unknown := [name for name in given if name not in known]:
        raise ValueError(f"unknown argument {unknown[0]!r}; known are: {', '.join(known) or 'none'}")
    values = {name: given.get(name, schema.get("default")) for name, schema in known.items()}
    for name, schema in known.items():
        value, (words, kind) = values[name], TYPES[schema["type"]]
        if kind is int and isinstance(value, float) and value.is_integer():
            value = values[name] = int(value)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValueError(f"argument {name!r} " + (f"must be {words}" if name in given else "is missing"))
        if "minimum" in schema and not schema["minimum"] <= value <= schema["maximum"]:
            raise ValueError(f"argument {name!r} must be from {schema['minimum']} to {schema['maximum']}")
    return values


class Server:
    """The protocol: one line in, what there is to say out, and calls that wait for time or an answer."""

    def __init__(self) -> None:
        self.capabilities: Json | None = None  # of the client in the legacy session, once there is one
        self.count = self._numbers = 0
        self._sleeping: list[tuple[float, int, Call]] = []
        self._asking: dict[str, Call] = {}
        self._is_mute = False

    def run(self) -> None:
        """Serve until the end of input and, within bounds, of what is in flight then."""
        parts: list[bytes] = []
        while chunk := self._read():
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                self._line(b"".join((*parts, line)))
                parts.clear()
            parts.append(rest)
        self._line(b"".join(parts))
        end = time.monotonic() + GRACE_SECONDS
        while (left := self._wake()) is not None and time.monotonic() + left < end:
            time.sleep(left)

    def send(self, message: Json) -> None:
        """Write a message; that nobody is there to read it is no error."""
        data = memoryview(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n")
        while data and not self._is_mute:
            try:
                data = data[os.write(1, data) :]
            except BlockingIOError:
                select.select([], [1], [])
            except OSError:
                self._is_mute = True

    def _read(self) -> bytes:
        """Return some input, or nothing at its end; sleepers wake meanwhile."""
        try:
            while not select.select([0], [], [], self._wake())[0]:
                pass
            return os.read(0, 1 << 16)
        except OSError:
            return b""

    def _wake(self) -> float | None:
        """Go on with all that have slept enough; return how long the next one still sleeps."""
        while self._sleeping:
            if (left := self._sleeping[0][0] - time.monotonic()) > 0:
                return left
            self._advance(heapq.heappop(self._sleeping)[2], None)
        return None

    def _line(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return self._error(None, PARSE_ERROR, "this line is no JSON")
        # Only 2025-03-26 has batches; answering one by one serves them too.
        for each in message if isinstance(message, list) and message else [message]:
            self._message(each)

    def _message(self, message: Any) -> None:
        match message:
            case {"method": str(method), "id": str() | int() as identity} if type(identity) is not bool:
                self._request(method, identity, message.get("params", {}))
            case {"method": "notifications/cancelled", "params": {"requestId": identity}} if "id" not in message:
                self._cancel(identity)
            case {"id": str(number)} if "method" not in message and number in self._asking:
                self._advance(self._asking.pop(number), message)
            case {"method": str()} | {"result": _} | {"error": _} if "method" not in message or "id" not in message:
                pass
            case _:
                self._error(None, INVALID_REQUEST, "this is no JSON-RPC message")

    def _request(self, method: str, identity: str | int, params: object) -> None:
        try:
            if not isinstance(params, dict):
                raise Refused(INVALID_PARAMS, "params must be an object")
            call = Call(self, identity, params)
            answer = self._answer(call, method)
            if isinstance(answer, dict):
                return self._reply(call, answer)
            call.steps = answer
            self._advance(call, None)
        except Refused as refused:
            self._error(identity, *refused.args)

    def _answer(self, call: Call, method: str) -> Json | Steps:
        if call.is_modern or method == "server/discover":
            version = call.meta.get(VERSION)
            if not isinstance(version, str) or not isinstance(call.meta.get(CAPABILITIES), dict):
                raise Refused(INVALID_PARAMS, f"_meta must have {VERSION} and {CAPABILITIES}")
            if version != MODERN:
                raise Refused(WRONG_VERSION, "unsupported version", {"supported": [MODERN], "requested": version})
        match method, call.is_modern:
            case "server/discover", True:
                return {"supportedVersions": [MODERN], **ABOUT, **CACHE}
            case "initialize", False:
                asked, capabilities = call.params.get("protocolVersion"), call.params.get("capabilities")
                self.capabilities = capabilities if isinstance(capabilities, dict) else {}
                return {"protocolVersion": asked if asked in LEGACY else LEGACY[-1], "serverInfo": INFO, **ABOUT}
            case "ping", False:
                return {}
            case "tools/list" | "tools/call", False if self.capabilities is None:
                raise Refused(INVALID_PARAMS, "send initialize first, or complete _meta with every request")
            case "tools/list", is_modern:
                return {"tools": [described(name) for name in ARGUMENTS], **(CACHE if is_modern else {})}
            case "tools/call", _:
                return self._call_tool(call)
        raise Refused(UNKNOWN_METHOD, f"method {method!r} is not known")

    def _call_tool(self, call: Call) -> Json | Steps:
        name, arguments = call.params.get("name"), call.params.get("arguments")
        if not isinstance(name, str) or name not in ARGUMENTS:
            raise Refused(INVALID_PARAMS, f"unknown tool {name!r}; known are: {', '.join(ARGUMENTS)}")
        if not isinstance(arguments, dict | None):
            return call.fail("arguments must be an object")
        try:
            values = checked(ARGUMENTS[name], arguments or {})
        except ValueError as wrong:
            return call.fail(str(wrong))
        run: Callable[..., Json | Steps] = getattr(call, name)
        return run(**values)

    def _advance(self, call: Call, response: Json | None) -> None:
        self._numbers += 1
        try:
            wish = call.steps.send(response)
        except StopIteration as end:
            return self._reply(call, end.value)
        if isinstance(wish, dict):
            self._asking[f"ask-{self._numbers}"] = call
            self.send({"id": f"ask-{self._numbers}", "method": "elicitation/create", "params": wish})
        else:
            heapq.heappush(self._sleeping, (time.monotonic() + wish, self._numbers, call))

    def _cancel(self, identity: str | int) -> None:
        self._sleeping = sorted(entry for entry in self._sleeping if entry[2].id != identity)  # still a heap
        for number in [number for number, call in self._asking.items() if call.id == identity]:
            del self._asking[number]
            self.send({"method": "notifications/cancelled", "params": {"requestId": number}})

    def _reply(self, call: Call, result: Json) -> None:
        if call.is_modern:
            result = {"resultType": "complete", **result, "_meta": {"io.modelcontextprotocol/serverInfo": INFO}}
        self.send({"id": call.id, "result": result})

    def _error(self, identity: str | int | None, code: int, message: str, data: Json | None = None) -> None:
        error = {"code": code, "message": message, **({"data": data} if data else {})}
        self.send({"id": identity, "error": error})


def main(argv: list[str]) -> int:
    """Serve on stdin and stdout until the end of input; return the exit status."""
    if argv:
        sys.stderr.write("usage: mcpd demo-server\nan MCP server on stdin and stdout, without options\n")
        return 2
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback for Ctrl-C
    Server().run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
