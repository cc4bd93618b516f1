"""Show a page to the user: the command that opens it, and its start. Never through a shell."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote

PLACE = "%s"
# What opens a page where there is a screen, the usual one first; on another desktop one of these is there instead.
_OPENERS = ("xdg-open", "wslview", "x-www-browser", "gio open", "sensible-browser")
# What means something to a shell within double quotes, or ends single ones; in a URL either form is the same.
_QUOTED = re.compile(r"[\"'`$\\]")

Find = Callable[[str], "str | None"]


class NoSuchCommand(Exception):
    """The command that should open the page cannot be used; the message says why."""


def opener(
    command: str | None, environ: Mapping[str, str], find: Find = shutil.which, system: str = sys.platform
) -> tuple[str, ...] | None:
    """Return the command that opens pages; None where there is none.

    Args:
        command: what the user has asked for; its words are split as a shell would.
        environ: `BROWSER` is a list of such commands, the first that is there is taken.
        find: says where a program is.
        system: as `sys.platform`.

    Raises:
        NoSuchCommand: what was asked for cannot be used.
    """
    if command is not None:
        words = _words(command)
        if words is None or find(words[0]) is None:
            raise NoSuchCommand(f"there is no command {command!r}")
        return words
    for each in environ.get("BROWSER", "").split(os.pathsep):
        if (words := _words(each)) is not None and find(words[0]):
            return words
    if system == "darwin":
        return ("open",)
    if not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY") or environ.get("WSL_DISTRO_NAME")):
        return None
    return next((words for each in _OPENERS if (words := _words(each)) and find(words[0])), None)


def with_page(command: Sequence[str], url: str) -> list[str]:
    """Return the command with the URL in the place of `%s`, or behind it.

    Within quotes it is safe for a shell, too, if the user's command is one: a server chooses what is in the URL.
    """
    url = _QUOTED.sub(lambda found: quote(found[0]), url)
    if any(PLACE in word for word in command):
        return [word.replace(PLACE, url) for word in command]
    return [*command, url]


def show(command: Sequence[str], url: str) -> subprocess.Popen[bytes]:
    """Start the command; it outlives us, and neither reads nor writes what is ours.

    Raises:
        OSError: It does not start.
    """
    return subprocess.Popen(  # noqa: S603  # the user's own command, without a shell
        with_page(command, url),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _words(command: str) -> tuple[str, ...] | None:
    try:
        return tuple(shlex.split(command)) or None
    except ValueError:
        return None
