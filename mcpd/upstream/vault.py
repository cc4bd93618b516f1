"""The credential files: what a sign-in has brought, one file for each authorization server and resource.

Both the daemon, which refreshes tokens, and the command line, which signs in and out, read and write them: whoever
changes one holds its lock from before the read to after the write. A file is opened without following links and is
believed only if it is a regular file of this user that nobody else can read; it is replaced whole, and is on the
disk before its new content is used anywhere.

Knows no event loop and no network.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import time
from collections.abc import Callable, Iterator

import msgspec

from .credential import (
    ENDING,
    MAX_FILE_BYTES,
    VERSION,
    Client,
    Credential,
    Endpoints,
    Refused,
    Tokens,
    check_file,
    decoded,
    name_of,
    resource_of,
)

__all__ = ["Busy", "Client", "Credential", "Endpoints", "Lock", "Refused", "Tokens", "Vault", "name_of", "resource_of"]

# There is one for each server that somebody has signed in to.
MAX_FILES = 1000
# Whoever holds the lock may be in the middle of a refresh, which is bounded by 45 s.
LOCK_SECONDS = 60.0
LOOK_SECONDS = 0.05
# A write that a crash has cut off leaves its temporary file; nobody needs longer for one.
STALE_SECONDS = 3600.0
_LOCK, _TEMPORARY = ".lock", ".tmp"


class Busy(Exception):
    """Somebody else has had the lock of a credential for too long."""


class Lock:
    """The lock of one credential: one process has it at a time, and in a process one holder.

    Made by `Vault.lock`, which hands over `folder`.

    Attributes:
        name: of its file, which is there while somebody holds it.
    """

    def __init__(self, folder: int, name: str) -> None:
        self._folder, self.name = folder, name
        self._fd: int | None = None

    def try_acquire(self) -> bool:
        """Take it if it is free; say whether it was.

        Raises:
            OSError: Its file cannot be made.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(self.name, flags, 0o600, dir_fd=self._folder)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever had it before has removed it: then this is nobody's lock any more.
            if _is_there(fd, self.name, self._folder):
                self._fd, fd = fd, -1
        except BlockingIOError:
            return False
        finally:
            if fd >= 0:
                os.close(fd)
        return self._fd is not None

    def close(self) -> None:
        """Let others have it. Idempotent."""
        if self._fd is not None:
            with contextlib.suppress(OSError):
                os.unlink(self.name, dir_fd=self._folder)
            os.close(self._fd)
            self._fd = None
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1


