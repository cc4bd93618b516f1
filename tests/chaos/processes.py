"""The processes of a run, as /proc shows them; nothing of the product is asked.

A process belongs to a run by the folder in its command line or environment, or by the mark of the run's
guardian: the highest bits of its soft limit of real-time.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

# Below the place: 22 bits of daemon, 14 of server, all of these ones for a guardian.
PLACE_BITS, SERVER_BITS = 36, 14
GUARDIAN = (1 << SERVER_BITS) - 1
LISTENS = "00010000"


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    command: bytes
    mark: int

    @property
    def role(self) -> str:
        """What it is in the run: daemon, guardian, server, grandchild, client, or other."""
        words = self.command.split(b"\0")
        if b"guardian.py" in self.command or self.mark & GUARDIAN == GUARDIAN:
            return "guardian"
        if words[0].endswith(b"/grandchild"):
            return "grandchild"
        if b"daemon" in words and b"detach.py" not in self.command:
            return "daemon"
        script = os.path.basename(words[1]) if len(words) > 1 else b""
        return {b"server.py": "server", b"client.py": "client"}.get(script, "other")

    @property
    def instance(self) -> int:
        """Which daemon's it is, by its mark."""
        return self.mark >> SERVER_BITS & (1 << PLACE_BITS - SERVER_BITS) - 1

    def __str__(self) -> str:
        words = self.command.replace(b"\0", b" ").decode(errors="replace").strip()
        return f"pid {self.pid} ({self.role}, parent {self.parent}, mark {self.mark:#x}): {words[:200]}"


def scan(folder: str, place: int) -> list[Process]:
    """Return the living processes that belong to a run, by number."""
    word, found = os.fsencode(folder), []
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        command = _read(f"/proc/{pid}/cmdline")
        # One that has ended and waits to be collected has no command line.
        if not command:
            continue
        mark = read_mark(pid)
        if (place and mark >> PLACE_BITS == place) or word in command or word in _read(f"/proc/{pid}/environ"):
            found.append(Process(pid, _parent(pid), command, mark))
    return found


def read_mark(pid: int) -> int:
    """Return the mark of a process, or 0."""
    for line in _read(f"/proc/{pid}/limits").splitlines():
        if line.startswith(b"Max realtime timeout"):
            value = line.split()[3]
            return int(value) if value.isdigit() and int(value) >> 60 else 0
    return 0


def children(pid: int) -> list[int]:
    """Return the children of a process with a single thread of interest, the first one."""
    return [int(word) for word in _read(f"/proc/{pid}/task/{pid}/children").split()]


def send(process: Process, number: signal.Signals) -> bool:
    """Signal a process, unless its number is somebody else's by now; say whether it was there."""
    try:
        fd = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        if _read(f"/proc/{process.pid}/cmdline") != process.command:
            return False
        signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
    return True


def kill_together(found: Sequence[Process]) -> bool:
    """Kill processes so that none of them sees the end of another; say whether all were there."""
    hits = [send(one, number) for number in (signal.SIGSTOP, signal.SIGKILL) for one in found]
    return all(hits)


def listeners(path: str) -> set[str]:
    """Return the sockets that listen at a path, by inode."""
    lines = [line.split() for line in _read("/proc/net/unix").decode(errors="replace").splitlines()]
    return {line[6] for line in lines if line[-1] == path and line[3] == LISTENS}


def count_fds(pid: int) -> int:
    """Return how many descriptors a process has open; 0 if it is gone."""
    with suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd"))
    return 0


def rss_bytes(pid: int) -> int:
    """Return the resident memory of a process; 0 if it is gone."""
    pages = _read(f"/proc/{pid}/statm").split()
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if pages else 0


def _parent(pid: int) -> int:
    rest = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return int(rest[1]) if rest else 0


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
