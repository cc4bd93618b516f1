"""Read the configuration file; whatever it holds, the outcome is a `Config`.

A file that cannot be read or is no TOML gives a configuration without servers and the reason; a
wrong entry is misconfigured and hurts no other.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from mcpd.config import schema
from mcpd.config.age import changed_ns
from mcpd.config.model import Config, Daemon, Problem, Server
from mcpd.config.rules import Wrong, found, quoted, split_hint

if TYPE_CHECKING:
    from collections.abc import Mapping

# A configuration is written by hand; more than this is some other file, and would be read on every reload.
MAX_FILE_BYTES = 4 * 1024 * 1024
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
RESERVED = frozenset({"mcpd"})
SECTIONS = {"servers": "[servers.NAME]", "daemon": "[daemon]"}


class Unusable(Exception):
    """The file as a whole cannot be used."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


def config_path(option: str | None, environ: Mapping[str, str]) -> str:
    """Return the absolute path of the file: the option, $MCPD_CONFIG, or its place under $XDG_CONFIG_HOME."""
    home = home_of(environ)
    if named := option or environ.get("MCPD_CONFIG"):
        return os.path.abspath(in_home(named, home))
    base = environ.get("XDG_CONFIG_HOME", "")
    # A relative value is invalid and has to be ignored, says the XDG base directory specification.
    return os.path.join(base if base.startswith("/") else os.path.join(home, ".config"), "mcpd", "config.toml")


def load(option: str | None, environ: Mapping[str, str]) -> Config:
    """Return the configuration that `config_path(option, environ)` holds; never raises for its content.

    Without any file there is the demo server, unless the option or $MCPD_CONFIG named the file: then
    that it is missing is the problem.
    """
    path = config_path(option, environ)
    changed_at = changed_ns(path)  # before it is read: a change in between makes it outdated
    return msgspec.structs.replace(_load(path, option, environ), changed_at=changed_at)


def _load(path: str, option: str | None, environ: Mapping[str, str]) -> Config:
    named = bool(option or environ.get("MCPD_CONFIG"))
    try:
        try:
            return parse(_read(path), path, environ)
        except FileNotFoundError:
            if not named and not os.path.islink(path):
                return Config(path=path, servers={"demo": demo()})
            raise Unusable("there is no such file") from None
    except Unusable as bad:
        return Config(path=path, file=path, problems=(Problem(file=path, message=bad.message, hint=bad.hint),))


def demo() -> Server:
    """Return the server of a user who has configured none."""
    program = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "demo.py")
    return Server(name="demo", command=sys.executable, args=(program,), shown_as="mcpd demo-server")


def parse(text: str, file: str, environ: Mapping[str, str]) -> Config:
    """Return the configuration that a TOML text holds.

    Raises:
        Unusable: it is no TOML.
    """
    reading = _Reading(file, environ)
    tables: dict[str, dict[str, Any]] = {}
    for key, value in _toml(text).items():
        if key not in SECTIONS:
            reading.report(quoted(key), "unknown key", schema.suggestion(key, {name: name for name in SECTIONS}))
        elif not isinstance(value, dict):
            reading.report(key, f"expected a table, found {found(value)}", f"begin it with {SECTIONS[key]}")
        else:
            tables[key] = value
    daemon = Daemon(**schema.read_table(tables.get("daemon", {}), schema.DAEMON, "daemon", reading.report))
    entries = ((name, reading.server(name, entry)) for name, entry in tables.get("servers", {}).items())
    return Config(
        path=file,
        file=file,
        daemon=daemon,
        servers={name: server for name, server in entries if server is not None},
        wrong=reading.wrong,
        problems=tuple(reading.problems),
    )


class _Reading:
    """The reading of one file: collects what is wrong with it."""

    def __init__(self, file: str, environ: Mapping[str, str]) -> None:
        self._file, self._environ = file, environ
        self._server: str | None = None
        self.problems: list[Problem] = []
        self.wrong: dict[str, Problem] = {}

    def report(self, key: str, message: str, hint: str | None = None, *, warning: bool = False) -> None:
        """Note a problem of the file, or of the server that is being read."""
        problem = Problem(file=self._file, server=self._server, key=key, message=message, hint=hint, warning=warning)
        self.problems.append(problem)
        if self._server is not None and not warning:
            self.wrong.setdefault(self._server, problem)

    def server(self, name: str, entry: object) -> Server | None:
        """Return one entry, or None when it is misconfigured."""
        self._server = name
        path = f"servers.{quoted(name)}"
        try:
            check_name(name)
            if not isinstance(entry, dict):
                raise Wrong(
                    f"expected a table, found {found(entry)}", f'for example [{path}] and command = "…" below it'
                )
            values = schema.read_table(entry, schema.SERVER, path, self.report)
            values["enabled"] = self._enabled(entry, values, path)
            _check_kind(entry, values)
            self._check_command(values, path)
            if values.get("prewarm") and values.get("scope") == "client":
                nobodys = 'has no effect beside scope = "client": each client has a copy of its own'
                self.report(f"{path}.prewarm", nobodys, warning=True)
        except Wrong as wrong:
            self.report(path + wrong.at, wrong.message, wrong.hint)
        server = None if name in self.wrong else Server(name=name, **values)
        self._server = None
        return server

    def _enabled(self, entry: dict[str, Any], values: dict[str, Any], path: str) -> bool:
        disabled, enabled = values.pop("disabled", False), values.get("enabled", True)
        if "disabled" in entry and "enabled" in entry and disabled is enabled:
            self.report(path, f"enabled and disabled are both {str(enabled).lower()}: it is disabled", warning=True)
        return enabled and not disabled

    def _check_command(self, values: dict[str, Any], path: str) -> None:
        """Refuse a whole command line in `command`, the commonest mistake, unless there is a file of that name."""
        command = values.get("command")
        if command is None or "${" in command or len(argv := split_command(command)) < 2:
            return
        home = home_of(self._environ)
        if not os.path.exists(os.path.join(in_home(values.get("cwd") or home, home), in_home(command, home))):
            self.report(f"{path}.command", "expected the program alone: its arguments go into args", split_hint(argv))


