"""What is said of starts and calls that have failed."""

from __future__ import annotations

from typing import Protocol

from mcpd.config.model import Server
from mcpd.config.redact import Redactor, last
from mcpd.errors import ConnectFailed, McpdError, ServerProtocol, ServerUnavailable, ShuttingDown, Stopping

# Of stderr, in the error of a failed start.
TAIL_LINES = 6
TAIL_CHARACTERS = 1000


class Ring(Protocol):
    """The last lines of a server's stderr."""

    def lines(self) -> list[tuple[float, str]]:
        """Return them with their times."""


def start_failed(server: Server, why: str, cause: McpdError | None, ring: Ring, redact: Redactor) -> McpdError:
    """Build the error of a failed start, the only one that shows stderr.

    Args:
        server: its entry.
        why: in a few words; secrets are taken out of them.
        cause: of whose class the error is, with its details; it decides whether trying again may help.
        ring: what the server has written to stderr.
        redact: takes secrets out.
    """
    # Of half a secret nobody would know what it is: first redacted, then cut.
    why = why.removeprefix(f"server '{server.name}'").lstrip(": ").removeprefix("cannot be asked: ")
    whole = redact.text("\n".join(line for _, line in ring.lines()))
    tail = last("\n".join(whole.split("\n")[-TAIL_LINES:]), TAIL_CHARACTERS)
    kind = ServerUnavailable if cause is None or isinstance(cause, ServerProtocol) else type(cause)
    problem = kind(
        redact.text(f"server '{server.name}' could not be started: {why}"),
        server=server.name,
        hint=(cause.hint if cause is not None else None) or _hint(server, cause),
        may_have_run=False,
    )
    if cause is not None:
        problem.final = cause.final
        problem.details |= cause.details
        problem.retry_after_seconds = cause.retry_after_seconds
    if tail:
        problem.details["stderr"] = tail
    return problem


def _hint(server: Server, cause: McpdError | None) -> str:
    if isinstance(cause, ConnectFailed):  # a log would say the same
        return f"check url of server {server.name}, and the way there"
    return f"mcpd logs {server.name}"


def stopped(server: str, began: bool, *, shutting_down: bool) -> McpdError:
    """Return the error of a call whose server was stopped; `began`: the server has it."""
    kind = ShuttingDown if shutting_down else Stopping
    return kind(f"server '{server}' was stopped during the call", server=server, may_have_run=began)


def with_outcome(problem: McpdError, began: bool) -> McpdError:
    """Return the error of a lost server for one of its calls."""
    return type(problem)(
        problem.message, server=problem.server, hint=problem.hint, may_have_run=began, **problem.details
    )
