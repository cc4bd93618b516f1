"""The hosts: where each keeps its servers, how an entry looks there, and its own command to add one.

What is here was checked against Claude Code 2.1.332, Codex 0.171, Gemini CLI 0.61, opencode 1.18 and Grok 1.0.41;
for the others their documentation was read.
"""

from __future__ import annotations

import os
import re

from mcpd_client.address import home
from mcpd_client.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

SCOPES = ("user", "project")
WORDS = re.compile(r"[A-Za-z0-9_-]+")
# A name with two underscores costs Grok all tools of the server.
GROK_NAMES = re.compile(r"(?!.*__)[A-Za-z][A-Za-z0-9_-]*")


class Program:
    """A host's own command that edits its configuration.

    Args:
        name: what is looked for on the PATH.
        add: returns the arguments that add a command under a name in a scope.
        remove: returns those that take it out.
        scopes: in which scopes it can.
        replaces: whether adding takes the place of what has the name already.
    """

    __slots__ = ("add", "name", "remove", "replaces", "scopes")

    def __init__(
        self,
        name: str,
        add: Callable[[str, str, Sequence[str]], list[str]],
        remove: Callable[[str, str], list[str]],
        *,
        scopes: Sequence[str] = SCOPES,
        replaces: bool = True,
    ) -> None:
        self.name = name
        self.add = add
        self.remove = remove
        self.scopes = scopes
        self.replaces = replaces


