"""What a configuration says, as frozen values.

Texts that may hold `${…}` stay as they were written: `expand` resolves them when a server starts,
so a value of this module never knows a secret that the file did not spell out.  Do not encode a
`Server` into a log or an answer: `env` and `headers` may hold literal secrets, only `repr` and
`target` are fit to be seen.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct, field

from mcpd.errors import Misconfigured

if TYPE_CHECKING:
    from typing import Literal


# A word that a shell reads as it stands.
_PLAIN = re.compile(r"[A-Za-z0-9@%+=:,./_-]+").fullmatch


class Timeout(Struct, frozen=True, kw_only=True):
    """How long things may take."""

    start_seconds: float = 30.0
    call_seconds: float = 30.0
    # Progress extends a call, but never beyond this.
    max_seconds: float = 3600.0
    idle_seconds: float = 300.0


class Stop(Struct, frozen=True, kw_only=True):
    """The patience of each step of a stop: calls in flight, end of input, SIGTERM."""

    drain_seconds: float = 5.0
    eof_seconds: float = 5.0
    term_seconds: float = 2.0


class Tools(Struct, frozen=True, kw_only=True):
    """Globs of tool names; `deny` wins."""

    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()


class Limits(Struct, frozen=True, kw_only=True):
    """How much one server may hand us."""

    in_flight: int = 64
    items: int = 1000
    pages: int = 100
    message_bytes: int = 64 * 1024 * 1024
    result_bytes: int = 16 * 1024 * 1024


class OAuth(Struct, frozen=True, kw_only=True):
    """How to sign in to a remote server, where that is not to be found out.

    `client_id`, `client_secret` and `private_key` (PEM) may hold references, and the last two are secrets.
    """

    client_id: str | None = None
    client_secret: str | None = None
    # Where the client's own description is published; the client id of servers that take one.
    client_metadata_url: str | None = None
    issuer: str | None = None
    scopes: tuple[str, ...] = ()
    grant: str = "authorization_code"
    auth_method: str = "auto"
    private_key: str | None = None
    redirect_port: int = 0

    def __repr__(self) -> str:
        return f"OAuth({self.grant!r}, {self.auth_method!r})"


class Server(Struct, frozen=True, kw_only=True):
    """One configured server; exactly one of `command` and `url` is set."""

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    url: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    env_pass: tuple[str, ...] = ()
    cwd: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    # The variable that holds a bearer token, and a command that prints headers as a JSON object.
    bearer_env: str | None = None
    headers_helper: tuple[str, ...] = ()
    oauth: OAuth = OAuth()
    enabled: bool = True
    scope: str = "auto"
    protocol: str = "auto"
    framing: str = "auto"
    timeout: Timeout = Timeout()
    stop: Stop = Stop()
    tools: Tools = Tools()
    prewarm: bool = False
    retry: str = "safe"
    limits: Limits = Limits()
    on_timeout: str = "probe"
    on_rpc_error: str = "keep"
    allow_legacy_sse: bool = False
    insecure: bool = False
    interactive: tuple[str, ...] = ()
    # auto: no call needs a nod; writes: those that may change something do; prompt: all do; never: none is let through.
    approve: str = "auto"
    # Whether what the server says of its tools (`readOnlyHint` …) counts.
    trust_annotations: bool = False
    # The folder whose file it is from, for those that a project brings along; no key of the file.
    project: str | None = None
    # What people see instead of the command; no key of the file.
    shown_as: str | None = None

    @property
    def transport(self) -> Literal["stdio", "http"]:
        """How it is reached."""
        return "http" if self.command is None else "stdio"

    @property
    def target(self) -> str:
        """Return the command line or URL as written, without the parts of a URL that carry credentials."""
        if self.shown_as is not None:
            return self.shown_as
        if self.command is None:
            return bare_url(self.url or "")
        words = (self.command, *self.args)
        if all(map(_PLAIN, words)):
            return " ".join(words)
        import shlex

        return shlex.join(words)

    def __repr__(self) -> str:
        return f"Server({self.name!r}, {self.target!r}, env={sorted(self.env)}, headers={sorted(self.headers)})"


class Daemon(Struct, frozen=True, kw_only=True):
    """What concerns the daemon itself; `idle_exit_seconds = 0` means never, `fast_start_ms = 0` not to wait."""

    drain_seconds: float = 5.0
    idle_exit_seconds: float = 0.0
    # How long a host waits for servers that are still starting, all together, before it gets the lists of the others.
    fast_start_ms: int = 250
    # How long a call waits for a nod.
    approval_seconds: float = 300.0


class Problem(Struct, frozen=True, kw_only=True):
    """One thing that is wrong with a file.

    `key` is the whole path of the key (`servers.github.timeout.call_seconds`), `server` the entry it
    belongs to; without either the file as a whole cannot be used.  A `warning` changes nothing.
    No text of a problem repeats a value of `env`, `headers` or a URL.
    """

    file: str
    server: str | None = None
    key: str | None = None
    message: str
    hint: str | None = None
    warning: bool = False

    def __str__(self) -> str:
        return self.sentence + (f"; {self.hint}" if self.hint else "")

    @property
    def sentence(self) -> str:
        """Where and what, without the hint."""
        return ": ".join(part for part in (self.file, self.key, self.message) if part)

    def error(self) -> Misconfigured:
        """Return the error of a request that names this server."""
        return Misconfigured(self.sentence, server=self.server, hint=self.hint, file=self.file, key=self.key)


class Config(Struct, frozen=True, kw_only=True):
    """A whole configuration, right or wrong.

    Attributes:
        path: where the file is or would be.
        file: the file that was read; None where there is none.
        servers: the right entries in the order of the file, disabled ones too.
        wrong: the misconfigured entries, each with its first problem.
        problems: all of them, of entries and of the file.
        changed_at: the time of its last change in nanoseconds, when it was read; 0 if it is not known.
    """

    path: str
    file: str | None = None
    daemon: Daemon = Daemon()
    servers: dict[str, Server] = field(default_factory=dict)
    wrong: dict[str, Problem] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    changed_at: int = 0

    @property
    def unusable(self) -> bool:
        """Whether the file could not be read at all; a reload then keeps what it had."""
        return any(problem.key is None and not problem.warning for problem in self.problems)


def bare_url(url: str) -> str:
    """Return a URL without what may be secret in it: user, password, query, fragment."""
    scheme, mark, rest = url.partition("://")
    for end in "?#":
        rest = rest.partition(end)[0]
    authority, slash, path = rest.partition("/")
    return f"{scheme}{mark}{authority.rpartition('@')[2]}{slash}{path}"
