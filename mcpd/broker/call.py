"""One tool call of one client, from admission to the one outcome that the client is told.

Every call ends as done, failed, not sent or unknown; the last two are what `may_have_run` says.
Nothing here waits: the call is moved by the reader that got the bytes, or by a timer.

Spec: 2025-11-25 and 2026-07-28 server/tools; basic/utilities/progress and /cancellation.
"""

from __future__ import annotations

import os
from collections.abc import Hashable
from typing import Protocol

import msgspec
import trio
from msgspec import Raw

from mcpd.errors import CallTimeout, InputRequired, McpdError, ServerLost, ServerProtocol
from mcpd.protocol import bounding, splicing
from mcpd.protocol import session as sessions
from mcpd.protocol.session import Session
from mcpd.timers import Timers
from mcpd.upstream.channel import Exchange
from mcpd.upstream.lifecycle import State
from mcpd.upstream.supervisor import Slot

from .limits import Admission
from .results import ResultStore

# The view that a client gets unless it asks for another.
VIEW_BYTES = 32 * 1024

Parts = tuple[bytes | bytearray | memoryview, ...]

# Where a call is: not admitted yet, waiting for a place, or with its upstream's slot.
NEW, QUEUED, PLACED = "new", "queued", "placed"


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


class Request(msgspec.Struct, gc=False):
    """What a client asks: the `params` of mcpd/call."""

    server: str
    tool: str
    arguments: Raw = Raw(b"{}")
    timeout: float | None = None
    max_bytes: int = VIEW_BYTES
    meta: dict[str, Raw] | None = msgspec.field(name="_meta", default=None)


class Place(Protocol):
    """What a call needs to know of its upstream's place in the broker."""

    slot: Slot
    admission: Admission[Call]
    timers: Timers
    store: ResultStore

    def release(self, key: Hashable) -> None:
        """Give a client's place back."""

    def refused(self, call: Call) -> None:
        """Note that the upstream answered a call with an error."""

    def may_repeat(self, tool: str) -> bool:
        """Whether a call that may have run may be sent again."""

    def explains(self, call: Call, error: Raw) -> bool:
        """Whether the call will be told later what an error means, by `refused`."""

    def refusal(self, call: Call, error: Raw) -> bytes | None:
        """Return the error to give instead of the upstream's own, or None to pass that on."""