class Host:
    """A program that starts MCP servers.

    Args:
        name: what users type.
        title: what it calls itself.
        files: scope to the candidates for its file, relative to its folder or the project; the last that is
            there is the one, else the last.
        folder: returns its folder from the environment and the home directory.
        keys: the way to the entries in its file.
        entry: how an entry begins that starts a local command.
        is_toml: whether the file is TOML; else it is JSON, maybe with comments.
        one_list: whether program and arguments are one list.
        names: what a server may be called.
        is_writer: whether it writes the user's file by itself while it runs, from what it remembers.
        program: its own command, if it has one that can do it.
    """

    def __init__(
        self,
        name: str,
        title: str,
        *,
        files: Mapping[str, Sequence[str]],
        folder: Callable[[Mapping[str, str], str], str],
        keys: tuple[str, ...],
        entry: Mapping[str, str] | None = None,
        is_toml: bool = False,
        one_list: bool = False,
        names: re.Pattern[str] = WORDS,
        is_writer: bool = False,
        program: Program | None = None,
    ) -> None:
        self.name = name
        self.title = title
        self.keys = keys
        self.is_toml = is_toml
        self.names = names
        self.is_writer = is_writer
        self.program = program
        self._files = files
        self._folder = folder
        self._entry = entry or {}
        self._one_list = one_list

    def files(self, scope: str, project: str, environ: Mapping[str, str]) -> list[str]:
        """Return the files of a scope that may have entries, the one for new ones last; none need be there.

        Raises:
            UsageError: the host has none for that scope.
        """
        if scope not in self._files:
            raise UsageError(f"{self.title} has no servers of one project", hint="leave out --scope project")
        folder = project if scope == "project" else self._folder(environ, home(environ, os.geteuid()))
        candidates = [os.path.abspath(os.path.join(folder, name)) for name in self._files[scope]]
        found = [path for path in candidates if os.path.lexists(path)]
        return found or candidates[-1:]

    def check_name(self, name: str) -> None:
        """Make sure that the host takes a name.

        Raises:
            UsageError: it does not.
        """
        if not self.names.fullmatch(name):
            raise UsageError(f"{self.title} does not take {name!r} as the name of a server", hint="add --name NAME")

    def entry(self, command: Sequence[str]) -> dict[str, Any]:
        """Return the entry that starts a command."""
        if self._one_list:
            return {**self._entry, "command": list(command)}
        return {**self._entry, "command": command[0], "args": list(command[1:])}

    def command(self, entry: object) -> list[str]:
        """Return what an entry starts; nothing if it starts no local command."""
        if not isinstance(entry, dict):
            return []
        command: Any = entry.get("command")
        arguments: Any = entry.get("args")
        if isinstance(command, dict):
            # An older form of Zed's.
            command, arguments = command.get("path"), command.get("args")
        parts = command if isinstance(command, list) else [command, *(arguments if isinstance(arguments, list) else [])]
        return list(parts) if all(isinstance(part, str) for part in parts) else []

    def of_project(self, whole: Mapping[str, Any], project: str) -> dict[str, Any]:
        """Return the entries that the user's file has for one project alone, which come before all others."""
        inner: Any = whole
        # Claude Code's "local" scope, the one that its own command writes if nothing else is said.
        for key in ("projects", project, "mcpServers") if self.name == "claude-code" else ():
            inner = inner.get(key, {}) if isinstance(inner, dict) else {}
        return dict(inner) if isinstance(inner, dict) and inner is not whole else {}

    def section(self, whole: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the way to the entries in a file that says `whole`."""
        servers = whole.get("mcp")
        if self.name != "opencode" or not isinstance(servers, dict):
            return self.keys
        # The second version has them one level down; a server of the first may be called "servers", too.
        inner = servers.get("servers")
        is_nested = isinstance(inner, dict) and not isinstance(inner.get("type"), str) and "enabled" not in inner
        return (*self.keys, "servers") if is_nested else self.keys


def find(name: str) -> Host:
    """Return a host by name.

    Raises:
        UsageError: there is none of that name; says which one may be meant.
    """
    for host in HOSTS:
        if host.name == name:
            return host
    from difflib import get_close_matches

    names = [host.name for host in HOSTS]
    near = [each for each in names if name and name in each] or get_close_matches(name, names, n=1)
    reason = f"did you mean {near[0]!r}?" if near else None
    raise UsageError(f"there is no host {name!r}", reason=reason, hint=f"known are {', '.join(names)}")


def _variable(name: str, default: str) -> Callable[[Mapping[str, str], str], str]:
    return lambda environ, home_folder: environ.get(name) or os.path.join(home_folder, default)


def _below_home(*names: str) -> Callable[[Mapping[str, str], str], str]:
    """Return the first of some folders that is there, else the first."""

    def folder(environ: Mapping[str, str], home_folder: str) -> str:
        paths = [os.path.join(home_folder, name) for name in names]
        return next((path for path in paths if os.path.isdir(path)), paths[0])

    return folder


def _configuration(*names: str) -> Callable[[Mapping[str, str], str], str]:
    """Return the same below $XDG_CONFIG_HOME."""

    def folder(environ: Mapping[str, str], home_folder: str) -> str:
        above = environ.get("XDG_CONFIG_HOME", "")
        return _below_home(*names)(environ, above if above.startswith("/") else os.path.join(home_folder, ".config"))

    return folder


def _claude_folder(environ: Mapping[str, str], home_folder: str) -> str:
    return environ.get("CLAUDE_CONFIG_DIR") or home_folder


CLAUDE = Program(
    "claude",
    lambda scope, name, command: ["mcp", "add", "-s", scope, name, "--", *command],
    lambda scope, name: ["mcp", "remove", "-s", scope, name],
    replaces=False,
)
CODEX = Program(
    "codex",
    lambda _, name, command: ["mcp", "add", name, "--", *command],
    lambda _, name: ["mcp", "remove", name],
    scopes=("user",),
)
GEMINI = Program(
    "gemini",
    # The program itself has to stand before the dashes.
    lambda scope, name, command: ["mcp", "add", "-s", scope, name, command[0], "--", *command[1:]],
    lambda scope, name: ["mcp", "remove", "-s", scope, name],
)
GROK = Program(
    "grok",
    lambda scope, name, command: ["mcp", "add", "-s", scope, name, "--", *command],
    lambda scope, name: ["mcp", "remove", "-s", scope, name],
)

HOSTS = (
    Host(
        "claude-code",
        "Claude Code",
        files={"user": (".claude.json",), "project": (".mcp.json",)},
        folder=_claude_folder,
        keys=("mcpServers",),
        entry={"type": "stdio"},
        is_writer=True,
        program=CLAUDE,
    ),
    Host(
        "codex",
        "Codex",
        files={"user": ("config.toml",), "project": (".codex/config.toml",)},
        folder=_variable("CODEX_HOME", ".codex"),
        keys=("mcp_servers",),
        is_toml=True,
        program=CODEX,
    ),
    Host(
        "cursor",
        "Cursor",
        files={"user": ("mcp.json",), "project": (".cursor/mcp.json",)},
        folder=_below_home(".cursor"),
        keys=("mcpServers",),
    ),
    Host(
        "vscode",
        "VS Code",
        files={"user": ("User/mcp.json",), "project": (".vscode/mcp.json",)},
        folder=_configuration("Code", "Code - Insiders", "VSCodium"),
        keys=("servers",),
        entry={"type": "stdio"},
    ),
    Host(
        "gemini",
        "Gemini CLI",
        files={"user": ("settings.json",), "project": (".gemini/settings.json",)},
        folder=_below_home(".gemini"),
        keys=("mcpServers",),
        program=GEMINI,
    ),
    Host(
        "opencode",
        "opencode",
        files={
            "user": ("config.json", "opencode.jsonc", "opencode.json"),
            "project": (".opencode/opencode.json", ".opencode/opencode.jsonc", "opencode.jsonc", "opencode.json"),
        },
        folder=_configuration("opencode"),
        keys=("mcp",),
        entry={"type": "local"},
        one_list=True,
    ),
    Host(
        "grok",
        "Grok",
        files={"user": ("config.toml",), "project": (".grok/config.toml",)},
        folder=_variable("GROK_HOME", ".grok"),
        keys=("mcp_servers",),
        is_toml=True,
        names=GROK_NAMES,
        program=GROK,
    ),
    Host(
        "zed",
        "Zed",
        files={"user": ("settings.json",), "project": (".zed/settings.json",)},
        folder=_configuration("zed"),
        keys=("context_servers",),
        # Older ones ask for it, newer ones do not mind.
        entry={"source": "custom"},
    ),
    Host(
        "windsurf",
        "Windsurf",
        files={"user": ("mcp_config.json",)},
        folder=_below_home(".codeium/windsurf", ".codeium"),
        keys=("mcpServers",),
    ),
)
