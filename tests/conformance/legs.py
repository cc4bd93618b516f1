"""Both legs of the shim: whose each message of a server is, where a process has one session, and where it has none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import trio

from tests.conformance.child import Child, Json
from tests.conformance.web import Exchange

PREFIX = "io.modelcontextprotocol/"
VERSION, CAPABILITIES, LEVEL = f"{PREFIX}protocolVersion", f"{PREFIX}clientCapabilities", f"{PREFIX}logLevel"
SUBSCRIPTION = f"{PREFIX}subscriptionId"
UNKNOWN_METHOD, INVALID_PARAMS, INTERNAL = -32601, -32602, -32603
MISMATCH, NO_CAPABILITY, WRONG_VERSION = -32020, -32021, -32022
LISTEN = "subscriptions/listen"
# Gets a line, with the direction in front.
Note = Callable[[str, str], None]


def is_response(message: Json) -> bool:
    return "method" not in message


def part(message: Mapping[str, Any], *path: str) -> Any:
    """Return what is there, an empty object if that is none or there is nothing."""
    found: Any = message
    for name in path:
        found = found.get(name, {}) if isinstance(found, dict) else {}
    return found


def error(identity: object, code: int, message: str) -> Json:
    return {"jsonrpc": "2.0", "id": identity, "error": {"code": code, "message": message}}


class Post:
    """A request of a client, and what comes for it."""

    def __init__(self, request: Json) -> None:
        self.request = request
        self._send, self._receive = trio.open_memory_channel[Json](float("inf"))

    @property
    def token(self) -> Any:
        return part(self.request, "params", "_meta").get("progressToken")

    def put(self, message: Json) -> None:
        self._send.send_nowait(message)

    def close(self) -> None:
        """Expect nothing more."""
        self._send.close()

    async def relay(self, exchange: Exchange, headers: Mapping[str, str] | None = None) -> Json:
        """Send all that comes to the client, as JSON if it is the answer alone; return the answer."""
        async for message in self._receive:
            if not is_response(message):
                if not exchange.is_open:
                    await exchange.open(headers)
                await exchange.event(message)
            elif exchange.is_open:
                await exchange.event(message)
                await exchange.end()
                return message
            else:
                more = headers if "result" in message else None
                await exchange.answer(status_of(message, self.request), message, more)
                return message
        said = error(self.request["id"], INTERNAL, "the server has ended")
        await (exchange.end() if exchange.is_open else exchange.answer(502, said))
        return said


def status_of(message: Json, request: Json) -> int:
    """Return the status that a response has in the modern revision; legacy ones have 200."""
    meta = part(request, "params", "_meta")
    code = part(message, "error").get("code")
    if code == UNKNOWN_METHOD and VERSION in meta:
        return 404
    incomplete = code == INVALID_PARAMS and not {VERSION, CAPABILITIES} <= meta.keys()
    return 400 if code in (MISMATCH, NO_CAPABILITY, WRONG_VERSION) or incomplete else 200


class Session:
    """A legacy session: a process, the requests that it has not answered, and what belongs to none of them."""

    def __init__(self, note: Note) -> None:
        self.child = Child(self._on_message, self._on_end, note)
        self.posts: list[Post] = []
        self.stray_send, self.stray = trio.open_memory_channel[Json](float("inf"))
        self.is_heard = False  # by a GET
        self._left: list[Any] = []  # ids of requests whose client did not wait for the answer

    async def post(self, exchange: Exchange, message: Json, headers: Mapping[str, str] | None = None) -> Json:
        post = Post(message)
        self.posts.append(post)
        self.child.write(message)
        if self.child.has_ended:
            post.close()
        try:
            return await post.relay(exchange, headers)
        finally:
            # A client that leaves does not cancel; what is still to come has no stream of its own then.
            if post in self.posts:
                self.posts.remove(post)
                self._left.append(message["id"])

    async def get(self, exchange: Exchange) -> None:
        if self.is_heard:
            return await exchange.answer(409)
        self.is_heard = True
        try:
            await exchange.open()
            async for message in self.stray:
                await exchange.event(message)
            await exchange.end()
        finally:
            self.is_heard = False

    def _on_message(self, message: Json) -> None:
        if is_response(message):
            post = next((each for each in self.posts if each.request["id"] == message.get("id")), None)
            if post is not None:
                self.posts.remove(post)
                post.put(message)
            elif message.get("id") in self._left:
                self._left.remove(message["id"])
            else:
                self.child.trouble = f"an answer that nobody waits for: {message}"
            return
        token = part(message, "params").get("progressToken")
        owners = [post for post in self.posts if token is not None and post.token == token]
        (owners or self.posts)[-1].put(message) if self.posts else self.stray_send.send_nowait(message)

    def _on_end(self) -> None:
        for post in self.posts:
            post.close()
        self.stray_send.close()


class Stateless:
    """All modern requests, on one process: their ids and tokens are exchanged for such as are unique there."""

    def __init__(self, note: Note) -> None:
        self.child = Child(self._on_message, self._on_end, note)
        self._posts: dict[Any, Post] = {}
        self._numbers = count(1)

    async def post(self, exchange: Exchange, message: Json) -> None:
        post = Post(message)
        identity = self._fresh(message["id"])
        sent = {**message, "id": identity}
        if post.token is not None:
            sent["params"] = {**message["params"], "_meta": {**message["params"]["_meta"], "progressToken": identity}}
        self._posts[identity] = post
        self.child.write(sent)
        if self.child.has_ended:
            post.close()
        try:
            await post.relay(exchange)
        finally:
            if self._posts.pop(identity, None) is not None:
                told = {"requestId": identity, "reason": "the client has closed the stream"}
                self.child.write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": told})

    def _fresh(self, like: object) -> int | str:
        """Return an id of the same type."""
        number = next(self._numbers)
        return f"shim-{number}" if isinstance(like, str) else number

    def _on_message(self, message: Json) -> None:
        if is_response(message):
            post = self._posts.pop(message.get("id"), None)
            if post is not None:
                post.put(_tagged(message, "result", post) | {"id": post.request["id"]})
            # What was cancelled may have been answered already; anything else has been answered twice.
            return
        if "id" in message:
            self.child.trouble = f"a request, in a revision without such: {message}"
        params = part(message, "params")
        subscription, token = part(params, "_meta").get(SUBSCRIPTION), params.get("progressToken")
        if subscription is not None:
            if subscription in self._posts:
                self._posts[subscription].put(_tagged(message, "params", self._posts[subscription]))
        elif token is not None:
            if token in self._posts:
                self._posts[token].put({**message, "params": {**params, "progressToken": self._posts[token].token}})
        else:
            # No line tells whose it is: it goes to who has asked for the log, else to anybody, who will complain.
            able = [post for post in self._posts.values() if post.request["method"] != LISTEN]
            wanting = [post for post in able if LEVEL in part(post.request, "params", "_meta")]
            for post in (wanting or able)[-1:]:
                post.put(message)

    def _on_end(self) -> None:
        for post in self._posts.values():
            post.close()


def _tagged(message: Json, member: str, post: Post) -> Json:
    """Return a message with the id that the client knows its subscription by, if it has one."""
    body = part(message, member)
    if SUBSCRIPTION not in part(body, "_meta"):
        return message
    return {**message, member: {**body, "_meta": {**body["_meta"], SUBSCRIPTION: post.request["id"]}}}
