"""The command line of `mcpd call` and `mcpd tools`, as the daemon reads it: options, server, tool, words.

What the words mean is a matter of the tool's schema: `arguments`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from mcpd.downstream.cli.fields import parse_path
from mcpd.downstream.cli.text import near, one_line
from mcpd.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

T = TypeVar("T")

CALL_USAGE = "usage: mcpd call SERVER TOOL [KEY=VALUE | KEY:=JSON | KEY=@FILE]… [--args JSON|@FILE|-] [OPTIONS]"
TOOLS_USAGE = "usage: mcpd tools [SERVER[.TOOL]] [--schema] [--all] [--json]"

CALL_HINT = "mcpd call --help"
TOOLS_HINT = "mcpd tools --help"

# The options that have a value, which follows or stands behind `=`.
CALL_VALUES = ("--args", "--timeout", "--max-bytes", "--field")
CALL_FLAGS = ("--json", "--no-check", "--quiet")
TOOLS_FLAGS = ("--json", "--schema", "--all", "--quiet")
SHORT = {"-q": "--quiet"}

# Digits of a number on the command line; more are a mistake, and slow to read.
MAX_DIGITS = 18


class CallCommand(Struct, frozen=True):
    """`mcpd call`.

    Args:
        server: as typed; it need not be configured.
        tool: as typed.
        words: the arguments of the tool, as typed.
        args: the value of `--args`.
        as_json: print the result, or the error, as it is.
        timeout_seconds: the limit of the call; None leaves it to the configuration.
        max_bytes: how much of the result to show; None leaves it to the daemon.
        check: compare the arguments with the schema before the call.
        field: the path of the only value to print.
        quiet: print no notes.
    """

    server: str
    tool: str
    words: tuple[str, ...] = ()
    args: str | None = None
    as_json: bool = False
    timeout_seconds: float | None = None
    max_bytes: int | None = None
    check: bool = True
    field: str | None = None
    quiet: bool = False


class ToolsCommand(Struct, frozen=True):
    """`mcpd tools`: of all servers, of one, or one tool."""

    server: str | None = None
    tool: str | None = None
    as_json: bool = False
    schema: bool = False
    all: bool = False
    quiet: bool = False


class _Syntax(Struct, frozen=True):
    values: tuple[str, ...]
    flags: tuple[str, ...]
    usage: str
    hint: str


_CALL = _Syntax(CALL_VALUES, CALL_FLAGS, CALL_USAGE, CALL_HINT)
_TOOLS = _Syntax((), TOOLS_FLAGS, TOOLS_USAGE, TOOLS_HINT)


def parse_argv(argv: Sequence[str], servers: Collection[str]) -> CallCommand | ToolsCommand:
    """Read a command line.

    Args:
        argv: the words, without the name of the program.
        servers: the names of the servers there are, to tell `SERVER.TOOL` from a server.

    Raises:
        BadRequest: It cannot be read; the message says what is wrong, `reason` shows the usage.
    """
    match [*argv]:
        case ["call", *words]:
            return _call(words, servers)
        case ["tools", *words]:
            return _tools(words, servers)
        case [other, *_]:
            raise BadRequest(f"'{one_line(other, 60)}' is no command of mcpd/cli: it has call and tools")
    raise BadRequest("argv is empty: mcpd/cli has the commands call and tools")


def wants_json(argv: Sequence[str]) -> bool:
    """Tell whether the errors of this command line go out as JSON, even if nothing else of it can be read."""
    end = argv.index("--") if "--" in argv else len(argv)
    return "--json" in argv[:end]


def _call(argv: list[str], servers: Collection[str]) -> CallCommand:
    words, options = _split(argv, _CALL)
    server, tool, words = _called(words, servers)
    field = options.get("--field")
    if field is not None:
        # A path that cannot be read must not cost a call.
        parse_path(field)
    return CallCommand(
        server,
        tool,
        tuple(words),
        args=options.get("--args"),
        as_json="--json" in options,
        timeout_seconds=_converted(options, "--timeout", _seconds),
        max_bytes=_converted(options, "--max-bytes", _count),
        check="--no-check" not in options,
        field=field,
        quiet="--quiet" in options,
    )


def _tools(argv: list[str], servers: Collection[str]) -> ToolsCommand:
    words, options = _split(argv, _TOOLS)
    if len(words) > 2:
        raise BadRequest(f"'{one_line(words[2], 60)}' is too much", reason=TOOLS_USAGE, hint=TOOLS_HINT)
    server = words[0] if words else None
    tool = words[1] if len(words) > 1 else None
    if server is not None and tool is None and server not in servers and "." in server:
        server, _, tool = server.partition(".")
    if "" in (server, tool):
        raise BadRequest("a name is empty", reason=TOOLS_USAGE, hint=TOOLS_HINT)
    if "--schema" in options and tool is None:
        hint = f"mcpd tools {server or 'SERVER'}.TOOL --schema"
        raise BadRequest("--schema is about one tool", reason=TOOLS_USAGE, hint=hint)
    return ToolsCommand(
        server,
        tool,
        as_json="--json" in options,
        schema="--schema" in options,
        all="--all" in options,
        quiet="--quiet" in options,
    )


def _called(words: list[str], servers: Collection[str]) -> tuple[str, str, list[str]]:
    """Take server and tool off the words of a call."""
    first, *rest = words or [""]
    server, dot, tool = first.partition(".")
    # Where the server is unknown, `a.b c` may be a server with a dot, and `a.b c=1` can only be SERVER.TOOL.
    if first not in servers and dot and (server in servers or not rest or not _is_name(rest[0])):
        if server and tool:
            return server, tool, rest
    elif first and rest and _is_name(rest[0]):
        return first, rest[0], rest[1:]
    elif first in servers:
        raise BadRequest(f"which tool of '{first}'?", reason=CALL_USAGE, hint=f"mcpd tools {first}", server=first)
    missing = "a tool" if first and not dot else "a server and a tool"
    raise BadRequest(f"call needs {missing}", reason=CALL_USAGE, hint=CALL_HINT)


def _is_name(word: str) -> bool:
    """Whether a word can be the name of a tool, and is no argument."""
    return bool(word) and "=" not in word and not word.startswith(("{", "["))


def _split(argv: list[str], syntax: _Syntax) -> tuple[list[str], dict[str, str]]:
    """Tell words from options, which can stand anywhere before `--`."""
    words: list[str] = []
    options: dict[str, str] = {}
    rest = iter(argv)
    for word in rest:
        if word == "--":
            words += rest
        elif word.startswith("-") and word != "-":
            name, value = _option(word, rest, syntax)
            if name == "--args" and name in options:
                raise BadRequest("--args is given twice", hint=syntax.hint)
            options[name] = value
        else:
            words.append(word)
    return words, options


def _option(word: str, rest: Iterator[str], syntax: _Syntax) -> tuple[str, str]:
    typed, equals, value = word.partition("=")
    name = SHORT.get(typed, typed)
    if name in syntax.flags:
        if equals:
            raise BadRequest(f"{typed} takes no value", hint=syntax.hint)
        return name, ""
    if name not in syntax.values:
        raise _unknown(typed, bool(equals), syntax)
    if not equals:
        value = next(rest, "--")
        if value.startswith("--"):
            raise BadRequest(f"{name} needs a value", reason=syntax.usage, hint=syntax.hint)
    return name, value


def _unknown(typed: str, has_value: bool, syntax: _Syntax) -> BadRequest:
    shown = one_line(typed, 60)
    # All options have their dashes in common, and some letters of any word.
    guess = near(typed, (*syntax.values, *syntax.flags), 0.75)
    message = f"unknown option '{shown}'" + (f"; did you mean {guess}?" if guess else "")
    if has_value and syntax is _CALL:
        name = one_line(typed.lstrip("-"), 60) or "KEY"
        return BadRequest(message, reason=f"arguments of the tool have no dashes: {name}=VALUE", hint=syntax.hint)
    return BadRequest(message, hint=syntax.hint)


def _converted(options: dict[str, str], name: str, convert: Callable[[str], T]) -> T | None:
    if name not in options:
        return None
    try:
        return convert(options[name])
    except ValueError as problem:
        raise BadRequest(f"{name} {problem}, not '{one_line(options[name], 60)}'", hint=CALL_HINT) from None


def _seconds(text: str) -> float:
    try:
        seconds = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds) or seconds <= 0:
        raise ValueError("takes a number of seconds, such as 30 or 2.5")
    return seconds


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS) or int(text) == 0:
        raise ValueError("takes a number of bytes, such as 65536")
    return int(text)
