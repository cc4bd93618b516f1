"""`config`: where the configuration is, what is wrong with it, and what it says. Needs no daemon."""

from __future__ import annotations

import os

from mcpd_client.cli.options import Command
from mcpd_client.errors import UsageError, not_installed
from mcpd_client.fast import print_answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

ACTIONS = ("path", "check", "show")


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("action", metavar="path|check|show", choices=ACTIONS, help="find it, check it, or print it")
    parser.add_argument("name", nargs="?", metavar="NAME", help="one server, for show")


def _config(options: Namespace) -> int:
    if options.name is not None and options.action != "show":
        raise UsageError(f"config {options.action} takes no name", hint="mcpd config --help")
    # The daemon's own reader: what it says here is what the daemon will do.
    try:
        from mcpd.config import command
        from mcpd.config.load import load
    except ModuleNotFoundError as error:
        raise not_installed(error) from None
    config = load(options.config, os.environ)
    match options.action:
        case "path":
            output = command.path(config, as_json=options.json)
        case "check":
            output = command.check(config, as_json=options.json)
        case _:
            output = command.show(config, options.name, as_json=options.json)
    return print_answer(*output)


COMMANDS = {
    "config": Command(
        _config,
        examples=("config path", "config check", "config check --config ./mcpd.toml --json", "config show demo"),
        exits=(0, 2, 9),
        configure=_configure,
    )
}
