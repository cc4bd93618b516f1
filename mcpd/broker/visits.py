"""The URLs that servers send users to, until they say that it is done: each to the client that was sent, and no other.

Spec: 2025-11-25 client/elicitation, URL mode: `elicitationId`, `notifications/elicitation/complete`, and
the error -32042, whose data names what has to be visited first.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from mcpd.protocol import jsonrpc, rawjson
from mcpd.protocol.jsonrpc import ABSENT

from .asking import SERVER_KEY

URL_REQUIRED = -32042
# Of one upstream; a user who has not come back after so many others never will.
MAX_OPEN = 256
COMPLETE = "notifications/elicitation/complete"


class Guest(Protocol):
    """Who can be told."""

    @property
    def key(self) -> Hashable:
        """Which client it is."""

    def notified(self, method: str, params: bytes) -> None:
        """Take a notification."""


class _Elicitation(Struct):
    elicitationId: Raw = ABSENT


class _Required(Struct):
    elicitations: list[_Elicitation] = []


class Visits:
    """The open visits of one upstream's users."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._open: dict[bytes, Guest] = {}

    def begin(self, client: Guest, params: Raw) -> None:
        """Note whom a question sends to a URL, if it does."""
        try:
            self._note(client, msgspec.json.decode(params, type=_Elicitation))
        except (msgspec.MsgspecError, RecursionError):
            return

    def required(self, client: Guest, error: Raw) -> None:
        """Note whom an error sends to URLs, if it does."""
        seen = jsonrpc.read_error(error)
        if seen.code != URL_REQUIRED:
            return
        try:
            for one in msgspec.json.decode(seen.data, type=_Required).elicitations:
                self._note(client, one)
        except (msgspec.MsgspecError, RecursionError):
            return

    def _note(self, client: Guest, one: _Elicitation) -> None:
        if one.elicitationId:
            self._open[bytes(one.elicitationId)] = client
            while len(self._open) > MAX_OPEN:
                del self._open[next(iter(self._open))]

    def forget(self, key: Hashable) -> None:
        """Forget where a client was sent that has left."""
        self._open = {name: client for name, client in self._open.items() if client.key != key}

    def complete(self, params: Raw) -> bool:
        """Tell the client that was sent that its visit is over; False if nobody was sent by that name."""
        try:
            name = bytes(msgspec.json.decode(params, type=_Elicitation).elicitationId)
        except (msgspec.MsgspecError, RecursionError):
            return False
        client = self._open.pop(name, None)
        if client is None:
            return False
        members = rawjson.members(params, "the parameters")
        members["_meta"] = Raw(msgspec.json.encode({SERVER_KEY: self._server}))
        client.notified(COMPLETE, msgspec.json.encode(members))
        return True
