"""What an upstream asks of a client, and what becomes of it.

Spec: 2024-11-05 … 2025-11-25: requests of the server (elicitation, sampling, roots). 2026-07-28: the
same as input requests inside the result of the request that they belong to ("multi round-trip requests").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from mcpd.errors import InputRequired, ServerProtocol
from mcpd.protocol import jsonrpc, rawjson, splicing
from mcpd.protocol.capabilities import ELICIT, Capabilities
from mcpd.protocol.jsonrpc import ABSENT, ErrorView

# A server that asks for more at once asks nobody.
MAX_INPUTS = 16
SERVER_KEY = "mcpd/server"

_ASKS = re.compile(rb'"inputRequests"')


class Asked(Protocol):
    """Who can be asked."""

    @property
    def key(self) -> Hashable:
        """Which client it is."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can be asked."""

    @property
    def knows_server(self) -> bool:
        """Whether it has to do with one server only, so that a question need not say whose it is."""

    @property
    def is_waiting(self) -> bool:
        """Whether a question reaches it at once."""

    def ask(self, question: Question) -> None:
        """Put a question; its outcome is told to the question."""

    def withdraw(self, question: Question, reason: str) -> None:
        """Say that an answer is not wanted any more."""

    def notified(self, method: str, params: bytes) -> None:
        """Take a notification of an upstream, as JSON; a client that does not read may miss it."""


class Question:
    """One request to a client, until it is answered or not wanted any more.

    Args:
        client: who is asked.
        method: what is asked.
        params: JSON.
        settle: gets the result; or None and the client's error; or neither, if the client has left.
    """

    __slots__ = ("_settle", "client", "id", "method", "over", "params")

    def __init__(
        self, client: Asked, method: str, params: bytes, settle: Callable[[Raw | None, ErrorView | None], None]
    ) -> None:
        self.client, self.method, self.params, self._settle = client, method, params, settle
        self.id = ""  # given by the client's connection
        self.over = False

    def answered(self, result: Raw) -> None:
        """Take the answer."""
        self._end(result, None)

    def refused(self, error: Raw) -> None:
        """Take the client's error."""
        self._end(None, jsonrpc.read_error(error))

    def left(self) -> None:
        """Take note that the client has left."""
        self._end(None, None)

    def withdraw(self, reason: str) -> None:
        """Take the question back; nobody is told an answer. Idempotent."""
        if not self.over:
            self.over = True
            self.client.withdraw(self, reason)

    def _end(self, result: Raw | None, error: ErrorView | None) -> None:
        if not self.over:
            self.over = True
            self._settle(result, error)


def relayed(server: str, method: str, params: Raw, client: Asked) -> bytes:
    """Return the `params` of a question as the client gets them: it says which server asks.

    Raises:
        ServerProtocol: They are no object.
    """
    members = rawjson.members(params or Raw(b"{}"), f"the parameters of {method}")
    meta = rawjson.members(members["_meta"], "`_meta`") if rawjson.kind(members.get("_meta", ABSENT)) == "an object" else {}
    token = meta.pop("progressToken", None)
    if client.knows_server:
        if token is not None:
            members["_meta"] = Raw(msgspec.json.encode(meta))
        return msgspec.json.encode(members)
    return _signed(server, method, members, meta)


def _signed(server: str, method: str, members: dict[str, Raw], meta: dict[str, Raw]) -> bytes:
    members["_meta"] = Raw(msgspec.json.encode(meta | {SERVER_KEY: server}))
    if method == ELICIT and (text := rawjson.string(members.get("message", ABSENT))) is not None:
        members["message"] = Raw(msgspec.json.encode(f"[{server}] {text}"))
    return msgspec.json.encode(members)


def signed(server: str, result: Raw) -> Raw:
    """Return a result that asks for input with questions that say which server asks; any other as it is.

    Raises:
        ServerProtocol: What it asks cannot be read.
    """
    if _ASKS.search(memoryview(result)) is None:
        return result
    members = rawjson.members(result, "the result")
    if "inputRequests" not in members:
        return result
    requests = rawjson.members(members["inputRequests"], "`inputRequests`")
    for key, raw in requests.items():
        request = rawjson.members(raw, f"the input request '{key}'")
        params = rawjson.members(request.get("params", Raw(b"{}")), f"the parameters of '{key}'")
        meta = rawjson.members(params["_meta"], "`_meta`") if "_meta" in params else {}
        method = rawjson.string(request.get("method", ABSENT)) or ""
        request["params"] = Raw(_signed(server, method, params, meta))
        requests[key] = Raw(msgspec.json.encode(request))
    members["inputRequests"] = Raw(msgspec.json.encode(requests))
    return Raw(msgspec.json.encode(members))


