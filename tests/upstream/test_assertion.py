"""A client that says with a key who it is."""

from __future__ import annotations

from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa, x25519
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from mcpd.errors import Misconfigured
from mcpd.upstream.assertion import assertion

NOW = 1_900_000_000.5


def pem(key: Any, encryption: Any = None) -> str:
    text: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption())
    return text.decode()


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        (ec.generate_private_key(ec.SECP256R1()), "ES256"),
        (ec.generate_private_key(ec.SECP384R1()), "ES384"),
        (rsa.generate_private_key(65537, 2048), "RS256"),
    ],
)
def test_it_can_be_verified_with_the_public_key(key: Any, algorithm: str) -> None:
    signed = assertion("me", "https://as.example", pem(key), NOW)

    options = {"verify_exp": False, "verify_iat": False}
    claims = jwt.decode(
        signed, key.public_key(), algorithms=[algorithm], audience="https://as.example", options=options
    )
    jti = claims.pop("jti")
    assert claims == {
        "iss": "me", "sub": "me", "aud": "https://as.example", "iat": 1_900_000_000, "exp": 1_900_000_300,
    }  # fmt: skip
    assert len(jti) > 20


def test_no_two_are_the_same() -> None:
    key = pem(ec.generate_private_key(ec.SECP256R1()))

    assert assertion("me", "https://as.example", key, NOW) != assertion("me", "https://as.example", key, NOW)


@pytest.mark.parametrize(
    "key",
    [
        "", "secret-text", "-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----",
        pem(ed25519.Ed25519PrivateKey.generate()), pem(ec.generate_private_key(ec.SECP256K1())),
        pem(ec.generate_private_key(ec.SECP256R1()), BestAvailableEncryption(b"word")),
        pem(x25519.X25519PrivateKey.generate()),
    ],
)  # fmt: skip
def test_a_key_that_cannot_sign_is_told_without_showing_it(key: str) -> None:
    with pytest.raises(Misconfigured) as wrong:
        assertion("me", "https://as.example", key, NOW)

    assert wrong.value.message.startswith("oauth.private_key ")
    assert "secret" not in wrong.value.message