def check_name(name: str) -> None:
    """Raise `Wrong` unless a server can have this name."""
    if name in RESERVED:
        raise Wrong("this name is reserved", "choose another name")
    if not NAME.fullmatch(name):
        raise Wrong("expected a name of 1 to 64 letters, digits, - and _ that begins with a letter or digit")
    if "__" in name:
        raise Wrong("expected a name without __, which separates server and tool in names of tools")


def _check_kind(entry: dict[str, Any], values: dict[str, Any]) -> None:
    match "command" in entry, "url" in entry:
        case True, True:
            raise Wrong("both command and url are given, expected one of them")
        case False, False:
            raise Wrong("expected command or url, found neither")
    remote = ("headers", "bearer_env", "headers_helper", "oauth", "allow_legacy_sse", "insecure")
    for key, other in (("args", "url"), ("env", "url"), *((key, "command") for key in remote)):
        if values.get(key) and other in entry:
            raise Wrong(f"makes no sense beside {other}", at=f".{key}")


def split_command(command: str) -> list[str]:
    """Return the words of a command line, also of one whose quotes do not match."""
    if not any(space in command for space in " \t\n"):
        return [command]
    import shlex

    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def home_of(environ: Mapping[str, str]) -> str:
    """Return the user's home folder."""
    if home := environ.get("HOME"):
        return home
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"


def in_home(path: str, home: str) -> str:
    """Return the path with a leading `~/` replaced."""
    return home + path[1:] if path == "~" or path.startswith("~/") else path


def _read(path: str) -> str:
    """Return the text of a file.

    Raises:
        FileNotFoundError: it is not there.
        Unusable: it is there, and is no text file that we can read.
    """
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            if not regular and not os.path.samefile(path, os.devnull):
                raise Unusable("expected a file, found a pipe or a device")
            return _decode(file.read(MAX_FILE_BYTES + 1))
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise Unusable(f"cannot read it: {reason[:1].lower()}{reason[1:]}") from None


def _open_at_once(path: str, flags: int) -> int:
    # Opening a pipe that nobody writes to would otherwise wait for ever.
    return os.open(path, flags | os.O_NONBLOCK)


def _decode(data: bytes) -> str:
    if len(data) > MAX_FILE_BYTES:
        raise Unusable(f"expected a configuration, found a file of over {MAX_FILE_BYTES} bytes")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Unusable("expected UTF-8, found UTF-16", "save it as UTF-8")
    if data.startswith(b"\xef\xbb\xbf"):
        raise Unusable("line 1, column 1: the file begins with a byte order mark", "save it as UTF-8 without BOM")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        byte = f"0x{data[error.start]:02x}"
        raise Unusable(f"{_position(data, error.start)}: expected UTF-8, found {byte}", "save it as UTF-8") from None
    if "\0" in text:
        raise Unusable(f"{_position(data, data.index(0))}: found a NUL byte", "save it as UTF-8")
    return text


def _position(data: bytes, offset: int) -> str:
    line_start = data.rfind(b"\n", 0, offset) + 1
    column = len(data[line_start:offset].decode(errors="replace")) + 1
    line = data.count(b"\n", 0, offset) + 1
    return f"line {line}, column {column}"


def _toml(text: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except RecursionError:
        raise Unusable("it is nested too deeply") from None
    except ValueError as error:
        raise Unusable(_syntax(str(error), text)) from None


def _syntax(message: str, text: str) -> str:
    """Return what the parser said with the place in front."""
    what, _, place = message.removesuffix(")").partition(" (at ")
    if not place or place == "end of document":
        lines = text.split("\n")
        place = f"line {len(lines)}, column {len(lines[-1]) + 1}" if place else ""
    return (f"{place}: " if place else "") + f"not TOML: {what[:1].lower()}{what[1:]}"
