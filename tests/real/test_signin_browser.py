"""Sign-in at a real authorization server: a browser shows its pages, and somebody fills them in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.world import until
from tests.real.signin import TOKEN_SECONDS, Realm, open_realm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ERAS = ("legacy", "modern")


@pytest.fixture
def realm(sdk: str, node: Path) -> Iterator[Realm]:
    """A realm in which nobody has signed in."""
    with open_realm(sdk, node) as found:
        yield found


@pytest.fixture(scope="module")
def alice(sdk: str, node: Path) -> Iterator[Realm]:
    """A realm in which somebody is signed in, whatever the tests do."""
    with open_realm(sdk, node) as found:
        found.sign_in("legacy", "alice")
        yield found


@pytest.mark.parametrize("era", ERAS)
def test_a_call_works_once_somebody_has_signed_in_on_the_page(realm: Realm, era: str) -> None:
    refused = realm.world.run("call", era, "echo", "text=hi", "--json")
    assert (refused.status, refused.error["class"]) == (3, "auth_required")
    assert f"mcpd login {era}" in refused.error["hint"]

    end = realm.login(era)
    realm.agree("alice")
    done = end()

    assert done.status == 0, done
    assert realm.world.call(era, "echo", "text=hi") == "hi"
    (client,) = realm.did("register")
    assert realm.world.call(era, "who") == f"alice by {client['client']}"
    assert [grant["resource"] for grant in realm.did("grant")] == [realm.url] * len(realm.grants())


def test_one_sign_in_is_for_all_entries_of_a_server_and_outlives_the_daemon(alice: Realm) -> None:
    assert [alice.world.call(era, "echo", "text=hi") for era in ERAS] == ["hi", "hi"]
    assert alice.world.run("down").status == 0

    assert [alice.world.call(era, "echo", "text=again") for era in ERAS] == ["again", "again"]
    assert alice.grants().count("authorization_code") == 1


@pytest.mark.parametrize("era", ERAS)
def test_the_call_after_the_token_has_expired_renews_it(alice: Realm, era: str) -> None:
    assert alice.world.call(era, "echo", "text=before") == "before"
    old, grants = alice.tokens(), alice.grants()
    until(lambda: not alice.is_good(old["access_token"]), seconds=6 * TOKEN_SECONDS)

    assert alice.world.call(era, "echo", "text=after") == "after"

    assert alice.grants() == [*grants, "refresh_token"]
    # This authorization server gives a refresh token for one use.
    assert alice.tokens()["refresh_token"] != old["refresh_token"]


def test_auth_tells_who_issued_the_token_and_until_when_but_not_the_token(alice: Realm) -> None:
    (told,) = alice.world.run("auth", "modern", "--json").json["credentials"]
    shown = "".join(alice.world.run("auth", *argv).out for argv in ((), ("legacy",), ("--json",)))
    (kept,) = alice.kept()

    assert (told["issuer"], told["scopes"]) == (alice.issuer, ["echo"])
    assert told["expires_at"] == int(kept["tokens"]["expires_at"])
    assert shown.count(alice.issuer) == 5
    assert [kind for kind, token in alice.tokens().items() if token in shown] == []


def test_no_token_is_in_the_log_or_in_what_the_daemon_says(alice: Realm) -> None:
    assert alice.world.call("modern", "echo", "text=hi") == "hi"

    outputs = [alice.world.run(*argv) for argv in (("status", "--json"), ("logs", "modern"), ("ls", "--json"))]
    shown = "".join([alice.world.log(), *(done.out + done.err for done in outputs)])

    assert "modern" in shown
    assert [kind for kind, token in alice.tokens().items() if token in shown] == []


def test_a_sign_in_that_is_cancelled_does_not_cost_the_one_that_works(alice: Realm) -> None:
    client = alice.kept()[0]["client"]
    end = alice.login("modern")
    alice.refuse()

    assert end().status == 3
    assert alice.kept()[0]["client"]["client_id"] == client["client_id"]
    assert alice.world.call("modern", "echo", "text=hi") == "hi"


def test_logout_makes_the_tokens_worthless_and_the_next_call_wants_a_sign_in(realm: Realm) -> None:
    realm.sign_in("modern")
    assert realm.world.call("modern", "echo", "text=hi") == "hi"
    tokens = realm.tokens()

    done = realm.world.run("logout", "modern")

    assert done.status == 0, done
    assert {kind: realm.is_good(token) for kind, token in tokens.items()} == dict.fromkeys(tokens, False)
    assert realm.kept() == []
    assert realm.world.run("call", "modern", "echo", "text=hi").status == 3


def test_a_sign_in_that_is_taken_back_at_the_server_has_to_be_made_again(realm: Realm) -> None:
    realm.sign_in("modern")
    assert realm.world.call("modern", "echo", "text=before") == "before"

    # With it goes all that was granted.
    realm.revoke(realm.tokens()["access_token"])

    refused = realm.world.run("call", "modern", "echo", "text=hi", "--json")
    assert (refused.status, refused.error["class"], refused.error["hint"]) == (3, "auth_required", "mcpd login modern")
    assert realm.world.row("modern")["state"] == "needs_auth"
    realm.sign_in("modern", "bob")
    assert realm.world.call("modern", "who").startswith("bob by ")


def test_a_call_signs_in_by_itself_where_that_is_wanted(realm: Realm) -> None:
    end = realm.begin("call", "modern", "echo", "text=hi", "--login")
    realm.agree("bob")
    done = end()

    assert (done.status, done.out) == (0, "hi\n"), done
    assert realm.world.call("modern", "who").startswith("bob by ")


def test_who_cancels_on_the_page_is_told_so_and_nothing_is_kept(realm: Realm) -> None:
    end = realm.login("modern")
    realm.refuse()
    done = end()

    assert done.status == 3, done
    assert "access_denied" in done.err
    assert realm.kept() == []
    assert realm.world.run("call", "modern", "echo", "text=hi").status == 3
