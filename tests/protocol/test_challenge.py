"""WWW-Authenticate: what a server asks for, however it spells it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.protocol.challenge import Challenge, parse_challenge, parse_challenges


def test_a_challenge_has_a_scheme_and_parameters() -> None:
    header = 'Bearer resource_metadata="https://a.example/.well-known/x", scope="read write", error="invalid_token"'

    assert parse_challenge(header) == Challenge(
        "bearer",
        {"resource_metadata": "https://a.example/.well-known/x", "scope": "read write", "error": "invalid_token"},
    )


def test_several_challenges_in_one_header_are_told_apart() -> None:
    header = 'Digest realm="a, b", qop="auth,auth-int", Negotiate abc==, BEARER scope=read,Basic realm="c"'

    assert parse_challenges(header) == [
        ("digest", {"realm": "a, b", "qop": "auth,auth-int"}),
        ("negotiate", {}),
        ("bearer", {"scope": "read"}),
        ("basic", {"realm": "c"}),
    ]


def test_the_bearer_challenge_is_the_one_that_counts() -> None:
    assert parse_challenge('Basic realm="x", Bearer error="invalid_token"') == ("bearer", {"error": "invalid_token"})


def test_without_a_bearer_challenge_the_first_one_counts() -> None:
    assert parse_challenge('Basic realm="x", Digest nonce="y"') == ("basic", {"realm": "x"})


@pytest.mark.parametrize(
    ("header", "params"),
    [
        (r'Bearer error_description="say \"no\", \\ please"', {"error_description": 'say "no", \\ please'}),
        ('bEaReR SCOPE="a"', {"scope": "a"}),
        ('Bearer scope = "a" ,\trealm\t=\tb', {"scope": "a", "realm": "b"}),
        ("Bearer resource_metadata=https://a.example/x?y=z", {"resource_metadata": "https://a.example/x?y=z"}),
        ('Bearer scope="", realm=', {"scope": "", "realm": ""}),
        ('Bearer scope="first", scope="second"', {"scope": "first"}),
        ('Bearer , , scope="a",,', {"scope": "a"}),
        ('Bearer scope="it was cut', {"scope": "it was cut"}),
        ('Bearer scope="cut in an escape\\', {"scope": "cut in an escape"}),
        ("Bearer", {}),
        ("Bearer,", {}),
        ("Bearer abc.def_~+/==", {}),
        ('Bearer @@@ scope="a"', {"scope": "a"}),
        ('Bearer realm="x" error="invalid_token"', {"realm": "x", "error": "invalid_token"}),
    ],
)
def test_it_is_read_as_servers_write_it(header: str, params: dict[str, str]) -> None:
    assert parse_challenge(header) == ("bearer", params)


@pytest.mark.parametrize("header", ["", " ", ",,,", '"', '"a, b"', "=", 'scope="read"', "\x00\xff"])
def test_a_header_that_asks_for_nothing_has_no_scheme(header: str) -> None:
    assert parse_challenge(header) == ("", {})


def test_a_header_that_never_ends_is_cut() -> None:
    found = parse_challenge('Bearer realm="' + "x" * 1_000_000)

    assert len(found.params["realm"]) < 20_000


@pytest.mark.parametrize("piece", ["\\", '"', ",", "a=", "a ", '"\\', "Bearer ", " =", "@"])
def test_a_hostile_header_costs_no_more_than_its_length(piece: str) -> None:
    """One that took quadratic time would not come back for minutes."""
    for _ in range(3):
        parse_challenges(piece * 16_384)


@given(st.text(alphabet='aB=",\\ \t@é', max_size=60))
def test_nothing_is_unreadable(header: str) -> None:
    for scheme, params in parse_challenges(header):
        assert scheme == scheme.lower()
        assert all(name == name.lower() for name in params)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.text(max_size=20), max_size=4))
def test_what_was_quoted_comes_back(params: dict[str, str]) -> None:
    def quoted(value: str) -> str:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

    header = "Bearer " + ", ".join(f"{name}={quoted(value)}" for name, value in params.items())

    assert parse_challenge(header) == ("bearer", params)
