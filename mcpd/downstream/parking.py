"""Calls of modern clients whose legacy server asks something: they wait for the client to come back.

A legacy server asks in the middle of a call, and a modern client is asked by the result of its request. So
the request is answered with `input_required`, the call stays where it is, and goes on as the request that
brings the answers. The state that the client has to bring back is a random word, good for this connection,
this request and some time only.

Spec: 2026-07-28 "multi round-trip requests"; elicitation, sampling and roots of the legacy revisions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Raw

from mcpd.broker.asking import Question
from mcpd.errors import StaleSession
from mcpd.timers import Timer, Timers

from .asker import Asker, ask_again

if TYPE_CHECKING:
    from .face import Face

# How long a client may take to come back; a person may have to be asked.
PARK_SECONDS = 600.0
# While others wait for its server, which it has to itself, it may take no longer than this.
IN_THE_WAY_SECONDS = 60.0
PREFIX = "mcpd-parked-"
# Of one client; behind these stands one that does not come back, and the oldest are given up.
MAX_PARKED = 256


class Parked:
    """One call whose client has been asked.

    Attributes:
        state: what the client has to bring back for it to go on.
        is_live: there is a request at present that waits for its result.
        questions: what is open, by key.
    """

    def __init__(self, asker: Asker, digest: bytes) -> None:
        self.asker, self.digest = asker, digest
        self.state, self.is_live = "", True
        self.questions: dict[str, Question] = {}
        self.timer: Timer | None = None
        self._last = 0
        self._outcome: Callable[[], None] | None = None

    def add(self, question: Question) -> None:
        """Take a question."""
        self._last += 1
        self.questions[f"{question.method.partition('/')[0]}-{self._last}"] = question

    def withdraw(self, question: Question) -> None:
        """Forget a question that its server has taken back."""
        self.questions = {key: one for key, one in self.questions.items() if one is not question}

    def keep(self, outcome: Callable[[], None]) -> bool:
        """Keep the outcome of the call until the client comes back for it; False if it is there."""
        if self.is_live:
            return False
        self._outcome = outcome
        return True

    def deliver(self) -> bool:
        """Tell the outcome that came while nobody waited; False if there is none yet."""
        outcome, self._outcome = self._outcome, None
        if outcome is not None:
            outcome()
        return outcome is not None


class Parking:
    """The parked calls of one connection."""

    def __init__(self, face: Face, timers: Timers) -> None:
        self._face, self._timers = face, timers
        self._parked: dict[str, Parked] = {}
        self._closed = False

    def ask(self, asker: Asker, question: Question) -> None:
        """Ask the client of a call, by the result of its request; later, if none of its requests waits now."""
        parked = asker.parked
        if parked is None:
            parked = asker.parked = Parked(asker, asker.digest)
        parked.add(question)
        if parked.is_live:
            self._park(parked)

    def _park(self, parked: Parked) -> None:
        asker = parked.asker
        call, connection = asker.call, asker.connection
        if call is None or connection.closed or self._closed:
            questions, parked.questions = parked.questions, {}
            for question in questions.values():
                question.left()
            return
        while len(self._parked) >= MAX_PARKED:
            self._expire(next(iter(self._parked.values())))
        parked.state, parked.is_live = PREFIX + os.urandom(16).hex(), False
        self._parked[parked.state] = parked
        self._wait(parked, PARK_SECONDS)
        info = self._face.info_of(asker.route.server)
        connection.answered(call, (ask_again(parked.questions, parked.state, info),))

    def _wait(self, parked: Parked, seconds: float) -> None:
        """Give the client time to come back, and look now and then whether others wait for that."""
        step = min(seconds, IN_THE_WAY_SECONDS)

        def look() -> None:
            call, server = parked.asker.call, parked.asker.route.server
            if seconds <= step or (call is not None and call.exclusive and self._face.has_queue(server)):
                self._expire(parked)
            else:
                self._wait(parked, seconds - step)

        parked.timer = self._timers.after(step, look)

    def resume(
        self, request_id: bytes, state: str, asker: Asker, meta: Mapping[str, Raw] | None, answers: Mapping[str, Raw]
    ) -> None:
        """Go on with a parked call as another request.

        Args:
            request_id: of the request that goes on.
            state: what the client has brought back.
            asker: as which it would have been a request of its own.
            meta: its `_meta`.
            answers: the results that the client has brought, by key; keys that nobody asked for are ignored.

        Raises:
            StaleSession: Nothing waits for it.
        """
        parked = self._parked.get(state)
        if parked is None or parked.digest != asker.digest or (call := parked.asker.call) is None:
            why = "no call waits for these answers any more: it was given up, or belongs to another connection or request"
            raise StaleSession(why, server=asker.route.server, hint="send the request again without requestState")
        self._forget(parked)
        parked.is_live = True
        parked.asker.capabilities = asker.capabilities
        parked.asker.connection.calls[request_id] = call
        call.rename(request_id, meta)
        if parked.deliver():
            return
        for key, answer in answers.items():
            if (question := parked.questions.pop(key, None)) is not None:
                question.answered(answer)
        if parked.questions and parked.is_live and not call.over:
            self._park(parked)  # what is missing is asked once more

    def _forget(self, parked: Parked) -> None:
        self._parked.pop(parked.state, None)
        if parked.timer is not None:
            parked.timer.cancel()
            parked.timer = None

    def _expire(self, parked: Parked) -> None:
        self._forget(parked)
        for question in list(parked.questions.values()):
            question.left()
        if parked.asker.call is not None:
            parked.asker.call.cancel("the client did not bring the answers")

    def close(self) -> None:
        """Give up all that is parked, and park no more: nobody will come back for it. Idempotent."""
        self._closed = True
        for parked in list(self._parked.values()):
            self._expire(parked)
