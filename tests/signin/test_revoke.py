from __future__ import annotations

from collections.abc import Iterator

import pytest

from mcpd.config.load import parse
from mcpd.signin.entry import Entry, entry_of
from mcpd.signin.revoke import revoke
from mcpd.upstream.credential import Client, Credential, Endpoints, Tokens
from tests.signin.authority import Authority, authority


@pytest.fixture
def server() -> Iterator[Authority]:
    with authority() as found:
        yield found


def credential(server: Authority, client: Client, **more: str | None) -> Credential:
    return Credential(
        version=1,
        resource=server.url,
        issuer=server.issuer,
        client=client,
        endpoints=Endpoints(token=f"{server.origin}/token", **{"revocation": f"{server.origin}/revoke", **more}),
        tokens=Tokens(access_token="access", token_type="Bearer", refresh_token="refresh"),
        saved_at=0,
    )


def client(method: str, secret: str | None = None, registration: str = "dynamic") -> Client:
    return Client(client_id="a b", client_secret=secret, token_endpoint_auth_method=method, registration=registration)


def entry(server: Authority) -> Entry:
    text = f'[servers.s]\nurl = "{server.url}"\noauth = {{ client_id = "a b", client_secret = "of the entry" }}'
    return entry_of(parse(text, "file", {}).servers["s"], {})


@pytest.mark.parametrize(
    ("who", "shown"),
    [
        (client("none"), {"client_id": "a b"}),
        (client("client_secret_post", "s&s"), {"client_id": "a b", "client_secret": "s&s"}),
        (client("client_secret_basic", "s:s"), {"basic_id": "a b", "basic_secret": "s:s"}),
        (client("client_secret_basic", None, "static"), {"basic_id": "a b", "basic_secret": "of the entry"}),
    ],
)
def test_both_tokens_are_revoked_by_the_client_that_got_them(
    server: Authority, who: Client, shown: dict[str, str]
) -> None:
    assert revoke(credential(server, who), entry(server)) is None

    assert server.seen("/revoke") == [
        {"token": "refresh", "token_type_hint": "refresh_token", **shown},
        {"token": "access", "token_type_hint": "access_token", **shown},
    ]


def test_a_server_that_does_not_is_told_about(server: Authority) -> None:
    server.revocation = 503

    assert revoke(credential(server, client("none")), None) == "HTTP 503"


def test_one_that_is_not_there_is_told_about(server: Authority) -> None:
    gone = credential(server, client("none"), revocation="http://127.0.0.1:1/revoke")

    assert revoke(gone, None)


def test_tokens_go_nowhere_in_the_clear(server: Authority) -> None:
    away = credential(server, client("none"), revocation="http://id.example/revoke")

    assert "is not over https" in str(revoke(away, None))


def test_where_nothing_can_be_revoked_nothing_is_wrong(server: Authority) -> None:
    assert revoke(credential(server, client("none"), revocation=None), None) is None
    assert server.requests == []
