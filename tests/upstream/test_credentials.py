"""What a remote server is shown, who has to do what when that is refused, and that nobody else gets to see it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from mcpd.config.expand import Launch
from mcpd.config.model import OAuth, Server
from mcpd.config.redact import LiveRedactor
from mcpd.errors import AuthRequired, ConnectFailed, McpdError
from mcpd.upstream.around import Credentials
from mcpd.upstream.credentials import Keyring
from mcpd.upstream.vault import name_of
from tests.upstream.signed_in import ISSUER, RESOURCE, House, entry, now, reply
from tests.upstream.test_oauth import refused

METADATA = "https://api.example/.well-known/oauth-protected-resource"
ASKED = f'Bearer resource_metadata="{METADATA}", scope="read write"'
HELPER = Launch(
    url=RESOURCE, headers={"X-Key": "key-1", "x-kept": "kept"}, helper=("/bin/helper",), secrets=frozenset({"key-1"})
)
SERVER = Server(name="api", url=RESOURCE)


@pytest.fixture
async def house(nursery: trio.Nursery, tmp_path: Path) -> House:
    return House(nursery, tmp_path)


async def wanted(
    credentials: Credentials, status: int = 401, challenge: str = ASKED, token: str | None = None
) -> AuthRequired:
    """Return the error with which a renewal ends."""
    with pytest.raises(AuthRequired) as problem:
        await credentials.renew(status, challenge, {} if token is None else {"authorization": f"bearer {token}"})
    return problem.value


# -- who has to sign in ------------------------------------------------------------------------------


async def test_a_server_that_wants_a_sign_in_is_quoted(house: House, autojump_clock: MockClock) -> None:
    problem = await wanted(house.credentials())

    assert problem.to_error() == {
        "code": 15,
        "message": "server 'api' wants a sign-in",
        "data": {
            "class": "auth_required",
            "server": "api",
            "hint": "mcpd login api",
            "login": "mcpd login api",
            "may_have_run": False,
            "resource": RESOURCE,
            "resource_metadata": METADATA,
            "scopes": ["read", "write"],
        },
    }


@pytest.mark.parametrize(
    "challenge", ["", "Basic realm=x", "garbage \x00", 'Bearer scope="", resource_metadata="ftp://x"']
)
async def test_a_server_that_says_nothing_useful_wants_a_sign_in_all_the_same(
    challenge: str, house: House, autojump_clock: MockClock
) -> None:
    problem = await wanted(house.credentials(), challenge=challenge)

    assert problem.details == {"resource": RESOURCE, "login": "mcpd login api"}


async def test_what_a_server_says_is_passed_on_only_if_it_can_be_what_it_is_called(
    house: House, autojump_clock: MockClock
) -> None:
    challenge = f'Bearer scope="ok \x1b[31mred \\"q a\\\\b é {"x" * 300}", resource_metadata="https://x/{"y" * 3000}"'

    problem = await wanted(house.credentials(), challenge=challenge)

    assert problem.details["scopes"] == ["ok"]
    assert "resource_metadata" not in problem.details


async def test_a_token_that_is_refused_and_cannot_be_renewed_wants_a_new_sign_in(
    house: House, autojump_clock: MockClock
) -> None:
    house.sign_in(refresh=None)

    problem = await wanted(house.credentials(), token="access-0")

    assert problem.message == "server 'api' wants a new sign-in"
    assert problem.details["error"] == "invalid_token"
    assert problem.details["scopes"] == ["read", "write"]


async def test_a_step_up_asks_for_all_that_there_was_and_what_is_missing(
    house: House, autojump_clock: MockClock
) -> None:
    house.sign_in(requested_scope="read offline_access")
    challenge = f'Bearer error="insufficient_scope", scope="admin read", resource_metadata="{METADATA}"'

    problem = await wanted(house.credentials(), 403, challenge, "access-0")

    assert problem.message == "server 'api' wants a sign-in for more: read offline_access admin"
    assert problem.details["scopes"] == ["read", "offline_access", "admin"]
    # A sign-in without a word about scopes would ask for the same as the last one.
    assert problem.hint == problem.details["login"] == "mcpd login api --scopes 'read offline_access admin'"
    assert problem.details["error"] == "insufficient_scope"
    assert house.issuer.asked == []  # a refresh cannot give more


async def test_after_a_step_up_the_new_token_is_tried(house: House, autojump_clock: MockClock) -> None:
    house.sign_in()
    credentials = house.credentials()
    house.sign_in("access-9")

    assert await credentials.renew(403, 'Bearer error="insufficient_scope"', {"Authorization": "Bearer access-0"})


@pytest.mark.parametrize("challenge", ["", "Bearer", 'Bearer error="invalid_token"'])
async def test_another_403_is_no_matter_of_credentials(challenge: str, house: House, autojump_clock: MockClock) -> None:
    house.sign_in()

    assert not await house.credentials().renew(403, challenge, {"Authorization": "Bearer access-0"})


async def test_a_file_that_must_not_be_used_is_named(house: House, autojump_clock: MockClock) -> None:
    house.sign_in()
    file = f"{house.vault.path}/{name_of(ISSUER, RESOURCE)}.json"
    os.chmod(file, 0o644)

    credentials = house.credentials()
    assert await credentials.headers() == {}
    problem = await wanted(credentials)

    assert problem.message == f"server 'api' wants a sign-in: {file} is not used: others may read it (mode 0644)"
    assert problem.hint == f"chmod 600 {file}, then: mcpd start api"


async def test_the_query_of_a_url_is_not_repeated(house: House, autojump_clock: MockClock) -> None:
    launch, _ = entry()
    server = Server(name="api", url="https://me:pass@api.example/mcp?key=hidden")

    problem = await wanted(house.keyring.credentials_of(server, launch, house.world.around))

    assert problem.details["resource"] == RESOURCE


# -- credentials of the entry ------------------------------------------------------------------------


async def test_a_token_of_the_entry_is_shown_as_it_is(house: House, autojump_clock: MockClock) -> None:
    house.sign_in()
    credentials = house.credentials(headers={"authorization": "Bearer fixed"})

    assert await credentials.headers() == {"authorization": "Bearer fixed"}
    assert credentials.secrets == {"hidden-in-entry"}


async def test_a_token_of_the_entry_that_is_refused_is_not_replaced_by_a_sign_in(
    house: House, autojump_clock: MockClock
) -> None:
    credentials = house.credentials(headers={"Authorization": "Bearer fixed"})

    problem = await wanted(credentials, token="fixed")

    assert problem.message == "server 'api' refuses the credentials of its entry"
    assert problem.hint == "check bearer_env and headers in the entry of api"
    assert problem.details == {"resource": RESOURCE, "resource_metadata": METADATA}
    assert not await credentials.renew(403, ASKED, {})


# -- a command that prints headers -------------------------------------------------------------------


class Helper:
    """What a command prints, one time after the other; an error is raised."""

    def __init__(self, *outcomes: dict[str, str] | McpdError, seconds: float = 1.0) -> None:
        self.outcomes, self.seconds = [*outcomes], seconds
        self.runs = 0

    async def run(self, launch: Launch) -> dict[str, str]:
        self.runs += 1
        await trio.sleep(self.seconds)
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, McpdError):
            raise outcome
        return outcome

    def credentials(self, house: House) -> Credentials:
        return Keyring(house.vault, self.run, now, house.world.nursery).credentials_of(
            SERVER, HELPER, house.world.around
        )


async def test_what_a_command_prints_goes_before_what_the_entry_says(house: House, autojump_clock: MockClock) -> None:
    helper = Helper({"x-key": "key-2", "Authorization": "Bearer printed"})
    credentials = helper.credentials(house)

    assert await credentials.headers() == {"x-kept": "kept", "x-key": "key-2", "Authorization": "Bearer printed"}
    await credentials.headers()
    assert helper.runs == 1


async def test_a_command_is_run_once_for_all_who_wait(house: House, autojump_clock: MockClock) -> None:
    helper = Helper({"X": "1"}, {"X": "2"})
    credentials = helper.credentials(house)
    renewed: list[bool] = []

    async def renew() -> None:
        renewed.append(await credentials.renew(401, "", {"X": "1"}))

    async with trio.open_nursery() as crowd:
        for _ in range(50):
            crowd.start_soon(credentials.headers)
    async with trio.open_nursery() as crowd:
        for _ in range(50):
            crowd.start_soon(renew)

    assert helper.runs == 2
    assert renewed == [True] * 50
    assert await credentials.headers() == {"X-Key": "key-1", "x-kept": "kept", "X": "2"}


async def test_a_command_that_prints_the_same_again_is_named(house: House, autojump_clock: MockClock) -> None:
    helper = Helper({"X": "secret-value"})
    credentials = helper.credentials(house)
    used = await credentials.headers()

    with pytest.raises(AuthRequired) as problem:
        await credentials.renew(401, "", used)

    assert problem.value.message == "server 'api' refuses what its headers_helper prints"
    assert problem.value.hint == "check headers_helper in the entry of api"
    assert "login" not in problem.value.details


async def test_a_command_is_run_again_for_a_401_only(house: House, autojump_clock: MockClock) -> None:
    helper = Helper({"X": "1"}, {"X": "2"})
    credentials = helper.credentials(house)
    used = await credentials.headers()

    assert not await credentials.renew(403, 'Bearer error="insufficient_scope"', used)
    assert helper.runs == 1


async def test_a_command_that_fails_is_tried_by_the_next_request(house: House, autojump_clock: MockClock) -> None:
    helper = Helper(ConnectFailed("its headers_helper failed (exit status 1)"), {"X": "1"})
    credentials = helper.credentials(house)

    with pytest.raises(ConnectFailed) as problem:
        await credentials.headers()
    assert problem.value.message == "server 'api' cannot be asked: its headers_helper failed (exit status 1)"
    assert "run that command yourself" in str(problem.value.hint)
    assert problem.value.may_have_run is False
    assert (await credentials.headers())["X"] == "1"


# -- nobody else gets to see it ----------------------------------------------------------------------


async def test_what_a_command_prints_is_redacted_also_when_it_was_replaced(
    house: House, autojump_clock: MockClock
) -> None:
    helper = Helper({"Authorization": "Bearer first-value"}, {"Authorization": "Bearer second-value"})
    keyring = Keyring(house.vault, helper.run, now, house.world.nursery)
    credentials = keyring.credentials_of(SERVER, HELPER, house.world.around)
    redact = LiveRedactor(lambda: keyring.secrets_of(HELPER))

    used = await credentials.headers()
    await credentials.renew(401, "", used)

    said = redact.text("key-1? first-value? second-value? kept?")
    assert said == "key-1? [redacted]? [redacted]? kept?"  # five characters are too few


async def test_tokens_are_redacted_also_those_that_come_later_and_those_that_were_replaced(
    house: House, autojump_clock: MockClock
) -> None:
    oauth = OAuth(client_id="me", client_secret="entry-secret")
    launch, _ = entry(oauth=oauth)
    credentials = house.credentials(oauth=oauth)
    redact = LiveRedactor(lambda: house.keyring.secrets_of(launch))
    text = "access-0 refresh-0 access-1 refresh-1 entry-secret stored-secret hidden-in-entry"
    assert "access-0" in redact.text(text)

    house.sign_in(client={"client_secret": "stored-secret"})
    await credentials.headers()
    await refused(credentials)

    assert redact.text(text) == " ".join(["[redacted]"] * 7)
    assert redact.lines([text]) == [" ".join(["[redacted]"] * 7)]


async def test_no_error_and_no_log_line_has_a_secret_in_it(house: House, autojump_clock: MockClock) -> None:
    secrets = ("access-0", "refresh-0", "stored-secret", "entry-secret")
    house.sign_in(client={"client_secret": "stored-secret"})
    oauth = OAuth(client_id="me", client_secret="entry-secret")
    answers: list[Any] = [
        reply(400, error="invalid_grant", error_description="refresh-0 stored-secret"), reply(400, error="refresh-0 is bad"),
        reply(500, body=b"refresh-0"), reply(200, body=b"refresh-0"), None,
    ]  # fmt: skip

    for answer in answers:
        house.issuer.answers = [answer] * 3
        credentials = house.credentials(oauth=oauth, keyring=house.new_keyring())
        with pytest.raises(McpdError) as problem:
            await refused(credentials)
        shown = f"{problem.value!r} {problem.value.to_error()} {credentials!r}"
        assert [secret for secret in secrets if secret in shown] == []


async def test_an_entry_shows_no_secret_of_its_client() -> None:
    launch, server = entry(oauth=OAuth(client_id="me", client_secret="entry-secret", private_key="-----BEGIN"))

    shown = f"{launch!r} {server!r} {launch.oauth!r}"
    assert "entry-secret" not in shown
    assert "BEGIN" not in shown


async def test_the_secrets_of_one_server_are_no_matter_of_another(house: House, autojump_clock: MockClock) -> None:
    house.sign_in()
    credentials = house.credentials()
    await credentials.headers()

    other = Launch(url="https://other.example", secrets=frozenset())
    assert house.keyring.secrets_of(other) == frozenset()
    assert "access-0" in house.keyring.secrets_of(entry()[0])
    assert ISSUER not in house.keyring.secrets_of(entry()[0])
