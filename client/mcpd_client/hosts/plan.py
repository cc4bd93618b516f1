"""What has to change in one file of a host, decided before anything is touched, and then done."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess

from mcpd_client.hosts import jsonc, jsonedit, mask, toml
from mcpd_client.hosts.bridge import is_bridge
from mcpd_client.hosts.files import HostFileError, back_up, read, write
from mcpd_client.hosts.jsonc import EditError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from mcpd_client.hosts.known import Host

PROGRAM_SECONDS = 60


class Place:
    """One file of a host, as it is now.

    Raises:
        HostFileError: it cannot be read or understood; it is better left alone then.
    """

    def __init__(self, host: Host, scope: str, path: str, project: str) -> None:
        self.host = host
        self.scope = scope
        self.path = path
        self.project = project
        self.before = read(path)
        self.entries = self._entries(self.text)

    @property
    def text(self) -> str:
        """What the file says; nothing if it is not there."""
        return self.before or ""

    def bridges(self) -> list[str]:
        """Return the names of the entries that start our bridge."""
        return [name for name, entry in self.entries.items() if is_bridge(self.host.command(entry))]

    def of_project(self) -> dict[str, Any]:
        """Return the entries for the project alone that stand in the user's file."""
        return self.host.of_project(self._whole(self.text), self.project)

    def read_again(self) -> dict[str, Any]:
        """Return the entries that are there by now."""
        return self._entries(read(self.path) or "")

    def edited(self, text: str, name: str, entry: Mapping[str, Any] | None) -> str:
        """Return the text with an entry that has these members, or without it."""
        try:
            keys = self._keys(text)
            if self.host.is_toml:
                section = keys[0]
                return toml.remove(text, section, name) if entry is None else toml.set_entry(text, section, name, entry)
            if entry is None:
                return jsonedit.remove(text, (*keys, name))
            if isinstance(self._entries(text).get(name), dict):
                for key, value in entry.items():
                    text = jsonedit.set_value(text, (*keys, name, key), value)
                return text
            return jsonedit.set_value(text, (*keys, name), entry)
        except EditError as error:
            raise self._unreadable(error) from None

    def says_more(self, name: str, command: Sequence[str]) -> bool:
        """Tell whether an entry has members that the one for a command has not."""
        usual = self.host.entry(command)
        return any(value and key not in usual for key, value in self.entries[name].items())

    def has_comments(self) -> bool:
        """Tell whether there is a comment, which a program that writes the file anew may lose."""
        return toml.has_comments(self.text) if self.host.is_toml else jsonc.has_comments(self.text)

    def _whole(self, text: str) -> dict[str, Any]:
        whole: Any = toml.read(text) if self.host.is_toml else jsonc.read(text)
        if not isinstance(whole, dict):
            raise EditError("the whole is not an object")
        return whole

    def _keys(self, text: str) -> tuple[str, ...]:
        return self.host.section(self._whole(text))

    def _entries(self, text: str) -> dict[str, Any]:
        try:
            whole = self._whole(text)
            for key in self.host.section(whole):
                whole = whole.get(key, {})
                if not isinstance(whole, dict):
                    raise EditError(f"{key} is not {'a table' if self.host.is_toml else 'an object'}")
        except EditError as error:
            raise self._unreadable(error) from None
        return dict(whole)

    def _unreadable(self, error: EditError) -> HostFileError:
        return HostFileError(f"{self.path} cannot be edited", reason=str(error), hint="nothing was changed")


class Step:
    """What becomes of one entry.

    Attributes:
        action: `add`, `update` (ours, but another command), `replace` (somebody else's), `remove`; or nothing is
            done: `same` (there already), `conflict` (somebody else's has the name).
        old: what the entry of that name starts now.
    """

    __slots__ = ("action", "command", "name", "old")

    def __init__(self, name: str, action: str, command: Sequence[str], old: Sequence[str]) -> None:
        self.name = name
        self.action = action
        self.command = list(command)
        self.old = list(old)

    @property
    def is_change(self) -> bool:
        """Whether something has to be done."""
        return self.action not in ("same", "conflict")


