"""What goes wrong, in the words of the socket: one class per error class, each with its code.

Errors born in the daemon carry positive codes and `data.class`; an upstream's own JSON-RPC error is
not one of these: it passes through untouched.
"""

from __future__ import annotations

from typing import Any, ClassVar


class McpdError(Exception):
    """An error of the daemon that a client gets to see.

    Args:
        message: one sentence, lower case, no full stop: what went wrong and with what.
        server: the upstream it is about, if any.
        hint: a command or a setting that helps.
        retry_after_seconds: when it is worth asking again.
        may_have_run: whether the tool may have run; None where nothing was to run.
        details: further members of `data`.

    Attributes:
        final: trying again by itself would only fail again; not shown.
    """

    code: ClassVar[int] = 0
    kind: ClassVar[str] = "internal"

    def __init__(
        self,
        message: str,
        *,
        server: str | None = None,
        hint: str | None = None,
        retry_after_seconds: float | None = None,
        may_have_run: bool | None = None,
        **details: Any,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.server = server
        self.hint = hint
        self.retry_after_seconds = retry_after_seconds
        self.may_have_run = may_have_run
        self.details = details
        self.final = False

    def to_error(self) -> dict[str, Any]:
        """Return the JSON-RPC error object: `{code, message, data: {class, …}}`."""
        data: dict[str, Any] = {"class": self.kind, **self.details}
        for key in ("server", "hint", "retry_after_seconds", "may_have_run"):
            if (value := getattr(self, key)) is not None:
                data[key] = value
        return {"code": self.code, "message": self.message, "data": data}


class UnknownServer(McpdError):
    """No upstream of that name is configured."""

    code, kind = 1, "unknown_server"


class UnknownTool(McpdError):
    """The upstream lists no such tool."""

    code, kind = 2, "unknown_tool"


class BadRequest(McpdError):
    """The client's request does not fit its method."""

    code, kind = 3, "bad_request"


class InvalidPage(McpdError):
    """Offset or limit of a list are out of range."""

    code, kind = 4, "invalid_page"


class ServerUnavailable(McpdError):
    """The upstream could not be started, or is backing off: nothing was sent."""

    code, kind = 10, "server_unavailable"


class ServerLost(McpdError):
    """The upstream ended while the call was in flight."""

    code, kind = 11, "server_lost"


class CallTimeout(McpdError):
    """The call's deadline has passed."""

    code, kind = 12, "timeout"


class ServerProtocol(McpdError):
    """The upstream's answer was malformed."""

    code, kind = 13, "server_protocol"


class TooLarge(McpdError):
    """A message or an answer is over its limit."""

    code, kind = 14, "too_large"


class AuthRequired(McpdError):
    """The upstream wants a sign-in."""

    code, kind = 15, "auth_required"


class HttpFailed(McpdError):
    """The upstream answered with a status or a body that is no answer; the message names it."""

    code, kind = 16, "http"


class ExchangeLost(HttpFailed):
    """The exchange broke off: the server may have the request, and no answer will come."""


class ConnectFailed(McpdError):
    """The upstream could not be reached; nothing was sent."""

    code, kind = 17, "connect"


class VersionMismatch(McpdError):
    """The upstream speaks no protocol revision that we speak."""

    code, kind = 18, "version"


class Denied(McpdError):
    """The configuration forbids it."""

    code, kind = 20, "denied"


class PendingTrust(McpdError):
    """A project brings this server along, and nobody has said yet that it may run."""

    code, kind = 21, "pending_trust"


class ApprovalRequired(McpdError):
    """The call needs a nod that it did not get."""

    code, kind = 22, "approval_required"


class Misconfigured(McpdError):
    """The upstream's entry in the configuration cannot be used."""

    code, kind = 23, "misconfigured"


class Stopping(McpdError):
    """The upstream is being stopped."""

    code, kind = 24, "stopping"


class Overloaded(McpdError):
    """Too much is waiting already."""

    code, kind = 30, "overloaded"


class ShuttingDown(McpdError):
    """The daemon is being stopped."""

    code, kind = 31, "shutting_down"


class HandleExpired(McpdError):
    """The remainder is not kept any more."""

    code, kind = 32, "handle_expired"


class StaleSession(McpdError):
    """The client has turned to another project since it asked."""

    code, kind = 33, "stale_session"

    @classmethod
    def of_turn(cls, server: str | None = None, *, may_have_run: bool = False) -> StaleSession:
        """Return the error for what was asked in another epoch."""
        why = "the client has turned to another project since it asked"
        return cls(why, server=server, hint="ask again", may_have_run=may_have_run)


class InputRequired(McpdError):
    """The upstream asks for input that no attached client can give."""

    code, kind = 34, "input_required"


def final(problem: McpdError) -> McpdError:
    """Mark an error as one that trying again does not cure."""
    problem.final = True
    return problem


def again_later(problem: McpdError | None, server: str, seconds: float) -> McpdError:
    """Return what to tell those who come while an upstream is left alone: why, and for how long."""
    if problem is None:
        problem = ServerUnavailable(f"server '{server}' is not available")
    kind = ServerUnavailable if isinstance(problem, ServerLost) else type(problem)
    told = kind(
        problem.message,
        server=server,
        hint=problem.hint or f"mcpd start {server}",
        retry_after_seconds=round(seconds, 2),
        may_have_run=False,
    )
    if "stderr" in problem.details:
        told.details["stderr"] = problem.details["stderr"]
    return told


def first_leaf(group: BaseExceptionGroup[Any]) -> Any:
    """Return the first exception of a group that is not a group itself."""
    problem: BaseException = group
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return problem
