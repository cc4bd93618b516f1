"""One request of the negotiation, whose outcome the script of `protocol.negotiate` is told."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Raw

from mcpd.errors import AuthRequired, ConnectFailed, HttpFailed, McpdError, Misconfigured
from mcpd.protocol.jsonrpc import ErrorView, read_error
from mcpd.protocol.negotiate import Answer, Outcome, Refusal
from mcpd.protocol.session import Session

from .exchange import Exchange

_HOPELESS = (AuthRequired, ConnectFailed, HttpFailed, Misconfigured)

# There is no agreement yet that a question could be stamped for.
NOBODY = Session("", "legacy")


class Question(Exchange):
    """A request with its outcome; `wake` is called when that is there.

    Attributes:
        problem: why there can be no outcome, whatever else is asked: the server cannot be reached, or wants a sign-in.
    """

    __slots__ = ("method", "outcome", "params", "problem", "wake")

    def __init__(self, method: str, params: bytes, wake: Callable[[], None]) -> None:
        super().__init__()
        self.method, self.params, self.wake = method, params, wake
        self.outcome: Outcome = None
        self.problem: McpdError | None = None

    def compose(self, session: Session, request_id: bytes) -> tuple[bytes, bytes]:
        """Return what the script wants asked."""
        return b'"%b"' % self.method.encode(), self.params

    def on_result(self, result: Raw) -> None:
        """It was answered."""
        self._settle(Answer(self.method, result))

    def on_error(self, error: Raw) -> None:
        """It was refused."""
        self._settle(Refusal(self.method, read_error(error)))

    def on_failure(self, problem: McpdError) -> None:
        """The answer was none."""
        if isinstance(problem, _HOPELESS):
            self.problem = problem
        self._settle(Refusal(self.method, ErrorView(message=problem.message)))

    def _settle(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.wake()