class Plan:
    """The steps for one file, and how they are made: by the host's own program, or by an edit.

    Attributes:
        commands: the command lines to run; empty if the file is edited.
        after: what the file says when it has been edited; as before if it is not.
    """

    def __init__(self, place: Place, steps: Sequence[Step]) -> None:
        self.place = place
        self.steps = steps
        self.changes = [step for step in steps if step.is_change]
        self.commands = self._commands()
        self.after = place.text if self.commands else self._edited()

    @property
    def diff(self) -> str:
        """The change of the file, with secrets covered; empty if it is made by commands."""
        if self.commands or not self.changes:
            return ""
        place = self.place
        return mask.diff(place.path, place.text, self.after, is_toml=place.host.is_toml)

    def text(self) -> str:
        """Return what will be done, for people: the diff or the commands."""
        return self.diff or "".join(f"$ {shlex.join(command)}\n" for command in self.commands)

    def apply(self) -> str | None:
        """Do it, and return where the backup is, if there was anything to keep.

        Raises:
            HostFileError: it did not work; says where the backup is if something may have been changed.
        """
        place = self.place
        if not self.commands:
            backup = back_up(place.path, place.before)
            write(place.path, place.before, self.after, is_private=place.scope == "user")
            return backup
        backup = back_up(place.path, place.before)
        kept = f"what it said before: {backup}" if backup else None
        for command in self.commands:
            self._run(command, kept)
        self._check(kept)
        return backup

    def _edited(self) -> str:
        text = self.place.text
        for step in self.changes:
            if step.action == "replace":
                text = self.place.edited(text, step.name, None)
            entry = None if step.action == "remove" else self.place.host.entry(step.command)
            text = self.place.edited(text, step.name, entry)
        return text

    def _commands(self) -> list[list[str]]:
        place, program = self.place, self.place.host.program
        if program is None or place.scope not in program.scopes or shutil.which(program.name) is None:
            return []
        # These programs write the whole file anew, and most of them without its comments.
        if place.has_comments():
            return []
        # And they know nothing of what somebody has added to an entry of ours.
        if any(step.action == "update" and place.says_more(step.name, step.command) for step in self.changes):
            return []
        found: list[list[str]] = []
        for step in self.changes:
            if step.action == "remove" or (step.action != "add" and not program.replaces):
                found.append([program.name, *program.remove(place.scope, step.name)])
            if step.action != "remove":
                found.append([program.name, *program.add(place.scope, step.name, step.command)])
        return found

    def _run(self, command: Sequence[str], hint: str | None) -> None:
        line = shlex.join(command)
        folder = self.place.project if self.place.scope == "project" else None
        environ = {**os.environ, "NO_COLOR": "1", "TERM": "dumb"}
        try:
            done = subprocess.run(  # noqa: S603  # a list, no shell
                command,
                cwd=folder,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=PROGRAM_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise HostFileError(f"{line} did not end within {PROGRAM_SECONDS} s", hint=hint) from None
        except OSError as error:
            raise HostFileError(f"{line} cannot be run: {error.strerror}", hint=hint) from None
        if done.returncode:
            said = [each for each in done.stdout.decode("utf-8", "replace").splitlines() if each.strip()]
            raise HostFileError(f"{line} failed", reason=said[-1] if said else None, hint=hint)

    def _check(self, hint: str | None) -> None:
        """Make sure that the host's program has done what it was asked for: some fail without a word."""
        entries = self.place.read_again()
        for step in self.changes:
            found = self.place.host.command(entries.get(step.name))
            if found != ([] if step.action == "remove" else step.command):
                program = self.commands[0][0]
                raise HostFileError(f"{program} has not made the change of {step.name} in {self.place.path}", hint=hint)


def plan_install(place: Place, wanted: Mapping[str, Sequence[str]], *, force: bool) -> Plan:
    """Return how the wanted entries get into a file.

    Args:
        place: the file.
        wanted: names to commands of our bridge.
        force: whether an entry of somebody else may be replaced.
    """
    steps = []
    for name, command in wanted.items():
        old = place.host.command(place.entries.get(name))
        if name not in place.entries:
            action = "add"
        elif old == list(command):
            action = "same"
        elif is_bridge(old):
            action = "update"
        else:
            action = "replace" if force else "conflict"
        steps.append(Step(name, action, command, old))
    return Plan(place, steps)


def plan_uninstall(place: Place) -> Plan:
    """Return how every entry that starts our bridge gets out of a file, and nothing else."""
    return Plan(place, [Step(name, "remove", (), place.host.command(place.entries[name])) for name in place.bridges()])
