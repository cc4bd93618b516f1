"""What `mcpd doctor` asks for: all checks, in the order in which they are to be mended."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from mcpd.config.expand import launch
from mcpd.config.load import load
from mcpd.config.model import Config, Server
from mcpd.config.secrets import Secrets
from mcpd.doctor import duplicates, entries, machine, servers, sessions


def names(option: str | None) -> list[str]:
    """Return the enabled servers of the configuration, misconfigured ones included."""
    config = load(option, os.environ)
    return [name for name, one in config.servers.items() if one.enabled] + list(config.wrong)


def examine(
    option: str | None, socket: str, status: Mapping[str, Any] | None, why: str,
    found: Mapping[str, Mapping[str, Any]], owns: Iterable[tuple[str, str, tuple[str, ...]]] = (),
    only: str | None = None, project: str | None = None,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return all checks as plain values; see `Check`.

    Args:
        option: `--config`.
        socket: the path of the socket.
        status: the result of mcpd/status; None if nobody answers, and `why` says why.
        why: see there.
        found: what came of starting servers; see `servers.examine`.
        owns: what hosts start by themselves; see `duplicates.Own`.
        only: the one server to look at.
        project: for `${project}`; the current folder if it is None.
    """
    config = load(option, os.environ)
    daemon = None if status is None else status["daemon"]
    # What servers are started with, where there is a daemon that starts them.
    environ = (None if daemon is None else machine.environ_of(daemon["pid"])) or os.environ
    checks = list(machine.examine(socket, daemon, why))
    wanted = [only] if only is not None else names(option)
    checks += entries.examine(config, wanted, _resolver(environ, project or os.getcwd()), found.keys())
    checks += entries.known_programs(config, lambda program: shutil.which(program, path=environ.get("PATH")))
    checks += servers.examine({name: one for name, one in found.items() if name not in config.wrong})
    checks += sessions.examine([row for row in _sign_ins(config) if only is None or row.get("server") == only])
    checks += duplicates.examine(config, (duplicates.Own(*own) for own in owns))
    if only is not None:
        checks = [check for check in checks if check.server in (only, None)]
    return [msgspec.to_builtins(check) for check in checks]


def _resolver(environ: Mapping[str, str], project: str) -> Callable[[Server], object]:
    secrets = Secrets(environ)
    return lambda server: launch(server, environ, project, secrets.get)


def _sign_ins(config: Config) -> list[dict[str, Any]]:
    from mcpd.config.state import credentials_folder
    from mcpd.upstream.vault import Vault

    urls = {name: one.url for name, one in config.servers.items() if one.enabled and one.url is not None and "${" not in one.url}
    if not urls:
        return []
    from mcpd.signin.report import rows

    credentials, _ = Vault(credentials_folder()).all()
    return rows(urls, sorted(credentials, key=lambda one: -one.saved_at))
