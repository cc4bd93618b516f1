"""The token of a sign-in: renewed once for all, written before it is used, and never thrown away."""

from __future__ import annotations

import contextlib
import functools
import os
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from mcpd.config.model import OAuth
from mcpd.errors import AuthRequired, ConnectFailed, HttpFailed, McpdError
from mcpd.upstream.around import Credentials
from mcpd.upstream.vault import Client
from tests.upstream.signed_in import ISSUER, LIFE_SECONDS, RESOURCE, House, credential, now, reply, revised, shown

EXPIRED = 'Bearer error="invalid_token"'


@pytest.fixture
async def house(nursery: trio.Nursery, tmp_path: Path) -> House:
    return House(nursery, tmp_path)


async def refused(credentials: Credentials, token: str = "access-0", challenge: str = EXPIRED) -> bool:
    """Tell that a server has answered 401 to a token."""
    return await credentials.renew(401, challenge, {"Authorization": f"Bearer {token}"})


async def token_of(credentials: Credentials) -> str | None:
    return shown(await credentials.headers())


async def all_of(*, work: Any, times: int) -> list[Any]:
    """Do the same many times at once; return what came of it."""
    outcomes: list[Any] = []

    async def once() -> None:
        try:
            outcomes.append(await work())
        except McpdError as problem:
            outcomes.append(problem)

    async with trio.open_nursery() as crowd:
        for _ in range(times):
            crowd.start_soon(once)
    return outcomes


# -- showing it --------------------------------------------------------------------------------------


async def test_the_token_is_shown_beside_the_headers_of_the_entry(house: House, autojump_clock: MockClock) -> None:
    house.sign_in()

    headers = await house.credentials(headers={"X-Tenant": "one"}).headers()

    assert headers == {"X-Tenant": "one", "Authorization": "Bearer access-0"}
    assert house.issuer.asked == []


async def test_who_has_not_signed_in_shows_nothing(house: House, autojump_clock: MockClock) -> None:
    assert await house.credentials().headers() == {}


async def test_a_sign_in_is_seen_by_the_next_request(house: House, autojump_clock: MockClock) -> None:
    credentials = house.credentials()
    await credentials.headers()

    house.sign_in()

    assert await token_of(credentials) == "access-0"


async def test_a_sign_out_is_seen_by_the_next_request(house: House, autojump_clock: MockClock) -> None:
    house.sign_in()
    credentials = house.credentials()
    await credentials.headers()
    os.utime(house.vault.path, (1, 1))
    credentials_before = await token_of(credentials)

    house.vault.remove(ISSUER, RESOURCE)

    assert credentials_before == "access-0"
    assert await token_of(credentials) is None


@pytest.mark.parametrize(
    ("issuer", "token"), [(None, "second"), ("https://as.example", "first"), ("https://x.example", None)]
)
async def test_the_configured_issuer_is_the_one_that_counts(
    issuer: str | None, token: str | None, house: House, autojump_clock: MockClock
) -> None:
    house.sign_in("first")
    await trio.sleep(1)
    house.vault.write(revised(credential("second"), issuer="https://other.example"))

    assert await token_of(house.credentials(oauth=OAuth(issuer=issuer))) == token


# -- before it expires -------------------------------------------------------------------------------


async def test_a_token_that_is_about_to_expire_is_renewed_before_it_is_shown(
    house: House, autojump_clock: MockClock
) -> None:
    house.sign_in()
    credentials = house.credentials()
    await trio.sleep(LIFE_SECONDS - 60)

    assert await token_of(credentials) == "access-1"
    assert house.stored.access_token == "access-1"
    assert house.stored.expires_at == now() + LIFE_SECONDS


async def test_a_token_is_not_renewed_long_before(house: House, autojump_clock: MockClock) -> None:
    house.sign_in()
    await trio.sleep(LIFE_SECONDS - 120)

    assert await token_of(house.credentials()) == "access-0"


async def test_a_token_that_lives_shortly_is_used_for_most_of_its_life(house: House, autojump_clock: MockClock) -> None:
    house.sign_in(life=10)
    await trio.sleep(7)

    assert await token_of(house.credentials()) == "access-0"


async def test_a_token_of_which_nobody_said_when_it_expires_is_used_until_it_is_refused(
    house: House, autojump_clock: MockClock
) -> None:
    house.sign_in(life=None)
    await trio.sleep(10 * LIFE_SECONDS)
    credentials = house.credentials()

    assert await token_of(credentials) == "access-0"
    assert await refused(credentials)
    assert await token_of(credentials) == "access-1"


