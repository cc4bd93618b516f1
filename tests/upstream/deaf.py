"""Servers that do not want to go, and one that does: `python -I -S deaf.py KIND TOKEN`.

Every process of it has TOKEN in its command line. It writes `up` to its output when all of them are there.
"""

import os
import signal
import sys
import time

HOUR_SECONDS = 3600


def again(kind: str) -> list[str]:
    """Return the command line that runs this file as another kind."""
    return [sys.executable, "-I", "-S", __file__, kind, sys.argv[2]]


def be_deaf() -> None:
    """Mind neither SIGTERM nor the end of input."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def start(*kinds: str, session: bool = False, hidden: bool = False) -> None:
    """Start a deaf child; return when it is one."""
    reader, writer = os.pipe()
    if not os.fork():
        be_deaf()
        if session or hidden:
            os.setsid()
        if hidden and os.fork():
            os._exit(0)
        os.write(writer, b"up")
        if hidden:
            os.closerange(0, 100)
        os.execve(sys.executable, again(*kinds), {} if hidden else os.environ)
    os.close(writer)
    os.read(reader, 2)


def move() -> None:
    """Fork a child with a session of its own and leave, every millisecond."""
    be_deaf()
    while not os.fork():
        os.setsid()
        time.sleep(0.001)
        if os.fork():
            os._exit(0)


def say_up() -> None:
    """Tell whoever has started this that all of it is there."""
    os.write(1, b"up\n")


def main(kind: str) -> None:
    """Be a kind of server."""
    if kind == "good":
        say_up()
        while os.read(0, 1 << 16):
            pass
        return
    if kind in ("heir", "leaver"):
        start("deaf")
    elif kind == "setsid":
        start("deaf", session=True)
    elif kind == "hidden":
        start("deaf", hidden=True)
    elif kind == "pair":
        start("deaf")
    elif kind == "mover":
        move()
    elif kind == "tree":
        script = "trap '' TERM INT HUP; \"$@\"; exit 0"
        os.execve("/bin/sh", ["sh", "-c", script, sys.argv[2], *again("pair")], os.environ)
    be_deaf()
    say_up()
    if kind != "leaver":
        time.sleep(HOUR_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1])
