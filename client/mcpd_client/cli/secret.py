"""`secret`: keep values for `${secret:NAME}`. They come from a prompt or from stdin, never from the command line."""

from __future__ import annotations

import os
import sys

from mcpd_client.cli.options import Command
from mcpd_client.cli.render import Style, dump, print_note, print_out, table, terminal_columns
from mcpd_client.errors import EXIT_CONFIGURATION, ClientError, UsageError, not_installed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

ACTIONS = ("set", "ls", "rm")
MAX_VALUE_BYTES = 64 * 1024


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("action", metavar="set|ls|rm", choices=ACTIONS, help="keep one, list their names, or forget one")
    parser.add_argument("name", nargs="?", metavar="NAME", help="letters, digits, _ . and -")
    parser.add_argument("value", nargs="?", help="not here: all users can see a command line")


def _secret(options: Namespace) -> int:
    if options.value is not None:
        raise UsageError(
            "a value on the command line can be seen by all users of this machine, and stays in the shell's history",
            hint=f"mcpd secret set {options.name}    (it asks, or reads stdin)",
        )
    if (options.name is None) is not (options.action == "ls"):
        what = "takes no name" if options.action == "ls" else "needs a name"
        raise UsageError(f"secret {options.action} {what}", hint="mcpd secret --help")
    try:
        from mcpd.config.expand import SECRET_NAME
        from mcpd.config.load import load
        from mcpd.config.secrets import Secrets
        from mcpd.errors import McpdError
    except ModuleNotFoundError as error:
        raise not_installed(error) from None
    if options.name is not None and not SECRET_NAME.fullmatch(options.name):
        raise UsageError("a name has 1 to 64 letters, digits, _ . and -", hint="mcpd secret set GITHUB_TOKEN")
    store = Secrets(os.environ)
    try:
        if options.action == "ls":
            return _list(options, store.names(), load(options.config, os.environ))
        if options.action == "set":
            store.set(options.name, _value(options.name))
        elif not store.remove(options.name):
            raise UsageError(f"there is no secret {options.name!r} in {store.path}", hint="mcpd secret ls")
    except (McpdError, OSError) as problem:
        raise _Unusable(str(problem), hint=getattr(problem, "hint", None)) from None
    if options.json:
        print_out(dump({"name": options.name, "kept": options.action == "set", "file": store.path}))
    elif options.action == "set":
        print_note(f"kept; write ${{secret:{options.name}}} in env, headers or args. Servers that run have it after: mcpd restart NAME")
    else:
        print_note(f"forgot {options.name}")
    return 0


class _Unusable(ClientError):
    """The store cannot be used."""

    exit_code = EXIT_CONFIGURATION


def _value(name: str) -> str:
    """Return what the user types without seeing it, or all of stdin without the last line end."""
    if os.isatty(0):
        from getpass import getpass

        value = getpass(f"value of {name}: ")
    else:
        data = sys.stdin.buffer.read(MAX_VALUE_BYTES + 1)
        if len(data) > MAX_VALUE_BYTES:
            raise UsageError(f"the value is longer than {MAX_VALUE_BYTES // 1024} KiB")
        try:
            value = data.decode().removesuffix("\n")
        except UnicodeDecodeError:
            raise UsageError("the value is no UTF-8 text") from None
    if not value or "\0" in value:
        raise UsageError("the value is empty" if not value else "the value has a NUL in it", hint="nothing was changed")
    return value


def _list(options: Namespace, names: dict[str, str], config: Any) -> int:
    used: dict[str, list[str]] = {name: _users(name, config) for name in names}
    if options.json:
        rows = [{"name": name, "kept_in": where, "used_by": used[name]} for name, where in names.items()]
        print_out(dump({"secrets": rows}))
        return 0
    columns = terminal_columns(1)
    rows_ = [[name, where, ", ".join(used[name]) or "-"] for name, where in names.items()]
    if not rows_ and columns is not None:
        print_note("there are none yet; mcpd secret set NAME")
    elif rows_:
        print_out(table(["NAME", "KEPT IN", "USED BY"], rows_, columns=columns, style=Style(1, no_color=options.no_color)))
    return 0


def _users(name: str, config: Any) -> list[str]:
    """Return the servers whose entries name a secret."""
    reference = f"${{secret:{name}}}"
    found = []
    for server in config.servers.values():
        oauth = (server.oauth.client_id, server.oauth.client_secret, server.oauth.private_key)
        texts = (server.command, *server.args, server.url, server.cwd, *server.env.values(), *server.headers.values(), *server.headers_helper, *oauth)
        if any(reference in text for text in texts if text):
            found.append(server.name)
    return found


COMMANDS = {
    "secret": Command(
        _secret,
        examples=("secret set GITHUB_TOKEN", "pass show github | mcpd secret set GITHUB_TOKEN", "secret ls", "secret rm GITHUB_TOKEN"),
        exits=(0, 2, 9),
        configure=_configure,
    )
}
