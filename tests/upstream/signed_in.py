"""A sign-in without a network: an authorization server that rotates and revokes, and a vault with a credential.

Time is virtual, and the seconds of the epoch follow it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import trio

from mcpd.config.expand import Launch
from mcpd.config.model import OAuth, Server
from mcpd.errors import ConnectFailed
from mcpd.upstream.around import Credentials
from mcpd.upstream.credentials import Keyring
from mcpd.upstream.grant import Reply
from mcpd.upstream.vault import Client, Credential, Endpoints, Tokens, Vault
from tests.upstream.fakes import World

ISSUER, RESOURCE = "https://as.example", "https://api.example/mcp"
EPOCH = 1_000_000.0
LIFE_SECONDS = 3600


def now() -> float:
    return EPOCH + trio.current_time()


def reply(status: int = 200, *, body: bytes | None = None, retry_after: str = "", **fields: Any) -> Reply:
    return Reply(
        status=status, content_type="application/json", retry_after=retry_after,
        body=json.dumps(fields).encode() if body is None else body,
    )  # fmt: skip


class Issuer:
    """A token endpoint that rotates: a refresh token is good once, and a second use revokes all that came of it.

    Attributes:
        asked: the forms that came, `headers` with them, `urls` where to.
        seconds: how long an answer takes.
        answers: instead of its own, one after the other; None stands for no answer at all.
        valid: the access tokens that a resource takes now.
        granted: what of a grant is not the same each time.
        on_asked: called when a request has come.
    """

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.urls: list[str] = []
        self.seconds = 1.0
        self.answers: list[Reply | None] = []
        self.valid = {"access-0"}
        self.granted: dict[str, Any] = {"expires_in": LIFE_SECONDS, "token_type": "Bearer"}
        self.on_asked: Callable[[], object] = lambda: None
        self._refresh = "refresh-0"
        self._spent: set[str] = set()
        self._number = 0

    async def post(self, url: str, form: Mapping[str, str], headers: Mapping[str, str], *, insecure: bool) -> Reply:
        self.urls.append(url)
        self.asked.append(dict(form))
        self.headers.append(dict(headers))
        self.on_asked()
        await trio.sleep(self.seconds)
        if self.answers:
            if (answer := self.answers.pop(0)) is None:
                raise ConnectFailed("token endpoint https://as.example did not answer: it is down")
            return answer
        return self.grant(form.get("refresh_token"), rotates=form["grant_type"] == "refresh_token")

    def grant(self, refresh: str | None = "refresh-0", *, rotates: bool = True) -> Reply:
        """Do what is asked, or refuse."""
        if rotates and refresh != self._refresh:
            if refresh in self._spent:
                self.valid.clear()
                self._refresh = ""
            return reply(400, error="invalid_grant", error_description=f"{refresh} is a secret")
        self._spent.add(self._refresh)
        self._number += 1
        self._refresh = f"refresh-{self._number}"
        self.valid = {f"access-{self._number}"}
        return reply(
            access_token=f"access-{self._number}",
            **({"refresh_token": self._refresh} if rotates else {}),
            **self.granted,
        )


class House:
    """A daemon's credentials, and what is around them."""

    def __init__(self, nursery: trio.Nursery, folder: Path) -> None:
        self.world = World(nursery)
        self.issuer = Issuer()
        self.vault = Vault(str(folder / "credentials"), now)
        self.keyring = self.new_keyring()

    def new_keyring(self) -> Keyring:
        """Return what another daemon has, or this one after a restart."""
        return Keyring(self.vault, _no_helper, now, self.world.nursery, self.issuer.post)

    def credentials(self, *, keyring: Keyring | None = None, **settings: Any) -> Credentials:
        """Return what a server is shown."""
        launch, server = entry(**settings)
        return (keyring or self.keyring).credentials_of(server, launch, self.world.around)

    def sign_in(self, token: str = "access-0", **more: Any) -> Credential:
        """Put a credential into the vault, as a sign-in does."""
        with self.vault.locked(ISSUER, RESOURCE, seconds=0):
            return self.vault.write(credential(token, **more))

    @property
    def stored(self) -> Tokens:
        found = self.vault.read(ISSUER, RESOURCE)
        assert found is not None
        assert found.tokens is not None
        return found.tokens

    @property
    def events(self) -> list[str]:
        return self.world.log.events


def entry(*, oauth: OAuth | None = None, headers: Mapping[str, str] = {}, **settings: Any) -> tuple[Launch, Server]:
    """Return a server's entry, expanded and as it is."""
    oauth = oauth or OAuth()
    launch = Launch(url=RESOURCE, headers=dict(headers), oauth=oauth, secrets=frozenset({"hidden-in-entry"}))
    return launch, Server(name="api", url=RESOURCE, oauth=oauth, headers=dict(headers), **settings)


def credential(
    token: str = "access-0",
    refresh: str | None = "refresh-0",
    life: float | None = LIFE_SECONDS,
    client: Mapping[str, Any] = {},
    **more: Any,
) -> Credential:
    return Credential(
        version=1,
        resource=RESOURCE,
        issuer=ISSUER,
        client=Client(**{"client_id": "me", "registration": "dynamic", **client}),
        endpoints=Endpoints(token=f"{ISSUER}/token"),
        saved_at=now(),
        **{
            "tokens": Tokens(
                access_token=token, token_type="Bearer", refresh_token=refresh, scope="read",
                expires_at=None if life is None else now() + life,
            ),
            **more,
        },
    )  # fmt: skip


def revised(one: Credential, **more: Any) -> Credential:
    return msgspec.structs.replace(one, **more)


def shown(headers: Mapping[str, str]) -> str | None:
    """Return the token that a request carries."""
    value = headers.get("Authorization")
    return None if value is None else value.removeprefix("Bearer ")


async def _no_helper(launch: Launch) -> dict[str, str]:
    raise AssertionError
