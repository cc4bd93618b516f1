"""The way to the daemon: where it listens, what it is told first, and how one is started.

Nothing here waits. A daemon is started by `mcpd up` in a process of its own, which is thrown away with all
that a start needs.
"""

import os
import sys
from _socket import AF_UNIX, SOCK_STREAM, socket
from time import monotonic

from mcpd_client import __version__, address
from mcpd_client.bridge import lines
from mcpd_client.bridge.answers import Failure
from mcpd_client.bridge.options import NUMBERS
from mcpd_client.fast import peer_uid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpd_client.bridge.options import BridgeOptions

HELLO_ID = "mcpd-bridge-hello"
# What hosts set for the servers that they start; what a bridge passes on of its environment.
MARKERS = (
    "CLAUDE_PROJECT_DIR", "CLAUDE_CODE_SESSION_ID", "CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "AI_AGENT", "AGENT",
    "OPENCODE", "OPENCODE_PID", "GEMINI_CLI",
)  # fmt: skip
MARKER_PREFIX = "CODEX_"
# A host may hand its own credentials on under such a name.
SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "AUTH", "CREDENTIAL")
MAX_MARKER = 1024
# `mcpd up` gives up by itself, after the daemon's 15 seconds and those of another one that starts.
START_SECONDS = 45.0
MAX_OUTPUT_BYTES = 65536
SIGKILL = 9


class Absent(Failure):
    """Nobody listens: a daemon could be started."""


class Busy(Failure):
    """Somebody listens, or just has, but does not talk: the next moment may be different."""


class Finder:
    """Where a daemon may be found: its own path first, then what `endpoint.json` says."""

    def __init__(self, path: str | None, environ: "Mapping[str, str]") -> None:
        self._environ = environ
        self._explicit = path
        self._uid = os.geteuid()

    def connect(self) -> socket | Failure:
        """Return a connection that does not block, or why there is none."""
        path = self._explicit or address.socket_path(self._environ, self._uid)
        if (size := len(os.fsencode(path))) > address.MAX_PATH_BYTES:
            return Failure(
                f"the socket's path has {size} bytes, and the system allows {address.MAX_PATH_BYTES}: {path}",
                "set MCPD_SOCKET to a shorter path",
                code=44,
                kind="bad_address",
            )
        found = self._connect(path)
        if isinstance(found, Absent) and self._explicit is None:
            other = address.fallback_path(self._environ, self._uid)
            if other is not None and other != path and not address.is_too_long(other):
                second = self._connect(other)
                return found if isinstance(second, Failure) else second
        return found

    def _connect(self, path: str) -> socket | Failure:
        sock = socket(AF_UNIX, SOCK_STREAM)
        sock.setblocking(False)
        try:
            sock.connect(path)
            if (uid := peer_uid(sock)) == self._uid:
                return sock
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            failure: Failure = Absent(f"the daemon is not running: nobody listens on {path}", "mcpd up")
        except BlockingIOError:
            failure = Busy(f"the daemon does not accept connections on {path}", "mcpd status")
        except (OSError, ValueError) as error:
            failure = _bad(f"cannot connect to {path}: {getattr(error, 'strerror', None) or error}")
        else:
            failure = _bad(f"another user (uid {uid}) listens on {path}")
        sock.close()
        return failure


