"""Which tools of a server its entry lets be seen and called."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from msgspec import Raw

from mcpd.config.model import Tools

# Lets everything pass.
EVERYTHING = (("*",), ())

Globs = tuple[tuple[str, ...], tuple[str, ...]]


def matches(globs: Iterable[str], name: str) -> bool:
    """Whether a name fits one of the globs."""
    return any(fnmatchcase(name, glob) for glob in globs)


class Policy:
    """The globs of one entry; `deny` wins."""

    def __init__(self, tools: Tools) -> None:
        self._allow, self._deny = tools.allow, tools.deny
        self._open = self.globs("tools") == EVERYTHING

    def globs(self, kind: str) -> Globs:
        """Return what a kind of list is filtered by: allow and deny."""
        return (self._allow, self._deny) if kind == "tools" else EVERYTHING

    def allows(self, tool: str) -> bool:
        """Whether a tool may be seen and called."""
        return self._open or (matches(self._allow, tool) and not matches(self._deny, tool))

    def seen(self, kind: str, whole: list[tuple[str, Raw]]) -> list[tuple[str, Raw]]:
        """Return what may be seen of a list; the list itself if that is all."""
        if kind != "tools" or self._open:
            return whole
        return [item for item in whole if self.allows(item[0])]
