"""Whom a call has to do with: the client that asked, and the place of the upstream."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Protocol, Self

from msgspec import Raw

from mcpd.timers import Timers
from mcpd.upstream.supervisor import Slot

from .asking import Asked, Input
from .limits import Admission
from .results import ResultStore
from .scopes import Seeker

if TYPE_CHECKING:
    from .call import Call
    from .passing import Passing

Parts = tuple[bytes | bytearray | memoryview, ...]


class Guest(Asked, Protocol):
    """Who wants something of an upstream."""

    @property
    def seeker(self) -> Seeker:
        """Which copy of an upstream is the client's."""


class Client(Guest, Protocol):
    """Who asked; the answers go here."""

    @property
    def owner(self) -> Client:
        """Who is there for longer: the same, or the connection that one request came over."""

    @property
    def whole(self) -> bool:
        """Whether results go to it as they came, and are not cut."""

    @property
    def is_modern(self) -> bool:
        """Whether a result that asks for input is its own business; it comes back with a request of its own."""

    @property
    def patient(self) -> bool:
        """Whether it has a time limit of its own, and waits for a server that is only slow."""

    @property
    def inputs(self) -> bytes:
        """Members that its request to a modern server carries, as JSON with a comma in front of each."""

    @property
    def key(self) -> Hashable:
        """What counts as one client for shares and handles."""

    @property
    def log_level(self) -> str | None:
        """From which level on it wants to hear what the servers log that it uses; one of `LEVELS`."""

    @property
    def capabilities_json(self) -> bytes:
        """What it can be asked, for a request of its own."""

    def answered(self, call: Call, parts: Parts) -> None:
        """Take the result, as JSON in parts."""

    def refused(self, call: Call, error: bytes) -> None:
        """Take an error object, as JSON."""

    def progressed(self, call: Call, params: bytes) -> None:
        """Take the `params` of a progress notification, with the client's own token."""


class Held(Protocol):
    """What a call waits for before anything of it is sent."""

    def over(self) -> None:
        """Take note that the call is over."""


class Plain:
    """A client of the socket's own methods: it is there for itself, and gets views of results."""

    whole = is_modern = patient = False
    is_waiting = True
    inputs = b""

    @property
    def owner(self) -> Self:
        """Itself."""
        return self

    @property
    def knows_server(self) -> bool:
        """It names the server with each request, and may have to do with several."""
        return False


class Place(Protocol):
    """What a call needs to know of its upstream's place in the broker; `asking` are calls whose client is asked."""

    slot: Slot
    admission: Admission[Call]
    passing: Passing
    asking: set[Call]
    timers: Timers
    store: ResultStore

    def release(self, call: Call) -> None:
        """Give a call's place back."""

    def refused(self, call: Call, error: Raw) -> None:
        """Note that the upstream answered a call with an error."""

    def may_repeat(self, call: Call) -> bool:
        """Whether a call that may have run may be sent again."""

    def explains(self, call: Call, error: Raw) -> bool:
        """Whether the call will be told later what an error means, by `refused`."""

    def refusal(self, call: Call, error: Raw) -> bytes | None:
        """Return the error to give instead of the upstream's own, or None to pass that on."""

    def is_exclusive(self, call: Call) -> bool:
        """Whether nobody else's calls may run beside this one."""

    def local_answer(self, asked: Input) -> bytes | None:
        """Return what the place itself answers to a question of its server, if it can."""

    @property
    def leveled(self) -> Mapping[Hashable, object]:
        """Those who have said from which level on they want the log."""

    def level_of(self, key: Hashable) -> str | None:
        """From which level on a client wants the log."""
