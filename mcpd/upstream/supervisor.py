"""The slot of one upstream: its state, its incarnations, and who waits for the next one.

A start is single-flight: whoever comes while it runs waits for it and shares its failure. What is lost
backs off, and starts again only if somebody waits for it, or wants it to run; what fails too often, or
refuses, is left alone for a while with the reason at hand.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from mcpd.config.model import Server
from mcpd.errors import AuthRequired, McpdError, ServerLost, Stopping, again_later
from mcpd.protocol.jsonrpc import Message
from mcpd.protocol.session import Session

from . import lifecycle
from .around import Surroundings
from .eras import remember
from .exchange import Exchange, is_in_vain
from .incarnation import Incarnation
from .lifecycle import Event, State
from .machine import Machine
from .probe import suspect
from .retry import is_near
from .running import live
from .waiting import Waiting, fail_all


class Slot(Machine):
    """One upstream's place.

    Attributes:
        incarnations: how many there have been.
        current: the one that takes requests, or is about to.
        latest: the newest incarnation, also when it has ended: its stderr is still of interest.
    """

    def __init__(self, server: Server, around: Surroundings, project: str | None = None) -> None:
        super().__init__(server, around, project)
        self.incarnations = 0
        self.current: Incarnation | None = None
        self.latest: Incarnation | None = None
        self._waiting = Waiting()
        self._alive: set[Incarnation] = set()
        self._ready_at = 0.0
        self._closed: McpdError | None = None

    # -- requests --------------------------------------------------------------------------------

    @property
    def session(self) -> Session | None:
        """The agreement with the running incarnation, while it is ready."""
        return self.current.session if self.current is not None and self.state is State.READY else None

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answer."""
        return sum(one.channel.in_flight for one in self._alive)

    def _is_busy(self) -> bool:
        return self.in_flight > 0 or self.observer.is_wanted

    @property
    def retry_after_seconds(self) -> float | None:
        """When it is worth asking again, in back-off or failed."""
        return self._retry.left_seconds if self.state in (State.BACKOFF, State.FAILED) else None

    def submit(self, exchange: Exchange) -> None:
        """Send a request now, or as soon as the upstream is ready; it fails if that cannot be."""
        self.idle.use()
        if (one := self.current) is not None and one.open and one.session is not None:
            one.channel.request(exchange, one.session)
            return
        if (problem := self._why_not()) is not None:
            exchange.on_failure(problem)
            return
        self._waiting.add(exchange)
        if one is not None and one.doubtful:
            self.doubt(one)
        self._start_if_idle()

    def give_up(self, exchange: Exchange, reason: str, *, timed_out: bool = False) -> bool:
        """Give a request up, wherever it is; the server is told if it has it.

        Returns:
            Whether it may have run.
        """
        if self._waiting.leave(exchange):
            return False
        for one in self._alive:
            if one.channel.holds(exchange):
                began = one.channel.give_up(exchange, reason)
                if began:
                    self.observer.on_given_up(one, exchange)
                if timed_out and began:
                    suspect(one, self._around, self)
                return began
        return False

    def look_at(self, exchange: Exchange) -> None:
        """Find out whether the server that has a request is still there; if not, the request is lost."""
        if (one := next((one for one in self._alive if one.channel.holds(exchange)), None)) is not None:
            suspect(one, self._around, self)

    def take_waiting(self, chosen: Callable[[Exchange], bool]) -> list[Exchange]:
        """Remove and return requests that wait for the next incarnation, to be sent elsewhere."""
        return self._waiting.pick(chosen)

    def _why_not(self) -> McpdError | None:
        """Return why a request cannot even wait, or None."""
        if self._closed is not None or self.state is State.NEEDS_AUTH:
            return self._closed or self.problem
        left = self.retry_after_seconds
        if left is None or is_near(left, failed=self.state is State.FAILED):
            return None
        return again_later(self.problem, self.server.name, left)

    # -- start and stop --------------------------------------------------------------------------

    async def start(self) -> None:
        """Start explicitly: forget earlier failures; return when it is ready.

        Raises:
            McpdError: The start failed, or it is being stopped.
        """
        if self.state is State.STOPPING:
            raise self._stopping()
        if self._closed is not None:
            raise self._closed
        if self.state in (State.FAILED, State.BACKOFF, State.NEEDS_AUTH):
            self._retry.forgive()
            self._fire(Event.STOP)
        elif self.state is State.READY and self.current is not None and self.current.is_leaving:
            self.retire(self.current)
        self._start_if_idle()
        while self.state is State.STARTING:
            await self._changed.wait()
        if self.state is not State.READY:
            raise self.problem or Stopping(f"server '{self.server.name}' was stopped", server=self.server.name)

    def let_in(self) -> None:
        """Let it be started again, where it was left alone until somebody signs in."""
        if self.state is State.NEEDS_AUTH:
            self._fire(Event.STOP)
            if self.observer.is_wanted:
                self._start_if_idle()

    async def stop(self) -> None:
        """Drain and end everything of it; return when nothing is left. Idempotent."""
        self._begin_stop(self._stopping())
        await self.closed()

    def _stopping(self) -> Stopping:
        return Stopping(f"server '{self.server.name}' is being stopped", server=self.server.name, may_have_run=False)

    async def ready(self) -> Session:
        """Wait until it is ready, starting it as a call does.

        Raises:
            McpdError: The start failed, or must not be tried now.
        """
        while (session := self.session) is None:
            if (problem := self._why_not()) is not None:
                raise problem
            self._start_if_idle()
            starting = self.state is State.STARTING
            await self._changed.wait()
            if starting and self.state in (State.BACKOFF, State.FAILED) and self.problem is not None:
                raise self.problem
        return session

    def close(self, problem: McpdError, drain_seconds: float | None = None) -> None:
        """Begin the last stop: nothing is started or accepted any more, but refused with `problem`. Idempotent."""
        problem.may_have_run = False
        self._closed = problem
        self._begin_stop(problem, drain_seconds)

    async def closed(self) -> None:
        """Wait until nothing is left of what runs now."""
        doomed = set(self._alive)  # a call that waited may have begun the next one
        while doomed & self._alive:
            await self._changed.wait()

    def kill(self) -> None:
        """End its processes now."""
        for one in self._alive:
            one.kill()

    def retire(self, one: Incarnation) -> None:
        """Give an incarnation no more requests; it drains and ends while a fresh one may start."""
        needed = one is self.current and self.state is State.READY and self.observer.is_wanted
        if one is self.current and self.state is State.READY:
            self.current = None
            self._fire(Event.RETIRE)
        if one in self._alive and not (one.stopping and not one.patient):
            self._around.note("retired", one)
            one.stop()
        if needed or self._waiting:
            self._start_if_idle()

    def trust(self, one: Incarnation) -> None:
        """Send what waits to an incarnation that was suspect and has answered."""
        one.resume()
        self._send_waiting(one)

    def doubt(self, one: Incarnation) -> None:
        """Let whoever waits for a suspect go to a fresh one; with nobody waiting, it may still answer."""
        if self._waiting and one is self.current and self.state is State.READY:
            self.current = None
            self._fire(Event.RETIRE)
            one.stop(patient=True)
            self._start_if_idle()

    def _begin_stop(self, problem: McpdError, drain_seconds: float | None = None) -> None:
        if Event.STOP in lifecycle.TRANSITIONS[self.state]:
            self._retry.forgive()
            self._fire(Event.STOP)
        self._waiting.fail(problem)
        for one in self._alive:
            one.stop(shutting_down=self._closed is not None, drain_seconds=drain_seconds)

    def _start_if_idle(self) -> None:
        if self.state is State.STOPPED or (self.state is State.FAILED and not self._retry.left_seconds):
            self.problem = None
            self._fire(Event.START)
            self._spawn()

    def _spawn(self) -> None:
        self._retry.spawned()
        self.incarnations += 1
        one = Incarnation(self.incarnations, self.server, self, self._around)
        self.current = self.latest = one
        self._alive.add(one)
        self._around.mover.leave = True
        self._around.nursery.start_soon(live, one, self._around, self.project, lambda problem: self._ended(one, problem))

    # -- what incarnations report ----------------------------------------------------------------

    def on_ready(self, incarnation: Incarnation) -> None:
        """Move to ready and send what has waited."""
        session = incarnation.session
        if incarnation is not self.current or session is None or self.state is not State.STARTING:
            return
        self.problem, self._ready_at = None, trio.current_time()
        self.observer.on_session(session)
        self._fire(Event.NEGOTIATED)
        remember(self._around.eras, self.server, session.era, costly=incarnation.costly_probe)
        self._around.note("ready", incarnation, pid=incarnation.pid, era=session.era, revision=session.revision)
        self.observer.on_ready(incarnation)
        self._send_waiting(incarnation)
        self.idle.watch()

    def _send_waiting(self, one: Incarnation) -> None:
        if one.open and one.session is not None:
            for exchange in self._waiting.take():
                one.channel.request(exchange, one.session)

    def on_failing(self, incarnation: Incarnation, problem: McpdError) -> None:
        """Let those who wait for the start share its failure at once."""
        if incarnation is self.current:
            self._waiting.fail(problem)

    def on_unsent(self, incarnation: Incarnation, unsent: list[Exchange]) -> None:
        """Take back what was not sent: it waits for the next incarnation, if there is to be one."""
        if self.server.retry == "never":
            name = self.server.name
            fail_all(unsent, ServerLost(f"server '{name}' has ended", server=name, may_have_run=False))
        else:
            self._waiting.put_back(unsent)
        if self._closed is not None or self.state is State.STOPPING:
            self._waiting.fail(self._closed or self._stopping())
        elif self._waiting:
            self._start_if_idle()

    def on_forgotten(self, incarnation: Incarnation, unsent: list[Exchange]) -> None:
        """Begin a new session for what the server did not look at; who is being answered still is."""
        incarnation.suspend()
        unsent = [exchange for exchange in unsent if not is_in_vain(exchange, self.server.name)]
        if incarnation is not self.current and self.current is not None and self.current.open and self.current.session:
            for exchange in unsent:
                self.current.channel.request(exchange, self.current.session)
            return
        self.retire(incarnation)
        self.on_unsent(incarnation, unsent)

    def on_notification(self, incarnation: Incarnation, message: Message) -> None:
        """Hand on what an incarnation notifies."""
        self.observer.on_notification(incarnation, message)

    def _ended(self, one: Incarnation, problem: McpdError | None) -> None:
        """Conclude from an incarnation of which nothing is left."""
        self._alive.discard(one)
        self.dropped.update(one.channel.counts)
        if problem is not None:
            self._around.note("lost", one, reason=problem.message)
        self.observer.on_end(one)
        if one is self.current:
            self.current = None
            if self.state is State.STOPPING:
                self._fire(Event.EXITED)
                if self._waiting and self._closed is None:
                    self._start_if_idle()
            else:
                self._lost(one, problem or ServerLost(f"server '{self.server.name}' ended"))
        self._signal()

    def _lost(self, one: Incarnation, problem: McpdError) -> None:
        self.problem = problem
        if one.session is None:
            self._waiting.fail(problem)
        if isinstance(problem, AuthRequired):
            self._fire(Event.WANTS_AUTH)
            self._waiting.fail(problem)
            return
        if not problem.final and self._retry.may_follow(trio.current_time() - self._ready_at if one.session else None):
            self._fire(Event.LOST)
            self._retry.back_off(self._on_retry)
        else:
            if not problem.final:
                problem.message += f"; after {lifecycle.MAX_SPAWNS} starts in a short time it is left alone for a while"
            self._fire(Event.GIVE_UP)
            self._retry.give_up()
            self._waiting.fail(again_later(problem, self.server.name, lifecycle.FAILED_SECONDS))

    def _on_retry(self) -> None:
        if self.state is State.BACKOFF and (self._waiting or self.observer.is_wanted):
            self._fire(Event.RETRY)
            self._spawn()
        elif self.state is State.BACKOFF:
            self._fire(Event.REST)

    def _rest(self) -> None:
        """Stop it because nobody uses it."""
        if self.state is State.READY and self.current is not None:
            self._fire(Event.STOP)
            self.current.stop()
