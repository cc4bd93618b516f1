"""The command line of `mcpd bridge`, read without argparse where nothing about it is unusual."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# What the help says of them, and what each may be; empty where anything goes.
CHOICES = {"--mode": ("direct", "search", "auto"), "--names": ("short", "mcp")}
NUMBERS = ("--description-bytes", "--schema-bytes")
VALUES = ("--mode", "--names", "--separator", *NUMBERS, "--project", "--socket", "--config")
FLAGS = ("--no-autostart", "-q", "--quiet")
MAX_SEPARATOR = 8
MIN_BYTES = 16


class BridgeOptions:
    """What a bridge shows its host, and where it finds the daemon.

    Attributes:
        servers: their names; none are all.
        values: of the options that were given, by their names.
        autostart: whether it may start a daemon.
        quiet: whether nothing but errors of the command line goes to stderr.
    """

    __slots__ = ("autostart", "quiet", "servers", "values")

    def __init__(
        self, servers: "Sequence[str]", values: "dict[str, str]", *, autostart: bool = True, quiet: bool = False
    ) -> None:
        self.servers = list(servers)
        self.values = values
        self.autostart = autostart and os.environ.get("MCPD_NO_AUTOSTART", "0") in ("", "0")
        self.quiet = quiet

    def path(self, name: str) -> str | None:
        """Return the absolute path that an option names, None if it was not given."""
        value = self.values.get(name)
        return os.path.abspath(value) if value else None


def read_plainly(arguments: "Sequence[str]") -> BridgeOptions | None:
    """Return what a command line says; None if it asks for help, or has a mistake that somebody should explain."""
    servers: list[str] = []
    values: dict[str, str] = {}
    flags: set[str] = set()
    rest = iter(arguments)
    for argument in rest:
        name, has_value, value = argument.partition("=")
        if argument in FLAGS:
            flags.add(argument)
        elif name in VALUES:
            values[name] = value if has_value else next(rest, "")
        elif argument.startswith("-") or not argument:
            return None
        else:
            servers.append(argument)
    options = BridgeOptions(
        servers, values, autostart="--no-autostart" not in flags, quiet=bool(flags & {"-q", "--quiet"})
    )
    return None if problem(options) else options


def problem(options: BridgeOptions) -> str | None:
    """Return what is wrong with the options, None if they make sense."""
    for name, value in options.values.items():
        if not value or (value.startswith("-") and name != "--separator"):
            return f"{name} needs a value"
        if name in CHOICES and value not in CHOICES[name]:
            return f"{name} takes {', '.join(CHOICES[name][:-1])} or {CHOICES[name][-1]}, not {value!r}"
        if name in NUMBERS and not (value.isascii() and value.isdigit() and int(value[:9]) >= MIN_BYTES and len(value) < 10):
            return f"{name} takes a number of bytes from {MIN_BYTES} on, not {value!r}"
    separator = options.values.get("--separator", "-")
    if len(separator) > MAX_SEPARATOR or not all(is_name_letter(letter) for letter in separator):
        return f"--separator takes up to {MAX_SEPARATOR} letters, digits, - and _, not {separator!r}"
    if not all(is_text(each) for each in (*options.servers, *options.values.values())):
        return "an argument is not UTF-8"
    if (doubled := [name for name in options.servers if options.servers.count(name) > 1]) != []:
        return f"{doubled[0]!r} is named twice"
    if "mcpd" in options.servers and len(options.servers) > 1:
        return "mcpd itself is bridged alone: mcpd bridge mcpd"
    return None


def is_name_letter(letter: str) -> bool:
    """Tell whether every host takes a character in the name of a tool."""
    return letter.isascii() and (letter.isalnum() or letter in "-_")


def is_text(value: str) -> bool:
    """Tell whether an argument is UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
