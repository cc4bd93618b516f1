"""Secrets of remote servers that stand in the file itself, where a reference to the environment would do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mcpd.config.model import Problem
from mcpd.config.rules import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcpd.config.model import Config, Server

_TELLING = re.compile(r"auth|cookie|credential|key|pass|secret|token", re.IGNORECASE)
_WITH_PASSWORD = re.compile(r"\w+://[^/?#]*:[^/?#]*@")


def warnings(config: Config) -> list[Problem]:
    """Return a warning for each of them; none says what it is."""
    file = config.file or config.path
    return [
        Problem(file=file, server=name, key=f"servers.{quoted(name)}.{key}", message=message, hint=hint, warning=True)
        for name, server in config.servers.items()
        for key, message, hint in _found(server)
    ]


def _found(server: Server) -> Iterator[tuple[str, str, str]]:
    told = "a secret in the file", "write ${VARIABLE}, and keep the value in the environment"
    for header, value in server.headers.items():
        if _TELLING.search(header) and _is_literal(value):
            bearer = '; for a bearer token: bearer_env = "VARIABLE"' if value.lower().startswith("bearer ") else ""
            yield f"headers.{quoted(header)}", told[0], told[1] + bearer
    for key in ("client_secret", "private_key"):
        if _is_literal(getattr(server.oauth, key) or ""):
            yield f"oauth.{key}", *told
    if server.url is not None and _is_literal(server.url) and _WITH_PASSWORD.match(server.url):
        yield "url", *told


def _is_literal(value: str) -> bool:
    return bool(value) and "${" not in value
