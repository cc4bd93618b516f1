"""Find the command, run it, and turn whatever goes wrong into a few lines and an exit code."""

from __future__ import annotations

import os
import sys

from mcpd_client import errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Sequence

    from mcpd_client.cli.options import Command

# Command to the module that has it, and the one sentence of its help.
COMMANDS = {
    "daemon": ("daemon", "run the daemon in the foreground"),
    "up": ("daemon", "start the daemon if it is not running"),
    "down": ("daemon", "stop the daemon and its servers"),
    "reload": ("daemon", "read the configuration again"),
    "status": ("status", "show the daemon and its servers, or one server with its last log lines"),
    "logs": ("logs", "show what servers and the daemon wrote to their logs"),
    "events": ("events", "show what has happened to servers, and what happens now"),
    "ls": ("servers", "list the servers"),
    "get": ("servers", "show one server"),
    "secret": ("secret", "keep values for ${secret:NAME}"),
    "approvals": ("approvals", "show the calls that wait for a nod"),
    "approve": ("approvals", "let a call that waits go on"),
    "deny": ("approvals", "refuse a call that waits"),
    "doctor": ("doctor", "look for what is wrong, and say what to do"),
    "start": ("servers", "start servers"),
    "stop": ("servers", "stop servers"),
    "restart": ("servers", "stop servers and start them again"),
    "why": ("why", "explain which copy of a server this client gets"),
    "tools": ("tools", "list the tools of all servers or of one, or explain one tool"),
    "call": ("tools", "call a tool and print what it returns"),
    "search": ("search", "find tools by a few words"),
    "fetch": ("fetch", "print a part of a result that was cut"),
    "resources": ("lists", "list the resources of all servers or of one, or explain one resource"),
    "templates": ("lists", "list the templates of resources"),
    "read": ("read", "read a resource"),
    "prompts": ("lists", "list the prompts of all servers or of one, or explain one prompt"),
    "prompt": ("prompts", "print the messages of a prompt"),
    "complete": ("prompts", "list what an argument of a prompt or a template can be"),
    "install": ("install", "make hosts, as Claude Code or Cursor, start their servers through mcpd"),
    "uninstall": ("install", "take the entries of mcpd out of hosts again"),
    "export": ("install", "print the entries for a host instead of writing them"),
    "bridge": ("bridge", "be the MCP server of a host: Claude Code, Codex, Cursor, VS Code …"),
    "login": ("auth", "sign in to a remote server"),
    "logout": ("auth", "sign out of a remote server, or of all"),
    "auth": ("auth", "show which servers you are signed in to, and for how long"),
    "config": ("config", "find, check or show the configuration"),
    "rpc": ("more", "send one request over the socket and print its raw result"),
    "demo": ("more", "show commands to try"),
    "demo-server": ("more", "run a tiny MCP server on stdin and stdout"),
    "version": ("more", "show the version"),
    "help": ("more", "explain a command"),
}
GROUPS = {
    "daemon": ("up", "down", "reload", "status", "logs", "events", "daemon"),
    "servers": ("ls", "get", "why", "start", "stop", "restart"),
    "configuration": ("config", "secret", "doctor"),
    "approvals": ("approvals", "approve", "deny"),
    "tools": ("tools", "search", "call", "fetch"),
    "resources and prompts": ("resources", "templates", "read", "prompts", "prompt", "complete"),
    "hosts": ("bridge", "install", "uninstall", "export"),
    "sign-in": ("login", "logout", "auth"),
    "more": ("rpc", "demo", "demo-server", "version", "help"),
}


def main(argv: Sequence[str], sock: socket | None = None, received: bytes = b"") -> int:
    """Run a command line and return its exit code.

    Args:
        argv: without the program's name.
        sock: a connection over which `fast` has sent argv as request 1; it is taken over.
        received: what has come back over it.
    """
    _open_standard_files()
    try:
        if sock is not None:
            from mcpd_client.cli.tools import resume

            return resume(argv, sock, received)
        return _run(argv)
    except errors.ClientError as error:
        return _report(error, argv)
    except KeyboardInterrupt:
        return errors.EXIT_INTERRUPTED
    except BrokenPipeError:
        return errors.EXIT_PIPE
    except Exception as error:  # noqa: BLE001  # the last resort: one line instead of a traceback
        return _report_unexpected(error, argv)


