"""Where the daemon says what happens: one JSON line per event on stderr, plain text on a terminal.

Event names are `noun.past_verb`, facts are keys. What is said before `open` is kept and written then: the
library that writes it is not loaded while the first client waits. A log that cannot be written (a full
disk) is counted and never stops anything. The last events are kept for `mcpd logs`.
"""

from __future__ import annotations

import logging
import os
import select
import sys
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

KEPT_EVENTS = 500
# Of what is said before the log is open; more than this would be a storm.
EARLY_EVENTS = 1000
# In UTF-8 this is less than what a pipe takes as a whole.
MAX_LINE = 1000


def iso(seconds: float) -> str:
    """Return a wall-clock time as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Log:
    """The daemon's log.

    Attributes:
        recent: the last events, as (time, text).
        followers: get the text of every event.
        lost: how many lines could not be written.
    """

    def __init__(self, level: str = "info", stream: TextIO = sys.stderr) -> None:
        self._level = logging.getLevelNamesMapping()[level.upper()]
        self._stream = stream
        self._room = select.poll()
        self._room.register(stream, select.POLLOUT)
        self._early: deque[dict[str, Any]] = deque(maxlen=EARLY_EVENTS)
        self._logger: Any = None
        self.recent: deque[tuple[float, str]] = deque(maxlen=KEPT_EVENTS)
        self.followers: set[Callable[[str], None]] = set()
        self.lost = 0

    def info(self, event: str, **facts: Any) -> None:
        """Note what happened."""
        self._say("info", event, facts)

    def warning(self, event: str, **facts: Any) -> None:
        """Note what an administrator may want to look at."""
        self._say("warning", event, facts)

    def error(self, event: str, **facts: Any) -> None:
        """Note a bug of ours."""
        self._say("error", event, facts)

    def _say(self, level: str, event: str, facts: dict[str, Any]) -> None:
        if getattr(logging, level.upper()) < self._level:
            return
        now = time.time()
        self._keep(now, level, event, facts)
        line = {"timestamp": iso(now), "level": level, "event": event, **facts}
        if self._logger is None:
            self._early.append(line)
        else:
            self._logger.msg(**line)

    def _keep(self, now: float, level: str, event: str, facts: dict[str, Any]) -> None:
        told = " ".join(f"{key}={value}" for key, value in facts.items() if key != "exc_info")
        text = f"{level}: {event} {told}".rstrip()
        self.recent.append((now, text))
        for follower in tuple(self.followers):
            follower(text)

    def open(self) -> None:
        """Load what writes the lines, and write those that were kept. Idempotent."""
        if self._logger is not None:
            return
        import structlog

        encoder = msgspec.json.Encoder(enc_hook=repr)
        render: Any = structlog.processors.JSONRenderer(serializer=lambda line, **_: encoder.encode(line).decode())
        if self._stream.isatty():
            render = structlog.dev.ConsoleRenderer(colors=False)
        structlog.configure(
            wrapper_class=structlog.BoundLogger,
            processors=[structlog.processors.format_exc_info, render],
            logger_factory=structlog.PrintLoggerFactory(self),  # type: ignore[arg-type]  # it only writes
            cache_logger_on_first_use=True,
        )
        self._logger = structlog.get_logger()
        while self._early:
            self._logger.msg(**self._early.popleft())

    def write(self, text: str) -> None:
        """Write to the stream, or count the line as lost; what the library calls."""
        try:
            # Nobody may read the other end; a short line never waits where there is room at all.
            if self._room.poll(0):
                line = text if len(text) <= MAX_LINE else f"{text[:MAX_LINE]}…\n"
                os.write(self._stream.fileno(), line.encode("utf-8", "replace"))
            else:
                self.lost += 1
        except (OSError, ValueError):
            self.lost += 1

    def flush(self) -> None:
        """Do nothing: every write is flushed."""
