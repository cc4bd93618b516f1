from __future__ import annotations

from typing import Any

import pytest

from mcpd.config.load import parse
from mcpd.errors import BadRequest, McpdError, Misconfigured
from mcpd.signin.entry import Entry, entry_of

URL = 'url = "https://x.example/mcp"\n'


def read(text: str, **environ: str) -> Entry:
    config = parse(f"[servers.s]\n{text}", "file", environ)
    assert config.problems == ()
    return entry_of(config.servers["s"], environ)


def test_references_are_taken_from_the_environment_and_nothing_of_them_is_shown() -> None:
    entry = read(
        URL + 'headers = { X-Key = "${KEY}" }\noauth = { client_id = "${ID}", client_secret = "${SECRET}", scopes = ["a", "b a"] }',
        KEY="key-of-mine", ID="me", SECRET="secret-of-mine",
    )  # fmt: skip

    assert (entry.client_id, entry.client_secret, entry.scopes) == ("me", "secret-of-mine", "a b")
    assert entry.headers == {"X-Key": "key-of-mine"}
    assert entry.secrets == {"key-of-mine", "secret-of-mine"}
    assert "mine" not in repr(entry)


@pytest.mark.parametrize(
    ("protocol", "is_legacy"),
    [("auto", False), ("modern", False), ("legacy", True), ("2025-11-25", True), ("2026-07-28", False)],
)
def test_a_server_that_is_pinned_to_an_old_revision_is_asked_in_its_words(protocol: str, is_legacy: bool) -> None:
    assert read(f'{URL}protocol = "{protocol}"').is_legacy is is_legacy


@pytest.mark.parametrize(
    ("text", "kind", "why"),
    [
        ('command = "x"', BadRequest, "runs on this machine"),
        (URL + 'bearer_env = "T"', BadRequest, "has a token in its entry"),
        (URL + 'bearer_env = "OF_THE_DAEMON"', BadRequest, "has a token in its entry"),
        (URL + 'headers_helper = ["x"]', BadRequest, "takes no sign-in"),
        (URL + 'headers = { authorization = "Basic x" }', BadRequest, "has a token in its entry"),
        (URL + 'oauth = { client_secret = "x" }', Misconfigured, "oauth.client_id"),
        (URL + 'oauth = { grant = "client_credentials" }', Misconfigured, "oauth.client_id"),
        (URL + 'oauth = { grant = "client_credentials", client_id = "x" }', Misconfigured, "oauth.client_secret"),
        (URL + 'oauth = { client_id = "x", auth_method = "private_key_jwt" }', Misconfigured, "oauth.private_key"),
        (URL + 'oauth = { client_id = "x", auth_method = "client_secret_post" }', Misconfigured, "oauth.client_secret"),
        (URL + 'oauth = { client_metadata_url = "https://x.example" }', Misconfigured, "oauth.client_metadata_url"),
        (URL + 'oauth = { client_metadata_url = "http://x.example/a" }', Misconfigured, "oauth.client_metadata_url"),
        (URL + 'oauth = { client_id = "${NOT_THERE}" }', Misconfigured, "oauth.client_id"),
        ('url = "http://x.example/mcp"', Misconfigured, "in the clear"),
    ],
)
def test_an_entry_that_cannot_be_signed_in_to_says_why(text: str, kind: type[McpdError], why: str) -> None:
    with pytest.raises(kind) as caught:
        read(text, T="token-of-mine")

    assert why in caught.value.message
    error: dict[str, Any] = caught.value.to_error()
    assert "mine" not in str(error)
