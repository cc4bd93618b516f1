"""Signs who a client is, with a key of its entry. The library comes with the extra `oauth`, and is imported here only.

Spec: RFC 7523, 3; RFC 7518, 3.1.
"""

from __future__ import annotations

import importlib
import secrets

from mcpd.errors import McpdError, Misconfigured

# A request is on its way for seconds; clocks differ by more.
LIFE_SECONDS = 300
_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


def assertion(client_id: str, audience: str, pem: str, now: float) -> str:
    """Return a signed assertion that can be used once.

    Args:
        client_id: of the client.
        audience: the issuer, who is to believe it.
        pem: the private key: RSA, or on a curve of NIST's.
        now: seconds of the epoch.

    Raises:
        Misconfigured: The key cannot sign, or the library is not installed.
    """
    try:
        jwt = importlib.import_module("jwt")
        unknown = importlib.import_module("cryptography.exceptions").UnsupportedAlgorithm
        reader = importlib.import_module("cryptography.hazmat.primitives.serialization")
    except ImportError:
        raise _wrong("needs an extra", "pip install 'mcpd-broker[oauth]'") from None
    try:
        key = reader.load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError, unknown):
        raise _wrong("is no private key in PEM without a passphrase") from None
    algorithm = _CURVES.get(curve.name) if (curve := getattr(key, "curve", None)) is not None else "RS256"
    claims = {
        "iss": client_id, "sub": client_id, "aud": audience, "jti": secrets.token_urlsafe(24),
        "iat": int(now), "exp": int(now) + LIFE_SECONDS,
    }  # fmt: skip
    try:
        return str(jwt.encode(claims, pem, algorithm=algorithm))
    except (jwt.PyJWTError, TypeError, ValueError, NotImplementedError):
        raise _wrong("cannot sign: expected an RSA key, or one on P-256, P-384 or P-521") from None


def _wrong(why: str, hint: str | None = None) -> McpdError:
    return Misconfigured(f"oauth.private_key {why}", hint=hint, key="oauth.private_key")
