"""A command at a terminal of its own, driven like a user does: read what is shown, then type."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import struct
import subprocess
import sys
from fcntl import ioctl
from termios import TIOCSWINSZ
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

# Makes the terminal the controlling one, so that Ctrl-C is a signal there.
SHIM = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
COMMAND = [sys.executable, "-m", "mcpd_client"]
CTRL_C, CTRL_D = "\x03", "\x04"
PATIENCE_SECONDS = 30


class Terminal:
    """Runs a command of the client; a context manager that ends it.

    Args:
        arguments: of `mcpd`.
        stdout: where the standard output goes, if not to the terminal.
        columns: how wide the terminal is.
        env: the environment of the command, if not this process's.
        command: what runs `mcpd`.
    """

    def __init__(
        self,
        *arguments: str,
        stdout: int | None = None,
        columns: int = 80,
        env: Mapping[str, str] | None = None,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._controller, terminal = pty.openpty()
        ioctl(terminal, TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-c", SHIM, *command, *arguments],
            stdin=terminal,
            stdout=terminal if stdout is None else stdout,
            stderr=terminal,
            start_new_session=True,
            env=None if env is None else dict(env),
        )
        os.close(terminal)
        self.shown = ""
        self._seen = 0

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        os.close(self._controller)

    def read_until(self, text: str) -> None:
        """Wait until `text` is shown, after what was waited for before."""
        while (found := self.shown.find(text, self._seen)) < 0:
            assert self._read(), f"{text!r} is not in {self.shown!r}"
        self._seen = found + len(text)

    def shows_soon(self, text: str, seconds: float = 1.0) -> bool:
        """Whether `text` is shown before nothing has come for so long."""
        while text not in self.shown:
            if not select.select([self._controller], [], [], seconds)[0] or not self._read():
                return False
        return True

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._controller, text.encode())

    def answer(self, prompt: str, text: str) -> None:
        """Wait for a prompt, and type a line."""
        self.read_until(prompt)
        self.type(f"{text}\n")

    def finish(self) -> int:
        """Read to the end and return the exit code."""
        while self._read():
            pass
        return self.process.wait(PATIENCE_SECONDS)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._controller], [], [], PATIENCE_SECONDS)
        assert ready, f"nothing more comes after {self.shown!r}"
        data = b""
        # A terminal whose other side has gone says EIO instead of an end.
        with contextlib.suppress(OSError):
            data = os.read(self._controller, 65536)
        self.shown += data.decode().replace("\r\n", "\n")
        return bool(data)