async def test_nobody_waits_long_for_a_new_token_while_the_old_one_is_good(
    house: House, autojump_clock: MockClock
) -> None:
    house.sign_in()
    house.issuer.seconds = 20
    await trio.sleep(LIFE_SECONDS - 50)
    credentials, started = house.credentials(), trio.current_time()

    assert await token_of(credentials) == "access-0"
    assert trio.current_time() - started == 5

    await trio.sleep(20)
    assert await token_of(credentials) == "access-1"
    assert len(house.issuer.asked) == 1


async def test_an_authorization_server_that_is_down_harms_no_token_that_is_good(
    house: House, autojump_clock: MockClock
) -> None:
    house.sign_in()
    house.issuer.answers = [None] * 10
    await trio.sleep(LIFE_SECONDS - 50)
    credentials = house.credentials()

    assert [await token_of(credentials) for _ in range(5)] == ["access-0"] * 5
    # It was not asked by each of them: after a failure it is left alone for a moment.
    assert len(house.issuer.asked) == 3


async def test_an_expired_token_without_a_refresh_token_is_left_to_the_server_to_refuse(
    house: House, autojump_clock: MockClock
) -> None:
    house.sign_in(refresh=None, life=5)
    await trio.sleep(10)
    credentials = house.credentials()

    assert await token_of(credentials) == "access-0"
    with pytest.raises(AuthRequired):
        await refused(credentials)


# -- one renewal for all -----------------------------------------------------------------------------


async def test_fifty_requests_whose_token_is_refused_share_one_renewal(house: House, autojump_clock: MockClock) -> None:
    house.sign_in()
    each = [house.credentials() for _ in range(50)]
    credentials = iter(each)

    outcomes = await all_of(work=lambda: refused(next(credentials)), times=50)

    assert outcomes == [True] * 50
    assert len(house.issuer.asked) == 1
    assert {await token_of(one) for one in each} == {"access-1"}


async def test_fifty_requests_with_an_expired_token_share_one_renewal(house: House, autojump_clock: MockClock) -> None:
    house.sign_in()
    await trio.sleep(LIFE_SECONDS + 1)
    credentials = house.credentials()

    outcomes = await all_of(work=lambda: token_of(credentials), times=50)

    assert outcomes == ["access-1"] * 50
    assert len(house.issuer.asked) == 1


async def test_a_late_refusal_of_the_old_token_renews_nothing(house: House, autojump_clock: MockClock) -> None:
    house.sign_in()
    credentials = house.credentials()
    await refused(credentials)

    assert await refused(credentials, "access-0")
    assert len(house.issuer.asked) == 1


@pytest.mark.parametrize(
    ("answers", "kind"), [([reply(400, error="invalid_grant")], AuthRequired), ([None] * 3, ConnectFailed)]
)
async def test_fifty_requests_share_a_failure_and_each_has_an_error_of_its_own(
    answers: list[Any], kind: type[McpdError], house: House, autojump_clock: MockClock
) -> None:
    house.sign_in()
    house.issuer.answers = [*answers]
    credentials = house.credentials()

    outcomes = await all_of(work=lambda: refused(credentials), times=50)

    assert {type(outcome) for outcome in outcomes} == {kind}
    assert len({id(outcome) for outcome in outcomes}) == 50
    assert len({str(outcome.message) for outcome in outcomes}) == 1
    assert len(house.issuer.asked) == len(answers)


async def test_a_caller_that_goes_away_takes_no_renewal_with_it(house: House, autojump_clock: MockClock) -> None:
    house.sign_in()
    credentials = house.credentials()

    with trio.move_on_after(0.5) as given_up:
        await refused(credentials)
    assert given_up.cancelled_caught
    await trio.sleep(1)

    assert await token_of(credentials) == "access-1"
    assert house.stored.refresh_token == "refresh-1"


async def test_a_renewal_is_bounded(house: House, autojump_clock: MockClock) -> None:
    house.sign_in()
    house.issuer.seconds = 1000
    credentials, started = house.credentials(), trio.current_time()

    with pytest.raises(ConnectFailed, match="did not answer within 45 s") as late:
        await refused(credentials)

    assert trio.current_time() - started == 45
    assert late.value.may_have_run is False
    assert house.stored.access_token == "access-0"


# -- nothing is lost ---------------------------------------------------------------------------------


