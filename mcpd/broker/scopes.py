"""Who shares a running copy of an upstream: everybody, a project, or one client; pure.

`auto` decides by what is safe: modern and remote upstreams keep no state of a connection by their
specification; a legacy one has a working folder, roots and a state that belong to one project.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, Protocol

from mcpd.config.model import Server
from mcpd.protocol import mcp

MODERN_WORDS = ("modern", *mcp.MODERN)


class Scope(NamedTuple):
    """Who shares one place: `kind` is user, project, client, or auto while the era is not known yet."""

    kind: str
    key: Hashable = None


USER = Scope("user")
# The first start finds out what the upstream is; until then all who want it wait together.
UNDECIDED = Scope("auto")


class ClientPolicy(Protocol):
    """What one client may see and call."""

    def approve(self, server: Server) -> str:
        """Return whether its calls of a server need a nod: the stricter of what its profile and the entry say."""


class Seeker:
    """Who asks.

    Attributes:
        key: which client it is.
        project: the folder of its project; None outside of any.
        alone: it wants copies of its own.
        in_project: the scope of all that its project shares.
        policy: what it may see and call; None for everything.
    """

    __slots__ = ("alone", "in_project", "key", "policy", "project")

    def __init__(self, key: Hashable, project: str | None = None, alone: bool = False) -> None:
        self.key, self.project, self.alone = key, project, alone
        self.in_project = Scope("project", project)
        self.policy: ClientPolicy | None = None

    def is_at(self, other: Seeker) -> bool:
        """Whether it gets the same copies as another one of the same client."""
        return (self.project, self.alone) == (other.project, other.alone)


# Who starts what is to be ready before anybody asks.
NOBODY = Seeker(None)


def kind_of(server: Server, era: str | None) -> str:
    """Return by whom an upstream is shared: user, project, client; auto if that is not known yet.

    Args:
        server: its entry.
        era: `modern`, `legacy`, or None while that is not known.
    """
    if server.scope in ("client", "project"):
        return server.scope
    if names_project(server):
        return "project"
    if server.scope == "user" or server.transport == "http":
        return "user"
    if server.protocol != "auto":
        era = "modern" if server.protocol in MODERN_WORDS else "legacy"
    return {None: "auto", "modern": "user"}.get(era, "project")


def scope_of(kind: str, seeker: Seeker) -> Scope:
    """Return the place of one who asks; it may narrow what the entry says, never widen it."""
    if seeker.alone or kind == "client":
        return Scope("client", seeker.key)
    if kind == "project":
        return seeker.in_project
    return USER if kind == "user" else UNDECIDED


def names_project(server: Server) -> bool:
    """Whether what is started differs from project to project because the entry says so."""
    texts = (server.command or "", *server.args, *server.env.values(), server.cwd or "")
    return any("${project" in text for text in texts)


def follows_project(server: Server) -> bool:
    """Whether what is started differs from project to project; its working folder does unless it is set."""
    return server.cwd is None or names_project(server)
