"""`mcpd daemon`: arguments, the lock, the configuration, logging, and then the daemon.

The lock is taken before the event loop is imported, so that a daemon that comes second costs little.
"""

from __future__ import annotations

import os
import socket
import sys
import zlib
from collections.abc import Sequence

from mcpd.downstream.place import CannotListen, Place, check_length, socket_path

LEVELS = ("debug", "info", "warning", "error")
OPTIONS = {"--config": "config", "--socket": "socket", "--log-level": "log_level", "--ready-fd": "ready_fd"}


class Options:
    """What the command line says."""

    config: str | None = None
    socket: str | None = None
    log_level: str = "info"
    ready_fd: int | None = None


def main(argv: Sequence[str] | None = None) -> int:
    """Run the daemon in the foreground; return its exit status."""
    options = _parse(argv)
    place = Place(options.socket or socket_path(os.environ, os.getuid()))
    try:
        check_length(place.path)
        place.lock()
    except CannotListen as problem:
        sys.stderr.write(f"error: {problem}\n")
        return problem.status
    try:
        return _run(options, place)
    finally:
        place.leave()


def _parse(argv: Sequence[str] | None) -> Options:
    """Read the options; the parser is loaded only for what is not plainly an option with its value."""
    words = list(sys.argv[1:] if argv is None else argv)
    options = Options()
    for name, value in zip(words[::2], words[1::2], strict=False):
        if name not in OPTIONS or value.startswith("-") or (name == "--ready-fd" and not value.isdigit()):
            return _parse_fully(words)
        setattr(options, OPTIONS[name], int(value) if name == "--ready-fd" else value)
    if len(words) % 2 or options.log_level not in LEVELS:
        return _parse_fully(words)
    return options


def _parse_fully(words: list[str]) -> Options:
    import argparse

    parser = argparse.ArgumentParser(prog="mcpd daemon", description="Run the daemon in the foreground.")
    parser.add_argument("--config", metavar="FILE", help="the configuration file")
    parser.add_argument("--socket", metavar="PATH", help="where to listen")
    parser.add_argument("--log-level", default="info", choices=LEVELS)
    parser.add_argument("--ready-fd", type=int, metavar="N", help="a descriptor to write 'ready' to when it listens")
    return parser.parse_args(words, Options())


def _start_guardian(place: Place) -> tuple[int, int, tuple[int, socket.socket] | None]:
    """Start it now: it gets ready, and ends what a dead daemon has left, while the event loop is loaded."""
    from mcpd.upstream.launch import launch

    scope = zlib.crc32(f"{os.getuid()} {os.path.realpath(place.path)}".encode()) & 0xFFFFFF
    instance = int.from_bytes(os.urandom(4), "big") & 0x3FFFFF
    try:
        return scope, instance, launch(scope, instance)
    except OSError:
        return scope, instance, None  # the first start of a server tries again, and says why


def _run(options: Options, place: Place) -> int:
    guardian = _start_guardian(place)
    import trio

    from mcpd.config.load import load
    from mcpd.daemon import Daemon, tell_ready
    from mcpd.errors import first_leaf
    from mcpd.logs import Log

    log = Log(options.log_level)
    daemon = Daemon(load(options.config, os.environ), options.config, place, log, guardian)
    status = 0
    try:
        trio.run(daemon.run, lambda: tell_ready(options.ready_fd))
    except* CannotListen as group:
        problem = first_leaf(group)
        sys.stderr.write(f"error: {problem}\n")
        status = problem.status
    finally:
        log.open()
    return status


if __name__ == "__main__":
    sys.exit(main())
