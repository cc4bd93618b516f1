from __future__ import annotations

import json
from typing import Any

import pytest

from mcpd.signin.report import row, rows
from mcpd.upstream.credential import Client, Credential, Endpoints, Tokens

NOW = 1000.0
URL = "https://x.example/mcp"


def credential(resource: str = URL, tokens: Tokens | None = None) -> Credential:
    return Credential(
        version=1,
        resource=resource,
        issuer="https://id.example",
        client=Client(client_id="me", client_secret="secret-1", registration="dynamic"),
        endpoints=Endpoints(token="https://id.example/token"),
        tokens=tokens,
        saved_at=900.0,
    )


def good(**more: Any) -> Tokens:
    return Tokens(**{"access_token": "secret-2", "token_type": "Bearer", **more})


@pytest.mark.parametrize(
    ("tokens", "state", "seconds"),
    [
        (None, "not_signed_in", None),
        (good(), "signed_in", None),
        (good(expires_at=NOW + 59.5), "signed_in", 60),
        (good(expires_at=NOW), "expired", 0),
        (good(expires_at=NOW - 5, refresh_token="secret-3"), "signed_in", 0),
    ],
)
def test_what_can_be_refreshed_has_not_expired(tokens: Tokens | None, state: str, seconds: int | None) -> None:
    found = row("s", credential(tokens=tokens), NOW)

    assert (found["state"], found.get("expires_in_seconds")) == (state, seconds)


def test_no_secret_is_told() -> None:
    found = row("s", credential(tokens=good(refresh_token="secret-3", scope="a b")), NOW)

    assert "secret" not in json.dumps(found)
    assert (found["scopes"], found["client"], found["refreshable"]) == (["a", "b"], "dynamic", True)


def test_each_server_has_a_row_and_what_belongs_to_none_has_one_too() -> None:
    old = credential("https://old.example/mcp", good())

    found = rows({"a": f"{URL}/", "b": "https://other.example/"}, [credential(tokens=good()), old], NOW)

    assert [(one["server"], one["state"], one["resource"]) for one in found] == [
        ("a", "signed_in", URL),
        ("b", "not_signed_in", "https://other.example"),
        (None, "signed_in", "https://old.example/mcp"),
    ]
