from __future__ import annotations

import pytest

from mcpd.signin.methods import algorithm, offered, to_register, to_use

BASIC, POST, JWT = "client_secret_basic", "client_secret_post", "private_key_jwt"


@pytest.mark.parametrize(
    ("listed", "wanted", "method"),
    [
        ((), "auto", None),
        ((BASIC, "none"), "auto", "none"),
        ((POST, BASIC), "auto", BASIC),
        ((POST,), "auto", POST),
        ((JWT,), "auto", None),
        (("none",), POST, POST),
    ],
)
def test_a_new_client_keeps_no_secret_where_it_need_not(
    listed: tuple[str, ...], wanted: str, method: str | None
) -> None:
    assert to_register(listed, wanted) == method


@pytest.mark.parametrize(
    ("listed", "wanted", "secret", "key", "method"),
    [
        ((), "auto", True, False, BASIC),
        ((POST,), "auto", True, False, POST),
        ((POST, BASIC), "auto", True, False, BASIC),
        ((BASIC,), "auto", False, False, "none"),
        ((BASIC,), "auto", False, True, JWT),
        ((BASIC,), "auto", True, True, BASIC),
        ((BASIC, JWT), "auto", True, True, JWT),
        ((BASIC,), POST, True, False, POST),
    ],
)
def test_a_client_says_who_it_is_with_what_it_has(
    listed: tuple[str, ...], wanted: str, secret: bool, key: bool, method: str
) -> None:
    assert to_use(listed, wanted, has_secret=secret, has_key=key) == method


def test_a_list_that_is_none_is_as_good_as_nothing() -> None:
    key = "token_endpoint_auth_methods_supported"

    assert [offered({key: listed}) for listed in (None, "none", 5, [5, POST])] == [(), (), (), (POST,)]


@pytest.mark.parametrize(
    ("kind", "listed", "name"),
    [
        ("RSA", (), "RS256"),
        ("RSA", ("PS256",), "PS256"),
        ("P-256", ("RS256",), "ES256"),
        ("Ed25519", (), "EdDSA"),
        ("", (), None),
    ],
)
def test_a_key_signs_with_what_it_can_and_the_server_takes(
    kind: str, listed: tuple[str, ...], name: str | None
) -> None:
    assert algorithm(kind, listed) == name
