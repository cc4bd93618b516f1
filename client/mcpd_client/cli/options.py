"""The options of every command: the global ones are taken before and after the command's name.

`call` and `tools` are special: the daemon parses their arguments, so that here only the options that
concern the client are picked out of them (`pick`).
"""

from __future__ import annotations

import argparse
from argparse import Namespace

from mcpd_client.errors import UsageError

__all__ = ["Command", "Namespace", "Parser", "make_parser", "parse", "parse_seconds", "pick", "split_command"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import NoReturn

# Name to the attribute it sets; each takes a value.
GLOBAL_VALUES = {"--socket": "socket", "--config": "config", "--timeout": "timeout", "--project": "project"}
# The same for those that are just there or not.
GLOBAL_FLAGS = {
    "--json": "json",
    "--no-autostart": "no_autostart",
    "-q": "quiet",
    "--quiet": "quiet",
    "-v": "verbose",
    "--verbose": "verbose",
    "--no-color": "no_color",
}
GLOBAL_HELP = """\
options of every command:
  --socket PATH      where the daemon listens
  --config FILE      the configuration for a daemon that is started, or to check
  --json             one line of JSON on stdout; errors as one line on stderr
  --timeout SECONDS  how long to wait for the answer
  --project DIR      whose servers are meant; default: the working directory
  --no-autostart     fail if no daemon runs; MCPD_NO_AUTOSTART=1 does the same
  -q, --quiet        no notes on stderr
  -v, --verbose      more notes; a traceback of what is unexpected
  --no-color         no colours; NO_COLOR=1 does the same
  -h, --help         what a command does, with examples
"""
EXIT_MEANINGS = {
    0: "done",
    2: "usage",
    3: "sign-in needed",
    4: "the server failed",
    5: "the tool said error, or is unknown",
    6: "the daemon cannot be reached",
    7: "timeout",
    8: "refused",
    9: "configuration",
    75: "another daemon runs",
    130: "interrupted",
}


class Command:
    """One command: what its help says, what it takes, and what it does.

    Args:
        run: does it, given the parsed options; returns the exit code.
        examples: command lines that work, without the `mcpd` in front.
        exits: the codes that it ends with.
        configure: adds its own options to a parser.
        takes_all: whether it parses all that follows its name by itself.
    """

    __slots__ = ("configure", "examples", "exits", "run", "takes_all")

    def __init__(
        self,
        run: Callable[[Namespace], int],
        *,
        examples: Sequence[str],
        exits: Sequence[int] = (0, 2, 4, 6),
        configure: Callable[[argparse.ArgumentParser], None] | None = None,
        takes_all: bool = False,
    ) -> None:
        self.run = run
        self.examples = examples
        self.exits = exits
        self.configure = configure
        self.takes_all = takes_all


class Parser(argparse.ArgumentParser):
    """A parser that raises instead of printing and leaving."""

    def error(self, message: str) -> NoReturn:
        """Raise what argparse has to say."""
        raise UsageError(message, hint=f"{self.prog} --help")


def make_parser(name: str, summary: str, command: Command) -> Parser:
    """Return the parser of one command, its global options included."""
    parser = Parser(
        prog=f"mcpd {name}",
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=_epilog(command),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        allow_abbrev=False,
    )
    if command.configure is not None:
        command.configure(parser)
    _add_global_options(parser)
    return parser


def parse(parser: Parser, argv: Sequence[str]) -> Namespace:
    """Parse options and arguments in any order.

    Raises:
        UsageError: they make no sense.
    """
    options = parser.parse_intermixed_args(list(argv))
    options.timeout = parse_seconds(options.timeout)
    return options


def parse_seconds(text: str | None) -> float | None:
    """Return a duration; None stays None.

    Raises:
        UsageError: it is not a positive number.
    """
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise UsageError(f"--timeout takes seconds, a number over 0, not {text!r}")
    return seconds


def split_command(argv: Sequence[str]) -> tuple[list[str], str | None, list[str]]:
    """Split a command line into global options, the command's name, and what follows it.

    Raises:
        UsageError: an option before the command is not a global one.
    """
    position = 0
    while position < len(argv):
        argument = argv[position]
        if not argument.startswith("-"):
            return list(argv[:position]), argument, list(argv[position + 1 :])
        name, has_value, _ = argument.partition("=")
        if name in GLOBAL_VALUES:
            position += 1 if has_value else 2
        elif argument in GLOBAL_FLAGS or argument in ("-h", "--help", "--version"):
            position += 1
        else:
            raise UsageError(f"unknown option {argument!r}", hint="mcpd help")
    return list(argv), None, []


def pick(
    argv: Sequence[str], values: Mapping[str, str], flags: Mapping[str, str]
) -> tuple[dict[str, str | bool], list[str]]:
    """Take some options out of arguments that somebody else parses.

    Args:
        argv: the arguments; what follows `--` is left alone.
        values: options with a value, to the names under which they are returned; one with a single
            dash may have its value attached.
        flags: options without.

    Returns:
        What was picked, and the rest in its order.
    """
    picked: dict[str, str | bool] = {}
    rest: list[str] = []
    arguments = iter(argv)
    for argument in arguments:
        if argument == "--":
            rest += [argument, *arguments]
            break
        name, has_value, value = argument.partition("=")
        if argument in flags:
            picked[flags[argument]] = True
        elif name in values:
            picked[values[name]] = value if has_value else _next_value(name, arguments)
        elif argument[:2] in values and argument[1:2] != "-":
            picked[values[argument[:2]]] = argument[2:]
        else:
            rest.append(argument)
    return picked, rest


def _next_value(name: str, arguments: object) -> str:
    value = next(arguments, None)  # type: ignore[call-overload]  # an iterator of arguments
    if not isinstance(value, str):
        raise UsageError(f"{name} needs a value")
    return value


def _epilog(command: Command) -> str:
    examples = "".join(f"  mcpd {example}\n" for example in command.examples)
    told = [f"{code:<3} {EXIT_MEANINGS[code]}" for code in command.exits]
    half = (len(told) + 1) // 2  # side by side: a help is to fit on a screen
    pairs = zip(told[:half], [*told[half:], ""], strict=False)
    exits = "".join(f"  {left:<40}{right}".rstrip() + "\n" for left, right in pairs)
    return f"examples:\n{examples}\nexit codes:\n{exits}\nOptions of every command: mcpd help"


def _add_global_options(parser: argparse.ArgumentParser) -> None:
    """Add them without a word: they would fill half of every help."""
    for name, attribute in GLOBAL_VALUES.items():
        parser.add_argument(name, dest=attribute, help=argparse.SUPPRESS)
    for name, attribute in GLOBAL_FLAGS.items():
        parser.add_argument(name, dest=attribute, action="store_true", help=argparse.SUPPRESS)
