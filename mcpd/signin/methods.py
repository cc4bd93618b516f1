"""How a client says at the token endpoint who it is, and with which algorithm it signs that.

Spec: RFC 8414, 2 (`token_endpoint_auth_methods_supported`); RFC 7591, 2; RFC 7523, 2.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# What a server that says nothing supports, and a client that says nothing is registered with.
DEFAULT = "client_secret_basic"
_SIGNING = {
    "RSA": ("RS256", "PS256", "RS384", "PS384", "RS512", "PS512"),
    "P-256": ("ES256",),
    "P-384": ("ES384",),
    "P-521": ("ES512",),
    "Ed25519": ("EdDSA",),
}


def offered(metadata: Mapping[str, object], key: str = "token_endpoint_auth_methods_supported") -> tuple[str, ...]:
    """Return what a server's metadata lists, empty where it says nothing."""
    listed = metadata.get(key)
    return tuple(each for each in listed if isinstance(each, str)) if isinstance(listed, list) else ()


def to_register(listed: Sequence[str], wanted: str) -> str | None:
    """Return the method that a new client asks for; None leaves it to the server.

    We run on the user's machine and can keep no secret better than a token: without one there is nothing to expire.
    """
    if wanted not in ("auto", "private_key_jwt"):
        return wanted
    return next((each for each in ("none", "client_secret_basic", "client_secret_post") if each in listed), None)


def to_use(listed: Sequence[str], wanted: str, *, has_secret: bool, has_key: bool) -> str:
    """Return the method of a client that has what it has."""
    if wanted != "auto":
        return wanted
    if has_key and (not has_secret or "private_key_jwt" in listed):
        return "private_key_jwt"
    if not has_secret:
        return "none"
    return next((each for each in ("client_secret_basic", "client_secret_post") if each in listed), DEFAULT)


def algorithm(kind: str, listed: Sequence[str]) -> str | None:
    """Return what a key of this kind signs with; None if it is a kind that nobody takes."""
    able = _SIGNING.get(kind, ())
    return next((each for each in able if each in listed), able[0] if able else None)
