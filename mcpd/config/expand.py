"""Resolve an entry for its start: `${…}`, environment, folder and program.

What comes out may hold secrets: it goes to the guardian and nowhere else.  Errors name keys and
variables, and show commands and folders unexpanded.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, NoReturn

from msgspec import Struct

from mcpd.config.load import home_of, in_home, split_command
from mcpd.config.model import OAuth
from mcpd.config.redact import MIN_SECRET_CHARS
from mcpd.config.rules import split_hint
from mcpd.errors import Misconfigured, ServerUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpd.config.model import Server

# What a program needs to feel at home and what carries no credentials; the rest has to be named.
PASSED = frozenset({"HOME", "PATH", "LANG", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "TERM"})
PASSED_PREFIXES = ("LC_", "XDG_")
# What `${secret:…}` may name.
SECRET_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# Our own command, which has the demo server.
OURSELVES = "mcpd"


class Launch(Struct, frozen=True, kw_only=True):
    """A resolved start: `argv[0]` is the path of the program; `env` is all that the child gets.

    For a remote server there is a `url` instead, with the `headers` of each request and what `oauth` says of its
    client; `helper` is an argv, with this `env` and `cwd`, that prints more headers. `secrets` are the values of the
    entry that must not be seen (see `redact`).
    """

    argv: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = "/"
    secrets: frozenset[str]
    url: str | None = None
    headers: dict[str, str] = {}
    helper: tuple[str, ...] = ()
    oauth: OAuth = OAuth()

    def __repr__(self) -> str:
        if self.url is not None:
            return f"Launch(url, headers={sorted(self.headers)})"
        return f"Launch({self.argv[0]!r}, cwd={self.cwd!r}, env={sorted(self.env)})"


def no_secret(name: str) -> str | None:
    """Know no secrets."""
    return None


def launch(
    server: Server,
    environ: Mapping[str, str],
    project: str | None = None,
    secret: Callable[[str], str | None] = no_secret,
) -> Launch:
    """Return how to start a server, or how to reach a remote one, from the daemon's environment and the project's folder.

    `secret` returns what `${secret:NAME}` stands for, or None.

    Raises:
        Misconfigured: a `${…}` has no value or no sense, or a resolved value cannot be used.
        ServerUnavailable: there is no such program or folder now.
    """
    expander = Expander(server.name, environ, project, secret)
    if server.url is not None:
        from mcpd.config.remote import reach  # few have any

        return reach(server, expander, environ)
    env = passed_on(server, environ)
    own = expander.table(server.env, "env")
    env |= own
    cwd = _folder(server, expander, environ, project)
    program = in_home(expander.text(server.command or "", "command"), home_of(environ))
    args = (expander.text(arg, f"args[{index}]") for index, arg in enumerate(server.args))
    argv = (_resolve(server, program, env.get("PATH", os.defpath), cwd), *args)
    passed = {name: environ[name] for name in server.env_pass if name in environ}
    return Launch(argv=argv, env=env, cwd=cwd, secrets=secrets_of(own, passed, expander.used))


def passed_on(server: Server, environ: Mapping[str, str]) -> dict[str, str]:
    """Return what a child gets of the daemon's environment."""
    return {name: value for name, value in environ.items() if _is_common(name) or name in server.env_pass}


def _is_common(name: str) -> bool:
    """Whether a variable is one that every child gets."""
    return name in PASSED or name.startswith(PASSED_PREFIXES)


def secrets_of(*tables: Mapping[str, str]) -> frozenset[str]:
    """Return the values of expanded `env` and `headers` to be redacted, and of `Bearer VALUE` also the bare value."""
    values = [value for table in tables for value in table.values()]
    values += [value.rpartition(" ")[2] for value in values if value.count(" ") == 1]
    return frozenset(value for value in values if len(value) >= MIN_SECRET_CHARS)


