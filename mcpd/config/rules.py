"""What one value of the file may be, and what is said where it is something else.

A rule takes the value that TOML gave, returns the value that the model wants, or raises `Wrong`.
Whatever may carry a secret (`env`, `headers`, URLs, arguments) is described by its type alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime

Rule = Callable[[object], object]

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")


class Wrong(Exception):
    """A value does not fit its key.

    Args:
        message: what was expected and what was found.
        hint: what to write instead.
        at: the place inside the value, ready to be appended to the key: `[2]` or `.TOKEN`.
    """

    def __init__(self, message: str, hint: str | None = None, *, at: str = "") -> None:
        super().__init__(message)
        self.message, self.hint, self.at = message, hint, at


def quoted(key: str) -> str:
    """Return a key as TOML spells it."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else spelled(key)


def spelled(value: object) -> str:
    """Return a text or a list of texts as TOML spells it, on one line."""
    import json

    return json.dumps(value, ensure_ascii=False)


def found(value: object, *, show: bool = False) -> str:
    """Describe a value; it is repeated only where `show` says that it can be no secret."""
    match value:
        case bool():
            return "true or false" if not show else spelled(value)
        case int() | float():
            return f"the number {value}" if show and abs(value) < 1e15 else "a number"
        case str():
            return f"the text {spelled(value)}" if show and len(value) <= 40 else "text"
        case list():
            return "a list"
        case dict():
            return "a table"
        case _:
            return "a date or time"


def text(value: object) -> str:
    """Return a text that can be handed to a process."""
    if not isinstance(value, str):
        raise Wrong(
            f"expected text, found {found(value)}", "put it in quotes" if isinstance(value, int | float) else None
        )
    if "\0" in value:
        raise Wrong("expected text without a NUL")
    return value


def flag(value: object) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise Wrong(f"expected true or false, found {found(value, show=True)}")
    return value


# A century; it also keeps out what is no number, infinite, or too large for one.
MAX_SECONDS = 3.2e9


def seconds(*, zero: bool) -> Rule:
    """Return the rule of a duration; `zero` says whether 0 makes sense."""
    least = "a number of seconds, 0 or more" if zero else "a number of seconds above 0"

    def rule(value: object) -> float:
        if isinstance(value, str):
            raise Wrong(
                f"expected {least}, found {found(value, show=True)}", "write a plain number, without quotes and unit"
            )
        if isinstance(value, bool) or not isinstance(value, int | float) or not value < MAX_SECONDS:
            raise Wrong(f"expected {least}, found {found(value, show=True)}")
        if value < 0 or (value == 0 and not zero):
            raise Wrong(f"expected {least}, found {found(value, show=True)}")
        return float(value)

    return rule


def milliseconds(value: object) -> int:
    """Return a whole number of milliseconds, up to a minute."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 60_000:
        what = found(value, show=True)
        raise Wrong(f"expected a whole number of milliseconds, 0 to 60000, found {what}", "250, say; 0 not to wait")
    return value


def count(value: object) -> int:
    """Return a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise Wrong(f"expected a whole number of at least 1, found {found(value, show=True)}")
    return value


def texts(value: object) -> tuple[str, ...]:
    """Return a list of texts."""
    if not isinstance(value, list):
        hint = "put it in brackets" if isinstance(value, str) else None
        raise Wrong(f"expected a list of texts, found {found(value)}", hint)
    for index, item in enumerate(value):
        _inside(item, f"[{index}]")
    return tuple(value)


def choice(*words: str) -> Rule:
    """Return the rule of a word out of a few."""

    def rule(value: object) -> str:
        if value not in words or not isinstance(value, str):
            raise Wrong(f"expected one of {', '.join(words)}, found {found(value, show=True)}")
        return value

    return rule


def text_map(names: str, what: str) -> Rule:
    """Return the rule of a table of texts whose keys match the expression `names`."""

    def rule(value: object) -> dict[str, str]:
        if not isinstance(value, dict):
            raise Wrong(f"expected a table of texts, found {found(value)}")
        for name, item in value.items():
            if not re.fullmatch(names, name):
                raise Wrong(f"expected {what} as the key", at=f".{quoted(name)}")
            _inside(item, f".{quoted(name)}")
        return dict(value)

    return rule


def _inside(value: object, at: str) -> None:
    try:
        text(value)
    except Wrong as wrong:
        raise Wrong(wrong.message, wrong.hint, at=at) from None


def command(value: object) -> str:
    """Return the program to run."""
    if isinstance(value, list):
        hint = None
        if value and all(isinstance(item, str) for item in value):
            hint = split_hint(value)
        raise Wrong("expected the program alone, found a list: its arguments go into args", hint)
    if not text(value).strip():
        raise Wrong("expected a program, found empty text")
    return text(value)


def split_hint(argv: list[str]) -> str:
    """Return the lines that say the same in our words."""
    return f"write command = {spelled(argv[0])} and args = {spelled(argv[1:])}"


def words(value: object) -> tuple[str, ...]:
    """Return a command as the list of its words; no shell reads it."""
    found_words = texts(value)
    if not found_words or not found_words[0].strip():
        raise Wrong("expected a list that begins with a program")
    return found_words


def variable(value: object) -> str:
    """Return the name of an environment variable."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text(value)):
        raise Wrong(f"expected the name of a variable, found {found(value)}", "the value stays in the environment")
    return text(value)


def port(value: object) -> int:
    """Return the number of a port; 0 is any."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 65535:
        raise Wrong(f"expected a port from 0 to 65535, found {found(value, show=True)}")
    return value


def url(value: object) -> str:
    """Return an http or https URL; one that begins with a reference is left to the start."""
    address = text(value)
    if address.startswith("${"):
        return address
    scheme, _, rest = address.partition("://")
    if scheme.lower() not in ("http", "https"):
        raise Wrong("expected a URL that begins with http:// or https://")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
    if not authority or re.search(r"\s|[\x00-\x20\x7f]", address):
        raise Wrong("expected a URL with a host and without spaces")
    if "${" not in authority and not re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:]+)(:\d{1,5})?", authority):
        raise Wrong("expected a URL with a host and, if any, a numeric port")
    return address


def folder(value: object) -> str:
    """Return a working folder; the daemon's own is no base for a relative one."""
    if not text(value).startswith(("/", "${")) and value != "~" and not text(value).startswith("~/"):
        raise Wrong(f"expected an absolute folder, ~/… or ${{…}}, found {found(value, show=True)}")
    return text(value)


def protocol(value: object) -> str:
    """Return an era or a revision, which TOML reads as a date when it has no quotes."""
    if isinstance(value, date) and not isinstance(value, datetime):
        value = value.isoformat()
    return str(choice("auto", "modern", "legacy", *REVISIONS)(value))


def exact_names(value: object) -> tuple[str, ...]:
    """Return names of environment variables."""
    for index, name in enumerate(texts(value)):
        if not re.fullmatch(r"[^=*]+", name):
            raise Wrong("expected the exact name of a variable", at=f"[{index}]")
    return texts(value)
