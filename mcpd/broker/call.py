"""One tool call of one client, from admission to the one outcome that the client is told.

Every call ends as done, failed, not sent or unknown; the last two are what `may_have_run` says.
Nothing here waits: the call is moved by the reader that got the bytes, or by a timer.

Spec: 2025-11-25 and 2026-07-28 server/tools; basic/utilities/progress and /cancellation.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from typing import Protocol

import msgspec
import trio
from msgspec import Raw

from mcpd.errors import CallTimeout, InputRequired, McpdError, ServerProtocol
from mcpd.protocol import bounding, mcp
from mcpd.protocol import session as sessions
from mcpd.protocol.session import Session
from mcpd.timers import Timer, Timers
from mcpd.upstream.channel import Exchange
from mcpd.upstream.supervisor import Slot

from .limits import Admission
from .results import ResultStore

Parts = tuple[bytes | bytearray | memoryview, ...]

# Where a call is: not admitted yet, waiting for a place, or with its upstream's slot.
NEW, QUEUED, PLACED = "new", "queued", "placed"

_head = msgspec.json.Decoder(mcp.ResultHead).decode


class Client(Protocol):
    """Who asked; the answers go here."""

    @property
    def key(self) -> Hashable:
        """What counts as one client for shares and handles."""

    def answered(self, call: Call, parts: Parts) -> None:
        """Take the result, as JSON in parts."""

    def refused(self, call: Call, error: bytes) -> None:
        """Take an error object, as JSON."""

    def progressed(self, call: Call, params: bytes) -> None:
        """Take the `params` of a progress notification, with the client's own token."""


class Place(Protocol):
    """What a call needs to know of its upstream's place in the broker."""

    slot: Slot
    admission: Admission[Call]

    def refusal(self, call: Call, error: Raw) -> bytes | None:
        """Return the error to give instead of the upstream's own, or None to pass that on."""


