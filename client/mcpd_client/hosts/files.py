"""A host's file: read whole, backed up once per state, replaced in one step."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import stat
import tempfile
import time

from mcpd_client.errors import EXIT_CONFIGURATION, ClientError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

BACKUP = ".mcpd-backup-"


class HostFileError(ClientError):
    """A host's file that cannot be read, understood or written. It is as it was."""

    code, kind, exit_code = 48, "host_file", EXIT_CONFIGURATION


def read(path: str) -> str | None:
    """Return the text of a file, its line ends as they are; None if there is none.

    Raises:
        HostFileError: it cannot be read, is not UTF-8, or is no file: a pipe has no end, and a device no successor.
    """
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise HostFileError(f"{path} is not a regular file")
            return file.read().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise HostFileError(f"{path} is not UTF-8: byte {error.start}") from None
    except OSError as error:
        raise HostFileError(f"{path} cannot be read: {error.strerror}") from None


def write(path: str, before: str | None, after: str, *, is_private: bool) -> None:
    """Replace what a file says, in one step; a link stays, and what it points to is replaced.

    Args:
        path: the file; folders are made.
        before: what it said when the change was decided; None if it was not there.
        after: what it shall say.
        is_private: whether a new file is for its owner alone. Otherwise mode and owner are as before.

    Raises:
        HostFileError: it cannot be written, or says something else by now.
    """
    target = os.path.realpath(path)
    folder, temporary = os.path.dirname(target), None
    try:
        os.makedirs(folder, mode=0o700 if is_private else 0o777, exist_ok=True)
        status = _status(target)
        if status is not None and not (status.st_mode & 0o222 and os.access(target, os.W_OK)):
            raise HostFileError(f"{path} may not be written", hint=f"chmod u+w {path}")
        fd, temporary = tempfile.mkstemp(prefix=f".{os.path.basename(target)}.", dir=folder)
        with os.fdopen(fd, "wb") as file:
            _take_over(file.fileno(), status, is_private=is_private)
            file.write(after.encode())
            file.flush()
            os.fsync(file.fileno())
        # As late as can be, for programs that know nothing of the lock.
        with _lock(folder):
            if read(target) != before:
                raise HostFileError(f"{path} has changed meanwhile", hint="run it again")
            os.replace(temporary, target)
    except OSError as error:
        raise HostFileError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


@contextlib.contextmanager
def _lock(folder: str) -> Iterator[None]:
    """Keep others of our kind from replacing files of a folder, where its file system has locks."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def back_up(path: str, text: str | None) -> str | None:
    """Keep what a file says beside it, and return where; None if there is nothing to keep.

    The name has the time in it, so that no backup ever takes the place of an earlier one; a state that is kept
    already is not kept again.

    Raises:
        HostFileError: there is no place for it.
    """
    if text is None:
        return None
    target = os.path.realpath(path)
    data = text.encode()
    for kept in sorted(glob.glob(glob.escape(target + BACKUP) + "*")):
        with contextlib.suppress(OSError), open(kept, "rb") as file:
            if file.read() == data:
                return kept
    try:
        status = os.stat(target)
        fd, backup = _create(target + BACKUP + time.strftime("%Y%m%d-%H%M%S"))
        with os.fdopen(fd, "wb") as file:
            _take_over(fd, status, is_private=True)
            file.write(data)
    except OSError as error:
        raise HostFileError(f"no backup of {path} can be written: {error.strerror}") from None
    return backup


def _create(path: str) -> tuple[int, str]:
    """Open a new file under this name, or with a number after it."""
    for number in range(1000):
        name = f"{path}.{number}" if number else path
        with contextlib.suppress(FileExistsError):
            return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), name
    raise FileExistsError(17, "too many of that name")


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _take_over(fd: int, status: os.stat_result | None, *, is_private: bool) -> None:
    """Give a new file the mode and the owner of the one whose place it takes."""
    if status is None:
        mask = os.umask(0)
        os.umask(mask)
        os.fchmod(fd, 0o600 if is_private else 0o666 & ~mask)
        return
    if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        os.fchown(fd, status.st_uid, status.st_gid)
    os.fchmod(fd, stat.S_IMODE(status.st_mode))