class Start:
    """A `mcpd up` that is under way.

    Attributes:
        fd: what it says on stderr; at its end it is over.
        deadline: when to give it up.
    """

    def __init__(self, options: "BridgeOptions", environ: "Mapping[str, str]") -> None:
        # -P keeps the working directory, which is a project of anybody's, out of the import path.
        command = [sys.executable, "-P", "-m", "mcpd_client", "up", "--json"]
        for name in ("--socket", "--config"):
            if (path := options.path(name)) is not None:
                command += [name, path]
        self.deadline = monotonic() + START_SECONDS
        self._said = b""
        self.fd, write = os.pipe()
        try:
            self.pid = os.posix_spawn(
                sys.executable,
                command,
                dict(environ),
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_DUP2, write, 2),
                ],
                # What ends the host's processes with the bridge is not to end a daemon that others use as well.
                setsid=True,
            )
        except OSError:
            os.close(self.fd)
            raise
        finally:
            os.close(write)

    def read(self) -> bool:
        """Take in what it says; return whether it is over."""
        chunk = os.read(self.fd, 4096)
        self._said = (self._said + chunk)[-MAX_OUTPUT_BYTES:]
        return not chunk

    def give_up(self) -> None:
        """End it; a daemon that is on its way goes on."""
        self.deadline += START_SECONDS
        os.kill(self.pid, SIGKILL)

    def finish(self) -> Failure | None:
        """Collect the process; return why there is no daemon, None if there is one."""
        os.close(self.fd)
        try:
            status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        except ChildProcessError:
            # A host that ignores SIGCHLD hands that down, and the kernel collects.
            status = 1 if self._said.strip() else 0
        return None if status == 0 else self._failure(status)

    def _failure(self, status: int) -> Failure:
        for line in reversed(self._said.splitlines()):
            value = lines.parse(line)
            error = value.get("error") if isinstance(value, dict) else None
            if isinstance(error, dict):
                parts = [error.get("message"), error.get("reason")]
                message = ": ".join([part for part in parts if isinstance(part, str)])
                hint, code, kind = error.get("hint"), error.get("code"), error.get("class")
                return Failure(
                    message,
                    hint if isinstance(hint, str) else None,
                    code=code if isinstance(code, int) else 40,
                    kind=kind if isinstance(kind, str) else "daemon_unreachable",
                )
        last = self._said.decode("utf-8", "replace").strip().rpartition("\n")[2]
        how = f"signal {-status}" if status < 0 else f"exit {status}"
        return Failure(f"the daemon could not be started ({how}){last and ': '}{last}", "mcpd up")


def hello_line(options: "BridgeOptions", environ: "Mapping[str, str]", *, resumed: bool, next_question: int) -> bytes:
    """Return the first line of a connection: who is there, and what it wants to show."""
    host = [f'"ppid":"{os.getppid()}"']
    host += [f"{lines.text_of(name)}:{lines.text_of(_shown(environ[name]))}" for name in _markers(environ)]
    client = f'{{"name":"bridge","version":"{__version__}","pid":{os.getpid()},"host":{{{",".join(host)}}}}}'
    members = [f'"version":1,"client":{client},"first_question":{next_question},"resumed":{str(resumed).lower()}']
    if len(options.servers) == 1:
        members.append(f'"server":{lines.text_of(options.servers[0])}')
    elif options.servers:
        members.append(f'"servers":[{",".join(lines.text_of(name) for name in options.servers)}]')
    if project := options.path("--project"):
        members.append(f'"project":{lines.text_of(project)}')
    for name in ("mode", "separator", "names"):
        if value := options.values.get(f"--{name}"):
            members.append(f'"{name}":{lines.text_of(value)}')
    for name in NUMBERS:
        if value := options.values.get(name):
            members.append(f'"{name[2:].replace("-", "_")}":{int(value)}')
    return lines.request_line(HELLO_ID, "mcpd/hello", f"{{{','.join(members)}}}")


def refusal(line: bytes) -> Failure | None:
    """Return why a daemon does not want this bridge, by its answer to the hello; None if it does."""
    message = lines.parse(line)
    error = message.get("error") if isinstance(message, dict) else None
    if not isinstance(error, dict):
        return None
    return Failure(f"the daemon refuses this bridge: {error.get('message')}", "mcpd version")


def _markers(environ: "Mapping[str, str]") -> list[str]:
    more = [
        name for name in environ if name.startswith(MARKER_PREFIX) and not any(word in name for word in SECRET_WORDS)
    ]
    return [*(name for name in MARKERS if name in environ), *sorted(more)]


def _shown(value: str) -> str:
    return value.encode("utf-8", "replace").decode()[:MAX_MARKER]


def _bad(message: str) -> Failure:
    return Failure(message, "set MCPD_SOCKET to a path of your own", code=44, kind="bad_address")
