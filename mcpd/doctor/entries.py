"""The configuration: its file, and of each entry what can be known without starting it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterator

from mcpd.config import literal
from mcpd.config.model import Config, Problem, Server
from mcpd.doctor.check import Check
from mcpd.errors import McpdError

NPX_YES = ("-y", "--yes")


def examine(
    config: Config, names: Collection[str], resolve: Callable[[Server], object], started: Collection[str] = ()
) -> Iterator[Check]:
    """Look at the file and at the named entries.

    Args:
        config: what was read.
        names: which servers.
        resolve: raises `McpdError` where a start would; starts nothing.
        started: those of which a start has told already whether they can be.
    """
    yield from _file(config)
    for name in names:
        if name in config.wrong:
            yield _problem(config.wrong[name])
        elif (server := config.servers.get(name)) is not None and server.enabled:
            if name not in started:
                yield from _start(server, resolve)
            yield from _habits(server)


def _file(config: Config) -> Iterator[Check]:
    if config.file is None:
        yield Check("configuration", "ok", f"none at {config.path}: there is the demo server")
        return
    shown = [problem for problem in config.problems if problem.server is None or problem.warning]
    yield from map(_problem, shown)
    if not config.problems:
        yield Check("configuration", "ok", config.file)
    plain = literal.warnings(config)
    for problem in plain:
        yield _problem(problem)
    yield from _mode(config.file, has_secrets=bool(plain))


def _problem(problem: Problem) -> Check:
    return Check("configuration", "warn" if problem.warning else "fail", problem.sentence, problem.hint, problem.server)


def _mode(path: str, *, has_secrets: bool) -> Iterator[Check]:
    try:
        found = os.stat(path)
    except OSError:
        return
    if found.st_mode & 0o022 or found.st_uid not in (os.getuid(), 0):
        yield Check("configuration", "fail", f"others may write {path}, and so start programs as you", f"chmod 600 {path}")
    elif has_secrets and found.st_mode & 0o044:
        mode = f"{stat.S_IMODE(found.st_mode):04o}"
        yield Check("configuration", "warn", f"others may read {path} ({mode}), which holds secrets", f"chmod 600 {path}")


def _start(server: Server, resolve: Callable[[Server], object]) -> Iterator[Check]:
    try:
        resolve(server)
    except McpdError as problem:
        yield Check("start", "fail", problem.message, problem.hint, server.name)


def _habits(server: Server) -> Iterator[Check]:
    program, args = os.path.basename(server.command or ""), server.args
    if program == "npx" and not {*NPX_YES} & set(args):
        yield Check("npx", "warn", "npx asks before it installs, and nobody answers", 'add "-y" before the package in args', server.name)
    if program == "docker" and "run" in args:
        if "--rm" not in args:
            yield Check("docker", "warn", "the container stays when it has ended", 'add "--rm" after "run" in args', server.name)
        if not {"-i", "--interactive", "-it"} & set(args):
            yield Check("docker", "warn", "the container gets no input", 'add "-i" after "run" in args', server.name)


def known_programs(config: Config, which: Callable[[str], str | None]) -> Iterator[Check]:
    """Say where the programs are that entries need without naming them; `which` looks on the daemon's PATH."""
    used = {os.path.basename(one.command or "") for one in config.servers.values() if one.enabled}
    needed = {"npx": "node", "uvx": "uv", "docker": "docker"}
    for starter, program in needed.items():
        if starter in used and (place := which(program)) is not None:
            yield Check(program, "ok", place)
        elif starter in used:
            yield Check(program, "warn", f"{starter} is used, and {program} is not on the PATH of the daemon", f"install {program}; or from a shell that finds it: mcpd down, then mcpd up")