class Input(Struct):
    """One input request."""

    method: str
    params: Raw = ABSENT


class Wanted(Struct):
    """What an `input_required` result asks for; `state` goes back byte by byte, if there is one."""

    requests: dict[str, Input] = msgspec.field(name="inputRequests", default_factory=dict)
    state: Raw = msgspec.field(name="requestState", default=ABSENT)


def is_question(head: splicing.Head) -> bool:
    """Whether a result asks for input. Spec: 2026-07-28, "resultType"; one that is missing reads `complete`.

    Raises:
        ServerProtocol: Its type is unknown.
    """
    kind = bytes(head.result_type)
    if kind in (b"", b'"complete"', b"null"):
        return False
    if kind == b'"input_required"':
        return True
    raise ServerProtocol(f"the answer is of an unknown type: {kind[:60].decode('utf-8', 'replace')}")


def read_wanted(result: Raw) -> Wanted:
    """Decode an `input_required` result.

    Raises:
        ServerProtocol: It is malformed, or asks for too much.
    """
    try:
        wanted = msgspec.json.decode(result, type=Wanted)
    except (msgspec.MsgspecError, RecursionError, ValueError) as problem:
        raise ServerProtocol(f"the answer asks for input in a malformed way: {problem}") from None
    if wanted.state and rawjson.string(wanted.state) is None:
        raise ServerProtocol("the answer asks for input with a requestState that is no string")
    if not wanted.requests and not wanted.state:
        raise ServerProtocol("the answer asks for input and does not say for which")
    if len(wanted.requests) > MAX_INPUTS:
        raise ServerProtocol(f"the answer asks {len(wanted.requests)} questions at once; {MAX_INPUTS} are the most")
    return wanted


def require_able(server: str, wanted: Wanted, able: Capabilities, local: Callable[[Input], bytes | None]) -> None:
    """Make sure that a client can be asked all that is wanted, but for what is answered without it.

    Raises:
        InputRequired: It cannot.
    """
    for one in wanted.requests.values():
        if not able.can(one.method, one.params) and local(one) is None:
            hint = "call it from a terminal, with --elicit, or from a host that can ask its user"
            raise InputRequired(f"server '{server}' asks for input that this client cannot give", hint=hint)


class Round:
    """The questions of one `input_required` result, asked all at once.

    Args:
        server: the upstream's name.
        client: who is asked.
        wanted: what for.
        local: answers without asking: the result for a request, or None.
        done: gets the members of `inputResponses` as JSON, or the reason for which there are none.
    """

    def __init__(
        self,
        server: str,
        client: Asked,
        wanted: Wanted,
        local: Callable[[Input], bytes | None],
        done: Callable[[bytes | None, str], None],
    ) -> None:
        self._done, self._over = done, False
        self._answers: dict[str, Raw] = {}
        self._questions: dict[str, Question] = {}
        for key, one in wanted.requests.items():
            if (known := local(one)) is not None:
                self._answers[key] = Raw(known)
            else:
                body = relayed(server, one.method, one.params, client)
                self._questions[key] = Question(client, one.method, body, self._settler(key))

    def ask(self) -> None:
        """Put the questions; `done` may be called before this returns."""
        questions = list(self._questions.values())
        for question in questions:
            if not question.over:
                question.client.ask(question)
        self._look()

    def withdraw(self, reason: str) -> None:
        """Take back what is not answered. Idempotent."""
        for question in self._questions.values():
            question.withdraw(reason)

    def _settler(self, key: str) -> Callable[[Raw | None, ErrorView | None], None]:
        def settle(result: Raw | None, error: ErrorView | None) -> None:
            if result is None:
                self.withdraw("another question was not answered")
                why = f"the client refused to answer: {error.message}" if error else "the client has left"
                self._finish(None, why)
                return
            del self._questions[key]
            self._answers[key] = result.copy()
            self._look()

        return settle

    def _look(self) -> None:
        if not self._questions:
            self._finish(msgspec.json.encode(self._answers), "")

    def _finish(self, answers: bytes | None, why: str) -> None:
        if not self._over:
            self._over = True
            self._done(answers, why)
