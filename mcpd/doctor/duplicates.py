"""Hosts that still start for themselves what mcpd has: the mistake that everybody makes once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mcpd.config.model import Config
from mcpd.doctor.check import Check


class Own(NamedTuple):
    """What a host starts or reaches by itself: a command with its arguments, or one URL."""

    host: str
    name: str
    words: tuple[str, ...]


def examine(config: Config, owns: Iterable[Own]) -> Iterator[Check]:
    """Compare what hosts start with what is configured."""
    ours = {
        (one.url,) if one.url is not None else (one.command, *one.args): one.name
        for one in config.servers.values()
        if one.enabled
    }
    for own in owns:
        if (server := ours.get(own.words)) is not None:
            detail = f"{own.host} starts '{own.name}' itself, beside '{server}' of mcpd"
            hint = f"mcpd install {own.host} --server {server}, and take '{own.name}' out there"
            yield Check("hosts", "warn", detail, hint, server)
