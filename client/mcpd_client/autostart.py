"""Find the daemon, or start it: of any number of callers at once exactly one starts exactly one.

Whoever finds nobody listening takes a lock beside the socket, looks again, and only then starts a
daemon. Those who waited for the lock share the outcome, also a failure: a daemon that cannot start
is tried once for all of them.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
import time

from mcpd_client import address
from mcpd_client.errors import AddressError, DaemonNotRunning
from mcpd_client.fast import peer_uid
from mcpd_client.spawn import READY_SECONDS, Outcome, daemon_command, make_private_directory, start_daemon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# Another daemon holds the lock of the socket: it is about to leave, or about to listen.
EXIT_LOCKED = 75
# How often to look while that one makes up its mind, and how often to try a start of our own.
LOOK_SECONDS = 0.05
RETRY_SECONDS = 0.5


def is_forbidden(environ: Mapping[str, str]) -> bool:
    """Tell whether MCPD_NO_AUTOSTART forbids to start a daemon that nobody has asked for."""
    return environ.get("MCPD_NO_AUTOSTART", "0") not in ("", "0")


class Place:
    """Where a daemon may be found: its own path first, then what `endpoint.json` says."""

    def __init__(self, path: str | None, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._explicit = path is not None
        self._uid = os.geteuid()
        self.path = address.socket_path(environ, self._uid) if path is None else os.path.abspath(path)

    def connect(self) -> socket.socket | None:
        """Return a connection, or None if nobody listens.

        Raises:
            AddressError: the path cannot be used, or somebody else listens there.
        """
        if (size := len(os.fsencode(self.path))) > address.MAX_PATH_BYTES:
            raise AddressError(
                f"the socket's path has {size} bytes, and the system allows {address.MAX_PATH_BYTES}: {self.path}",
                hint=f"set MCPD_SOCKET to a shorter path, as in MCPD_SOCKET=/run/user/{self._uid}/mcpd.sock",
            )
        sock = _connect(self.path)
        if sock is None and not self._explicit:
            other = address.fallback_path(self._environ, self._uid)
            if other is not None and other != self.path and not address.is_too_long(other):
                sock = _connect(other)
        return sock


def connect(
    path: str | None = None,
    *,
    autostart: bool = True,
    command: Sequence[str] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> socket.socket:
    """Return a blocking connection to the daemon.

    Args:
        path: its socket; None follows the address rule.
        autostart: whether to start a daemon if nobody listens.
        command: what to start; it gets a pipe at descriptor 3 and writes `ready` to it.
        environ: the environment that decides, and that the daemon gets.

    Raises:
        DaemonNotRunning: nobody listens, and none was or could be started.
        AddressError: the path cannot be used, or somebody else listens there.
    """
    place = Place(path, environ)
    sock = place.connect()
    if sock is not None:
        return sock
    if not autostart:
        raise DaemonNotRunning(f"the daemon is not running: nobody listens on {place.path}", hint="mcpd up")
    return _start(place, command or daemon_command(socket=path), environ)


def _start(place: Place, command: Sequence[str], environ: Mapping[str, str]) -> socket.socket:
    directory = os.path.dirname(place.path)
    with _start_lock(directory) as lock:
        deadline = time.monotonic() + READY_SECONDS
        while True:
            sock = place.connect()
            if sock is not None:
                return sock
            lock.raise_shared_failure()
            try:
                outcome = start_daemon(command, environ, directory)
            except OSError as error:
                raise lock.failed(DaemonNotRunning(f"the daemon cannot be started: {error}")) from None
            sock = _wait_listening(place, outcome)
            if sock is not None:
                return sock
            if outcome.verdict != f"exit {EXIT_LOCKED}" or time.monotonic() > deadline:
                raise lock.failed(_failure(place, outcome))


def _wait_listening(place: Place, outcome: Outcome) -> socket.socket | None:
    """Connect to the daemon that is ready; or, to one that holds the lock, as soon as it listens."""
    deadline = time.monotonic() + (RETRY_SECONDS if outcome.verdict == f"exit {EXIT_LOCKED}" else 0)
    while (sock := place.connect()) is None and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    return sock


def _failure(place: Place, outcome: Outcome) -> DaemonNotRunning:
    lines = [line.strip().removeprefix("error: ") for line in outcome.log_text.splitlines() if line.strip()]
    match outcome.verdict.split():
        case ["ready"]:
            message = f"a daemon has started, but nobody listens on {place.path}"
        case ["exit", code] if code == str(EXIT_LOCKED):
            message = f"another daemon holds the lock, but nobody listens on {place.path}"
        case ["timeout"]:
            message = f"the daemon was not ready within {READY_SECONDS:.0f} s"
        case _:
            message = f"the daemon could not start ({outcome.verdict})"
    return DaemonNotRunning(message, reason=" | ".join(lines[-3:]) or None, hint=f"see {outcome.log_path}")


class _StartLock:
    """The lock file, held. Its content is the last failure: when, and what it was."""

    def __init__(self, fd: int, waiting_since_ns: int) -> None:
        self._fd = fd
        self._waiting_since_ns = waiting_since_ns

    def raise_shared_failure(self) -> None:
        """Raise what another caller's start ended in while this one was waiting for the lock."""
        moment, _, text = os.pread(self._fd, 8192, 0).decode("utf-8", "replace").partition("\n")
        # The clock is the machine's, the same for all processes since its boot.
        if moment.isdigit() and int(moment) > self._waiting_since_ns:
            message, reason, hint = [*text.split("\n"), "", "", ""][:3]
            raise DaemonNotRunning(message, reason=reason or None, hint=hint or None)

    def failed(self, error: DaemonNotRunning) -> DaemonNotRunning:
        """Note the failure for those who wait, and return it."""
        lines = [str(time.monotonic_ns()), error.message, error.reason or "", error.hint or ""]
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, "\n".join(lines).encode("utf-8", "replace"), 0)
        return error


@contextlib.contextmanager
def _start_lock(directory: str) -> Iterator[_StartLock]:
    since = time.monotonic_ns()
    fd = _open_lock(directory)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield _StartLock(fd, since)
    finally:
        os.close(fd)


def _open_lock(directory: str) -> int:
    path = os.path.join(directory, "start.lock")
    try:
        make_private_directory(directory)
        # Not through a link, and never removed: a lock on a file that has lost its name locks nobody out.
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise AddressError(
            f"the daemon cannot be started: {error.filename}: {error.strerror}", hint="set MCPD_SOCKET to another path"
        ) from None
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        os.close(fd)
        raise AddressError(f"the daemon cannot be started: {path} belongs to another user")
    return fd


def _connect(path: str) -> socket.socket | None:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # With a timeout, also a default one of this process, a full backlog is an error (EAGAIN) instead of a wait.
    sock.settimeout(None)
    try:
        sock.connect(path)
        _check_peer(sock, path)
    except OSError as error:
        sock.close()
        if error.errno in (errno.ENOENT, errno.ECONNREFUSED, errno.ENOTDIR):
            return None
        raise AddressError(f"cannot connect to {path}: {error.strerror}") from None
    except BaseException:
        sock.close()
        raise
    return sock


def _check_peer(sock: socket.socket, path: str) -> None:
    uid = peer_uid(sock)
    if uid != os.geteuid():
        raise AddressError(f"another user (uid {uid}) listens on {path}", hint="set MCPD_SOCKET to a path of your own")
