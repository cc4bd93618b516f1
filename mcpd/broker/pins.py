"""What tools said of themselves when they were first let through, and which of them go without a nod from then on.

A server may show a harmless tool until it is trusted, and another one under the same name after that. So the
definition of a tool is pinned when a call of it is first let through, and one that has become another is held
back until somebody has seen what has changed.

A pin belongs to the entry as it is written, so that another command behind the same name begins anew; values of
its environment and its headers stay out of it. What cannot be written is lost with the daemon: the next one asks.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from mcpd.config.model import Server

# What of a descriptor makes a tool what it is; icons and metadata may change with every list.
PARTS = ("name", "title", "description", "inputSchema", "annotations")
# A longer definition is known by its digest alone, and no difference of it can be shown.
DEFINITION_BYTES = 16 * 1024
MAX_PINS = 2000
MAX_FILE_BYTES = 64 * 1024 * 1024
DIFF_BYTES = 32 * 1024


class Key(NamedTuple):
    """Which tool: of what server, by the digest of its entry, in whose folder it works if it does in one."""

    server: str
    entry: str
    project: str
    tool: str


class Pin(Struct):
    """One pinned definition.

    Attributes:
        digest: what it is compared by.
        definition: as it may be seen; None where it was too long.
        remembered: the projects whose clients need no nod for it; empty for outside of any.
    """

    digest: str
    definition: str | None = None
    remembered: list[str] = []


class _Kept(Struct):
    """A pin as it is written."""

    server: str
    entry: str
    project: str
    tool: str
    pin: Pin


class _File(Struct):
    version: int
    pins: list[_Kept]


class Pins:
    """The pins of all tools, and their file.

    Args:
        path: of the file; None for nothing that outlives the daemon.

    Attributes:
        problem: why the file is not used, or could not be written; None if all is well.
    """

    def __init__(self, path: str | None = None) -> None:
        self._path = path
        self._known: dict[Key, Pin] = {}
        self.problem: str | None = None
        if path is not None:
            found, self.problem = _read(path)
            self._known = {Key(one.server, one.entry, one.project, one.tool): one.pin for one in found}

    def get(self, key: Key) -> Pin | None:
        """Return the pin of a tool."""
        return self._known.get(key)

    def put(self, key: Key, definition: str, clean: Callable[[str], str] = str) -> None:
        """Pin a definition; where it is another one than before, nothing is remembered any more. Idempotent.

        `clean` takes the secrets out of what is kept of it.
        """
        digest, before = digest_of(definition), self._known.pop(key, None)
        if before is not None and before.digest == digest:
            self._known[key] = before  # the latest one is forgotten last
            return
        self._known[key] = Pin(digest, clean(definition) if len(definition) <= DEFINITION_BYTES else None, [])
        while len(self._known) > MAX_PINS:
            del self._known[next(iter(self._known))]
        self._write()

    def remember(self, key: Key, project: str) -> None:
        """Let what is pinned go without a nod for the clients of a project. Idempotent."""
        pin = self._known.get(key)
        if pin is not None and project not in pin.remembered:
            pin.remembered.append(project)
            self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        kept = [_Kept(*key, pin) for key, pin in self._known.items()]
        temporary = f"{self._path}.{os.getpid()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            with open(os.open(temporary, flags, 0o600), "wb") as file:
                file.write(msgspec.json.encode(_File(1, kept)))
            os.replace(temporary, self._path)
        except OSError as problem:
            self.problem = f"{self._path} could not be written: {problem.strerror}; what was approved is forgotten with the daemon"
        else:
            self.problem = None


def _read(path: str) -> tuple[list[_Kept], str | None]:
    """Return what an earlier daemon has left, and why it is not used: nobody else may have written it."""
    try:
        # Not a pipe, of which nobody knows when something comes.
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode) or about.st_uid != os.getuid() or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return [], f"{path} is not used: it is no file that only you can write"
            found = msgspec.json.decode(file.read(MAX_FILE_BYTES), type=_File)
    except FileNotFoundError:
        return [], None
    except OSError as problem:
        return [], f"{path} is not used: {problem.strerror}"
    except (msgspec.MsgspecError, RecursionError):
        return [], f"{path} is not used: it is not what mcpd has written"
    return (found.pins, None) if found.version == 1 else ([], f"{path} is not used: it is of another version of mcpd")


def key_of(server: Server, project: str | None, tool: str) -> Key:
    """Name a tool of a server whose copy works in a project's folder, or in nobody's."""
    facts = [server.command, server.args, server.url, server.cwd, server.project]
    return Key(server.name, hashlib.sha256(msgspec.json.encode(facts)).hexdigest()[:32], project or "", tool)


def definition_of(descriptor: Raw) -> str:
    """Return what of a descriptor makes the tool what it is, as canonical JSON."""
    try:
        members: dict[str, Any] = msgspec.json.decode(descriptor, type=dict[str, Any])
        return msgspec.json.encode({key: members[key] for key in PARTS if key in members}, order="sorted").decode()
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        return bytes(descriptor).decode("utf-8", "replace")


def digest_of(definition: str) -> str:
    """Return what a definition is compared by."""
    return hashlib.sha256(definition.encode("utf-8", "replace")).hexdigest()


def difference(old: str | None, new: str) -> str:
    """Return what has changed of a definition, as a unified diff."""
    from difflib import unified_diff

    if old is None:
        return "the definition of before was too large to be kept\n"
    lines = unified_diff(_lines(old), _lines(new), "pinned", "now", lineterm="")
    text = "\n".join(lines) + "\n"
    return text if len(text) <= DIFF_BYTES else text[:DIFF_BYTES] + "\n… cut\n"


def _lines(definition: str) -> list[str]:
    try:
        return msgspec.json.format(definition, indent=2).splitlines()
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return definition.splitlines()


class _Hints(Struct):
    readOnlyHint: Any = None
    destructiveHint: Any = None


class _Annotated(Struct):
    annotations: _Hints | None = None


def only_reads(descriptor: Raw) -> bool:
    """Whether a server says of a tool that it changes nothing; one that destroys wins, and silence says nothing."""
    try:
        hints = msgspec.json.decode(descriptor, type=_Annotated).annotations
    except (msgspec.MsgspecError, RecursionError):
        return False
    return hints is not None and hints.readOnlyHint is True and hints.destructiveHint in (None, False)
