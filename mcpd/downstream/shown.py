"""What the MCP face of a connection shows: one server as it is, several as one, a search, or mcpd itself.

The face speaks the protocol; what is behind it says what there is, under which names, and who has it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from msgspec import Raw

from mcpd.broker.parties import Guest


@dataclass(frozen=True)
class Card:
    """How something presents itself: what `initialize` and `server/discover` tell of it.

    Attributes:
        info: the Implementation object.
        capabilities: the members of ServerCapabilities.
        instructions: for the model, if there are any.
        is_final: whether it is what the server has said, in this run or an earlier one; else a guess.
    """

    info: Raw
    capabilities: Mapping[str, Raw]
    instructions: str | None = None
    is_final: bool = True


@dataclass
class Shown:
    """One list as a client gets it, whole.

    Attributes:
        items: descriptors, named as they are published.
        ttl_ms: what is left of the promise that they are good.
        is_public: whether they may be shown to anybody.
        pending: servers that are still starting, whose items are missing or may be old.
        problems: error objects of the servers that could not list.
    """

    items: list[Raw] = field(default_factory=list)
    ttl_ms: int = 0
    is_public: bool = False
    pending: list[str] = field(default_factory=list)
    problems: list[dict[str, Any]] = field(default_factory=list)


class Route(NamedTuple):
    """Whose something is, and what it is called there."""

    server: str
    name: str


class Local(NamedTuple):
    """Something that mcpd does itself.

    `work` gets `arguments` of the call as JSON and returns a CallToolResult; for a resource, the uri as a JSON
    string, and a ReadResourceResult. It raises McpdError for a protocol error.
    """

    work: Callable[[Raw], Awaitable[dict[str, Any]]]


class Through(NamedTuple):
    """A tool of mcpd's own that calls another one: `resolve` gets the arguments, and says whose and with which.

    It raises McpdError for a protocol error; a `CallToolResult` instead of a route is the answer.
    """

    resolve: Callable[[Raw], Awaitable[tuple[Route, Raw] | dict[str, Any]]]


class Source(Protocol):
    """What a face shows. `guest` is the connection: who asks, and which copies are its own."""

    @property
    def alone(self) -> bool:
        """Whether it is one server as it is: nothing is renamed, and questions do not say whose they are."""

    async def card(self, guest: Guest) -> Card:
        """Return how it presents itself, without keeping a client waiting that has little time.

        Raises:
            McpdError: It cannot be had.
        """

    async def listing(self, kind: str, guest: Guest) -> Shown:
        """Return one of the four lists: `tools`, `prompts`, `resources`, `templates`.

        Raises:
            McpdError: It cannot be had.
        """

    def find(self, kind: str, name: str, guest: Guest) -> Route | Local | Through | None:
        """Return whose a tool, a prompt or a resource (by uri) is, from what is known; None if that is not enough.

        `kind` is `tools`, `prompts`, `resources`, or `templates` for the reference of a completion.
        """

    async def look(self, kind: str, name: str, guest: Guest) -> Route | Local | Through:
        """Find out whose something is.

        Raises:
            McpdError: There is no such thing (`UnknownTool` for a tool), or nobody can tell.
        """

    def result(self, route: Route, result: Raw, guest: Guest) -> Raw:
        """Return a result of a server with the names and uris that are published; all else bit-exact."""
