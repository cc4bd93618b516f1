"""What the SDK and its HTTP client write to their loggers: nothing, or with -v their lines, without tracebacks and secrets."""

from __future__ import annotations

import logging
from collections.abc import Callable

from mcpd.config.redact import Redactor

from .problems import said

LOGGERS = ("mcp", "httpx2", "httpcore2")


class _Lines(logging.Handler):
    """Hands on one line per record."""

    def __init__(self, say: Callable[[str], None], secrets: frozenset[str]) -> None:
        # Below this the headers of requests are in it.
        super().__init__(logging.INFO)
        self._say, self._redactor = say, Redactor(secrets)

    def emit(self, record: logging.LogRecord) -> None:
        """Say it; what an exception holds may be a whole answer, and is left out."""
        line = said(self._redactor.text(record.getMessage()))
        self._say(f"{record.name}: {line}\n")


def hush(say: Callable[[str], None] | None, secrets: frozenset[str]) -> None:
    """Let the loggers write nowhere but to `say`, if there is that."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [logging.NullHandler() if say is None else _Lines(say, secrets)]
        logger.propagate = False
        logger.setLevel(logging.CRITICAL + 1 if say is None else logging.INFO)