class Call(Exchange):
    """A call in one of its phases: not admitted yet, queued, with its slot, over.

    Attributes:
        request_id: the client's id, as it wrote it.
        request: what was asked.
        incarnation: who it was sent to; 0 before that.
        over: it has had its one outcome.
        passed_on: the error it ended with is the upstream's own.
    """

    __slots__ = (
        "_answer", "_client", "_deadline", "_extended", "_latest", "_phase", "_place", "_repeated", "_seconds", "_token",
        "incarnation", "over", "passed_on", "request", "request_id",
    )  # fmt: skip

    def __init__(self, place: Place, client: Client, request_id: bytes, request: Request, now: float) -> None:
        self.id = self.frame = b""
        self._place, self._client, self.request_id, self.request = place, client, request_id, request
        self._answer: Raw | None = None
        meta = request.meta
        self._token = bytes(meta["progressToken"]) if meta is not None and "progressToken" in meta else None
        self.incarnation = 0
        self.over = self.passed_on = self._extended = self._repeated = False
        self._phase = NEW
        limits = place.slot.server.timeout
        seconds = request.timeout
        if seconds is None:
            seconds = limits.call_seconds
            # The start has a limit of its own; what is left of it must not eat the call's time.
            self._extended = place.slot.state is not State.READY
        self._seconds = seconds if seconds < limits.max_seconds else limits.max_seconds
        self._deadline = now + self._seconds + (limits.start_seconds if self._extended else 0.0)
        self._latest = now + limits.max_seconds
        place.timers.watch(self._deadline, self)

    @property
    def tool(self) -> str:
        """The tool's name."""
        return self.request.tool

    # -- on its way ------------------------------------------------------------------------------

    def begin(self) -> bool:
        """Take a place and go, or queue for one; False if too much is queued already (nothing is answered)."""
        admitted = self._place.admission.admit(self._client.key, self)
        if admitted is None:
            return False
        if admitted:
            self._phase = PLACED
            self._place.slot.submit(self)
        else:
            self._phase = QUEUED
        return True

    def go(self) -> None:
        """Go on with the place that it has got now."""
        self._phase = PLACED
        self._place.slot.submit(self)

    def compose(self, session: Session, request_id: bytes) -> tuple[bytes, bytes]:
        """Write the request for what was agreed; its time begins to run."""
        self.incarnation = session.incarnation
        if self._extended:
            self._restart_clock()
        token = request_id if self._token is not None else None
        meta = sessions.meta(session, token, self.request.meta)
        name = msgspec.json.encode(self.request.tool)
        return b'"tools/call"', sessions.call_params(name, bytes(self.request.arguments), meta)

    def _restart_clock(self) -> None:
        """Count the time from now on, which is when it is sent."""
        self._extended = False
        self._deadline = trio.current_time() + self._seconds
        self._place.timers.at(self._deadline, self.due)  # the entry for the later time finds it over

    def cancel(self, reason: str) -> None:
        """Give it up because the client does not want it any more; nobody is answered. Idempotent."""
        if not self.over:
            began = self._abandon(reason)
            self._finish("unknown" if began or self._repeated else "not_sent")

    def _abandon(self, reason: str, *, timed_out: bool = False) -> bool:
        if self._phase is QUEUED:
            self._place.admission.leave(self._client.key, self)
        if self._phase is not PLACED:
            return False
        return self._place.slot.give_up(self, reason, timed_out=timed_out)

    def due(self) -> None:
        """Time out, unless the deadline has been moved since it was set."""
        if self.over:
            return
        if self._deadline > trio.current_time():
            self._place.timers.watch(self._deadline, self)
            return
        if self._answer is not None:
            self.refused(self._answer, None)  # it has answered; there was no time to explain it
            return
        waited, slot = not self.id, self._place.slot
        began = self._abandon("timed out", timed_out=True)
        where = "was not ready for" if waited else "did not answer"
        self.on_failure(
            CallTimeout(
                f"server '{slot.server.name}' {where} '{self.tool}' within {round(self._seconds, 2):g} s",
                server=slot.server.name,
                hint=f"mcpd call --timeout {max(1, round(self._seconds * 4)):g} …",
                may_have_run=began,
                tool=self.tool,
                seconds=round(self._seconds, 3),
            )
        )

    # -- outcomes --------------------------------------------------------------------------------

    def on_progress(self, params: Raw) -> None:
        """Pass progress on with the client's token; it proves that the call is worth waiting for."""
        if self.request.timeout is None:
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
            parts = self._view(result)
        except McpdError as problem:
            problem.server = self._place.slot.server.name
            problem.may_have_run = True
            self.on_failure(problem)
            return
        self._finish("done")
        self._client.answered(self, parts)

    def on_error(self, error: Raw) -> None:
        """Pass the upstream's own error on, unless we know better."""
        self._place.refused(self)
        self._answer = error
        if not self._place.explains(self, error):
            self.refused(error, self._place.refusal(self, error))

    def refused(self, error: Raw, instead: bytes | None) -> None:
        """Tell the client the upstream's error, or what we say `instead`."""
        if not self.over:
            self.passed_on = instead is None
            self._finish("failed")
            self._client.refused(self, bytes(error) if instead is None else instead)

    def on_failure(self, problem: McpdError) -> None:
        """Tell the client what went wrong on our side."""
        if self.over or self._again(problem):
            return
        error, ran = problem.to_error(), problem.may_have_run
        if self._repeated:  # the first try may have run, whatever became of this one
            error["data"]["may_have_run"] = ran = True
        self._finish("failed" if ran is None else "unknown" if ran else "not_sent")
        self._client.refused(self, msgspec.json.encode(error))

    def _again(self, problem: McpdError) -> bool:
        """Send a lost call once more, if its entry asks for that and its tool can bear it."""
        if not isinstance(problem, ServerLost) or self._repeated or not self._place.may_repeat(self.tool):
            return False
        self._repeated = True
        self._place.slot.submit(self)
        return True

    def _check_complete(self, head: splicing.Head) -> None:
        """Spec: 2026-07-28, "resultType"; one that is missing reads `complete`."""
        kind = bytes(head.result_type)
        if kind in (b"", b'"complete"', b"null"):
            return
        if kind == b'"input_required"':
            hint = "call it from a host that can ask its user"
            raise InputRequired(f"'{self.tool}' asks for input that this client cannot give", hint=hint)
        raise ServerProtocol(f"the answer is of an unknown type: {kind[:60].decode('utf-8', 'replace')}")

    def _view(self, result: Raw) -> Parts:
        head = splicing.look(result)
        self._check_complete(head)
        if not bounding.needs_cut(result, self.request.max_bytes):
            size = len(result)
            view = b'{"incarnation":%d,"bytes":%d,"shown":%d,"truncated":false}' % (self.incarnation, size, size)
            parts = splicing.with_meta(result, b"mcpd/view", view, head)
            return (parts,) if isinstance(parts, bytes) else tuple(parts)
        whole = bounding.split(result)
        described: dict[str, object] = {"incarnation": self.incarnation}
        if whole.bytes > (limit := self._place.slot.server.limits.result_bytes):
            described["bytes"] = whole.bytes
            whole = bounding.shortened(whole, limit)
            described["kept"] = whole.bytes
        page = bounding.page(whole, 0, self.request.max_bytes)
        if page.shown < whole.bytes:
            now, token, following = trio.current_time(), os.urandom(12).hex(), page.next_offset
            turned = whole.bytes if following is None else following
            described["handle"] = self._place.store.put(whole, None, now, token, turned)
        return (bounding.view(whole, page, described),)

    def _finish(self, outcome: str) -> None:
        """Give the place back, and let the next one go."""
        if self.over:
            return
        self.over = True
        # Its deadline may keep this alive for a while; what it carried is not kept with it.
        self.request.arguments, self.frame = Raw(b"{}"), b""
        self._place.timers.died()
        slot = self._place.slot
        slot.outcomes[outcome] += 1
        if slot.events.followed:
            self._tell(outcome)
        if self._phase is PLACED:
            self._place.release(self._client.key)

    def _tell(self, outcome: str) -> None:
        slot = self._place.slot
        slot.events.tell(
            "call",
            slot.server.name,
            tool=self.tool,
            outcome=outcome,
            seconds=round(trio.current_time() - self._latest + slot.server.timeout.max_seconds, 4),
            client=self._client.key,
            incarnation=self.incarnation or None,
        )
