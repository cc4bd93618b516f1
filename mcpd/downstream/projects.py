"""The project that a client works in: the nearest folder upwards that says that it is one."""

from __future__ import annotations

import os

MARKS = (".git", ".hg", ".mcp.json")
# Folders nest no deeper than this where people work.
MAX_DEPTH = 64


def of(folder: str) -> str | None:
    """Return the project of a folder, or None outside of any.

    A linked worktree has a `.git` of its own and is another project. The folders are compared by their
    real paths, so that two ways to one of them lead to one project.
    """
    here = os.path.realpath(folder)
    for _ in range(MAX_DEPTH):
        if any(os.path.lexists(os.path.join(here, mark)) for mark in MARKS):
            return here
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above
    return None


def of_process(pid: int) -> str | None:
    """Return the project of the folder that a process works in; None if that cannot be seen."""
    try:
        return of(os.readlink(f"/proc/{pid}/cwd"))
    except OSError:
        return None
