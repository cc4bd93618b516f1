"""Whom a question of a legacy server is for: its requests name no call that they belong to.

It goes to the only client that the incarnation works for; where that is not certain nobody is asked,
and the server is answered here at once: a guess could show one user's question to another.

Spec: elicitation, sampling and roots of 2024-11-05 … 2025-11-25; a modern server asks inside of results.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Protocol

import msgspec
from msgspec import Raw

from mcpd.errors import ServerProtocol
from mcpd.protocol import capabilities, jsonrpc
from mcpd.protocol.capabilities import ELICIT, ROOTS, SAMPLE
from mcpd.protocol.jsonrpc import ErrorView, Message
from mcpd.upstream.incarnation import Incarnation

from .asking import Asked, Input, Question, relayed
from .call import Call
from .ghosts import Ghosts
from .visits import Visits

# Of one upstream; a server that asks more has lost its way.
MAX_OPEN = 64
# Spec: sampling, "User rejected sampling request".
REJECTED = -1
AMBIGUOUS = (
    "a question of the server was put to nobody: several clients have calls going, and it does not say whose it is; "
    "name the tools that ask in its entry: interactive = [...]"
)
UNABLE = "a question of the server was put to nobody: this client cannot be asked; use a terminal, or --elicit"


class Place(Protocol):
    """What is asked of the upstream's place."""

    @property
    def name(self) -> str:
        """The upstream's name."""

    def only_client(self) -> Asked | None:
        """Return the client whose alone this copy is, if it is one's."""

    def local_answer(self, asked: Input) -> bytes | None:
        """Return what the place itself answers, if it can."""

    @property
    def lane(self) -> Hashable:
        """The client that has the server to itself for now, because one of its tools asks; or None."""


class _Open:
    """A question that is with a client, and the calls that wait for it."""

    def __init__(self, question: Question, one: Incarnation, request_id: bytes, calls: list[Call]) -> None:
        self.question, self.incarnation, self.request_id, self.calls = question, one, request_id, calls