def run_daemon(arguments: Sequence[str]) -> int:
    """Become the daemon; nothing of it is imported for any other command.

    Raises:
        ClientError: only the client is installed.
    """
    try:
        from mcpd.__main__ import main as run
    except ModuleNotFoundError as error:
        raise errors.not_installed(error) from None
    try:
        status: int = run(list(arguments))
    except Exception:  # noqa: BLE001  # nobody is there to try again with -v
        _print_traceback()
        return errors.EXIT_UNEXPECTED
    return status


def load(name: str) -> Command:
    """Return a command by name.

    Raises:
        UsageError: there is none of that name; says which one may be meant.
    """
    if name not in COMMANDS:
        from difflib import get_close_matches

        near = [each for each in COMMANDS if name and each.startswith(name)] or get_close_matches(name, COMMANDS, n=1)
        reason = f"did you mean {near[0]!r}?" if near else None
        raise errors.UsageError(f"there is no command {name!r}", reason=reason, hint="mcpd help")
    from importlib import import_module

    command: Command = import_module(f"mcpd_client.cli.{COMMANDS[name][0]}").COMMANDS[name]
    return command


def _run(argv: Sequence[str]) -> int:
    _check_encoding(argv)
    if list(argv[:1]) == ["daemon"] and not {"-h", "--help"} & set(argv):
        # Straight on: the daemon starts the sooner the less is imported for its command line.
        return run_daemon(argv[1:])
    from mcpd_client.cli import options as optional

    before, name, after = optional.split_command(argv)
    if name is None:
        return _run_bare(before)
    if name == "daemon" and not {"-h", "--help"} & set(before + after):
        return run_daemon(before + after)
    command = load(name)
    parser = optional.make_parser(name, COMMANDS[name][1], command)
    arguments = before + after
    if asks_for_help(arguments):
        return _print(parser.format_help())
    if command.takes_all:
        return command.run(optional.Namespace(name=name, argv=arguments))
    return command.run(optional.parse(parser, arguments))


def asks_for_help(arguments: Sequence[str]) -> bool:
    """Tell whether `-h` or `--help` is among the options."""
    options = list(arguments)
    if "--" in options:
        del options[options.index("--") :]
    return "-h" in options or "--help" in options


def _run_bare(arguments: Sequence[str]) -> int:
    """Run no command: its status if a daemon is there and somebody is looking, else what there is to run."""
    from mcpd_client.cli.more import overview

    if "--version" in arguments:
        return _run(["version", *(argument for argument in arguments if argument != "--version")])
    if os.isatty(1) and not asks_for_help(arguments):
        try:
            return _run(["status", "--no-autostart", *arguments])
        except errors.DaemonNotRunning:
            return _print(overview())
    return _print(overview())


def _print(text: str) -> int:
    from mcpd_client.fast import write_text

    write_text(1, text)
    return 0


def _check_encoding(argv: Sequence[str]) -> None:
    for position, argument in enumerate(argv, start=1):
        try:
            argument.encode()
        except UnicodeEncodeError:
            shown = argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            raise errors.UsageError(f"argument {position} is not UTF-8: {shown}") from None


def _report(error: errors.ClientError, argv: Sequence[str]) -> int:
    from mcpd_client.cli.render import render_error
    from mcpd_client.fast import print_answer

    if "-v" in argv or "--verbose" in argv:
        _print_traceback()
    as_json = "--json" in (argv[: argv.index("--")] if "--" in argv else argv)
    return print_answer(error.exit_code, "", render_error(error, as_json=as_json))


def _report_unexpected(error: Exception, argv: Sequence[str]) -> int:
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, OSError):
        wrapped = errors.ClientError(str(error))
    else:
        wrapped = errors.ClientError(f"unexpected: {what}", hint="run it again with -v to see where")
    return _report(wrapped, argv)


def _print_traceback() -> None:
    from traceback import format_exc

    from mcpd_client.fast import print_answer

    print_answer(0, "", format_exc())


def _open_standard_files() -> None:
    """Open what is closed of 0, 1 and 2 on nothing, so that no socket or file ends up in their place."""
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(fd)
