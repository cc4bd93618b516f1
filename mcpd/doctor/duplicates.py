"""Hosts that still start for themselves what mcpd has: the mistake that everybody makes once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mcpd.config.model import Config, Server
from mcpd.doctor.check import Check


def examine(config: Config, hosts: Iterable[tuple[str, str, str | None, tuple[str, ...], str | None]]) -> Iterator[Check]:
    """Compare what hosts start with what is configured.

    Args:
        config: ours.
        hosts: of each entry of a host that is in use: host, name, command, args, url.
    """
    ours = {_endpoint(one): one for one in config.servers.values() if one.enabled}
    for host, name, command, args, url in hosts:
        server = ours.get(url if url is not None else (command, args))
        if server is not None:
            detail = f"{host} starts '{name}' itself, beside '{server.name}' of mcpd"
            yield Check("hosts", "warn", detail, f"mcpd install {host} --server {server.name}, and take '{name}' out there", server.name)


def _endpoint(server: Server) -> object:
    return server.url if server.url is not None else (server.command, server.args)