class Call(Exchange):
    """A call in one of its phases: queued, waiting for a start, sent, over."""

    __slots__ = (
        "_arguments", "_client", "_deadline", "_latest", "_max_bytes", "_meta", "_phase", "_place", "_seconds",
        "_store", "_timer", "_timers", "_token", "explicit", "incarnation", "over", "request_id", "tool",
    )  # fmt: skip

    def __init__(
        self,
        place: Place,
        client: Client,
        request_id: bytes,
        tool: str,
        arguments: bytes,
        *,
        meta: Mapping[str, Raw] | None,
        max_bytes: int,
        timeout_seconds: float | None,
        timers: Timers,
        store: ResultStore,
    ) -> None:
        super().__init__()
        self._place, self._client, self.request_id, self.tool = place, client, request_id, tool
        self._arguments, self._meta, self._max_bytes = arguments, meta, max_bytes
        self._token = bytes(meta["progressToken"]) if meta is not None and "progressToken" in meta else None
        self._timers, self._store = timers, store
        self.incarnation = 0
        self.over = False
        self._phase = NEW
        limits = place.slot.server.timeout
        self.explicit = timeout_seconds is not None
        self._seconds = min(limits.call_seconds if timeout_seconds is None else timeout_seconds, limits.max_seconds)
        now = trio.current_time()
        self._deadline = now + self._seconds
        if not self.explicit and place.slot.session is None:
            # The start has a limit of its own; what is left of it must not eat the call's time.
            self._deadline += limits.start_seconds
        self._latest = now + limits.max_seconds
        self._timer: Timer = timers.at(self._deadline, self._due)

    # -- on its way ------------------------------------------------------------------------------

    def begin(self) -> bool:
        """Take a place and go, or queue for one; False if too much is queued already (nothing is answered)."""
        admitted = self._place.admission.admit(self._client.key, self)
        if admitted is None:
            return False
        self._phase = QUEUED
        if admitted:
            self.go()
        return True

    def go(self) -> None:
        """Go on with the place that it has got now."""
        self._phase = PLACED
        self._place.slot.submit(self)

    def compose(self, session: Session, request_id: bytes) -> tuple[bytes, bytes]:
        """Write the request for what was agreed; its time begins to run."""
        self.incarnation = session.incarnation
        if not self.explicit and self._deadline > (limit := trio.current_time() + self._seconds):
            self._deadline = limit
            self._timer.cancel()
            self._timer = self._timers.at(limit, self._due)
        token = request_id if self._token is not None else None
        meta = sessions.meta(session, token, self._meta)
        return b'"tools/call"', sessions.call_params(msgspec.json.encode(self.tool), self._arguments, meta)

    def cancel(self, reason: str) -> None:
        """Give it up because the client does not want it any more; nobody is answered. Idempotent."""
        if not self.over:
            began = self._abandon(reason)
            self._finish("unknown" if began else "not_sent")

    def _abandon(self, reason: str, *, timed_out: bool = False) -> bool:
        if self._phase is QUEUED:
            self._place.admission.leave(self._client.key, self)
        if self._phase is not PLACED:
            return False
        return self._place.slot.give_up(self, reason, timed_out=timed_out)

    def _due(self) -> None:
        """Time out, unless progress has moved the deadline."""
        if self.over:
            return
        if self._deadline > trio.current_time():
            self._timer = self._timers.at(self._deadline, self._due)
            return
        waited, slot = not self.id, self._place.slot
        began = self._abandon("timed out", timed_out=True)
        where = "was not ready for" if waited else "did not answer"
        self.on_failure(
            CallTimeout(
                f"server '{slot.server.name}' {where} '{self.tool}' within {self._seconds:g} s",
                server=slot.server.name,
                hint=f"mcpd call --timeout {self._seconds * 4:g} …",
                may_have_run=began,
                tool=self.tool,
                seconds=self._seconds,
            )
        )

    # -- outcomes --------------------------------------------------------------------------------

    def on_progress(self, params: Raw) -> None:
        """Pass progress on with the client's token; it proves that the call is worth waiting for."""
        if not self.explicit:
            self._deadline = min(max(self._deadline, trio.current_time() + self._seconds), self._latest)
        if self._token is None:
            return
        try:
            members = msgspec.json.decode(params, type=dict[str, Raw])
        except (msgspec.MsgspecError, RecursionError):
            return
        members["progressToken"] = Raw(self._token)
        self._client.progressed(self, msgspec.json.encode(members))

    def on_result(self, result: Raw) -> None:
        """Cut the result to the client's view and answer."""
        try:
            self._check_complete(result)
            parts = self._view(result)
        except McpdError as problem:
            problem.server = self._place.slot.server.name
            problem.may_have_run = True
            self.on_failure(problem)
            return
        self._finish("done")
        self._client.answered(self, parts)

    def on_error(self, error: Raw) -> None:
        """Pass the upstream's own error on."""
        body = self._place.refusal(self, error)
        self._finish("failed")
        self._client.refused(self, bytes(error) if body is None else body)

    def on_failure(self, problem: McpdError) -> None:
        """Tell the client what went wrong on our side."""
        if not self.over:
            ran = problem.may_have_run
            self._finish("failed" if ran is None else "unknown" if ran else "not_sent")
            self._client.refused(self, msgspec.json.encode(problem.to_error()))

    def _check_complete(self, result: Raw) -> None:
        """Spec: 2026-07-28, "resultType"; one that is missing reads `complete`."""
        try:
            kind = _head(result).resultType
        except (msgspec.MsgspecError, RecursionError):
            return
        if kind == "input_required":
            hint = "call it from a host that can ask its user"
            raise InputRequired(f"'{self.tool}' asks for input that this client cannot give", hint=hint)
        if kind != "complete":
            raise ServerProtocol(f"the answer is of an unknown type: {kind[:60]!r}")

    def _view(self, result: Raw) -> Parts:
        if not bounding.needs_cut(result, self._max_bytes):
            size = len(result)
            view = b'{"incarnation":%d,"bytes":%d,"shown":%d,"truncated":false}' % (self.incarnation, size, size)
            parts = bounding.with_meta(result, b"mcpd/view", view)
            return (parts,) if isinstance(parts, bytes) else tuple(parts)
        whole = bounding.split(result)
        page = bounding.page(whole, 0, self._max_bytes)
        described: dict[str, object] = {"incarnation": self.incarnation}
        if page.shown < whole.bytes:
            described["handle"] = self._store.put(whole, None, trio.current_time(), os.urandom(12).hex())
        return (bounding.view(whole, page, described),)

    def _finish(self, outcome: str) -> None:
        """Give the place back, and let the next one go."""
        if self.over:
            return
        self.over = True
        self._timer.cancel()
        self._place.slot.outcomes[outcome] += 1
        if self._phase is not PLACED:
            return
        following = self._place.admission.release(self._client.key)
        if following is not None:
            following.go()
