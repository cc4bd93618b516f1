"""Where the daemon says what happens: one JSON line per event on stderr, plain text on a terminal.

Event names are `noun.past_verb`, facts are keys. A log that cannot be written (a full disk) is counted
and never stops anything. The last events are kept for `mcpd logs`.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TextIO

import msgspec
import structlog

KEPT_EVENTS = 500


class Recent:
    """A processor that keeps the last events, for clients that ask."""

    def __init__(self) -> None:
        self.events: deque[tuple[float, str]] = deque(maxlen=KEPT_EVENTS)
        self.followers: set[Callable[[str], None]] = set()

    def __call__(self, _logger: Any, _name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        """Keep one event as text."""
        facts = " ".join(f"{key}={value}" for key, value in event.items() if key not in ("event", "timestamp", "level"))
        text = f"{event.get('level', 'info')}: {event.get('event')} {facts}".rstrip()
        self.events.append((time.time(), text))
        for follower in tuple(self.followers):
            follower(text)
        return event


class Carefree:
    """A file for the log that may fail to take it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.lost = 0

    def write(self, text: str) -> None:
        """Write a line, or count it as lost."""
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self.lost += 1

    def flush(self) -> None:
        """Do nothing: every write is flushed."""


def configure(level: str, stream: TextIO = sys.stderr) -> tuple[Any, Recent, Carefree]:
    """Set logging up, once.

    Returns:
        The logger, the recent events, and the file (which counts what it lost).
    """
    recent, file = Recent(), Carefree(stream)
    encoder = msgspec.json.Encoder(enc_hook=repr)
    render: Any = structlog.processors.JSONRenderer(serializer=lambda event, **_: encoder.encode(event).decode())
    if stream.isatty():
        render = structlog.dev.ConsoleRenderer(colors=False)
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            recent,
            render,
        ],
        logger_factory=structlog.PrintLoggerFactory(file),  # type: ignore[arg-type]  # it only writes
        cache_logger_on_first_use=False,
    )
    return structlog.get_logger(), recent, file
