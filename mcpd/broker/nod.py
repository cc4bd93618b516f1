"""One call that is held until somebody has nodded, and what he is shown of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Hashable
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from msgspec import Raw

from mcpd.config.redact import Redactor
from mcpd.timers import Timer

from .asking import Question
from .pins import definition_of, difference, digest_of, key_of
from .requests import ToolRequest

if TYPE_CHECKING:
    from .call import Call
    from .place import Place

# Of the arguments; what is looked through for secrets before it is cut.
SHOWN_BYTES, SEARCHED_BYTES = 4096, 64 * 1024


class Nod:
    """The nod that a call needs.

    Attributes:
        call: that one; it is held.
        place: the copy that it goes to.
        mode: the rule by which it is held.
        id: what answers name; empty until somebody is asked.
        seconds: how long it is waited for.
        definition: what the tool is now; None where its server does not say.
        has_changed: it is another one than was pinned.
        before: what was pinned then, as far as it was kept.
        questions: what other clients were asked.
        timer: its own limit.
        redact: takes the secrets of the server out of what is shown.
        household: the processes that the caller belongs with.

    Args:
        left: told when the call is over before it was let go.
    """

    def __init__(self, call: Call, place: Place, mode: str, left: Callable[[Nod], None]) -> None:
        self.call, self.place, self.mode, self._left = call, place, mode, left
        self.server, self.tool = place.server, call.what
        self.project = call.client.seeker.project or ""
        self.key = key_of(place.server, place.project, self.tool)
        self.id, self.seconds, self._since = "", 0.0, 0.0
        self.redact = Redactor()
        self.definition: str | None = None
        self.before: str | None = None
        self.has_changed = False
        self.household: Collection[int] = ()
        self.questions: list[Question] = []
        self.timer: Timer | None = None

    def see(self, place: Place, descriptor: Raw | None) -> None:
        """Take note of what the tool is, at the copy that the call goes to."""
        self.place, self.server = place, place.server
        self.key = key_of(place.server, place.project, self.tool)
        self.redact = redactor(place)  # now, while it runs: it may be stopped again before somebody looks
        self.definition = None if descriptor is None else definition_of(descriptor)

    def looks_new(self) -> bool:
        """Whether the tool has become another one since it was last looked at; that is what it is from now on."""
        known = self.place.catalog.tools
        raw = None if known is None else known.names.get(self.tool) or known.held.get(self.tool)
        if raw is None or (now := definition_of(raw)) == self.definition:
            return False
        self.definition = now
        return True

    def asked(self, name: str, seconds: float) -> None:
        """Begin to wait."""
        self.id, self.seconds, self._since = name, seconds, trio.current_time()

    @property
    def subject(self) -> Hashable:
        """What is nodded at: this tool as it is, with these arguments, for this project."""
        request = self.call.request
        arguments = bytes(request.arguments) if isinstance(request, ToolRequest) else b""
        definition = None if self.definition is None else digest_of(self.definition)
        return (self.key, definition, self.project, hashlib.sha256(arguments).digest())

    def over(self) -> None:
        """Take note that the call is over."""
        self._left(self)

    def close(self) -> None:
        """Wait no longer, and take back what others were asked. Idempotent."""
        self.call.nod = None
        if self.timer is not None:
            self.timer.cancel()
        while self.questions:
            self.questions.pop().withdraw("the call does not wait any more")

    # -- what is shown ---------------------------------------------------------------------------

    def tell_client(self) -> None:
        """Say to who asks in the socket's own words that it waits, and for what."""
        if not self.call.client.whole:
            facts = {"id": self.id, "server": self.server.name, "tool": self.tool, "seconds": self.seconds}
            self.call.client.notified("mcpd/waiting", msgspec.json.encode(facts))

    def row(self) -> dict[str, Any]:
        """Return what a person decides by."""
        now = trio.current_time()
        row: dict[str, Any] = {
            "id": self.id,
            "server": self.server.name,
            "tool": self.tool,
            **self._arguments(),
            "waits_seconds": round(now - self._since, 1),
            "expires_in_seconds": round(max(self._since + self.seconds - now, 0.0), 1),
        }
        if self.has_changed and self.definition is not None:
            row["definition"] = changes(self.before, self.definition, self.redact)
        return row

    def _arguments(self) -> dict[str, Any]:
        request = self.call.request
        whole = bytes(request.arguments) if isinstance(request, ToolRequest) else b"{}"
        shown = self.redact.text(whole[:SEARCHED_BYTES].decode("utf-8", "replace")).encode()
        if len(whole) <= SEARCHED_BYTES and len(shown) <= SHOWN_BYTES:
            return {"arguments": shown.decode()}
        return {"arguments": shown[:SHOWN_BYTES].decode("utf-8", "ignore"), "arguments_bytes": len(whole)}


def redactor(place: Place) -> Redactor:
    """Return what takes the secrets of a server out of a text, as far as they are known now."""
    one = place.slot.current
    return Redactor() if one is None else one.redact


def changes(old: str | None, new: str, redact: Redactor) -> dict[str, str | None]:
    """Return what has become of a definition: as it was pinned, which was cleaned then, as it is now, and the difference."""
    now = redact.text(new)
    return {"old": old, "new": now, "diff": difference(old, now)}
