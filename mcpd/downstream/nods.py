"""`mcpd/approvals`, `mcpd/approve` and `mcpd/deny`: another connection than the caller's says whether a call may go.

A connection whose hello declares the capability `approve` is asked by itself, with a request `mcpd/approve`; it
answers `{approve: true, remember?: true}` or `{approve: false, reason?}`. The first answer counts. Who may answer is
in `lineage`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from mcpd.broker.asking import Question
from mcpd.broker.broker import Broker
from mcpd.broker.nod import Nod, changes, redactor
from mcpd.broker.pins import definition_of
from mcpd.errors import Denied, McpdError
from mcpd.logs import iso
from mcpd.protocol.jsonrpc import ABSENT, ErrorView

from .connection import Connection
from .lineage import belongs_with, household, is_below, program_of


class ApprovalsParams(Struct):
    """`params` of mcpd/approvals."""


class ApproveParams(Struct):
    """`params` of mcpd/approve; `remember`: later calls of the tool need no nod, as long as it is what it is."""

    id: str
    remember: bool = False


class DenyParams(Struct):
    """`params` of mcpd/deny; the reason is told to the client."""

    id: str
    reason: str = ""


class _Answer(Struct):
    """What a client answers that was asked."""

    approve: bool
    remember: bool = False
    reason: str = ""


class _Declared(Struct):
    """What of a hello's capabilities is looked at here."""

    approve: Raw = ABSENT


class Nods:
    """Answers the three methods, and asks those who want to be asked.

    Args:
        broker: where the calls wait.
        connections: all there are, by their number.
    """

    def __init__(self, broker: Broker, connections: Mapping[int, Connection]) -> None:
        self._broker, self._connections = broker, connections
        broker.approvals.on_asked = self._ask

    def show(self, connection: Connection, request_id: bytes, _: ApprovalsParams) -> None:
        """Answer with all that waits for a nod, and the definitions that are held back."""
        self._own_user_only(connection)
        rows = [self._row(nod) for nod in self._broker.approvals.waiting.values()]
        connection.answer(request_id, {"approvals": [*rows, *self._held_back()]})

    def approve(self, connection: Connection, request_id: bytes, p: ApproveParams) -> None:
        """Let a call go on, or a definition be used.

        Raises:
            Denied: This client may not say so.
            McpdError: Nothing of that name waits, or it has changed.
        """
        self._require(connection, self._broker.approvals.find(p.id))
        self._broker.approvals.approve(p.id, remember=p.remember)
        connection.answer(request_id, {})

    def deny(self, connection: Connection, request_id: bytes, p: DenyParams) -> None:
        """Refuse a call; anybody of the daemon's user may, as nothing runs by that.

        Raises:
            McpdError: Nothing of that name waits.
        """
        self._own_user_only(connection)
        self._broker.approvals.deny(p.id, p.reason)
        connection.answer(request_id, {})

    # -- what is shown ---------------------------------------------------------------------------

    def _row(self, nod: Nod) -> dict[str, Any]:
        row = nod.row()
        row["since"] = iso(time.time() - row.pop("waits_seconds"))
        return {**row, "client": self._client(nod)}

    def _client(self, nod: Nod) -> dict[str, Any]:
        """Say who calls: what the kernel knows first, and the name that it gives itself."""
        caller = self._caller(nod)
        if caller is None:
            return {}
        hello = caller.visitor.hello
        said = hello.client.get("name") if hello is not None else None
        facts = {
            "pid": caller.visitor.pid,
            "exe": program_of(caller.visitor.pid),
            "name": said[:200] if isinstance(said, str) else None,
            "project": nod.project or None,
        }
        return {key: value for key, value in facts.items() if value is not None}

    def _caller(self, nod: Nod) -> Connection | None:
        key = nod.call.client.key
        return self._connections.get(key) if isinstance(key, int) else None

    def _held_back(self) -> list[dict[str, Any]]:
        approvals, rows = self._broker.approvals, []
        for name, place, tool, raw in approvals.held_back:
            definition = changes(approvals.pinned(place, tool), definition_of(raw), redactor(place))
            rows.append({"id": name, "server": place.name, "tool": tool, "definition": definition})
        return rows

    # -- who may answer --------------------------------------------------------------------------

    @staticmethod
    def _own_user_only(connection: Connection) -> None:
        if connection.visitor.uid != os.getuid():
            raise Denied("only the daemon's own user may do this")

    def _require(self, connection: Connection, nod: Nod | None) -> None:
        """Make sure that a client may nod at a call.

        Raises:
            Denied: It may not.
        """
        self._own_user_only(connection)
        pid = connection.visitor.pid
        if is_below(pid, os.getpid()):
            raise Denied("a server may not approve calls")
        if nod is not None:
            kin = belongs_with(pid, nod.household)
        else:  # a definition is nobody's: who asks for it may be any client
            others = [one.visitor.pid for one in self._connections.values() if one is not connection]
            kin = any(belongs_with(pid, known) for other in others if (known := household(other)))
        if kin:
            why = "who calls tools may not approve that by itself, nor may what belongs with it"
            raise Denied(why, hint="mcpd approve in a terminal of its own")

    # -- asking ----------------------------------------------------------------------------------

    def _ask(self, nod: Nod) -> None:
        """Note who calls, and ask all who want to be asked and may answer."""
        caller = self._caller(nod)
        nod.household = () if caller is None else household(caller.visitor.pid)
        for connection in list(self._connections.values()):
            if _wants(connection):
                try:
                    self._require(connection, nod)
                except Denied:
                    continue
                self._put(connection, nod)

    def _put(self, connection: Connection, nod: Nod) -> None:
        def settle(result: Raw | None, error: ErrorView | None) -> None:
            if result is not None and self._broker.approvals.waiting.get(nod.id) is nod:
                self._take(connection, nod, result)

        question = Question(connection, "mcpd/approve", msgspec.json.encode(self._row(nod)), settle)
        nod.questions.append(question)
        connection.ask(question)

    def _take(self, connection: Connection, nod: Nod, result: Raw) -> None:
        """Do what a client has answered; an answer that makes no sense is none."""
        try:
            answer = msgspec.json.decode(result, type=_Answer)
            if answer.approve:
                self._require(connection, nod)
                self._broker.approvals.approve(nod.id, remember=answer.remember)
            else:
                self._broker.approvals.deny(nod.id, answer.reason)
        except (msgspec.MsgspecError, RecursionError, McpdError):
            return


def _wants(connection: Connection) -> bool:
    """Whether a client has declared that it can be asked for nods."""
    hello = connection.visitor.hello
    if hello is None or not hello.capabilities:
        return False
    try:
        return bytes(msgspec.json.decode(hello.capabilities, type=_Declared).approve) not in (b"", b"null", b"false")
    except (msgspec.MsgspecError, RecursionError):
        return False
