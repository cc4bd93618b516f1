"""What a request to the daemon can raise, and the exit code of each.

ClientError
├─ UsageError            the caller asked for something impossible
├─ AddressError          the socket's path cannot be used
├─ DaemonNotRunning      nobody listens, and no daemon was or could be started
├─ ConnectionLost        the connection ended; `may_have_run` says whether the request may have had an effect
├─ RemoteProtocolError   what came over the socket is not the protocol
├─ RequestTimeout        the caller's own limit passed; the connection is closed
├─ RequestRefused        raised by a caller's `on_request`: the daemon's request is answered with an error
├─ Withdrawn             raised in a caller's `on_request`: the daemon's request is not wanted any more
└─ RequestFailed         the daemon answered with an error; carries code, class, server, hint, data

Codes and classes are those of the socket. Errors born in the client have classes of their own, with
codes from 40 up.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

EXIT_UNEXPECTED = 1
EXIT_USAGE = 2
EXIT_SIGN_IN = 3
EXIT_SERVER = 4
EXIT_TOOL = 5
EXIT_UNREACHABLE = 6
EXIT_TIMEOUT = 7
EXIT_CONFIGURATION = 9
EXIT_INTERRUPTED = 130
EXIT_PIPE = 141

MAY_HAVE_RUN = "the call may have run"
NOT_RUN = "nothing was run"

# The daemon's error classes that do not end in EXIT_SERVER, as an upstream's own error does.
EXIT_CODES = {
    "unknown_server": EXIT_USAGE,
    "unknown_tool": EXIT_TOOL,
    "bad_request": EXIT_USAGE,
    "unknown_method": EXIT_USAGE,
    "invalid_page": EXIT_USAGE,
    "timeout": EXIT_TIMEOUT,
    "auth_required": EXIT_SIGN_IN,
    "denied": 8,
    "pending_trust": 8,
    "approval_required": 8,
    "misconfigured": EXIT_CONFIGURATION,
    "internal": EXIT_UNEXPECTED,
}


class ClientError(Exception):
    """Anything that ends a request without its result.

    Args:
        message: one sentence, lower case, no full stop.
        hint: what to type, or which setting helps.
        reason: why, if the message does not say it already.
    """

    code = 50
    kind = "internal"
    exit_code = EXIT_UNEXPECTED
    server: str | None = None
    data: Mapping[str, Any] | None = None

    def __init__(self, message: str, *, hint: str | None = None, reason: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.reason = reason


class UsageError(ClientError):
    """The caller asked for something that cannot be."""

    code, kind, exit_code = 3, "bad_request", EXIT_USAGE


class AddressError(ClientError):
    """The socket's path cannot be used: too long, or not ours."""

    code, kind, exit_code = 44, "bad_address", EXIT_UNREACHABLE


class DaemonNotRunning(ClientError):
    """Nobody listens, and no daemon was or could be started."""

    code, kind, exit_code = 40, "daemon_unreachable", EXIT_UNREACHABLE


class ConnectionLost(ClientError):
    """The connection ended before the answer came.

    `may_have_run` is False only where the daemon cannot have read the request.
    """

    code, kind, exit_code = 41, "connection_lost", EXIT_UNREACHABLE

    def __init__(self, message: str, *, may_have_run: bool, hint: str | None = None) -> None:
        super().__init__(message, hint=hint, reason=MAY_HAVE_RUN if may_have_run else NOT_RUN)
        self.may_have_run = may_have_run
        self.data = {"may_have_run": may_have_run}


class RemoteProtocolError(ClientError):
    """What came over the socket is not the protocol."""

    code, kind, exit_code = 42, "daemon_protocol", EXIT_UNREACHABLE


class RequestTimeout(ClientError):
    """The caller's own limit passed. The request may have run; the connection is closed."""

    code, kind, exit_code = 12, "timeout", EXIT_TIMEOUT


class RequestRefused(ClientError):
    """What `on_request` raises to answer a request of the daemon with a JSON-RPC error."""

    kind = "refused"

    def __init__(self, message: str, *, code: int = -32601) -> None:
        super().__init__(message)
        self.code = code


class Withdrawn(ClientError):
    """The request of the daemon that is being answered is not wanted any more."""

    code, kind, exit_code = 45, "withdrawn", EXIT_SERVER


class RequestFailed(ClientError):
    """The daemon answered with an error, its own or an upstream's."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        data = error.get("data")
        own = data if isinstance(data, dict) else {}
        super().__init__(str(error.get("message", "no message")), hint=own.get("hint"), reason=_reason(own))
        self.code = _as_code(error.get("code"))
        self.kind = str(own.get("class", ""))
        self.exit_code = EXIT_CODES.get(self.kind, EXIT_SERVER)
        self.server = own.get("server")
        self.data = data


def to_object(error: ClientError) -> dict[str, Any]:
    """Return `{"error": {code, class?, message, reason?, server?, hint?, data?}}`, as `--json` prints it.

    An upstream's own error has no class. The reason is there where `data` does not say it.
    """
    members: dict[str, Any] = {"code": error.code}
    if error.kind:
        members["class"] = error.kind
    members["message"] = error.message
    if error.reason and error.reason != _reason(error.data if isinstance(error.data, dict) else {}):
        members["reason"] = error.reason
    for key in ("server", "hint", "data"):
        if (value := getattr(error, key)) is not None:
            members[key] = value
    return {"error": members}


def _reason(data: Mapping[str, Any]) -> str | None:
    parts = []
    if isinstance(reason := data.get("reason"), str):
        parts.append(reason)
    if isinstance(stderr := data.get("stderr"), str):
        last = [line.strip() for line in stderr.splitlines() if line.strip()][-2:]
        parts += [f"stderr: {' | '.join(last)}"] if last else []
    if (ran := data.get("may_have_run")) is not None:
        parts.append(MAY_HAVE_RUN if ran else NOT_RUN)
    if isinstance(seconds := data.get("retry_after_seconds"), int | float):
        parts.append(f"try again in {seconds:.{int(seconds < 10)}f} s")
    return "; ".join(parts) or None


def _as_code(code: object) -> int:
    return code if isinstance(code, int) else 0


def not_installed(error: ModuleNotFoundError, what: str = "daemon") -> ClientError:
    """Return the error of a command that runs code of the daemon's package where only the client is installed."""
    return ClientError(f"the {what} is not installed: {error}", hint="install mcpd-broker")