async def test_what_was_granted_is_on_the_disk_before_anybody_uses_it(house: House, autojump_clock: MockClock) -> None:
    house.sign_in()
    credentials = house.credentials()
    stored: list[str] = []

    async def use() -> None:
        await refused(credentials)
        stored.append(house.stored.access_token)

    async with trio.open_nursery() as crowd:
        for _ in range(5):
            crowd.start_soon(use)

    assert stored == ["access-1"] * 5


async def test_a_daemon_that_is_killed_after_a_renewal_leaves_what_the_next_one_needs(
    house: House, autojump_clock: MockClock
) -> None:
    house.sign_in()
    await refused(house.credentials())

    after = house.credentials(keyring=house.new_keyring())

    assert await token_of(after) == "access-1"
    assert await refused(after, "access-1")
    assert house.issuer.valid == {"access-2"}


async def test_a_daemon_that_ends_in_the_middle_of_a_renewal_lets_it_come_to_its_end(
    house: House, autojump_clock: MockClock
) -> None:
    house.sign_in()
    house.issuer.seconds = 3
    credentials = house.credentials()

    async with trio.open_nursery() as crowd:
        crowd.start_soon(refused, credentials)
        await wait_all_tasks_blocked()
        house.keyring.close()

    assert house.stored.access_token == "access-1"


async def test_a_daemon_that_ends_does_not_wait_long_for_a_renewal(house: House, autojump_clock: MockClock) -> None:
    house.sign_in()
    house.issuer.seconds = 40
    credentials = house.credentials()
    outcomes: list[Any] = []

    async with trio.open_nursery() as crowd:

        async def use() -> None:
            outcomes.extend(await all_of(work=lambda: refused(credentials), times=1))

        crowd.start_soon(use)
        await wait_all_tasks_blocked()
        house.keyring.close()

    assert trio.current_time() == 5
    assert [type(one) for one in outcomes] == [ConnectFailed]


async def test_a_token_that_somebody_else_has_stored_is_taken(house: House, autojump_clock: MockClock) -> None:
    house.sign_in()
    credentials = house.credentials()
    await token_of(credentials)

    other = house.credentials(keyring=house.new_keyring())
    await refused(other)

    assert await refused(credentials)
    assert await token_of(credentials) == "access-1"
    assert len(house.issuer.asked) == 1


async def test_two_daemons_at_once_renew_one_after_the_other_and_only_one_of_them_asks(
    house: House, autojump_clock: MockClock
) -> None:
    house.sign_in()
    each = iter([house.credentials(), house.credentials(keyring=house.new_keyring())] * 10)

    outcomes = await all_of(work=lambda: refused(next(each)), times=20)

    assert outcomes == [True] * 20
    assert len(house.issuer.asked) == 1
    assert house.issuer.valid == {"access-1"}


