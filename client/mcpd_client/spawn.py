"""Run a daemon in the background: its log file, its environment, and the word that it is ready.

Nothing here needs `subprocess`, whose import would take longer than the start of the program that
does the detaching (`detach.py`); `posix_spawn` is as safe in a process with threads.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import stat
import sys
import time

from mcpd_client.address import home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

READY_SECONDS = 15.0
# The program that watches the daemon keeps time itself; this is for the case that it is killed or stopped.
VERDICT_GRACE_SECONDS = 5.0
LOG_BYTES = 1024 * 1024
LOG_TAIL_BYTES = 4096
# What belongs to the unit or the watchdog of whoever calls, and would be answered in its name.
FOREIGN_VARIABLES = (
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
)
# Above the three standard ones and the pipe, so that placing those cannot overwrite one that is still needed.
SAFE_FD = 10


class Outcome:
    """How a start went.

    `verdict` is `ready`, `exit N`, `signal N` or `timeout`; `log_text` is what the daemon wrote meanwhile.
    """

    __slots__ = ("log_path", "log_text", "verdict")

    def __init__(self, verdict: str, log_path: str, log_text: str) -> None:
        self.verdict = verdict
        self.log_path = log_path
        self.log_text = log_text


def daemon_command(*, socket: str | None = None, config: str | None = None) -> list[str]:
    """Return the command line of a daemon that writes `ready` to descriptor 3.

    Args:
        socket: its socket, only if it shall not follow the address rule.
        config: its configuration file, only if it shall not look for it itself.
    """
    # -P keeps the working directory out of the import path.
    command = [sys.executable, "-P", "-m", "mcpd_client", "daemon", "--ready-fd", "3"]
    if socket is not None:
        command += ["--socket", os.path.abspath(socket)]
    if config is not None:
        command += ["--config", os.path.abspath(config)]
    return command


def daemon_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a daemon: the caller's, with paths that also hold in another directory."""
    result = {key: value for key, value in environ.items() if key not in FOREIGN_VARIABLES}
    for key in ("MCPD_SOCKET", "MCPD_CONFIG"):
        if result.get(key):
            result[key] = os.path.abspath(result[key])
    if paths := result.get("PYTHONPATH"):
        result["PYTHONPATH"] = os.pathsep.join(os.path.abspath(path) for path in paths.split(os.pathsep) if path)
    return result


def start_daemon(command: Sequence[str], environ: Mapping[str, str], directory: str) -> Outcome:
    """Start `command` detached and wait until it is ready, has ended, or has had `READY_SECONDS`.

    The caller holds the start lock. No descriptor of this process reaches the daemon but its log.

    Args:
        command: a program that writes `ready` to descriptor 3.
        environ: the caller's environment.
        directory: where the log goes if the state directory cannot be written.
    """
    log_fd, log_path = open_log(environ, directory)
    try:
        start = os.fstat(log_fd).st_size
        verdict = _run_detached(command, daemon_environment(environ), log_fd)
        return Outcome(verdict, log_path, read_log(log_path, start))
    finally:
        os.close(log_fd)


def open_log(environ: Mapping[str, str], directory: str) -> tuple[int, str]:
    """Open the daemon's log for appending, rotated if it has grown; return descriptor and path.

    Raises:
        OSError: neither the state directory nor `directory` can be written.
    """
    state = environ.get("XDG_STATE_HOME", "")
    if not state.startswith("/"):
        state = f"{home(environ, os.geteuid())}/.local/state"
    try:
        make_private_directory(f"{state}/mcpd")
        return _open_log_in(f"{state}/mcpd")
    except OSError:
        return _open_log_in(directory)


def make_private_directory(path: str) -> None:
    """Create `path` and what is missing above it, for this user alone."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    except FileNotFoundError:
        make_private_directory(os.path.dirname(path))
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)


def read_log(path: str, start: int) -> str:
    """Return what the log holds from byte `start` on, the end of it if it is long."""
    try:
        with open(path, "rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(start, end - LOG_TAIL_BYTES))
            return file.read(LOG_TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _open_log_in(directory: str) -> tuple[int, str]:
    path = f"{directory}/daemon.log"
    # Not through a link: the file could be somebody else's choice where the directory can be written by others.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    with contextlib.suppress(FileNotFoundError):
        if os.lstat(path).st_size > LOG_BYTES:
            os.replace(path, f"{path}.1")
    fd = os.open(path, flags, 0o600)
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        os.close(fd)
        raise PermissionError(f"{path} is not a file of this user")
    os.fchmod(fd, 0o600)
    return fd, path


def _run_detached(command: Sequence[str], environ: Mapping[str, str], log_fd: int) -> str:
    verdict_read, verdict_write = os.pipe()
    placed = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, SAFE_FD) for fd in (log_fd, verdict_write)]
    os.close(verdict_write)
    try:
        pid = _spawn(command, environ, *placed)
    except BaseException:
        os.close(verdict_read)
        raise
    finally:
        for fd in placed:
            os.close(fd)
    try:
        return _read_verdict(verdict_read)
    except BaseException:
        # The daemon, if it is there already, goes on; only the one who waits with us ends.
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        os.close(verdict_read)
        # A caller that ignores SIGCHLD, or collects every child, leaves nothing to collect.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _spawn(command: Sequence[str], environ: Mapping[str, str], log_fd: int, verdict_fd: int) -> int:
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "detach.py")
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", program, str(READY_SECONDS), *command],
        environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, log_fd, 1),
            (os.POSIX_SPAWN_DUP2, log_fd, 2),
            (os.POSIX_SPAWN_DUP2, verdict_fd, 3),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}),
    )


def _read_verdict(fd: int) -> str:
    deadline = time.monotonic() + READY_SECONDS + VERDICT_GRACE_SECONDS
    text = b""
    while (remaining := deadline - time.monotonic()) > 0:
        if not select.select([fd], [], [], remaining)[0]:
            break
        chunk = os.read(fd, 64)
        text += chunk
        if not chunk or text.endswith(b"\n"):
            break
    return text.decode("ascii", "replace").strip() or "no verdict"
