"""What goes out to the host: written as it is taken, never waited for."""

import os
from collections import deque
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# The kinds of file that can be full: a pipe and a socket, as `stat` has them.
FILLING = (0o010000, 0o140000)
KIND_MASK = 0o170000
# How many buffers one system call takes.
BATCH_PARTS = 64


class Outlet:
    """A queue before a descriptor.

    Attributes:
        size: how many bytes wait.
        progress: when some were taken last.
        is_broken: whether nobody reads there any more.
    """

    def __init__(self, fd: int) -> None:
        self.size = 0
        self.progress = monotonic()
        self.is_broken = False
        self._fd = fd
        self._parts: deque[bytes] = deque()
        # How much of the first part has been taken.
        self._taken = 0
        # A terminal or a file stays as it is: others may have it open as well, and neither fills up.
        self._was_blocking = os.fstat(fd).st_mode & KIND_MASK in FILLING and os.get_blocking(fd)
        if self._was_blocking:
            os.set_blocking(fd, False)

    def put(self, parts: "Iterable[bytes]") -> None:
        """Add to the queue."""
        for part in parts:
            self._parts.append(part)
            self.size += len(part)

    def flush(self) -> None:
        """Write as much as is taken."""
        try:
            while self._parts:
                self._advance(os.writev(self._fd, self._next()))
        except BlockingIOError:
            pass
        except OSError:
            self.is_broken = True

    def restore(self) -> None:
        """Leave the descriptor as it was found: it may outlive this process."""
        if self._was_blocking:
            os.set_blocking(self._fd, True)

    def _next(self) -> "list[bytes | memoryview]":
        parts: list[bytes | memoryview] = []
        for part in self._parts:
            parts.append(memoryview(part)[self._taken :] if self._taken and not parts else part)
            if len(parts) == BATCH_PARTS:
                break
        return parts

    def _advance(self, size: int) -> None:
        self.size -= size
        self.progress = monotonic()
        size += self._taken
        while self._parts and size >= len(self._parts[0]):
            size -= len(self._parts.popleft())
        self._taken = size
