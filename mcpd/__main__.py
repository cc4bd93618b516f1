"""`mcpd daemon`: arguments, the lock, the configuration, logging, and then the daemon.

The lock is taken before the event loop is imported, so that a daemon that comes second costs little.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from mcpd.downstream.place import CannotListen, Place, check_length, socket_path


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


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mcpd daemon", description="Run the daemon in the foreground.")
    parser.add_argument("--config", metavar="FILE", help="the configuration file")
    parser.add_argument("--socket", metavar="PATH", help="where to listen")
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    parser.add_argument("--ready-fd", type=int, metavar="N", help="a descriptor to write 'ready' to when it listens")
    return parser.parse_args(argv)


def _run(options: argparse.Namespace, place: Place) -> int:
    import trio

    from mcpd.config.load import load
    from mcpd.daemon import Daemon, tell_ready
    from mcpd.errors import first_leaf
    from mcpd.logs import configure

    log, recent, file = configure(options.log_level)
    config = load(options.config, os.environ)
    daemon = Daemon(config, options.config, place, log, recent, file)
    status = 0
    try:
        trio.run(daemon.run, lambda: tell_ready(options.ready_fd))
    except* CannotListen as group:
        problem = first_leaf(group)
        sys.stderr.write(f"error: {problem}\n")
        status = problem.status
    return status


if __name__ == "__main__":
    sys.exit(main())
