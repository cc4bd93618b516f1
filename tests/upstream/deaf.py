"""Servers that do not want to go, and one that does: `python -I -S deaf.py KIND TOKEN`.

Every process of it has TOKEN in its command line. It writes `up` to its output when all of them are there.
"""

import contextlib
import os
import signal
import sys
import time

HOUR_SECONDS = 3600
# How many processes each kind has once it is up.
SIZES = {"good": 1, "deaf": 1, "leaver": 2, "tree": 3, "setsid": 2, "hidden": 2, "mover": 2}


def again(kind: str) -> list[str]:
    """Return the command line that runs this file as another kind."""
    return [sys.executable, "-I", "-S", __file__, kind, sys.argv[2]]


def be_deaf() -> None:
    """Mind neither SIGTERM nor the end of input."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def start_child(*, session: bool = False, hidden: bool = False) -> None:
    """Start a deaf child, in a session of its own or hidden altogether; return when it is that."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        be_deaf()
        if session or hidden:
            os.setsid()
        if hidden and os.fork():
            os._exit(0)
        os.write(writer, b"up")
        if hidden:
            os.closerange(0, 100)
        os.execve(sys.executable, again("silent"), {} if hidden else os.environ)
    os.close(writer)
    os.read(reader, 2)
    if hidden:
        os.waitpid(child, 0)


def start_moving() -> None:
    """Start what forks a child with a session of its own and leaves, every millisecond."""
    if os.fork():
        return
    be_deaf()
    while True:
        with contextlib.suppress(OSError):
            os.setsid()
        time.sleep(0.001)
        if os.fork():
            os._exit(0)


def serve() -> None:
    """Give back what comes until nothing comes any more."""
    while line := os.read(0, 1 << 16):
        os.write(1, line)


def main(kind: str) -> None:
    """Be a kind of server."""
    if kind == "tree":
        script = "trap '' TERM INT HUP; \"$@\"; exit 0"
        os.execve("/bin/sh", ["sh", "-c", script, sys.argv[2], *again("pair")], os.environ)
    if kind in ("pair", "leaver", "setsid", "hidden"):
        start_child(session=kind == "setsid", hidden=kind == "hidden")
    elif kind == "mover":
        start_moving()
    if kind != "good":
        be_deaf()
    if kind != "silent":
        os.write(1, b"up\n")
        serve()
    if kind not in ("good", "leaver"):
        time.sleep(HOUR_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1])
