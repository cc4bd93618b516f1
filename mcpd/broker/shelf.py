"""Lists on disk, so that a list can be answered while its server starts.

One file for each identity and kind. What cannot be read, or is not what its name says, is removed and
means that there is no list; what cannot be written costs the cache and nothing else. Files are touched in
a thread, for a disk may be slow, and what is put down in quick succession is written once.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from collections.abc import Awaitable, Callable

import msgspec
import trio
from msgspec import Raw, Struct

from mcpd.timers import Timer, Timers

from .policy import EVERYTHING, Globs

WRITE_SECONDS = 1.0
MAX_FILES = 200
MAX_BYTES = 8 << 20
KEEP_SECONDS = 30 * 24 * 3600.0
# Of the file's form; files of another one are removed.
FORM = 1


class Shelved(Struct, kw_only=True, frozen=True):
    """A list as it is kept: with all that the server said, whatever the entry lets be seen.

    `policy` is the filter that `revision` was counted with.
    """

    revision: int
    items: list[tuple[str, Raw]]
    set_aside: list[str] = []
    policy: Globs = EVERYTHING


class _File(Struct):
    form: int
    identity: str
    kind: str
    list: Shelved


_read_file = msgspec.json.Decoder(_File).decode

Key = tuple[str, str]


class Shelf:
    """The folder of the lists.

    Attributes:
        failed: how many lists could not be written.

    Args:
        folder: made when something is written.
        timers: waits a moment before something is written.
        start: runs the writing as a task.
    """

    def __init__(
        self, folder: str, timers: Timers, start: Callable[[Callable[[], Awaitable[object]]], object]
    ) -> None:
        self.failed = 0
        self._folder, self._timers, self._start = folder, timers, start
        self._pending: dict[Key, Shelved] = {}
        self._timer: Timer | None = None
        self._writing = False

    async def get(self, identity: str, kind: str) -> Shelved | None:
        """Return the list of an upstream with that identity."""
        pending = self._pending.get((identity, kind))
        if pending is not None:
            await trio.lowlevel.checkpoint()
            return pending
        if not self._has(identity, kind):  # a thread would take longer than this look
            await trio.lowlevel.checkpoint()
            return None
        try:
            return await trio.to_thread.run_sync(self.read, identity, kind, abandon_on_cancel=True)
        except RuntimeError:  # no thread to be had
            return None

    def _has(self, identity: str, kind: str) -> bool:
        return os.path.exists(self._path(identity, kind))

    def put(self, identity: str, kind: str, shelved: Shelved) -> None:
        """Keep a list; it is written in a moment."""
        self._pending[identity, kind] = shelved
        if self._timer is None and not self._writing:
            self._timer = self._timers.after(WRITE_SECONDS, self._due)

    def close(self) -> None:
        """Write what is not written yet, now. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        pending, self._pending = self._pending, {}
        for (identity, kind), shelved in pending.items():
            self.write(identity, kind, shelved)

    def _due(self) -> None:
        self._timer, self._writing = None, True
        self._start(self._write_pending)

    async def _write_pending(self) -> None:
        try:
            batch = dict(self._pending)
            with contextlib.suppress(RuntimeError):
                await trio.to_thread.run_sync(self._write_all, batch)
            for key, shelved in batch.items():
                if self._pending.get(key) is shelved:
                    del self._pending[key]
        finally:
            self._writing = False
        if self._pending:
            self._timer = self._timers.after(WRITE_SECONDS, self._due)

    def _write_all(self, batch: dict[Key, Shelved]) -> None:
        for (identity, kind), shelved in batch.items():
            self.write(identity, kind, shelved)
        self.tidy()

    # -- files; these block ----------------------------------------------------------------------

    def _path(self, identity: str, kind: str) -> str:
        # Whatever an identity is made of, its file has a name of one form and length.
        return os.path.join(self._folder, f"{hashlib.sha256(identity.encode()).hexdigest()[:40]}.{kind}.json")

    def read(self, identity: str, kind: str) -> Shelved | None:
        """Return what a file holds; one that is not what it should be is removed."""
        path = self._path(identity, kind)
        try:
            # Without O_NONBLOCK a pipe of that name would be waited for.
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError:
            _remove(path)
            return None
        with open(fd, "rb") as file:
            found = self._usable(fd, identity, kind, file.read)
        if found is None:
            _remove(path)
        else:
            with contextlib.suppress(OSError):
                os.utime(path)  # in use: not to be removed for its age
        return found

    def _usable(self, fd: int, identity: str, kind: str, read: Callable[[int], bytes]) -> Shelved | None:
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_size > MAX_BYTES:
                return None
            if time.time() - found.st_mtime > KEEP_SECONDS:
                return None
            body = read(MAX_BYTES + 1)
            body.decode()  # what is in a `Raw` is not looked at, and is sent to clients as it is
            file = _read_file(body)
        except (OSError, ValueError, msgspec.MsgspecError, RecursionError):
            return None
        if (file.form, file.identity, file.kind) != (FORM, identity, kind) or file.list.revision < 1:
            return None
        return file.list if all(bytes(raw)[:1] == b"{" for _, raw in file.list.items) else None

    def write(self, identity: str, kind: str, shelved: Shelved) -> None:
        """Write a file; a list that is too large has none."""
        path = self._path(identity, kind)
        body = msgspec.json.encode(_File(FORM, identity, kind, shelved))
        if len(body) > MAX_BYTES:
            _remove(path)  # an older one would be wrong
            return
        temporary = f"{path}.{os.getpid()}.new"
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            _remove(temporary)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            with open(os.open(temporary, flags, 0o600), "wb") as file:
                file.write(body)
            os.replace(temporary, path)
        except OSError:
            self.failed += 1
            _remove(temporary)

    def tidy(self) -> None:
        """Remove what is too old, what is too much, and what a daemon that was killed left half written."""
        now, aged = time.time(), []
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    found = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(found.st_mode):
                        half = not entry.name.endswith(".json") and now - found.st_mtime > 10 * WRITE_SECONDS
                        aged.append((float("-inf") if half else found.st_mtime, entry.path))
        except OSError:
            return
        aged.sort(reverse=True)
        for position, (changed_at, path) in enumerate(aged):
            if position >= MAX_FILES or now - changed_at > KEEP_SECONDS:
                _remove(path)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
