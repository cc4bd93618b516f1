"""One request of an MCP client to a server, as the broker sees its client: shapes what comes back.

Spec: 2024-11-05 … 2026-07-28; what each revision can be told is in `protocol/shaping.py`.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from mcpd.broker.asking import Question, signed
from mcpd.broker.call import Call
from mcpd.broker.parties import Parts
from mcpd.broker.scopes import Seeker
from mcpd.errors import ServerProtocol
from mcpd.protocol import shaping

from .requested import Ask
from .shown import Route
from .worded import worded

if TYPE_CHECKING:
    from .connection import Connection
    from .face import Face
    from .parking import Parked


class Asker:
    """Who asks with one request. It lives as long as the call, which a modern client may take up again.

    Attributes:
        call: what it asks for, once it is on its way.
        params: what is in the request.
        parked: where the call waits for answers of a modern client.
        capabilities: what it can be asked while this request lasts.
    """

    whole = patient = True

    def __init__(self, face: Face, ask: Ask, kind: shaping.Kind, route: Route) -> None:
        self._face, self.kind, self.route = face, kind, route
        self.method, self.params, self.is_modern = ask.method, ask.params, ask.is_modern
        self.connection = face.connection
        self.inputs = ask.params.inputs if ask.is_modern else b""
        self.capabilities = ask.params.capabilities if ask.is_modern else face.connection.capabilities
        self.call: Call | None = None
        self.parked: Parked | None = None

    @property
    def key(self) -> int:
        """That of its connection: all its requests count as one client's."""
        return self.connection.key

    @property
    def owner(self) -> Connection:
        """Who is there longer than the request."""
        return self.connection

    @property
    def seeker(self) -> Seeker:
        """Which copy of an upstream is its own."""
        return self.connection.seeker

    @property
    def log_level(self) -> str | None:
        """From which level on it wants the log of all servers that it uses."""
        return self.connection.log_level

    @property
    def knows_server(self) -> bool:
        """Whether it has to do with one server only."""
        return self._face.source.alone

    @property
    def is_waiting(self) -> bool:
        """Whether a question reaches it at once: one that is parked has its result, and hears when it comes back."""
        return self.parked is None or self.parked.is_live

    @property
    def capabilities_json(self) -> bytes:
        """What it can be asked, for a request of its own."""
        return self.capabilities.to_json()

    @property
    def digest(self) -> bytes:
        """What tells this request from others: what is asked for, and with which arguments."""
        params = self.params
        parts = [self.method.encode(), *(_plain(one) for one in (params.name, params.uri, params.arguments))]
        return hashlib.sha256(b"\n".join(parts)).digest()

    # -- what it is told -------------------------------------------------------------------------

    def answered(self, call: Call, parts: Parts) -> None:
        """Pass a result on in the words of the client's revision."""
        if self.parked is not None and self.parked.keep(lambda: self.answered(call, parts)):
            return
        try:
            result = self._shaped(Raw(parts[0]))
        except ServerProtocol as problem:
            problem.server, problem.may_have_run = self.route.server, True
            error = worded(self.method, problem.to_error(), is_modern=self.is_modern)
            self.connection.refused(call, msgspec.json.encode(error))
        else:
            self.connection.answered(call, (memoryview(result),))

    def _shaped(self, result: Raw) -> Raw:
        face = self._face
        result = face.source.result(self.route, result, self.connection)
        if self.is_modern:
            if not self.knows_server:
                result = signed(self.route.server, result)
            return shaping.to_modern(result, self.kind, face.info_of(self.route.server))
        return shaping.to_legacy(result, self.kind, face.legacy_revision)

    def refused(self, call: Call, error: bytes) -> None:
        """Pass an error on: the server's own, or one of ours."""
        if self.parked is not None and self.parked.keep(lambda: self.refused(call, error)):
            return
        face = self._face
        if not call.passed_on:
            error = msgspec.json.encode(worded(self.method, msgspec.json.decode(error), is_modern=self.is_modern))
        elif self.is_modern and self._may_visit() and (urls := shaping.elicitations(Raw(error))) is not None:
            requests = {f"url-{number}": one for number, one in enumerate(urls, 1)}
            result = shaping.input_required(requests, None, face.info_of(self.route.server))
            self.connection.answered(call, (result,))
            return
        else:
            revision = face.legacy_revision
            error = shaping.error(Raw(error), method=self.method, modern=self.is_modern, revision=revision)
        self.connection.refused(call, error)

    def _may_visit(self) -> bool:
        """Whether a modern client can be sent to a URL by the result of this request."""
        return self.capabilities.url and self.kind != "complete"

    def progressed(self, call: Call, params: bytes) -> None:
        """Pass progress on, while there is a request that it belongs to."""
        if self.parked is None or self.parked.is_live:
            self.connection.progressed(call, params)

    def notified(self, method: str, params: bytes) -> None:
        """Pass a notification on."""
        self.connection.notified(method, params)

    # -- what it is asked ------------------------------------------------------------------------

    def ask(self, question: Question) -> None:
        """Put a question: as a request to a legacy client; a modern one gets it as the result of its own."""
        if self.is_modern:
            self._face.parking.ask(self, question)
        else:
            revision, visit = self._face.legacy_revision, os.urandom(8).hex()
            try:
                params = shaping.question(question.method, Raw(question.params), revision=revision, elicitation_id=visit)
            except ServerProtocol:
                question.left()  # it cannot be put into words that the client knows
                return
            question.params = bytes(params)
            self.connection.ask(question)

    def withdraw(self, question: Question, reason: str) -> None:
        """Say that an answer is not wanted any more."""
        if self.parked is not None:
            self.parked.withdraw(question)
        else:
            self.connection.withdraw(question, reason)


def ask_again(questions: dict[str, Question], state: str, info: Raw) -> bytes:
    """Return an `input_required` result for questions of a legacy server."""
    requests = {key: (question.method, question.params) for key, question in questions.items()}
    return shaping.input_required(requests, state, info)


def _plain(raw: Raw) -> bytes:
    """Return JSON on one line in which two ways to write a value are the same, as far as it can be read."""
    try:
        return msgspec.json.encode(msgspec.json.decode(raw), order="sorted") if raw else b""
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        return bytes(raw)
