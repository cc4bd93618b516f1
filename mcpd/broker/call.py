"""One request of one client, from admission to the one outcome that the client is told.

Every call ends as done, failed, not sent or unknown; the last two are what `may_have_run` says.
Nothing here waits: the call is moved by the reader that got the bytes, or by a timer.

Spec: 2025-11-25 and 2026-07-28 server/tools; basic/utilities/progress and /cancellation; 2026-07-28
"multi round-trip requests": a result that asks for input sends the same request again with the answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import msgspec
import trio
from msgspec import Raw

from mcpd.errors import ExchangeLost, InputRequired, McpdError, ServerLost, ServerProtocol, StaleSession
from mcpd.protocol import rawjson, splicing
from mcpd.protocol import session as sessions
from mcpd.protocol.session import Session
from mcpd.upstream.exchange import Exchange
from mcpd.upstream.lifecycle import State

from . import asking, viewing
from .asking import Round
from .lateness import timed_out
from .parties import Client, Held, Parts, Place
from .requests import Request

# Where a call is: not admitted yet, waiting for a place, or with its upstream's slot.
NEW, QUEUED, PLACED = "new", "queued", "placed"
# A server that asks again and again has to come to an end.
MAX_ROUNDS = 10
# Before a request goes again of which only the state is wanted back; the more often, the longer.
AGAIN_SECONDS = 0.05


class Call(Exchange):
    """A call in one of its phases: not admitted yet, queued, with its slot, over.

    Attributes:
        client: who asked.
        request_id: the client's id, as it wrote it.
        request: what was asked.
        exclusive: no other client's call runs beside it.
        unasked: why a question of its server, perhaps of this call, was put to nobody.
        incarnation: who it was sent to; 0 before that.
        over: it has had its one outcome.
        passed_on: the error it ended with is the upstream's own.
        nod: what it waits for before anything of it is sent.
    """

    __slots__ = (
        "__dict__", "_deadline", "_extended", "_latest", "_phase", "_place", "_seconds", "_token", "client", "exclusive",
        "incarnation", "over", "request", "request_id",
    )  # fmt: skip

    # What few calls need, and so is the class's until one does.
    _answer: Raw | None = None
    _round: Round | None = None
    _rounds = _asked = 0
    _inputs = b""
    _repeated = passed_on = False
    unasked = ""
    nod: Held | None = None

    def __init__(self, place: Place, client: Client, request_id: bytes, request: Request, now: float) -> None:
        self.id = self.frame = b""
        self._place, self.client, self.request_id, self.request = place, client, request_id, request
        meta = request.meta
        self._token = bytes(meta["progressToken"]) if meta is not None and "progressToken" in meta else None
        self.incarnation = self.returns = 0
        self.over = self.exclusive = self._extended = False
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
    def what(self) -> str:
        """The name of the tool, resource or prompt."""
        return self.request.what

    # -- on its way ------------------------------------------------------------------------------

    def begin(self) -> bool:
        """Take a place and go, or queue for one; False if too much is queued already (nothing is answered)."""
        place = self._place
        self.exclusive = bool(place.slot.server.interactive) and place.is_exclusive(self)
        admitted = place.admission.admit(self.client.key, self, exclusive=self.exclusive)
        if admitted is None:
            return False
        if admitted:
            self._phase = PLACED
            place.slot.submit(self)
        else:
            self._phase = QUEUED
        return True

    def hold(self) -> None:
        """Let no time run until it is let go."""
        self._deadline = self._latest = inf

    def let_go(self) -> None:
        """Let its time begin to run."""
        now, limits = trio.current_time(), self._place.slot.server.timeout
        self._latest = now + limits.max_seconds
        self._deadline = now + self._seconds + (limits.start_seconds if self._extended else 0.0)
        self._place.timers.at(self._deadline, self.due)

    def move(self, place: Place) -> bool:
        """Begin anew at another place, from the queue or the waiting room of the one before; as `begin`."""
        before, was_placed = self._place, self._phase is PLACED
        self._place, self._phase = place, NEW
        if was_placed:
            before.release(self)
        return self.begin()

    def go(self) -> None:
        """Go on with the place that it has got now."""
        self._phase = PLACED
        self._place.slot.submit(self)

    def compose(self, session: Session, request_id: bytes) -> tuple[bytes, bytes]:
        """Write the request for what was agreed; its time begins to run."""
        self.incarnation = session.incarnation
        if self._extended:
            self._restart_clock()
        request, place = self.request, self._place
        inputs = self._inputs or self.client.inputs
        if session.era == "legacy":
            inputs = b""  # nobody there knows what they are
            if not request.meta:  # as often
                return request.method, request.params()
        token, key = request_id if self._token is not None else None, self.client.key
        level = place.level_of(key) if place.leveled else None
        meta = sessions.meta(session, token, request.meta, self.client.capabilities_json, level)
        return request.method, sessions.list_params(request.params(), meta, inputs)

    def _restart_clock(self) -> None:
        """Count the time from now on, which is when it is sent."""
        self._extended = False
        self._deadline = trio.current_time() + self._seconds
        self._place.timers.at(self._deadline, self.due)  # the entry for the later time finds it over

    def rename(self, request_id: bytes, meta: Mapping[str, Raw] | None) -> None:
        """Go on as another request of the same client, with its own id and progress token."""
        self.request_id = request_id
        self._token = bytes(meta["progressToken"]) if meta is not None and "progressToken" in meta else None

    def cancel(self, reason: str) -> None:
        """Give it up because the client does not want it any more; nobody is answered. Idempotent."""
        if not self.over:
            began = self._abandon(reason)
            self._finish("unknown" if began or self._repeated else "not_sent")

    def _abandon(self, reason: str, *, timed_out: bool = False) -> bool:
        if self._phase is QUEUED:
            self._place.passing.leave(self)
        if self._phase is not PLACED:
            return False
        if self._round is not None:
            self._round.withdraw(reason)
        return self._place.slot.give_up(self, reason, timed_out=timed_out) or self._rounds > 0

    def go_stale(self) -> None:
        """Refuse it because its client has turned to another project: what was not sent is not sent any more."""
        if not self.over:
            began = self._abandon("the client has turned to another project")
            self.on_failure(StaleSession.of_turn(self.request.server, may_have_run=began or self._repeated))

    # -- questions of the server -----------------------------------------------------------------

    def asked(self) -> None:
        """Give the client time to answer a question; nobody waits longer than for progress."""
        self._asked += 1
        if self.request.timeout is None:
            self._deadline = self._latest

    def told(self) -> None:
        """Count the time anew: the question has been answered, and no other one is open."""
        self._asked -= 1
        if not self.over and not self._asked and self.request.timeout is None:
            self._deadline = min(trio.current_time() + self._seconds, self._latest)
            self._place.timers.at(self._deadline, self.due)

    def _ask(self, result: Raw) -> None:
        """Ask the client what the server wants to know, then send the request again with the answers."""
        wanted = asking.read_wanted(result)
        self._rounds += 1
        if self._rounds > MAX_ROUNDS:
            raise ServerProtocol(f"the server has asked for input {MAX_ROUNDS} times and asks again")
        place, name, state = self._place, self.request.server, wanted.state.copy()
        asking.require_able(name, wanted, self.client.capabilities, place.local_answer)
        if not wanted.requests:
            place.timers.after(AGAIN_SECONDS * self._rounds, lambda: self._resend(b"", state))
            return
        self.asked()
        place.asking.add(self)
        self._round = Round(name, self.client, wanted, place.local_answer, lambda answers, why: self._told(answers, why, state))
        self._round.ask()

    def _told(self, answers: bytes | None, why: str, state: Raw) -> None:
        self._round = None
        self._place.asking.discard(self)
        if self.over:
            return
        if answers is None:
            self.on_failure(InputRequired(f"'{self.what}' needs input: {why}", server=self.request.server, may_have_run=True))
            return
        self.told()
        self._resend(b',"inputResponses":%b' % answers, state)

    def end(self, problem: McpdError) -> None:
        """End it while its client is asked: the server takes no answer any more."""
        if self._round is not None:
            self._round.withdraw(problem.message)
        self.on_failure(type(problem)(problem.message, server=problem.server, may_have_run=True))

    def _resend(self, inputs: bytes, state: Raw) -> None:
        if not self.over:
            self._inputs = inputs + (b',"requestState":%b' % bytes(state) if state else b"")
            self._place.slot.submit(self)

    def due(self) -> None:
        """Time out, unless the deadline has been moved since it was set."""
        if self.over:
            return
        if self._deadline > trio.current_time() or self._waits_on():
            self._place.timers.watch(self._deadline, self)
            return
        if self._answer is not None:
            self.refused(self._answer, None)  # it has answered; there was no time to explain it
            return
        began, limits = self._abandon("timed out", timed_out=True), self._place.slot.server.timeout
        seconds = limits.max_seconds if self.client.patient else self._seconds
        self.on_failure(timed_out(self, self._place, seconds, began, self._phase is QUEUED))

    def _waits_on(self) -> bool:
        """Go on for a client that has a limit of its own, as long as the server shows that it is there."""
        now = trio.current_time()
        if not self.client.patient or now >= self._latest or self._place.slot.server.on_timeout == "retire":
            return False
        self._deadline = min(now + self._seconds, self._latest)
        self._place.slot.look_at(self)
        return True

    # -- outcomes --------------------------------------------------------------------------------

    def on_progress(self, params: Raw) -> None:
        """Pass progress on with the client's token; it proves that the call is worth waiting for."""
        if self.request.timeout is None:
            self._deadline = min(max(self._deadline, trio.current_time() + self._seconds), self._latest)
        if self._token is not None and (told := viewing.progress(params, self._token)) is not None:
            self.client.progressed(self, told)

    def on_result(self, result: Raw) -> None:
        """Cut the result to the client's view and answer."""
        try:
            head = splicing.look(result)
            if asking.is_question(head) and not self.client.is_modern:
                self._ask(result)
                return
            if self.client.whole:
                rawjson.require_utf8(result)
                parts: Parts = (memoryview(result),)
            else:
                parts = viewing.parts(self, result, head, self._place)
        except McpdError as problem:
            problem.server = self._place.slot.server.name
            problem.may_have_run = True
            self.on_failure(problem)
            return
        self._finish("done")
        self.client.answered(self, parts)

    def on_error(self, error: Raw) -> None:
        """Pass the upstream's own error on, unless we know better."""
        self._place.refused(self, error)
        self._answer = error
        if not self._place.explains(self, error):
            self.refused(error, self._place.refusal(self, error))

    def refused(self, error: Raw, instead: bytes | None) -> None:
        """Tell the client the upstream's error, or what we say `instead`."""
        if not self.over:
            self.passed_on = instead is None
            self._finish("failed")
            self.client.refused(self, bytes(error) if instead is None else instead)

    def on_failure(self, problem: McpdError) -> None:
        """Tell the client what went wrong on our side."""
        if self.over or self._again(problem):
            return
        error, ran = problem.to_error(), problem.may_have_run
        if self._repeated:  # the first try may have run, whatever became of this one
            error["data"]["may_have_run"] = ran = True
        self._finish("failed" if ran is None else "unknown" if ran else "not_sent")
        self.client.refused(self, msgspec.json.encode(error))

    def _again(self, problem: McpdError) -> bool:
        """Send a lost call once more, if its entry asks for that and its tool can bear it."""
        if not isinstance(problem, ServerLost | ExchangeLost) or self._repeated or not self._place.may_repeat(self):
            return False
        self._repeated = True
        self._place.slot.submit(self)
        return True

    def _finish(self, outcome: str) -> None:
        """Give the place back, and let the next one go."""
        if self.over:
            return
        self.over = True
        # Its deadline may keep this alive for a while; what it carried is not kept with it.
        self.request.drop()
        self.frame = b""
        if self.__dict__:
            self._round = self._answer = None
            self._inputs = b""
            self._place.asking.discard(self)
            if self.nod is not None:
                self.nod.over()
        self._place.timers.died()
        slot = self._place.slot
        slot.outcomes[outcome] += 1
        if slot.events.followed:
            self._tell(outcome)
        if self._phase is PLACED:
            self._place.release(self)

    def _tell(self, outcome: str) -> None:
        slot = self._place.slot
        slot.events.tell(
            "call",
            slot.server.name,
            tool=self.what[:200],  # it is kept with the last events
            outcome=outcome,
            seconds=round(trio.current_time() - self._latest + slot.server.timeout.max_seconds, 4),
            client=self.client.key,
            incarnation=self.incarnation or None,
        )
