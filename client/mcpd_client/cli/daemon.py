"""`daemon`, `up`, `down`, `reload`: the life of the daemon itself."""

from __future__ import annotations

import contextlib
import os
import select
import signal

from mcpd_client.autostart import connect
from mcpd_client.cli.main import run_daemon
from mcpd_client.cli.options import Command
from mcpd_client.cli.render import dump, print_note, print_out
from mcpd_client.cli.session import command_of, open_client
from mcpd_client.errors import EXIT_CONFIGURATION, ClientError, ConnectionLost, DaemonNotRunning, RequestTimeout
from mcpd_client.sync import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

# The daemon drains for 5 s by default, and its servers' ladders take up to 7 s more.
DOWN_SECONDS = 20.0
HELLO_SECONDS = 5.0
# With --force: between the two SIGTERMs, after the second one, and after SIGKILL.
SECOND_SIGNAL_SECONDS = 0.2
FORCE_TERM_SECONDS = 5.0
FORCE_KILL_SECONDS = 5.0


def _daemon(options: Namespace) -> int:
    return run_daemon(options.argv)


def _configure_daemon(parser: ArgumentParser) -> None:
    parser.add_argument("--log-level", metavar="LEVEL", help="debug, info, warning or error")
    parser.add_argument("--ready-fd", metavar="N", help="a descriptor to write `ready` to when it listens")


def _up(options: Namespace) -> int:
    if not options.no_autostart:
        # Asked for in so many words, so that MCPD_NO_AUTOSTART has nothing to say.
        connect(options.socket or None, command=command_of(options)).close()
    with open_client(options) as client:
        daemon = client.status()["daemon"]
    if options.json:
        print_out(dump(daemon))
        return 0
    print_out(f"mcpd {daemon['version']} is running: pid {daemon['pid']}, {daemon['socket']}\n")
    wanted = os.path.abspath(options.config) if options.config else None
    if wanted is not None and daemon.get("config") != wanted and not options.quiet:
        present = daemon.get("config") or "no configuration file"
        print_note(f"note: it runs with {present}; `mcpd down` first to start it with another configuration")
    return 0


def _configure_down(parser: ArgumentParser) -> None:
    parser.add_argument("--force", action="store_true", help="do not wait for calls in flight; kill if need be")


def _down(options: Namespace) -> int:
    client = Client(options.socket or None, autostart=False, timeout=DOWN_SECONDS)
    try:
        client.connect()
    except DaemonNotRunning:
        if options.json:
            print_out(dump({"stopped": False}))
        elif not options.quiet:
            print_note("the daemon is not running")
        return 0
    with client:
        pid = _force_down(client) if options.force else _ask_down(client)
    if options.json:
        print_out(dump({"stopped": True, "pid": pid}))
    elif not options.quiet:
        print_note(f"the daemon (pid {pid}) has stopped")
    return 0


def _ask_down(client: Client) -> int:
    try:
        pid = _said_pid(client)
        # Held from before the request, so that the number cannot be another process's by the time it is waited for.
        with _process(pid) as pidfd:
            # A daemon that is ending already may be gone before it answers.
            with contextlib.suppress(ConnectionLost):
                client.request("mcpd/shutdown")
            if _wait_gone(pidfd, DOWN_SECONDS):
                return pid
    except RequestTimeout as error:
        error.hint = "mcpd down --force"
        raise
    raise ClientError(f"the daemon (pid {pid}) is still stopping after {DOWN_SECONDS:.0f} s", hint="mcpd down --force")


def _force_down(client: Client) -> int:
    pid = _known_pid(client)
    with _process(pid) as pidfd:
        if pidfd is None:
            return pid
        for number in (signal.SIGTERM, signal.SIGTERM):
            _send_signal(pidfd, number)
            # Two signals that arrive together count as one.
            if _wait_gone(pidfd, SECOND_SIGNAL_SECONDS):
                return pid
        if not _wait_gone(pidfd, FORCE_TERM_SECONDS):
            _send_signal(pidfd, signal.SIGKILL)
            _wait_gone(pidfd, FORCE_KILL_SECONDS)
    return pid


def _said_pid(client: Client) -> int:
    pid: int = client.request("mcpd/hello", {"version": 1}, timeout=HELLO_SECONDS)["daemon"]["pid"]
    return pid


def _known_pid(client: Client) -> int:
    """Return the daemon's process id: what it says, or, if it is stuck, whom the kernel names.

    Raises:
        ClientError: it does not say, and the kernel names a service manager that holds the socket for it.
    """
    peer = client.peer_pid()
    try:
        return _said_pid(client)
    except ClientError:
        with contextlib.suppress(OSError), open(f"/proc/{peer}/cmdline", "rb") as file:
            if b"mcpd" in file.read():
                return peer
        raise


@contextlib.contextmanager
def _process(pid: int) -> Any:
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        yield None
        return
    try:
        yield pidfd
    finally:
        os.close(pidfd)


def _send_signal(pidfd: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, number)


def _wait_gone(pidfd: int | None, seconds: float) -> bool:
    if pidfd is None:
        return True
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _reload(options: Namespace) -> int:
    with open_client(options) as client:
        reply = client.request_reply("mcpd/reload")
    problems = reply.result.get("problems") or []
    if options.json:
        print_out(reply.result_text() + "\n")
        return EXIT_CONFIGURATION if problems else 0
    changes = [
        f"{word}: {', '.join(reply.result[word])}" for word in ("added", "removed", "changed") if reply.result.get(word)
    ]
    print_out(("; ".join(changes) or "nothing has changed") + "\n")
    for problem in problems:
        print_note(describe_problem(problem))
    return EXIT_CONFIGURATION if problems else 0


def describe_problem(problem: Any) -> str:
    """Return one problem of a configuration as a line: file, server, key, what is wrong, what helps."""
    if not isinstance(problem, dict):
        return str(problem)
    where = ".".join(str(problem[key]) for key in ("server", "key") if problem.get(key))
    parts = [str(part) for part in (problem.get("file"), where, problem.get("problem")) if part]
    hint = problem.get("hint")
    return ": ".join(parts) + (f" ({hint})" if hint else "")


COMMANDS = {
    "daemon": Command(
        _daemon,
        examples=(
            "daemon",
            "daemon --config ./mcpd.toml --socket /tmp/mcpd/mcpd.sock",
            "daemon --log-level debug",
        ),
        exits=(0, 2, 9, 75),
        configure=_configure_daemon,
        takes_all=True,
    ),
    "up": Command(_up, examples=("up", "up --config ./mcpd.toml", "up --json"), exits=(0, 2, 6)),
    "down": Command(_down, examples=("down", "down --force"), exits=(0, 2, 6), configure=_configure_down),
    "reload": Command(_reload, examples=("reload", "reload --json"), exits=(0, 2, 6, 9)),
}