class Routing:
    """The open questions of one place.

    Attributes:
        open: the questions that are with clients.
        counts: what was answered here because nobody could be asked, by kind.
    """

    def __init__(self, place: Place, ghosts: Ghosts, tell: Callable[..., None]) -> None:
        self._place, self._ghosts, self._tell = place, ghosts, tell
        self.open: dict[tuple[int, bytes], _Open] = {}
        self._visits = Visits(place.name)
        self.counts: Counter[str] = Counter()

    def on_request(self, one: Incarnation, message: Message) -> None:
        """Route a server's request, or answer it."""
        method = message.method or ""
        session = one.session
        if method not in (ELICIT, SAMPLE, ROOTS) or (session is not None and session.modern):
            one.channel.refuse_unknown(message)
            return
        known = self._place.local_answer(Input(method, message.params))
        if known is not None:
            one.channel.respond(bytes(message.id), known)
            return
        calls = calls_of(one)
        if one.channel.origin:  # it came over the stream of a request, and so belongs to that
            asker = one.channel.asker
            calls = [asker] if isinstance(asker, Call) else []
            client = self._caller(calls, method, message.params)
        else:
            client = self._whom(one, method, message.params, calls)
        if client is None or len(self.open) >= MAX_OPEN or (one.number, bytes(message.id)) in self.open:
            self._answer_here(one, message)
        else:
            self._ask(client, one, message, [call for call in calls if call.client.key == client.key])

    def _caller(self, calls: list[Call], method: str, params: Raw) -> Asked | None:
        """Return the client of the one call that a question belongs to, if it is still there and can be asked."""
        for call in calls:
            if call.client.capabilities.can(method, params):
                return call.client
            call.unasked = UNABLE
        self.counts["questions_unasked"] += 1
        return None

    def _whom(self, one: Incarnation, method: str, params: Raw, calls: list[Call]) -> Asked | None:
        """Return who is asked; None if that is not certain, or it cannot be asked this."""
        owner = self._place.only_client()
        askers: list[Asked] = [owner] if owner is not None else [call.client for call in calls]
        gone: set[Hashable] = set()
        if owner is None and (lane := self._place.lane) is not None:
            askers = [client for client in askers if client.key == lane]
        elif owner is None:
            gone = self._ghosts.keys(one)
        if len({client.key for client in askers} | gone) != 1 or not askers:
            self.counts["questions_ambiguous" if askers else "questions_unasked"] += 1
            for call in calls_of(one):
                call.unasked = AMBIGUOUS
            self._ghosts.asks(one)
            if not askers and not self._ghosts.keys(one):
                self._ghosts.doubt(one)
            return None
        # Which request of the client it is for is not known. One that has had its result, because the client is asked
        # already, is not the one that goes on; and its client would not hear of it either.
        requests = [client for client in (*(call.client for call in reversed(calls)), *askers) if client.key == askers[0].key]
        for client in [client for client in requests if client.is_waiting] or requests:
            if client.capabilities.can(method, params):
                return client
        self.counts["questions_unasked"] += 1
        for call in calls_of(one):
            call.unasked = UNABLE
        return None

    def _ask(self, client: Asked, one: Incarnation, message: Message, calls: list[Call]) -> None:
        method, key = message.method or "", (one.number, bytes(message.id))
        try:
            body = relayed(self._place.name, method, message.params, client)
        except ServerProtocol as problem:
            error = jsonrpc.error_body(jsonrpc.INVALID_PARAMS, problem.message)
            one.channel.refuse(bytes(message.id), error)
            return

        def settle(result: Raw | None, error: ErrorView | None) -> None:
            del self.open[key]
            self._settled(one, message, result, error)
            for call in calls:
                call.told()

        question = Question(client, method, body, settle)
        self.open[key] = _Open(question, one, key[1], calls)
        for call in calls:
            call.asked()
        self._tell(method, client)
        self._visits.begin(client, message.params)
        client.ask(question)

    def _settled(self, one: Incarnation, message: Message, result: Raw | None, error: ErrorView | None) -> None:
        if result is not None and one.session is not None:
            if message.method == SAMPLE:
                from mcpd.protocol import shaping  # few servers ask for that

                result = shaping.answer_to_legacy(SAMPLE, result, revision=one.session.revision)
            one.channel.respond(bytes(message.id), bytes(result))
        elif error is not None:
            body: dict[str, object] = {"code": error.code, "message": error.message}
            if error.data:
                body["data"] = error.data
            one.channel.refuse(bytes(message.id), msgspec.json.encode(body))
        else:
            self._answer_here(one, message)

    def _answer_here(self, one: Incarnation, message: Message) -> None:
        """Answer in place of a client, so that the server does not wait."""
        method, request_id = message.method or "", bytes(message.id)
        if not capabilities.read(one.offered).names(method):
            one.channel.refuse_unknown(message)
        elif method == ELICIT:
            one.channel.respond(request_id, b'{"action":"cancel"}')
        else:
            why = "nobody can be asked: it is not certain for whom the server works"
            one.channel.refuse(request_id, jsonrpc.error_body(REJECTED, why))

    def on_notification(self, one: Incarnation, message: Message) -> None:
        """Take what a server says of its questions: it takes one back, or a visit to a URL is over."""
        if message.method == "notifications/cancelled":
            self.on_cancelled(one, message.params)
        else:
            self._visits.complete(message.params)

    def forget(self, key: Hashable) -> None:
        """Forget a client that has left."""
        self._visits.forget(key)

    def on_error(self, call: Call, error: Raw) -> None:
        """Note the URLs that the error of a call sends its client to."""
        self._visits.required(call.client, error)

    # -- what becomes of them --------------------------------------------------------------------

    def on_cancelled(self, one: Incarnation, params: Raw) -> None:
        """Take back a question that its server has cancelled."""
        with contextlib.suppress(msgspec.MsgspecError, RecursionError, KeyError):
            request_id = bytes(msgspec.json.decode(params, type=dict[str, Raw])["requestId"])
            found = self.open.pop((one.number, request_id), None)
            if found is not None:
                self._take_back(found, "the server has withdrawn it")

    def on_end(self, one: Incarnation) -> None:
        """Take back the questions of an incarnation that is gone."""
        for key in [key for key, found in self.open.items() if found.incarnation is one]:
            self._take_back(self.open.pop(key), "the server has ended")

    def on_idle(self, key: Hashable) -> None:
        """Take back and answer the questions for a client of which no call is left: it will not answer any more."""
        for place in [place for place, found in self.open.items() if self._is_orphan(found, key)]:
            found = self.open.pop(place)
            found.question.withdraw("the call is over")
            message = Message(id=Raw(found.request_id), method=found.question.method)
            self._answer_here(found.incarnation, message)

    def _is_orphan(self, found: _Open, key: Hashable) -> bool:
        return found.question.client.key == key and bool(found.calls) and all(call.over for call in found.calls)

    @staticmethod
    def _take_back(found: _Open, why: str) -> None:
        found.question.withdraw(why)
        for call in found.calls:
            call.told()


def calls_of(one: Incarnation) -> list[Call]:
    """Return the calls that an incarnation works for."""
    pending: Iterable[object] = one.channel.exchanges
    return [exchange for exchange in pending if isinstance(exchange, Call)]
