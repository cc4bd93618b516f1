"""Which process a client is, and which ones it belongs with: who calls must not nod at its own call.

What is verified: that both are processes of the same user, and that the one who answers is not the caller, none of
the processes that it belongs with, and none that these have started. A caller belongs with the processes above it up
to the next one that leads a session, which is the shell of a terminal, say: so a host belongs with its bridge, and
what its model runs in a shell belongs with the host. A server belongs with the daemon, and may not answer either.

What is not: a program that cuts itself off from its parents on purpose, as a service manager does for others, is
not known again. This keeps agents from nodding by themselves; it is no wall against the user's own programs.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import NamedTuple

# Nobody has more above him, unless they go round in a circle while they are being read.
MAX_DEPTH = 64


class Process(NamedTuple):
    """One process: its number, its parent's, and that of its session."""

    pid: int
    parent: int
    session: int


def line_of(pid: int) -> list[Process]:
    """Return a process and those above it, without the first of the system; empty where that cannot be known."""
    line: list[Process] = []
    while pid > 1 and len(line) < MAX_DEPTH:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                # The name of the program, in parentheses, may hold anything.
                fields = file.read().rpartition(b")")[2].split()
            line.append(Process(pid, int(fields[1]), int(fields[3])))
        except (OSError, ValueError, IndexError):
            break
        pid = line[-1].parent
    return line


def household(pid: int) -> set[int]:
    """Return a process and those above it that belong with it; empty where that cannot be known."""
    line = line_of(pid)
    found = {line[0].pid} if line else set()
    for process in line[1:]:
        if process.session == process.pid:
            break
        found.add(process.pid)
    return found


def belongs_with(pid: int, others: Collection[int]) -> bool:
    """Whether a process is one of a household, or below one of it, or cannot be told apart from that."""
    line = line_of(pid)
    return not line or not others or any(process.pid in others for process in line)


def is_below(pid: int, ancestor: int) -> bool:
    """Whether a process was started by another one, or by what that has started."""
    return any(process.pid == ancestor for process in line_of(pid))


def program_of(pid: int) -> str | None:
    """Return the path of a process's program, as the kernel says; None if it does not."""
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return None
