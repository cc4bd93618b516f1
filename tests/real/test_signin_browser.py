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


@pytest.mark.parametrize("era", ERAS)
def test_a_call_works_once_somebody_has_signed_in_on_the_page(realm: Realm, era: str) -> None:
    refused = realm.world.run("call", era, "echo", "text=hi", "--json")
    assert (refused.status, refused.error["class"]) == (3, "auth_required")
    assert f"mcpd login {era}" in refused.error["hint"]

    end = realm.login(era)
    last_page = realm.agree("alice")
    done = end()

    assert done.status == 0, done
    assert "signed in" in last_page.lower()
    assert realm.world.call(era, "echo", "text=hi") == "hi"
    (client,) = realm.did("register")
    assert realm.world.call(era, "who") == f"alice by {client['client']}"
    assert [grant["resource"] for grant in realm.did("grant")] == [realm.url] * len(realm.grants())


def test_one_sign_in_is_for_all_entries_of_a_server_and_outlives_the_daemon(realm: Realm) -> None:
    realm.sign_in("legacy")
    assert realm.world.call("modern", "echo", "text=hi") == "hi"
    assert realm.world.run("down").status == 0

    assert [realm.world.call(era, "echo", "text=again") for era in ERAS] == ["again", "again"]
    assert realm.grants().count("authorization_code") == 1


@pytest.mark.parametrize("era", ERAS)
def test_the_call_after_the_token_has_expired_renews_it(realm: Realm, era: str) -> None:
    realm.sign_in(era)
    assert realm.world.call(era, "echo", "text=before") == "before"
    old, grants = realm.tokens(), realm.grants()
    until(lambda: not realm.is_good(old["access_token"]), seconds=6 * TOKEN_SECONDS)

    assert realm.world.call(era, "echo", "text=after") == "after"

    assert realm.grants() == [*grants, "refresh_token"]
    assert realm.is_good(realm.tokens()["access_token"])
    # This authorization server gives a refresh token for one use.
    assert realm.tokens()["refresh_token"] != old["refresh_token"]


def test_auth_tells_who_issued_the_token_and_until_when_but_not_the_token(realm: Realm) -> None:
    realm.sign_in("modern")

    outputs = [realm.world.run("auth", *argv) for argv in ((), ("modern",), ("--json",), ("modern", "--json"))]

    assert [done for done in outputs if done.status or realm.issuer not in done.out] == []
    shown = "".join(done.out + done.err for done in outputs)
    assert [kind for kind, token in realm.tokens().items() if token in shown] == []


def test_no_token_is_in_the_log_or_in_the_state_of_the_server(realm: Realm) -> None:
    realm.sign_in("modern")
    assert realm.world.call("modern", "echo", "text=hi") == "hi"

    shown = realm.world.log() + realm.world.run("status", "--json").out + realm.world.run("logs", "modern").out

    assert "modern" in shown
    assert [kind for kind, token in realm.tokens().items() if token in shown] == []


def test_logout_makes_the_tokens_worthless_and_the_next_call_wants_a_sign_in(realm: Realm) -> None:
    realm.sign_in("modern")
    assert realm.world.call("modern", "echo", "text=hi") == "hi"
    tokens = realm.tokens()

    done = realm.world.run("logout", "modern")

    assert done.status == 0, done
    assert {kind: realm.is_good(token) for kind, token in tokens.items()} == dict.fromkeys(tokens, False)
    assert realm.kept() == []
    assert realm.world.run("call", "modern", "echo", "text=hi").status == 3


def test_a_token_that_is_taken_back_is_noticed_and_another_one_fetched(realm: Realm) -> None:
    realm.sign_in("modern")
    assert realm.world.call("modern", "echo", "text=before") == "before"
    taken = realm.tokens()["access_token"]

    realm.revoke(taken)

    assert not realm.is_good(taken)
    assert realm.world.call("modern", "echo", "text=after") == "after"


def test_a_call_signs_in_by_itself_where_that_is_wanted(realm: Realm) -> None:
    end = realm.begin("call", "modern", "echo", "text=hi", "--login")
    realm.agree("bob")
    done = end()

    assert (done.status, done.out) == (0, "hi\n"), done
    assert realm.world.call("modern", "who").startswith("bob by ")


def test_who_cancels_on_the_page_is_told_so_and_nothing_is_kept(realm: Realm) -> None:
    end = realm.login("modern")
    with realm.page() as browser:
        browser.follow("Cancel")
        until(lambda: not browser.url.startswith(realm.issuer))
        page = browser.text
    done = end()

    assert done.status == 3, done
    assert "signed in" not in page.lower()
    assert "Traceback" not in done.err
    assert realm.kept() == []
    assert realm.world.run("call", "modern", "echo", "text=hi").status == 3


def test_a_sign_in_that_is_cancelled_does_not_cost_the_one_that_works(realm: Realm) -> None:
    realm.sign_in("modern")
    kept = realm.kept()
    end = realm.login("modern")
    with realm.page() as browser:
        browser.follow("Cancel")
        until(lambda: not browser.url.startswith(realm.issuer))
    assert end().status == 3

    assert realm.kept()[0]["client"] == kept[0]["client"]
    assert realm.world.call("modern", "echo", "text=hi") == "hi"