async def test_a_token_that_was_stored_and_has_expired_is_renewed_all_the_same(
    house: House, autojump_clock: MockClock
) -> None:
    house.sign_in()
    credentials = house.credentials()
    await token_of(credentials)
    stamp = os.stat(house.vault.path)
    house.vault.write(credential("access-old", life=-5))
    os.utime(house.vault.path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # as if it had come just now

    assert await refused(credentials)
    assert await token_of(credentials) == "access-1"


async def test_what_the_answer_leaves_out_is_carried_forward(house: House, autojump_clock: MockClock) -> None:
    house.sign_in()
    house.issuer.answers = [reply(access_token="access-1", token_type="bearer")]
    await refused(house.credentials())

    assert house.stored.refresh_token == "refresh-0"
    assert house.stored.scope == "read"
    assert house.stored.expires_at is None


async def test_what_the_file_holds_beside_the_tokens_stays(house: House, autojump_clock: MockClock) -> None:
    before = house.sign_in(
        client={"client_secret": "client-secret"},
        requested_scope="read write",
        resource_indicator="https://api.example",
    )
    await refused(house.credentials())

    after = house.vault.read(ISSUER, RESOURCE)
    assert after is not None
    assert revised(after, tokens=None, saved_at=0.0) == revised(before, tokens=None, saved_at=0.0)


@pytest.mark.parametrize("answer", [reply(400, error="invalid_grant"), reply(401, error="invalid_client"), None])
async def test_a_renewal_that_fails_changes_nothing_on_the_disk(
    answer: Any, house: House, autojump_clock: MockClock
) -> None:
    before = house.sign_in()
    house.issuer.answers = [answer] * 3

    with pytest.raises(McpdError):
        await refused(house.credentials())

    assert house.vault.read(ISSUER, RESOURCE) == before


async def test_a_new_sign_in_ends_what_was_refused(house: House, autojump_clock: MockClock) -> None:
    house.sign_in()
    house.issuer.answers = [reply(400, error="invalid_grant")]
    credentials = house.credentials()
    with pytest.raises(AuthRequired):
        await refused(credentials)

    house.sign_in("access-9", refresh="refresh-0")
    assert await token_of(credentials) == "access-9"


async def test_a_full_disk_loses_no_token(
    house: House, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.sign_in()
    credentials = house.credentials()
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", _no_space)

        assert await refused(credentials)
        assert await token_of(credentials) == "access-1"
        await trio.sleep(10)
        assert await token_of(credentials) == "access-1"
        assert house.stored.access_token == "access-0"
        assert "credentials.unsaved" in house.events

    await trio.sleep(10)
    assert await token_of(credentials) == "access-1"
    assert house.stored.access_token == "access-1"
    assert house.stored.refresh_token == "refresh-1"


async def test_what_could_not_be_written_never_overwrites_a_newer_sign_in(
    house: House, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.sign_in()
    credentials = house.credentials()
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", _no_space)
        await refused(credentials)

    house.sign_in("access-9")
    await trio.sleep(10)

    assert await token_of(credentials) == "access-9"
    assert house.stored.access_token == "access-9"


async def test_nothing_is_asked_for_that_could_not_be_kept(house: House, autojump_clock: MockClock) -> None:
    house.sign_in()
    credentials = house.credentials()
    await token_of(credentials)
    os.chmod(house.vault.path, 0o755)

    with pytest.raises(ConnectFailed, match="could not be kept"):
        await refused(credentials)
    assert house.issuer.asked == []


async def test_a_sign_out_during_a_renewal_counts(house: House, autojump_clock: MockClock) -> None:
    house.sign_in()
    credentials = house.credentials()

    with locked(house) as lock:
        async with trio.open_nursery() as crowd:
            outcomes: list[Any] = []

            async def use() -> None:
                outcomes.extend(await all_of(work=lambda: refused(credentials), times=1))

            crowd.start_soon(use)
            await wait_all_tasks_blocked()
            house.vault.remove(ISSUER, RESOURCE)
            lock.close()

    assert [type(one) for one in outcomes] == [AuthRequired]
    assert house.issuer.asked == []
    assert house.vault.read(ISSUER, RESOURCE) is None


# -- what goes wrong ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "passing",
    [None, reply(500), reply(503, body=b"<html>"), reply(429), reply(400, error="temporarily_unavailable")],
)
async def test_what_passes_is_tried_again(passing: Any, house: House, autojump_clock: MockClock) -> None:
    house.sign_in()
    house.issuer.answers = [passing, passing]

    assert await refused(house.credentials())
    assert house.stored.access_token == "access-1"


@pytest.mark.parametrize(
    ("answer", "kind", "why"),
    [
        (None, ConnectFailed, "it is down"),
        (reply(502, body=b"<html>"), HttpFailed, "HTTP 502"),
        (reply(400, body=b"<html>"), HttpFailed, "HTTP 400"),
        (reply(302), HttpFailed, "HTTP 302"),
        (reply(200, body=b"[]"), HttpFailed, "HTTP 200 without a token"),
        (reply(200, access_token="a\r\nb"), HttpFailed, "HTTP 200 without a token"),
        (reply(200, access_token="a", token_type="DPoP"), HttpFailed, "no bearer token"),
    ],
)
async def test_what_says_nothing_about_the_grant_wants_no_sign_in(
    answer: Any, kind: type[McpdError], why: str, house: House, autojump_clock: MockClock
) -> None:
    house.sign_in()
    house.issuer.answers = [answer] * 3

    with pytest.raises(kind, match=why) as failed:
        await refused(house.credentials())
    assert failed.value.server == "api"
    assert failed.value.may_have_run is False


async def test_an_authorization_server_that_is_down_is_left_alone_for_longer_and_longer(
    house: House, autojump_clock: MockClock
) -> None:
    house.sign_in(life=1)
    house.issuer.answers = [None] * 1000
    credentials = house.credentials()
    await trio.sleep(2)

    for _ in range(200):
        with pytest.raises(ConnectFailed):
            await credentials.headers()
        await trio.sleep(1)

    assert 10 <= len(house.issuer.asked) <= 30
    house.issuer.answers = []
    await trio.sleep(60)
    assert await token_of(credentials) == "access-1"


async def test_the_wait_that_a_server_asks_for_is_kept(house: House, autojump_clock: MockClock) -> None:
    house.sign_in()
    house.issuer.answers = [reply(503, retry_after="4")]
    started = trio.current_time()

    await refused(house.credentials())

    assert trio.current_time() - started == 6  # two answers of a second each, and four


@pytest.mark.parametrize("error", ["invalid_grant", "invalid_client", "unauthorized_client", "bad_refresh_token"])
async def test_a_refusal_wants_a_sign_in(error: str, house: House, autojump_clock: MockClock) -> None:
    house.sign_in()
    house.issuer.answers = [reply(400 if error != "bad_refresh_token" else 200, error=error)]

    with pytest.raises(AuthRequired, match=error) as wanted:
        await refused(house.credentials())

    assert wanted.value.hint == "mcpd login api"


async def test_a_refresh_token_that_was_refused_is_not_tried_again(house: House, autojump_clock: MockClock) -> None:
    house.sign_in()
    house.issuer.answers = [reply(400, error="invalid_grant")]
    credentials = house.credentials()

    for _ in range(3):
        with pytest.raises(AuthRequired):
            await refused(credentials)
    assert len(house.issuer.asked) == 1
    assert await token_of(credentials) == "access-0"  # it has not expired

    await trio.sleep(LIFE_SECONDS)
    with pytest.raises(AuthRequired):
        await credentials.headers()
    assert len(house.issuer.asked) == 1


async def test_a_request_whose_new_token_is_refused_too_wants_a_sign_in(
    house: House, autojump_clock: MockClock
) -> None:
    house.sign_in()
    credentials = house.credentials()
    assert await refused(credentials)

    with pytest.raises(AuthRequired):
        await refused(credentials, "access-1")
    assert len(house.issuer.asked) == 1


async def test_tokens_that_are_taken_back_quickly_are_renewed_for_each_request(
    house: House, autojump_clock: MockClock
) -> None:
    house.sign_in()
    credentials = house.credentials()

    for number in range(10):
        outcomes = await all_of(work=functools.partial(refused, credentials, f"access-{number}"), times=5)
        assert outcomes == [True] * 5
    assert len(house.issuer.asked) == 10


async def test_what_asks_all_the_time_gets_a_new_token_each_time_that_one_has_had_its_time(
    house: House, autojump_clock: MockClock
) -> None:
    house.sign_in()
    credentials = house.credentials()

    for number in range(3):
        assert await refused(credentials, f"access-{number}")
        await trio.sleep(60)


async def test_the_same_token_again_is_no_other_one(house: House, autojump_clock: MockClock) -> None:
    house.sign_in()
    house.issuer.answers = [reply(access_token="access-0")]

    with pytest.raises(AuthRequired):
        await refused(house.credentials())


async def test_a_spent_refresh_token_is_never_shown_twice(house: House, autojump_clock: MockClock) -> None:
    """A second use would revoke all that came of the sign-in."""
    house.sign_in(life=10)
    house.issuer.granted["expires_in"] = 10
    each = [house.credentials(), house.credentials(keyring=house.new_keyring())]
    turns = iter(each * 200)

    async def live() -> None:
        mine = next(turns)
        for _ in range(30):
            token = await token_of(mine)
            assert token is not None
            if token not in house.issuer.valid:
                await refused(mine, token)
            await trio.sleep(1)

    async with trio.open_nursery() as crowd:
        for _ in range(20):
            crowd.start_soon(live)

    used = [form["refresh_token"] for form in house.issuer.asked]
    assert len(used) == len(set(used)) > 1
    assert house.issuer.valid == {house.stored.access_token}


# -- how the client says who it is -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client", "oauth", "form", "header"),
    [
        ({}, OAuth(), {"client_id": "me"}, None),
        ({"client_secret": "s%cret"}, OAuth(), {"client_id": "me"}, "Basic bWU6cyUyNWNyZXQ="),
        (
            {"client_secret": "s", "token_endpoint_auth_method": "client_secret_post"},
            OAuth(),
            {"client_id": "me", "client_secret": "s"},
            None,
        ),
        ({"client_secret": "s", "token_endpoint_auth_method": "none"}, OAuth(), {"client_id": "me"}, None),
        ({"registration": "static"}, OAuth(client_id="me", client_secret="e"), {"client_id": "me"}, "Basic bWU6ZQ=="),
        (
            {"registration": "static"},
            OAuth(client_id="me", client_secret="e", auth_method="client_secret_post"),
            {"client_id": "me", "client_secret": "e"},
            None,
        ),
        # The entry's secret is another client's.
        ({"client_secret": "mine"}, OAuth(client_id="you", client_secret="yours"), {"client_id": "me"}, "Basic bWU6bWluZQ=="),
    ],
)  # fmt: skip
async def test_the_client_says_who_it_is(
    client: dict[str, Any],
    oauth: OAuth,
    form: dict[str, str],
    header: str | None,
    house: House,
    autojump_clock: MockClock,
) -> None:
    house.sign_in(client=client)

    await refused(house.credentials(oauth=oauth))

    common = {"grant_type": "refresh_token", "refresh_token": "refresh-0", "resource": RESOURCE}
    assert house.issuer.asked == [{**common, **form}]
    assert house.issuer.headers == [{} if header is None else {"Authorization": header}]
    assert house.issuer.urls == ["https://as.example/token"]


@pytest.mark.parametrize(
    ("indicator", "sent"), [("https://api.example", "https://api.example"), ("", None), (None, RESOURCE)]
)
async def test_the_resource_is_named_as_it_was_at_the_sign_in(
    indicator: str | None, sent: str | None, house: House, autojump_clock: MockClock
) -> None:
    house.sign_in(resource_indicator=indicator)

    await refused(house.credentials())

    assert house.issuer.asked[0].get("resource") == sent


# -- a client of its own -----------------------------------------------------------------------------

ALONE = OAuth(client_id="me", client_secret="entry-secret", grant="client_credentials", scopes=("read", "write"))


async def test_a_client_of_its_own_asks_for_tokens_without_anybody(house: House, autojump_clock: MockClock) -> None:
    house.vault.write(revised(credential(), client=Client(client_id="me", registration="static"), tokens=None))
    credentials = house.credentials(oauth=ALONE)

    assert await token_of(credentials) == "access-1"
    await trio.sleep(LIFE_SECONDS)
    assert await token_of(credentials) == "access-2"

    assert house.issuer.asked[1] == {
        "grant_type": "client_credentials", "scope": "read write", "resource": RESOURCE, "client_id": "me",
    }  # fmt: skip


async def test_a_client_of_its_own_gets_more_when_more_is_asked_for(house: House, autojump_clock: MockClock) -> None:
    house.sign_in(requested_scope="read", client={"registration": "static"})
    credentials = house.credentials(oauth=ALONE)

    challenge = 'Bearer error="insufficient_scope", scope="admin"'
    assert await credentials.renew(403, challenge, {"Authorization": "Bearer access-0"})

    assert house.issuer.asked[0]["scope"] == "read admin"
    with pytest.raises(AuthRequired):  # not again and again
        await credentials.renew(403, challenge, {"Authorization": "Bearer access-1"})


async def test_a_client_of_its_own_that_is_refused_is_not_tried_by_each_call(
    house: House, autojump_clock: MockClock
) -> None:
    house.sign_in(life=1, client={"registration": "static"})
    house.issuer.answers = [reply(401, error="invalid_client")] * 100
    credentials = house.credentials(oauth=ALONE)
    await trio.sleep(2)

    for _ in range(20):
        with pytest.raises(AuthRequired, match="invalid_client"):
            await credentials.headers()
    assert len(house.issuer.asked) == 1


def _no_space(_: int) -> None:
    raise OSError(28, "No space left on device")


def locked(house: House) -> Any:
    """Hold the lock of the credential, as a sign-in does."""
    lock = house.vault.lock(ISSUER, RESOURCE)
    assert lock.try_acquire()
    return contextlib.closing(lock)


async def test_a_token_that_could_not_be_written_is_the_one_that_is_renewed_from(
    house: House, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.sign_in()
    credentials = house.credentials()
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", _no_space)
        await refused(credentials)
        await trio.sleep(LIFE_SECONDS + 1)
        assert await token_of(credentials) == "access-2"

    assert [form["refresh_token"] for form in house.issuer.asked] == ["refresh-0", "refresh-1"]
    assert house.issuer.valid == {"access-2"}
    await trio.sleep(10)
    assert await token_of(credentials) == "access-2"
    assert house.stored.refresh_token == "refresh-2"
