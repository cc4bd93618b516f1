"""What a sign-in needs of a server's entry, its references expanded from the environment of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct

from mcpd.config.expand import Expander
from mcpd.config.remote import reach
from mcpd.config.secrets import Secrets
from mcpd.errors import BadRequest, Misconfigured

from .report import takes_token
from .scopes import union

if TYPE_CHECKING:
    from mcpd.config.model import Server

SECRET_METHODS = ("client_secret_basic", "client_secret_post")
# The last revision that has a handshake; later ones have a request that any client may send first.
LAST_LEGACY = "2025-11-25"


class Entry(Struct, frozen=True, kw_only=True):
    """A remote server and how to sign in to it; `headers` are those of requests to the server itself."""

    name: str
    url: str
    headers: dict[str, str]
    insecure: bool
    is_legacy: bool
    client_id: str | None
    client_secret: str | None
    private_key: str | None
    client_metadata_url: str | None
    issuer: str | None
    scopes: str | None
    is_interactive: bool
    auth_method: str
    redirect_port: int

    def __repr__(self) -> str:
        return f"Entry({self.name!r})"

    @property
    def secrets(self) -> frozenset[str]:
        """What must not be seen anywhere."""
        return frozenset(filter(None, (self.client_secret, self.private_key, *self.headers.values())))


def entry_of(server: Server, environ: Mapping[str, str], project: str | None = None) -> Entry:
    """Return the entry of a server that can be signed in to.

    Raises:
        BadRequest: It needs no sign-in: it runs here, or has a token of its own.
        Misconfigured: Its entry cannot be used.
    """
    if server.url is None:
        raise BadRequest(
            f"server {server.name} runs on this machine: there is nothing to sign in to", server=server.name
        )
    # Before anything is expanded: a token that only the daemon's environment has is one, too.
    if server.headers_helper:
        why = f"server {server.name} has a headers_helper in its entry, and takes no sign-in"
        raise BadRequest(why, server=server.name)
    if not takes_token(server):
        why = f"server {server.name} has a token in its entry: there is nothing to sign in to"
        raise BadRequest(why, server=server.name, hint="remove bearer_env, or the Authorization header, from its entry")
    launch = reach(server, Expander(server.name, environ, project, Secrets(environ).get), environ)
    oauth = launch.oauth
    entry = Entry(
        name=server.name,
        url=launch.url or "",
        headers=launch.headers,
        insecure=server.insecure,
        is_legacy=server.protocol == "legacy" or "1" < server.protocol <= LAST_LEGACY,
        client_id=oauth.client_id,
        client_secret=oauth.client_secret,
        private_key=oauth.private_key,
        client_metadata_url=oauth.client_metadata_url,
        issuer=oauth.issuer,
        scopes=union(*oauth.scopes),
        is_interactive=oauth.grant == "authorization_code",
        auth_method=oauth.auth_method,
        redirect_port=oauth.redirect_port,
    )
    _check(entry)
    return entry


def _check(entry: Entry) -> None:
    """Raise `Misconfigured` for settings that cannot work together."""
    if entry.client_id is None and (entry.client_secret or entry.private_key or not entry.is_interactive):
        raise _wrong(entry, "client_id", "is missing, and its other settings need it")
    if not entry.is_interactive and not (entry.client_secret or entry.private_key):
        raise _wrong(entry, "client_secret", 'is missing: grant = "client_credentials" needs it, or private_key')
    if entry.auth_method == "private_key_jwt" and entry.private_key is None:
        raise _wrong(entry, "private_key", 'is missing: auth_method = "private_key_jwt" needs it')
    if entry.auth_method in SECRET_METHODS and entry.client_id is not None and entry.client_secret is None:
        raise _wrong(entry, "client_secret", f'is missing: auth_method = "{entry.auth_method}" needs it')
    if (url := entry.client_metadata_url) is not None:
        parts = urlsplit(url)
        # The client id of a published client is such a URL: 2025-11-25, "Client ID Metadata Documents".
        if parts.scheme != "https" or parts.path in ("", "/"):
            raise _wrong(entry, "client_metadata_url", "is no https URL with a path")


def _wrong(entry: Entry, key: str, why: str) -> Misconfigured:
    return Misconfigured(f"oauth.{key} of server {entry.name} {why}", server=entry.name, key=f"oauth.{key}")