class Vault:
    """The folder of the credentials: `$XDG_STATE_HOME/mcpd/credentials`.

    Args:
        path: of the folder; made when something is written.
        clock: tells the seconds of the epoch.
    """

    def __init__(self, path: str, clock: Callable[[], float] = time.time) -> None:
        self.path, self._clock = path, clock

    # -- reading ---------------------------------------------------------------------------------

    def stamp(self) -> object:
        """Return a value that is another one after any file has been written or removed."""
        try:
            found = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_mtime_ns

    def read(self, issuer: str, resource: str) -> Credential | None:
        """Return one credential, or None if there is none.

        Raises:
            Refused: It must not be used.
        """
        with contextlib.suppress(FileNotFoundError), self._open_folder() as folder:
            return self._read(folder, name_of(issuer, resource) + ENDING)
        return None

    def all(self) -> tuple[list[Credential], list[Refused]]:
        """Return all credentials, the newest first, and what must not be used."""
        found: list[Credential] = []
        refused: list[Refused] = []
        try:
            with self._open_folder() as folder:
                names = sorted(name for name in os.listdir(folder) if name.endswith(ENDING))
                for name in names[:MAX_FILES]:
                    try:
                        found.append(self._read(folder, name))
                    except Refused as problem:
                        refused.append(problem)
                    except FileNotFoundError:  # removed since
                        continue
        except FileNotFoundError:
            pass
        except Refused as problem:
            refused.append(problem)
        return sorted(found, key=lambda one: one.saved_at, reverse=True), refused

    def of(self, url: str, issuer: str | None = None) -> Credential | None:
        """Return the newest credential for a server, from that issuer if one is given; a slash at its end is no matter.

        Raises:
            Refused: There is none, but something that must not be used and may have been it.
        """
        found, refused = self.all()
        resource = resource_of(url)
        for one in found:
            if resource_of(one.resource) == resource and (issuer is None or _bare(issuer) == _bare(one.issuer)):
                return one
        mine = {self.path}
        if issuer is not None:
            names = (name_of(_bare(issuer), resource), name_of(_bare(issuer) + "/", resource))
            mine |= {os.path.join(self.path, name + ENDING) for name in names}
        for problem in refused:
            if issuer is None or problem.path in mine:
                raise problem
        return None

    def _read(self, folder: int, name: str) -> Credential:
        path = os.path.join(self.path, name)
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        except FileNotFoundError:
            raise
        except OSError as problem:
            why = "it is a link" if problem.errno == errno.ELOOP else os.strerror(problem.errno or 0)
            raise Refused(path, why, f"rm {path}") from None
        try:
            check_file(os.fstat(fd), path)
            with open(fd, "rb", closefd=False) as file:
                return decoded(file.read(MAX_FILE_BYTES + 1), name, path)
        finally:
            os.close(fd)

    # -- writing ---------------------------------------------------------------------------------

    def lock(self, issuer: str, resource: str) -> Lock:
        """Return the lock of a credential, not yet taken; the caller closes it.

        Raises:
            Refused: The folder must not be used.
            OSError: It cannot be made.
        """
        os.makedirs(self.path, mode=0o700, exist_ok=True)
        return Lock(self._folder_fd(), name_of(issuer, resource) + _LOCK)

    @contextlib.contextmanager
    def locked(self, issuer: str, resource: str, seconds: float = LOCK_SECONDS) -> Iterator[None]:
        """Hold the lock of a credential; blocks until it is free.

        Raises:
            Busy: It was not free within that time.
            Refused: The folder must not be used.
            OSError: It cannot be made.
        """
        with contextlib.closing(self.lock(issuer, resource)) as lock:
            until = time.monotonic() + seconds
            while not lock.try_acquire():
                if time.monotonic() >= until:
                    raise Busy(f"{self.path}/{lock.name} has been held by somebody else for {seconds:g} s")
                time.sleep(LOOK_SECONDS)
            yield

    def write(self, credential: Credential) -> Credential:
        """Put a credential in the place of its file; return it with its time. It is on the disk then.

        The caller holds its lock. If it fails, the old file is as it was.

        Raises:
            Refused: The folder must not be used.
            OSError: It cannot be written.
        """
        credential = msgspec.structs.replace(
            credential, version=VERSION, resource=resource_of(credential.resource), saved_at=self._clock()
        )
        os.makedirs(self.path, mode=0o700, exist_ok=True)
        name = name_of(credential.issuer, credential.resource)
        with self._open_folder() as folder:
            self._tidy(folder)
            _replace(folder, name, msgspec.json.encode(credential))
        return credential

    def remove(self, issuer: str, resource: str) -> bool:
        """Remove a credential, whatever its file is; say whether there was one. The caller holds its lock.

        Raises:
            Refused: The folder must not be used.
            OSError: It cannot be removed.
        """
        try:
            with self._open_folder() as folder:
                os.unlink(name_of(issuer, resource) + ENDING, dir_fd=folder)
                os.fsync(folder)
        except FileNotFoundError:
            return False
        return True

    def _tidy(self, folder: int) -> None:
        """Remove what writes have left that never came to their end."""
        for name in os.listdir(folder):
            if name.endswith(_TEMPORARY):
                with contextlib.suppress(OSError):
                    if self._clock() - os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime > STALE_SECONDS:
                        os.unlink(name, dir_fd=folder)

    # -- the folder ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _open_folder(self) -> Iterator[int]:
        fd = self._folder_fd()
        try:
            yield fd
        finally:
            os.close(fd)

    def _folder_fd(self) -> int:
        """Open the folder; all that is done in it goes through this descriptor.

        Raises:
            FileNotFoundError: It is not there.
            Refused: It must not be used.
        """
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            raise
        except OSError as problem:  # a link is no folder either
            raise Refused(self.path, os.strerror(problem.errno or 0), f"ls -ld {self.path}") from None
        found = os.fstat(fd)
        if found.st_uid == os.geteuid() and not found.st_mode & 0o077:
            return fd
        os.close(fd)
        if found.st_uid != os.geteuid():
            raise Refused(self.path, "it belongs to another user", f"ls -ld {self.path}")
        raise Refused(self.path, f"others may enter it (mode {found.st_mode & 0o7777:04o})", f"chmod 700 {self.path}")


def _bare(issuer: str) -> str:
    return issuer.rstrip("/")


def _replace(folder: int, name: str, data: bytes) -> None:
    """Put data in the place of a credential's file, in one go."""
    temporary = f"{name}.{secrets.token_hex(8)}{_TEMPORARY}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(temporary, flags, 0o600, dir_fd=folder)
    try:
        with open(fd, "wb", buffering=0) as file:
            os.fchmod(fd, 0o600)
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(fd)
        os.rename(temporary, name + ENDING, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    os.fsync(folder)


def _is_there(fd: int, name: str, folder: int) -> bool:
    """Whether a name still is that of an open file."""
    try:
        named = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(named, os.fstat(fd))
