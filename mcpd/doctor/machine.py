"""The daemon's place on this machine: folder, socket and lock, its version, its limits and its children."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping
from typing import Any

from mcpd import __version__
from mcpd.doctor.check import Check

# A server takes three descriptors, a client one.
FEW_FILES = 1024


def examine(socket: str, daemon: Mapping[str, Any] | None, why: str) -> Iterator[Check]:
    """Look at the socket and at who serves it.

    Args:
        socket: its path.
        daemon: `daemon` of mcpd/status; None if nobody answers.
        why: why nobody does.
    """
    yield from _folder(os.path.dirname(socket))
    yield from _socket(socket, daemon)
    if daemon is None:
        yield Check("daemon", "warn", why or "not running", "it is started when it is needed; to start it now: mcpd up")
        return
    yield _version(str(daemon.get("version")), daemon.get("pid"))
    pid = daemon.get("pid")
    if isinstance(pid, int):
        yield from _limits(pid)
        yield from _zombies(pid)
    for name, count in sorted((daemon.get("counters") or {}).items()):
        if name in ("crashes", "log_lines_lost") and count:
            yield Check("daemon", "warn", f"{name.replace('_', ' ')}: {count}", "mcpd logs")


def environ_of(pid: int) -> dict[str, str] | None:
    """Return the environment that a process of this user was started with; None if it cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = (os.fsdecode(pair).partition("=") for pair in file.read().split(b"\0") if pair)
            return {name: value for name, _, value in pairs}
    except OSError:
        return None


def _folder(path: str) -> Iterator[Check]:
    try:
        found = os.stat(path)
    except OSError:
        return  # it is made with the first daemon
    if found.st_uid != os.getuid():
        yield Check("socket folder", "fail", f"{path} belongs to uid {found.st_uid}", "set MCPD_SOCKET to a path in a folder of yours")
    elif found.st_mode & 0o077:
        yield Check("socket folder", "fail", f"{path} is open to others ({_mode(found)})", f"chmod 700 {path}")
    else:
        yield Check("socket folder", "ok", path)


def _socket(path: str, daemon: Mapping[str, Any] | None) -> Iterator[Check]:
    try:
        found = os.lstat(path)
    except OSError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        yield Check("socket", "fail", f"{path} is no socket", f"move it away: mv {path} {path}.old")
    elif found.st_uid != os.getuid() or found.st_mode & 0o077:
        yield Check("socket", "fail", f"{path} can be used by others ({_mode(found)})", "mcpd down, then mcpd up")
    elif daemon is None:
        yield Check("socket", "warn", f"{path} is left over: nobody listens", "the next start replaces it: mcpd up")
    else:
        yield Check("socket", "ok", path)


def _mode(found: os.stat_result) -> str:
    return f"{stat.S_IMODE(found.st_mode):04o}"


def _version(running: str, pid: object) -> Check:
    if running != __version__:
        return Check("daemon", "warn", f"version {running} runs, {__version__} is installed", "mcpd down, then mcpd up")
    return Check("daemon", "ok", f"version {running}, pid {pid}")


def _limits(pid: int) -> Iterator[Check]:
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open(f"/proc/{pid}/limits", encoding="ascii") as file:
            line = next(line for line in file if line.startswith("Max open files"))
        soft = line.split()[3]
        if soft != "unlimited" and int(soft) < FEW_FILES:
            yield Check("open files", "warn", f"the daemon may open {soft} files", f"ulimit -n {FEW_FILES * 4} before mcpd up")


def _zombies(pid: int) -> Iterator[Check]:
    dead = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, IndexError):
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
            if state == "Z" and parent == str(pid):
                dead.append(name)
    if dead:
        yield Check("processes", "warn", f"{len(dead)} ended and not reaped: {', '.join(dead[:5])}", "mcpd down, then mcpd up")
