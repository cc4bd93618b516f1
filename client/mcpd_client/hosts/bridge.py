"""Our entry in a host's configuration: the command that starts the bridge, and how to tell it from others."""

from __future__ import annotations

import os
import shutil
import sys

from mcpd_client.cli.options import split_command
from mcpd_client.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# What may stand between an interpreter and `-m`.
INTERPRETER_FLAGS = ("-I", "-P", "-S", "-s", "-E", "-B", "-u")
MODULES = ("mcpd_client", "mcpd")


def own_command(argv0: str, environ: Mapping[str, str], *, is_shared: bool = False) -> list[str]:
    """Return the command line of this very `mcpd`, for a host that may have another PATH and working directory.

    Args:
        argv0: how this process was started.
        environ: its environment; of several paths to the same program the one on the PATH is taken, since it
            is the one that stays when the program is updated.
        is_shared: whether the file may go to others, who have their `mcpd` elsewhere: then its bare name is
            enough if that finds this one here.
    """
    script = argv0 if os.path.basename(argv0) == "mcpd" else os.path.join(os.path.dirname(sys.executable), "mcpd")
    if not os.path.isfile(script):
        return [sys.executable, "-P", "-m", "mcpd_client"]
    on_path = shutil.which("mcpd", path=environ.get("PATH"))
    if on_path is not None and os.path.samefile(on_path, script):
        return ["mcpd"] if is_shared else [os.path.abspath(on_path)]
    return [os.path.abspath(script)]


def bridge_command(
    own: Sequence[str],
    server: str | None,
    *,
    mode: str | None = None,
    socket: str | None = None,
    config: str | None = None,
) -> list[str]:
    """Return the command of an entry: the bridge to one server, or to all with None.

    Args:
        own: the command line of `mcpd`.
        server: whose bridge.
        mode: how the tools are shown, if not one by one.
        socket: the daemon's socket, only if it does not follow from HOME and the user alone.
        config: the configuration for a daemon that the bridge starts, if it is not the usual one.
    """
    command = [*own, "bridge", *([] if server is None else [server])]
    if mode:
        command += ["--mode", mode]
    if socket:
        command += ["--socket", os.path.abspath(socket)]
    if config:
        command += ["--config", os.path.abspath(config)]
    return command


def is_bridge(command: Sequence[str]) -> bool:
    """Tell whether a command starts our bridge, whoever wrote it and wherever that `mcpd` is."""
    if not command:
        return False
    program, *arguments = command
    if os.path.basename(program) != "mcpd":
        while arguments and arguments[0] in INTERPRETER_FLAGS:
            del arguments[0]
        if arguments[:1] != ["-m"] or arguments[1:2] not in ([name] for name in MODULES):
            return False
        del arguments[:2]
    try:
        return split_command(arguments)[1] == "bridge"
    except UsageError:
        return False
