"""What a remote server is shown of who asks: for now, the headers of its entry."""

from __future__ import annotations

from collections.abc import Mapping

import trio

from mcpd.config.expand import Launch
from mcpd.config.model import Server
from mcpd.errors import AuthRequired

from .around import Surroundings


class Static:
    """The headers of an entry, which nobody can renew."""

    def __init__(self, server: Server, launch: Launch) -> None:
        self._server, self._headers, self.secrets = server, launch.headers, launch.secrets

    async def headers(self) -> Mapping[str, str]:
        """Return them."""
        await trio.lowlevel.checkpoint()
        return self._headers

    async def renew(self, status: int, challenge: str, used: Mapping[str, str]) -> bool:
        """Refuse."""
        await trio.lowlevel.checkpoint()
        name = self._server.name
        raise AuthRequired(f"server '{name}' wants a sign-in (HTTP {status})", server=name, hint=f"mcpd login {name}")


def credentials_of(server: Server, launch: Launch, around: Surroundings) -> Static:
    """Return the credentials for a server."""
    return Static(server, launch)
