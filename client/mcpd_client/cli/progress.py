"""The progress of a call, as one line on a terminal's stderr that is gone when the result comes."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager

from mcpd_client.cli.render import clean_line, print_note, shorten
from mcpd_client.fast import write_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

BAR_CELLS = 20
# More often is not seen, and a server may report every item of a million.
INTERVAL_SECONDS = 0.1
SPINNER = "|/-\\"


class ProgressLine:
    """Shows `notifications/progress`; give it to a request as its `on_notification`."""

    def __init__(self, fd: int = 2, *, columns: int | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._fd = fd
        self._columns = columns
        self._clock = clock
        self._next_moment = 0.0
        self._count = 0
        self._is_shown = False
        self._is_held = False

    def __call__(self, method: str, params: Any) -> None:
        """Show one notification; too soon after the last one it is passed over."""
        if self._is_held or method != "notifications/progress" or not isinstance(params, dict):
            return
        if (now := self._clock()) < self._next_moment:
            return
        self._next_moment = now + INTERVAL_SECONDS
        self._count += 1
        width = (self._columns or os.get_terminal_size(self._fd).columns or 80) - 1
        write_text(self._fd, f"\r\x1b[K{shorten(progress_text(params, self._count), width)}")
        self._is_shown = True

    @contextmanager
    def held(self) -> Iterator[None]:
        """Show nothing for a while: the terminal is used for something else."""
        self.clear()
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False

    def clear(self) -> None:
        """Remove the line, if it is there."""
        if self._is_shown:
            self._is_shown = False
            write_text(self._fd, "\r\x1b[K")


class Notices:
    """Hears what comes during a call: shows its progress, and says at once what it waits for.

    Args:
        progress: shows the one; None if nobody would see it.
        is_quiet: say nothing of the other.
    """

    def __init__(self, progress: ProgressLine | None, *, is_quiet: bool) -> None:
        self._progress, self._is_quiet = progress, is_quiet

    def __call__(self, method: str, params: Any) -> None:
        """Take one notification."""
        if method == "mcpd/waiting" and isinstance(params, dict):
            self._say(params)
        elif self._progress is not None:
            self._progress(method, params)

    def _say(self, params: Mapping[str, Any]) -> None:
        if self._is_quiet:
            return
        if self._progress is not None:
            self._progress.clear()
        tool, name = (clean_line(str(params.get(key))) for key in ("tool", "id"))
        print_note(f"'{tool}' waits for a nod; in another terminal: mcpd approve {name} (what it is: mcpd approvals)")


def progress_text(params: Mapping[str, Any], count: int) -> str:
    """Return a bar if the total is known, something that turns if not, and the message."""
    done, total = params.get("progress"), params.get("total")
    message = clean_line(str(params.get("message") or ""))
    if isinstance(done, int | float) and isinstance(total, int | float) and total > 0:
        filled = max(0, min(BAR_CELLS, int(BAR_CELLS * done / total)))
        return f"[{'#' * filled}{'.' * (BAR_CELLS - filled)}] {done:g}/{total:g} {message}".rstrip()
    return f"{SPINNER[count % len(SPINNER)]} {message or done}"
