"""Resolve the entry of a remote server: its URL, and what every request to it carries."""

from __future__ import annotations

import os
import shutil
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from mcpd.config.expand import Launch, passed_on, secrets_of
from mcpd.config.load import home_of, in_home
from mcpd.config.redact import MIN_SECRET_CHARS
from mcpd.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpd.config.expand import Expander
    from mcpd.config.model import OAuth, Server


def reach(server: Server, expander: Expander, environ: Mapping[str, str]) -> Launch:
    """Return how to reach a remote server.

    Raises:
        Misconfigured: a `${…}` has no value, or the URL must not be used.
    """
    address = expander.text(server.url or "", "url")
    in_address = frozenset(value for value in expander.used.values() if len(value) >= MIN_SECRET_CHARS)
    headers = expander.table(server.headers, "headers")
    if server.bearer_env is not None:
        token = environ.get(server.bearer_env)
        if not token:
            raise Misconfigured(
                f"bearer_env of server {server.name} needs {server.bearer_env}, which is not set in the environment of the daemon",
                server=server.name, hint=f"export {server.bearer_env}, then: mcpd down, and call again", key="bearer_env",
            )  # fmt: skip
        headers = {**headers, "Authorization": f"Bearer {token}"}
    oauth = _oauth(server.oauth, expander)
    hidden = {"secret": oauth.client_secret or "", "key": oauth.private_key or ""}
    helper, env, home = _helper(server, expander, environ)
    passed = {name: env[name] for name in server.env_pass if name in env}
    return Launch(
        url=checked_url(server, address),
        headers=headers,
        helper=helper,
        env=env,
        cwd=home,
        oauth=oauth,
        secrets=secrets_of(headers, passed, hidden) | in_address,
    )


def _oauth(oauth: OAuth, expander: Expander) -> OAuth:
    """Return what is said of the client, without references; what is empty then was not said."""
    texts = {
        key: expander.text(value, f"oauth.{key}") or None
        for key in ("client_id", "client_secret", "client_metadata_url", "issuer", "private_key")
        if (value := getattr(oauth, key)) is not None
    }
    return msgspec.structs.replace(oauth, **texts)


def _helper(
    server: Server, expander: Expander, environ: Mapping[str, str]
) -> tuple[tuple[str, ...], dict[str, str], str]:
    """Return the command that prints headers, with its environment and folder; one that is not found stays as it is."""
    home = home_of(environ)
    if not server.headers_helper:
        return (), {}, home
    env = passed_on(server, environ)
    words = [expander.text(word, f"headers_helper[{index}]") for index, word in enumerate(server.headers_helper)]
    program = in_home(words[0], home)
    return (shutil.which(program, path=env.get("PATH", os.defpath)) or program, *words[1:]), env, home


def checked_url(server: Server, address: str) -> str:
    """Return a URL that may be reached: over TLS, or on this machine.

    Raises:
        Misconfigured: It is none, or goes over the network in the clear.
    """
    parts = urlsplit(address)
    try:
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if parts.scheme not in ("http", "https") or not host:
        raise Misconfigured(f"url of server {server.name} is no http or https URL", server=server.name, key="url")
    if parts.scheme == "http" and not (server.insecure or is_loopback(host)):
        raise Misconfigured(
            f"url of server {server.name} goes to {host} in the clear", server=server.name,
            hint="use https, or set insecure = true in its entry", key="url",
        )  # fmt: skip
    return address


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
