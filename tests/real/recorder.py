"""Run a server and write down each line that it hears and says: `recorder.py FILES PROGRAM ARG…`.

What was heard is in FILES.heard before the server gets it, what was said in FILES.said before the
client gets it.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from typing import IO


def copy(source: IO[bytes], path: str, target: IO[bytes]) -> None:
    """Copy lines to a file first and then to where they go, until there are no more."""
    with open(path, "ab", buffering=0) as file, contextlib.suppress(BrokenPipeError), target:
        for line in source:
            file.write(line)
            target.write(line)
            target.flush()


def main(files: str, *command: str) -> int:
    """Be the server, and return what it returned."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin
        assert server.stdout
        arguments = (sys.stdin.buffer, f"{files}.heard", server.stdin)
        threading.Thread(target=copy, args=arguments, daemon=True).start()
        copy(server.stdout, f"{files}.said", sys.stdout.buffer)
        return server.wait()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
