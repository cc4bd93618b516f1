"""One run of an upstream: spawn, agree, serve, end; afterwards nothing of it is left."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import trio

from mcpd.config.expand import Launch
from mcpd.config.model import Server
from mcpd.config.redact import LiveRedactor, Redactor
from mcpd.errors import McpdError, ServerLost, ServerUnavailable, final
from mcpd.protocol import negotiate
from mcpd.protocol.jsonrpc import Message
from mcpd.protocol.negotiate import Ask, Ended, Outcome, Respawn, Silence, Tell
from mcpd.protocol.session import Session

from .around import Surroundings, Transport
from .channel import Channel
from .exchange import Exchange
from .failures import start_failed, stopped, with_outcome
from .owner import Owner
from .process import KILL_SECONDS
from .question import NOBODY, Question
from .stdio import EXIT_SECONDS, Ring

# The slowest of the servers that are silent on the probe still get their `initialize` in time.
PROBE_SECONDS = 10.0


class Incarnation:
    """One run.

    Attributes:
        number: counts up per upstream.
        channel: where requests go once it is ready.
        session: the agreement, once there is one.
        open: it takes requests.
        doubtful: it was probed, and has been silent for longer than a live one is.
        redact: takes the secrets of its entry and its credentials out of a text.
        offered: what a legacy session was told that it may ask, as JSON.
        costly_probe: the server was silent or left when it was probed: worth remembering.
        home: its surroundings, with a nursery of its own while it runs.
    """

    def __init__(self, number: int, server: Server, owner: Owner, around: Surroundings) -> None:
        self.number, self.server, self.ring = number, server, Ring(around.followers, self._tell)
        self._owner, self._around, self._mover = owner, around, around.mover
        self.home = around
        self.channel = Channel(around.timers, self._on_notification, server.limits.message_bytes)
        self.channel.on_request = lambda message: owner.observer.on_request(self, message)
        self.on_line = self.channel.on_line  # what the transport reads goes there straight
        self.session: Session | None = None
        self.costly_probe = self.open = self.patient = self.stopping = self.doubtful = False
        self._queueing, self._drained_by = trio.CancelScope(), trio.CancelScope()
        self.probe: Exchange | None = None
        self._transport: Transport | None = None
        self.launch: Launch | None = None
        self.redact, self.offered = Redactor(frozenset()), b"{}"
        self._wake = trio.Event()
        self._shutting_down = False

    def _tell(self, line: str) -> None:
        """Tell a line of stderr to whoever follows."""
        text = self.redact.text(line)
        for follower in tuple(self._around.followers):
            follower(self.server.name, self._owner.project, text)

    @property
    def pid(self) -> int | None:
        """The leader's pid while there is one."""
        return self._transport.pid if self._transport else None

    @property
    def is_leaving(self) -> bool:
        """Whether its transport is about to end, for a reason that is known already."""
        return self._transport is not None and self._transport.problem is not None

    def stop(self, *, shutting_down: bool = False, drain_seconds: float | None = None, patient: bool = False) -> None:
        """Ask it to drain and end; `run` returns when that is done. Idempotent.

        `patient`: let every call in flight have its own time, until it is asked again without that.
        """
        self.patient = patient and (self.patient or not self.stopping)
        limit = self.server.stop.drain_seconds if drain_seconds is None else drain_seconds
        self._drained_by.deadline = math.inf if self.patient else trio.current_time() + limit
        self.stopping = True
        self._queueing.cancel()
        self._shutting_down |= shutting_down
        if self.probe is not None and not self.patient:
            self.channel.forget(self.probe)  # its answer would change nothing any more
        self.nudge()

    def nudge(self) -> None:
        """Let `run` look again at what has changed."""
        self._mover.leave = True
        self._wake.set()

    def suspend(self) -> None:
        """Take no requests for now, and hand back those that were not written."""
        self._close_intake()

    def resume(self) -> None:
        """Take requests again, if it still can."""
        self.open = not (self._over or self.stopping)

    def kill(self) -> None:
        """End the process now, without any politeness."""
        if self._transport is not None:
            self._transport.kill()

    async def run(self, launch: Launch, known_era: str | None) -> None:
        """Run from spawn to last exit.

        Args:
            launch: what to start, expanded.
            known_era: what this upstream turned out to be last time.

        Raises:
            McpdError: It could not be started, or it was lost. The owner and all callers know already.
        """
        self.launch, self.offered = launch, self._owner.observer.offers()
        self.redact = LiveRedactor(lambda: self._around.secrets(launch))
        try:
            await self._start(known_era)
            if self.session is not None:
                await self._until(lambda: False)
                await self._drain()
        except McpdError as problem:
            if self.session is None:
                self._owner.on_failing(self, problem)
            raise
        finally:
            self.open = False
            with trio.move_on_after(self._end_seconds, shield=True):
                await self._end()

    # -- the start -------------------------------------------------------------------------------

    async def _start(self, known_era: str | None) -> None:
        with self._queueing:
            await self._around.crowd.enter(self, lambda: self.pid)
        if self.stopping:
            self._around.crowd.leave(self)
            return
        try:
            with trio.move_on_after(self.server.timeout.start_seconds) as limit:
                self.session = await self._agree(known_era)
        finally:
            self._around.crowd.leave(self)
        if limit.cancelled_caught:
            raise self._start_failed(f"it did not answer within {self.server.timeout.start_seconds:g} s")
        if self.session is not None:
            self.session = msgspec.structs.replace(self.session, incarnation=self.number)
            self.open = not self._over
            self._mover.batch(lambda: self._owner.on_ready(self))

    async def _agree(self, known_era: str | None) -> Session | None:
        """Negotiate; None if it was asked to stop meanwhile."""
        try:
            await self._spawn()
        except ServerUnavailable as problem:
            raise self._start_failed(problem.message, problem) from None
        patience = min(PROBE_SECONDS, self.server.timeout.start_seconds / 2)
        script = negotiate.negotiate(self.server.protocol, known_era, patience, self.offered)
        asked: list[Question] = []
        outcome: Outcome = None
        while not self.stopping:
            try:
                step = script.send(outcome)
            except StopIteration as done:
                for question in asked:  # an answer that comes now is late
                    self.channel.forget(question)
                agreed: Session = done.value
                return agreed
            except McpdError as problem:
                refused = problem
                break
            outcome = await self._take(step, asked)
        else:
            return None
        if isinstance(outcome, Ended):
            raise self._start_failed(await self._how_it_ended())
        raise self._start_failed(refused.message, final(refused))

    async def _take(self, step: negotiate.Step, asked: list[Question]) -> Outcome:
        """Do one step of the script."""
        if isinstance(step, Tell):
            self.channel.notify(step.method)
            return None
        if isinstance(step, Respawn):
            self.costly_probe = True
            asked.clear()
            await self._end()
            self.ring.clear()
            await self._spawn()
            return None
        if step.method is not None:
            question = Question(step.method, step.params, self.nudge)
            asked.append(question)
            self.channel.request(question, NOBODY)
        outcome = await self._hear(asked, step)
        self.costly_probe |= isinstance(outcome, Silence)
        return outcome

    async def _hear(self, asked: list[Question], step: Ask) -> Outcome:
        """Wait for the first outcome of anything that was asked; raise where asking on is of no use."""
        seconds = math.inf if step.patience_seconds is None else step.patience_seconds
        with trio.move_on_after(seconds):
            await self._until(lambda: any(q.outcome is not None for q in asked))
            for question in asked:
                if question.outcome is not None:
                    asked.remove(question)
                    if question.problem is not None:
                        raise self._start_failed(question.problem.message, question.problem)
                    return question.outcome
            return Ended()
        return Silence()

    async def _spawn(self) -> None:
        launch, server = self.launch, self.server
        if launch is None:
            raise final(ServerUnavailable("it was not said what to start"))
        around, limit = self.home, server.limits.message_bytes
        if launch.url is not None:
            self._transport = await around.connect(around, self, launch, server)
        else:
            self._transport = await around.spawn(
                self._mover, around.timers, self, self.ring, launch, limit, server.framing
            )
        self.channel.attach(self._transport)

    async def _how_it_ended(self) -> str:
        status = await self._transport.end(0, self.server.stop.term_seconds) if self._transport else None
        return f"it ended before it was ready ({status or 'it closed its output'})"

    def _start_failed(self, why: str, cause: McpdError | None = None) -> McpdError:
        return start_failed(self.server, why, cause, self.ring, self.redact)

    # -- the end ---------------------------------------------------------------------------------

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds, or the transport is over, or a stop was asked for."""
        while not (condition() or self.stopping or self._over):
            await self._wake.wait()
            self._wake = trio.Event()

    async def _drain(self) -> None:
        """Let what is in flight finish; then fail what is left.

        Raises:
            ServerLost: It was not asked to end.
        """
        if self.stopping:
            self._close_intake()
            self.channel.on_idle = self.nudge
            with self._drained_by:
                await trio.lowlevel.checkpoint()
                while self.channel.in_flight and not self._over:
                    await self._wake.wait()
                    self._wake = trio.Event()
            if not self._over:
                self._fail_rest(self._stopped)
                return
        problem = await self._lost()
        self._fail_rest(lambda began: with_outcome(problem, began))
        if not self.stopping:
            raise problem

    @property
    def _over(self) -> bool:
        return self._transport is None or self._transport.over

    async def _lost(self) -> McpdError:
        """Say why it ended; its process has a moment to be seen leaving."""
        why = "it closed its output"
        if self._transport is not None:
            if await self._transport.exits_within(EXIT_SECONDS):
                why = await self._transport.end(0, 0) or why
            if isinstance(self._transport.problem, McpdError):
                return self._transport.problem
            if self._transport.problem is not None:
                why = f"mcpd failed to read its output: {self._transport.problem!r}"
        return ServerLost(f"server '{self.server.name}' ended ({why})", server=self.server.name)

    def _stopped(self, began: bool) -> McpdError:
        return stopped(self.server.name, began, shutting_down=self._shutting_down)

    def _fail_rest(self, problem: Callable[[bool], McpdError]) -> None:
        """Fail every pending request, saying of each whether its write had begun."""

        def work() -> None:
            for exchange in self.channel.take_all():
                exchange.on_failure(problem(self.channel.began(exchange)))

        self._mover.batch(work)

    @property
    def _end_seconds(self) -> float:
        """What all steps of the ladder take at most, and a moment more."""
        stop = self.server.stop
        return stop.eof_seconds + stop.term_seconds + KILL_SECONDS + 2 * EXIT_SECONDS

    async def _end(self) -> None:
        """Leave nothing of the process; bounded and shielded."""
        if self._transport is not None:
            await self._transport.end(self.server.stop.eof_seconds, self.server.stop.term_seconds)
            self._fail_rest(self._stopped)

    # -- what the transport hands over -----------------------------------------------------------

    def on_overlong(self, head: bytes) -> None:
        """Fail the call it answers; a line that names none ends the run."""
        if not self.channel.on_overlong(head) and head[:1] == b"{":
            self.kill()

    def on_message(self, line: bytes, origin: bytes) -> None:
        """Take a message that came over the stream of one request."""
        self.channel.origin = origin
        try:
            self.channel.on_line(line)
        finally:
            self.channel.origin = b""

    def on_failed(self, request_id: bytes, problem: McpdError) -> None:
        """Fail one request; it concerns no other."""
        self.channel.fail(request_id, problem)

    def on_forgotten(self, request_id: bytes) -> None:
        """Hand one request back that the server did not look at: it does not know the session any more."""
        exchange = self.channel.take(request_id)
        self._owner.on_forgotten(self, [] if exchange is None or exchange.lasting else [exchange])

    def on_over(self) -> None:
        """Take no more requests, and let `run` see that the transport has ended."""
        self._close_intake()
        self.nudge()

    def _close_intake(self) -> None:
        """Hand back at once what was not written, while nobody can have given it up unnoticed."""
        if self.open:
            self.open = False
            self._owner.on_unsent(self, self.channel.take_unsent())

    def _on_notification(self, message: Message) -> None:
        self._owner.on_notification(self, message)