class Expander:
    """Replaces `${VAR}`, `${VAR:-default}`, `${VAR-default}`, `${secret:NAME}`, `${project}` and `$$` in the texts of one server.

    As in a shell, the default behind `:-` also stands for an empty variable, the one behind `-` for one that is not
    set; both may hold references themselves, and a secret has none: it is to be there. `${env:VAR}`,
    `${workspaceFolder}` and `${userHome}`, which editors write, mean the variable, the project and the home
    directory. Any other `$` stays as it is. `used` are the values that were put in, other than of what every child gets.
    """

    def __init__(
        self,
        server: str,
        environ: Mapping[str, str],
        project: str | None,
        secret: Callable[[str], str | None] = no_secret,
    ) -> None:
        self._server, self._environ, self._project, self._secret = server, environ, project, secret
        self.used: dict[str, str] = {}

    def table(self, texts: Mapping[str, str], key: str) -> dict[str, str]:
        """Return a table with its values expanded."""
        return {name: self.text(value, f"{key}.{name}") for name, value in texts.items()}

    def text(self, text: str, key: str) -> str:
        """Return the expanded text; `key` is where it stands in the entry.

        Raises:
            Misconfigured: a reference has no value or is none that we know.
        """
        parts, at = [], 0
        while (dollar := text.find("$", at)) >= 0:
            parts.append(text[at:dollar])
            if text.startswith("${", dollar):
                at = self._closing(text, dollar + 2, key) + 1
                parts.append(self._value(text[dollar + 2 : at - 1], key))
            else:
                parts.append("$")
                at = dollar + (2 if text.startswith("$$", dollar) else 1)
        return "".join((*parts, text[at:]))

    def _closing(self, text: str, at: int, key: str) -> int:
        """Return where the `}` of the reference is whose body begins at `at`."""
        depth = 1
        while at < len(text):
            if text.startswith("${", at):
                depth += 1
            elif text[at] == "}":
                depth -= 1
                if not depth:
                    return at
            at += 1
        self._refuse(key, "has a ${ without its }", "write $$ for a dollar sign")

    def _value(self, body: str, key: str) -> str:
        name, mark, default = _split(body)
        if name.startswith("secret:"):
            return self._secret_of(name.removeprefix("secret:"), key)
        name = _ALIASES.get(name, name.removeprefix("env:"))
        if not (name.isascii() and name.isidentifier()):
            self._refuse(key, "has a reference that is not ${NAME} or ${NAME:-default}", "write $${ for a literal ${")
        value = self._project if name == "project" else self._environ.get(name)
        if (mark and value is None) or (mark == ":-" and not value):
            return self.text(default, key)
        if value is not None:
            if name != "project" and not _is_common(name):
                self.used[name] = value
            return value
        if name == "project":
            self._refuse(
                key, "needs ${project}, and there is no project", "call it from a project, or write ${project:-FOLDER}"
            )
        self._refuse(
            key,
            f"needs ${{{name}}}, which is not set in the environment of the daemon",
            f"export {name}, then: mcpd down, and call again; or write ${{{name}:-DEFAULT}}",
        )

    def _secret_of(self, name: str, key: str) -> str:
        if not SECRET_NAME.fullmatch(name):
            hint = "a name has letters, digits, _ . and -; a secret has no default"
            self._refuse(key, "has a ${secret:…} that names no secret", hint)
        value = self._secret(name)
        if value is None:
            why = f"needs ${{secret:{name}}}, and there is no secret of that name"
            self._refuse(key, why, f"mcpd secret set {name}, then: mcpd start {self._server}")
        self.used[f"secret:{name}"] = value
        return value

    def _refuse(self, key: str, why: str, hint: str) -> NoReturn:
        raise Misconfigured(f"{key} of server {self._server} {why}", server=self._server, hint=hint, key=key)


# Words of editors for what we call otherwise.
_ALIASES = {"workspaceFolder": "project", "userHome": "HOME"}


def _split(body: str) -> tuple[str, str, str]:
    """Return the name in a reference, `:-` or `-` if it has a default, and the default."""
    if body.startswith("secret:"):
        return body, "", ""  # a name may have a dash in it, and is to be there
    name, dash, default = body.partition("-")
    return (name[:-1], ":-", default) if dash and name.endswith(":") else (name, dash, default)


def _folder(server: Server, expander: Expander, environ: Mapping[str, str], project: str | None) -> str:
    if server.cwd is None:
        if project is not None and os.path.isdir(project):
            return project
        return home if os.path.isdir(home := environ.get("HOME") or "/") else "/"
    cwd = in_home(expander.text(server.cwd, "cwd"), home_of(environ))
    if not cwd.startswith("/"):
        why = f"cwd of server {server.name} is not an absolute folder: {server.cwd}"
        raise Misconfigured(why, server=server.name, key="cwd")
    if not os.path.isdir(cwd) or not os.access(cwd, os.X_OK):
        why = (
            "cannot be entered"
            if os.path.isdir(cwd)
            else "is not a folder"
            if os.path.exists(cwd)
            else "does not exist"
        )
        raise ServerUnavailable(f"cwd {server.cwd} {why}", server=server.name, hint="create it, or change cwd")
    return cwd


def _resolve(server: Server, program: str, path: str, cwd: str) -> str:
    """Return the path of the program, found as the child itself would find it from its folder."""
    if not program:
        raise Misconfigured(f"command of server {server.name} is empty", server=server.name, key="command")
    folders = [""] if "/" in program else path.split(os.pathsep)
    if program == OURSELVES:
        folders.append(os.path.dirname(sys.executable))  # installed, but perhaps not on the PATH
    places = [os.path.normpath(os.path.join(cwd, folder, program)) for folder in folders]
    for place in places:
        if os.path.isfile(place) and os.access(place, os.X_OK):
            return place
    raise _not_runnable(server, next(filter(os.path.exists, places), None), path)


def _not_runnable(server: Server, place: str | None, path: str) -> ServerUnavailable:
    command = server.command or ""
    if place is not None:
        shown = command if "${" in command or "PATH" in server.env else place
        if os.path.isdir(place):
            return ServerUnavailable(f"command {shown} is a folder, not a program", server=server.name)
        return ServerUnavailable(f"command {shown} is not executable", server=server.name, hint=f"chmod +x {shown}")
    if len(argv := split_command(command)) > 1:
        return ServerUnavailable(f"command {command!r} not found", server=server.name, hint=split_hint(argv))
    if "/" in command:
        return ServerUnavailable(f"command {command} not found: no such file", server=server.name)
    # What the entry says in env is never shown, not even a PATH.
    searched = "the PATH of its env" if "PATH" in server.env else f"PATH {path}"
    hint = f"install {command}, or give its whole path; for the PATH of this shell: mcpd down, and call again"
    return ServerUnavailable(f"command {command} not found in {searched}", server=server.name, hint=hint)
