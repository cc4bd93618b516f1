"""What a slot asks its server on its own account: one request to one incarnation, with a time limit."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Protocol

import msgspec
import trio
from msgspec import Raw

from mcpd.errors import CallTimeout, McpdError
from mcpd.protocol import jsonrpc, rawjson, splicing
from mcpd.protocol import session as sessions
from mcpd.protocol.session import Session
from mcpd.timers import Timer, Timers
from mcpd.upstream.channel import Channel
from mcpd.upstream.exchange import Exchange

SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"


class Client(Protocol):
    """Who wants to hear something."""

    @property
    def key(self) -> Hashable:
        """What counts as one client."""

    def notified(self, method: str, params: bytes) -> None:
        """Take a notification, or miss it; `params` is JSON."""


class Run(Protocol):
    """One incarnation that is ready."""

    channel: Channel
    session: Session | None
    open: bool
    stopping: bool


class Refused(McpdError):
    """The upstream's own error, passed on as it is."""

    def __init__(self, error: Raw) -> None:
        self.view = jsonrpc.read_error(error)
        super().__init__(self.view.message)

    def to_error(self) -> dict[str, Any]:
        """Return what the upstream has said."""
        body: dict[str, Any] = {"code": self.view.code, "message": self.view.message}
        if self.view.data:
            body["data"] = self.view.data
        return body


class Outcome:
    """What becomes of a wish; `wake` is called when that is known."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake, self._done = wake, trio.Event()
        self._problem: McpdError | None = None

    @property
    def known(self) -> bool:
        """Whether it is known."""
        return self._done.is_set()

    def settle(self, problem: McpdError | None = None) -> None:
        """Say that the wish is granted, or why not. Only the first word counts."""
        if not self.known:
            self._problem = problem
            self._done.set()
            self._wake()

    async def wait(self) -> None:
        """Wait until it is known.

        Raises:
            McpdError: It was not granted.
        """
        await self._done.wait()
        if self._problem is not None:
            raise self._problem


class Asked(Exchange):
    """A small request whose answer says only whether the server agrees."""

    __slots__ = ("_done", "_method", "_params", "timer")

    lasting = True

    def __init__(self, method: str, params: bytes, done: Callable[[McpdError | None], None]) -> None:
        super().__init__()
        self._method, self._params, self._done = method, params, done
        self.timer: Timer | None = None

    def compose(self, session: Session, request_id: bytes) -> tuple[bytes, bytes]:
        """Return what the constructor was given."""
        return msgspec.json.encode(self._method), sessions.list_params(self._params, sessions.meta(session))

    def on_result(self, result: Raw) -> None:
        """The server agrees."""
        self.settle(None)

    def on_error(self, error: Raw) -> None:
        """It does not."""
        self.settle(Refused(error))

    def on_failure(self, problem: McpdError) -> None:
        """Nobody knows, and it does not matter any more."""
        problem.may_have_run = None
        self.settle(problem)

    def settle(self, problem: McpdError | None) -> None:
        """Pass the outcome on."""
        if self.timer is not None:
            self.timer.cancel()
        self._done(problem)


def ask(
    one: Run,
    timers: Timers,
    method: str,
    params: bytes,
    done: Callable[[McpdError | None], None],
    seconds: float,
) -> None:
    """Ask one incarnation; `done` gets None, or why it did not agree within so many seconds."""
    asked = Asked(method, params, done)
    asked.timer = timers.after(seconds, partial(_too_late, one, asked, method, seconds))
    if one.session is not None:
        one.channel.request(asked, one.session)


def _too_late(one: Run, asked: Asked, method: str, seconds: float) -> None:
    one.channel.give_up(asked, "timed out")
    asked.settle(CallTimeout(f"the server did not answer {method} within {seconds:g} s"))


def marked(params: bytes | Raw, server: str, *, tagged: bool = False) -> bytes:
    """Return the params of a notification with the server's name in `_meta`, all else bit-exact.

    Args:
        params: what the server sent.
        server: its name.
        tagged: take out the id of our subscription, which means nothing to others.

    Raises:
        ServerProtocol: They are no JSON object, or have a `_meta` that is no object.
    """
    name = msgspec.json.encode(server)
    if tagged:
        members = rawjson.members(params, "the notification")
        meta = splicing.meta_members(members.get("_meta", jsonrpc.ABSENT))
        meta.pop(SUBSCRIPTION_ID, None)
        members["_meta"] = Raw(msgspec.json.encode({**meta, "mcpd/server": Raw(name)}))
        return msgspec.json.encode(members)
    parts = splicing.with_meta(params or b"{}", b"mcpd/server", name)
    return parts if isinstance(parts, bytes) else b"".join(parts)
