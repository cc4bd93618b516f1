"""Whether a configuration is still what its file says."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcpd.config.model import Config


def changed_ns(path: str) -> int:
    """Return when a file was changed last, in nanoseconds; 0 if there is none."""
    try:
        return os.stat(path).st_mtime_ns
    except (OSError, ValueError):
        return 0


def is_outdated(config: Config) -> bool:
    """Whether the file is another one now than the one that was read."""
    return changed_ns(config.path) != config.changed_at
