"""Which addresses a sign-in may go to.

A server says where its authorization server is, and that one says where to go next: none of them may send us, or the
user's browser, anywhere but to TLS, or lead us into a network that the configured server is not in itself.

Spec: 2026-07-28, basic/authorization, "Communication Security"; security best practices, "Server-Side Request Forgery".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

from mcpd.config.remote import is_loopback

_ODD = re.compile(r"[\x00-\x20\x7f-\uffff]")


class UnfitUrl(Exception):
    """An address that must not be used; the message says which and why, without its query."""


def checked(url: str, *, insecure: bool = False) -> str:
    """Return a URL over TLS, or one on this machine.

    Args:
        url: what somebody has named.
        insecure: whether the configuration allows plain http to anywhere.

    Raises:
        UnfitUrl: It is something else.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        parts, host = urlsplit(""), None
    if not host or parts.scheme not in ("http", "https") or _ODD.search(url):
        raise UnfitUrl(f"{shown(url)} is no http or https URL")
    if parts.username is not None or parts.password is not None:
        raise UnfitUrl(f"{shown(url)} has a user in it")
    if parts.scheme == "http" and not (insecure or is_loopback(host)):
        raise UnfitUrl(f"{shown(url)} is not over https")
    return url


def shown(url: str) -> str:
    """Return what of a URL may be told: its host and path, without control characters and secrets."""
    scheme, mark, rest = url.partition("://")
    authority, slash, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
    return _ODD.sub("", f"{scheme}{mark}{authority.rpartition('@')[2]}{slash}{path}")[:200]


def origin_of(url: str) -> str:
    """Return scheme and authority."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def host_of(url: str) -> str:
    """Return the host in lower case, empty where there is none."""
    return (urlsplit(url).hostname or "").lower()


def is_inside(addresses: Iterable[str]) -> bool:
    """Whether any address is one that only a network of its own reaches: private, link-local, this machine."""
    return any(_is_private(address) for address in addresses)


def _is_private(address: str) -> bool:
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return not (mapped or found).is_global
