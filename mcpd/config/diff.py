"""What a reload changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mcpd.config.model import Config


class Diff(NamedTuple):
    """Names of servers, each list in the order of its file; a wrong entry counts like a right one."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]


def diff(old: Config, new: Config) -> Diff:
    """Return which servers are new, gone, or other than before."""
    before, after = {**old.servers, **old.wrong}, {**new.servers, **new.wrong}
    return Diff(
        added=tuple(name for name in after if name not in before),
        removed=tuple(name for name in before if name not in after),
        changed=tuple(name for name in after if name in before and before[name] != after[name]),
    )
