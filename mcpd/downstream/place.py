"""Where the daemon is to be found: its folder, its lock and its socket. Imports no event loop.

The lock is a file beside the socket, held for life and never removed: only its holder may replace the
socket, whose mode is set before it has a name.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
from collections.abc import Mapping

# sockaddr_un.sun_path with its terminating zero.
MAX_PATH_BYTES = 107
BACKLOG = 512


class CannotListen(Exception):
    """The socket cannot be had; the text is for people. `status` is the exit status to end with."""

    def __init__(self, message: str, status: int = 6) -> None:
        super().__init__(message)
        self.status = status


class PlaceLost(CannotListen):
    """The folder is gone, or somebody else may hold the lock by now: no waiting brings it back."""


# What the exit status of a daemon says that finds another one running: try again.
ANOTHER_RUNS = 75


def socket_path(environ: Mapping[str, str], uid: int) -> str:
    """Return where the socket belongs, by the rule that the clients follow, too."""
    if named := environ.get("MCPD_SOCKET"):
        return named
    if (runtime := environ.get("XDG_RUNTIME_DIR", "")).startswith("/"):
        return f"{runtime}/mcpd/mcpd.sock"
    system = f"/run/user/{uid}"
    with contextlib.suppress(OSError):
        if os.stat(system).st_uid == uid:
            return f"{system}/mcpd/mcpd.sock"
    return f"{home_of(environ)}/.local/state/mcpd/run/mcpd.sock"


def home_of(environ: Mapping[str, str]) -> str:
    """Return the user's home folder, from the environment or the user database."""
    if home := environ.get("HOME"):
        return home
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"


def check_length(path: str) -> None:
    """Refuse a path that a socket cannot have.

    Raises:
        CannotListen: It is too long, and says what to set.
    """
    size = len(os.fsencode(path))
    if size > MAX_PATH_BYTES:
        raise CannotListen(
            f"the path of the socket is {size} bytes long, the system allows {MAX_PATH_BYTES}: {path}\n"
            "  set MCPD_SOCKET to a shorter path"
        )


class Place:
    """The daemon's place: the lock is held and the socket listens, from `take` to `leave`.

    Attributes:
        path: of the socket.
        listener: the listening socket.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.listener: socket.socket | None = None
        self._lock_fd: int | None = None
        self._old: socket.socket | None = None
        self._inode = 0

    def lock(self) -> None:
        """Make the folder and take the lock.

        Raises:
            CannotListen: Another daemon has it, or the folder is not fit.
        """
        check_length(self.path)
        _check_path(self.path)
        folder = os.path.dirname(self.path)
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            _check_folder(folder)
            fd = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as problem:
            raise CannotListen(f"cannot use the folder {folder}: {_reason(problem)}") from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            os.close(fd)
            if problem.errno not in (errno.EAGAIN, errno.EACCES):
                raise CannotListen(f"cannot lock {self.path}.lock: {_reason(problem)}") from None
            raise CannotListen(f"another mcpd runs at {self.path}", ANOTHER_RUNS) from None
        self._lock_fd = fd

    def listen(self) -> socket.socket:
        """Put a listening socket in place of whatever is there; the lock must be held.

        Raises:
            CannotListen: The system refuses, with its reason.
        """
        sock = None
        try:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)
            os.fchmod(sock.fileno(), 0o600)  # before bind: the file never has another mode
            sock.bind(self.path)
            sock.listen(BACKLOG)
            sock.setblocking(False)
            self._inode = os.stat(self.path).st_ino
        except OSError as problem:
            if sock is not None:
                sock.close()
            raise CannotListen(f"cannot listen at {self.path}: {_reason(problem)}") from None
        self.listener = sock
        return sock

    def stands(self) -> bool:
        """Whether the socket at the path is still ours, and the lock still the one that others would take."""
        try:
            return os.stat(self.path).st_ino == self._inode and self._lock_stands()
        except OSError:
            return False

    def _lock_stands(self) -> bool:
        return self._lock_fd is not None and os.stat(f"{self.path}.lock").st_ino == os.fstat(self._lock_fd).st_ino

    def listen_again(self) -> socket.socket:
        """Put a new socket in place of one that is gone; `drop_old` closes the one before.

        Raises:
            PlaceLost: The place is not ours any more.
            CannotListen: The system refuses for now.
        """
        try:
            mine = self._lock_stands()
        except OSError:
            mine = False
        if not mine:
            raise PlaceLost(f"the folder of {self.path} was removed")
        self._old = self.listener
        return self.listen()

    def drop_old(self) -> None:
        """Close the socket that `listen_again` has replaced."""
        if self._old is not None:
            self._old.close()
            self._old = None

    def leave(self) -> None:
        """Remove the socket, if it is still ours, and let go of the lock. Idempotent."""
        if self.listener is not None:
            with contextlib.suppress(OSError):
                if os.stat(self.path).st_ino == self._inode:
                    os.unlink(self.path)
            self.listener.close()
            self.listener = None
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None


def announce(path: str, environ: Mapping[str, str]) -> None:
    """Note the socket's path where a client with nothing but HOME finds it; failing costs only that."""
    target = f"{home_of(environ)}/.local/state/mcpd/endpoint.json"
    temporary = f"{target}.{os.getpid()}"
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
            file.write(f'{{"socket": {_quoted(path)}, "pid": {os.getpid()}}}')
        os.replace(temporary, target)


def unannounce(environ: Mapping[str, str]) -> None:
    """Take the note back, if it is still ours."""
    target = f"{home_of(environ)}/.local/state/mcpd/endpoint.json"
    with contextlib.suppress(OSError):
        with open(target, encoding="utf-8") as file:
            ours = f'"pid": {os.getpid()}}}' in file.read(4096)
        if ours:
            os.unlink(target)


def _quoted(text: str) -> str:
    from _json import encode_basestring_ascii  # the rest of `json` costs the start a few milliseconds

    return encode_basestring_ascii(text)


def _check_path(path: str) -> None:
    """Refuse to put a socket in the place of anything that is none."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise CannotListen(f"{path} exists and is not a socket\n  give another path with --socket or MCPD_SOCKET")


def _check_folder(folder: str) -> None:
    found = os.stat(folder)
    if found.st_uid not in (os.getuid(), 0):
        raise CannotListen(f"the folder {folder} belongs to another user (uid {found.st_uid})")
    if stat.S_IMODE(found.st_mode) & 0o022 and not found.st_mode & stat.S_ISVTX:
        raise CannotListen(f"others may write to the folder {folder}\n  run: chmod go-w {folder}")


def _reason(problem: OSError) -> str:
    return (os.strerror(problem.errno) if problem.errno else str(problem)).lower()
