"""What a remote server is shown of who asks: the choice between the kinds of credentials, and the static ones.

A token in the entry (an Authorization header, `bearer_env`) or a command that prints headers is all that such an entry
uses; any other server is signed in to with OAuth when it asks for that. Secrets are in `secrets`, and nowhere else:
no error, log line or `repr` of this module or of those below shows one.
"""

from __future__ import annotations

import re
import shlex
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NoReturn

import trio

from mcpd.config.expand import Launch
from mcpd.config.model import OAuth, Server
from mcpd.errors import AuthRequired, ConnectFailed, McpdError
from mcpd.protocol.challenge import Challenge, parse_challenge

from .around import Credentials, Surroundings
from .credential import resource_of
from .helper import HELPER_SECONDS
from .oauth import KEPT_SECRETS, Account
from .shared import Shared
from .token_endpoint import Post, post
from .vault import Vault

AUTHORIZATION = "authorization"
INSUFFICIENT, INVALID = "insufficient_scope", "invalid_token"
# A renewal that runs when the daemon stops may still come to its end: what it brings may be the only valid token.
CLOSE_SECONDS = 5.0
MAX_SCOPES, SHOWN_SCOPES = 100, 10
MAX_URL_CHARS = 2048
_scope = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,200}").fullmatch
_url = re.compile(r"https?://[\x21-\x7e]+").fullmatch

RunHelper = Callable[[Launch], Awaitable[dict[str, str]]]


class Static:
    """The headers of an entry."""

    def __init__(self, server: Server, launch: Launch) -> None:
        self._server, self._headers = server, launch.headers
        self.secrets = launch.secrets

    async def headers(self) -> Mapping[str, str]:
        """Return them."""
        await trio.lowlevel.checkpoint()
        return self._headers

    async def renew(self, status: int, challenge: str, used: Mapping[str, str]) -> bool:
        """Refuse: there are no others."""
        await trio.lowlevel.checkpoint()
        if status == 401:
            hint = f"check bearer_env and headers in the entry of {self._server.name}"
            _refused(self._server, "the credentials of its entry", hint, challenge)
        return False


class Helped:
    """The headers of an entry, and what its command prints; it is run again when they are refused."""

    def __init__(self, server: Server, launch: Launch, around: Surroundings, run: RunHelper) -> None:
        self._server, self._launch, self._run = server, launch, run
        # A moment more than it has: its end is waited for.
        self._sharing = Shared[dict[str, str]](around.nursery, HELPER_SECONDS * 2, _helper_late)
        self._printed: dict[str, str] | None = None
        self.url = launch.url
        self._seen: deque[str] = deque(maxlen=KEPT_SECRETS)

    @property
    def secrets(self) -> frozenset[str]:
        """What must not be seen anywhere: also what it printed a while ago."""
        return self._launch.secrets | frozenset(self._seen)

    async def headers(self) -> Mapping[str, str]:
        """Return them.

        Raises:
            ConnectFailed: The command fails.
        """
        await trio.lowlevel.checkpoint()
        if self._printed is None:
            await self._again()
        printed = self._printed or {}
        mine = {name.lower() for name in printed}
        return {**{name: value for name, value in self._launch.headers.items() if name.lower() not in mine}, **printed}

    async def renew(self, status: int, challenge: str, used: Mapping[str, str]) -> bool:
        """Run the command again after a 401."""
        await trio.lowlevel.checkpoint()
        if status != 401:
            return False
        if not self._differs_from(used):
            await self._again()
        if not self._differs_from(used):
            hint = f"check headers_helper in the entry of {self._server.name}"
            _refused(self._server, "what its headers_helper prints", hint, challenge)
        return True

    def _differs_from(self, used: Mapping[str, str]) -> bool:
        shown = {name.lower(): value for name, value in used.items()}
        return any(shown.get(name.lower()) != value for name, value in (self._printed or {}).items())

    async def _again(self) -> None:
        try:
            self._printed = await self._sharing.of(lambda: self._run(self._launch))
        except McpdError as problem:
            raise _named(self._server, problem) from None
        values = {*self._printed.values(), *(value.rpartition(" ")[2] for value in self._printed.values())}
        self._seen += values - set(self._seen)


class SignedIn:
    """The headers of an entry, and the token of a sign-in if there is one."""

    def __init__(self, server: Server, launch: Launch, account: Account) -> None:
        self._server, self._launch, self._account = server, launch, account
        self.url = launch.url
        # Each request is a task.
        self._given: weakref.WeakKeyDictionary[trio.lowlevel.Task, str | None] = weakref.WeakKeyDictionary()

    @property
    def secrets(self) -> frozenset[str]:
        """What must not be seen anywhere."""
        return self._launch.secrets | self._account.secrets

    async def headers(self) -> Mapping[str, str]:
        """Return them; see `Account.fresh_token`."""
        await trio.lowlevel.checkpoint()
        try:
            token = await self._account.fresh_token()
        except AuthRequired as problem:
            raise self._wanted(INVALID, why=problem) from None
        except McpdError as problem:
            raise _named(self._server, problem) from None
        return self._launch.headers if token is None else {**self._launch.headers, "Authorization": f"Bearer {token}"}

    async def renew(self, status: int, challenge: str, used: Mapping[str, str]) -> bool:
        """Get another token, if that may help."""
        await trio.lowlevel.checkpoint()
        shown, asked = _bearer(used), parse_challenge(challenge)
        token = self._account.token
        if token is not None and token != shown:
            return True
        if status == 403 and asked.params.get("error") == INSUFFICIENT:
            return await self._widen(token, asked)
        if status != 401:
            return False
        if self._account.current() is None:
            raise self._wanted(None, asked)
        if not self._account.can_renew or self._is_in_vain(token):
            raise self._wanted(INVALID, asked)
        await self._renew(token, INVALID, asked)
        return True

    def _is_in_vain(self, token: str | None) -> bool:
        """Whether a request comes again with the token that it has just been given: another one would fare no better."""
        if token is None or not self._account.is_new(token):
            return False
        return self._given.get(trio.lowlevel.current_task()) == token

    async def _widen(self, token: str | None, asked: Challenge) -> bool:
        """Get a token that is good for what was asked, too, where nobody has to agree to that."""
        scopes = self._scopes(INSUFFICIENT, asked)
        if not self._account.is_alone or token is None or self._is_in_vain(token):
            raise self._wanted(INSUFFICIENT, asked)
        await self._renew(token, INSUFFICIENT, asked, " ".join(scopes))
        return True

    async def _renew(self, token: str | None, error: str, asked: Challenge, scope: str | None = None) -> None:
        try:
            await self._account.renew(token, scope)
        except AuthRequired as problem:
            raise self._wanted(error, asked, problem) from None
        except McpdError as problem:
            raise _named(self._server, problem) from None
        if (given := self._account.token) == token:
            raise self._wanted(error, asked)
        self._given[trio.lowlevel.current_task()] = given

    def _scopes(self, error: str | None, asked: Challenge | None) -> list[str]:
        """Return what to ask for: what the server names, and at a step up also what there was (2026-07-28)."""
        named = asked.params.get("scope", "") if asked is not None else ""
        held = self._account.current()
        if error == INSUFFICIENT and held is not None:
            had = f"{(held.tokens.scope if held.tokens else None) or ''} {held.requested_scope or ''}"
            named = f"{had} {named}"
        return [scope for scope in dict.fromkeys(named.split()) if _scope(scope)][:MAX_SCOPES]

    def _wanted(self, error: str | None, asked: Challenge | None = None, why: McpdError | None = None) -> AuthRequired:
        """Return the error that says who has to do what."""
        name, refused = self._server.name, self._account.refused
        scopes = self._scopes(error, asked)
        what = {
            None: f"server '{name}' wants a sign-in",
            INVALID: f"server '{name}' wants a new sign-in",
            INSUFFICIENT: f"server '{name}' wants a sign-in for more: {' '.join(scopes[:SHOWN_SCOPES]) or 'it does not say what for'}",
        }[error]
        because = why.message if why is not None else str(refused) if refused is not None and error is None else ""
        details: dict[str, Any] = {"scopes": scopes, "error": error, "resource_metadata": _metadata(asked)}
        # By itself a sign-in asks for what the server wants of anybody, and would end where it has ended before.
        more = f" --scopes {shlex.quote(' '.join(scopes))}" if error == INSUFFICIENT and scopes else ""
        return AuthRequired(
            f"{what}: {because}" if because else what,
            server=name,
            hint=f"{refused.hint}, then: mcpd start {name}" if refused is not None else f"mcpd login {name}{more}",
            may_have_run=False,
            resource=self._server.target,
            login=f"mcpd login {name}{more}",
            **{key: value for key, value in details.items() if value},
        )


class Keyring:
    """All credentials of a daemon.

    Args:
        vault: where those of sign-ins are.
        run_helper: runs the command of an entry that prints headers.
        clock: tells the seconds of the epoch.
        nursery: where tokens are renewed, whatever becomes of the sessions that wait for them.
        post: asks a token endpoint.
    """

    def __init__(
        self,
        vault: Vault,
        run_helper: RunHelper,
        clock: Callable[[], float],
        nursery: trio.Nursery,
        post: Post = post,
    ) -> None:
        self._vault, self._run_helper, self._clock = vault, run_helper, clock
        self._nursery, self._post = nursery, post
        self._accounts: weakref.WeakValueDictionary[tuple[str, OAuth, bool], Account] = weakref.WeakValueDictionary()
        self._made: weakref.WeakSet[Helped | SignedIn] = weakref.WeakSet()

    def credentials_of(self, server: Server, launch: Launch, around: Surroundings) -> Credentials:
        """Return what to show to a server; all sessions of one sign-in share it."""
        made: Helped | SignedIn
        if launch.helper:
            made = Helped(server, launch, around, self._run_helper)
        elif AUTHORIZATION in {name.lower() for name in launch.headers}:
            return Static(server, launch)
        else:
            made = SignedIn(server, launch, self._account(server, launch, around))
        self._made.add(made)
        return made

    def secrets_of(self, launch: Launch) -> frozenset[str]:
        """Return what must not be seen of what a server is shown now, or was a while ago."""
        return launch.secrets.union(*(made.secrets for made in self._made if made.url == launch.url))

    def close(self) -> None:
        """Let renewals that run come to their end, which is near."""
        for account in self._accounts.values():
            account.close(CLOSE_SECONDS)

    def _account(self, server: Server, launch: Launch, around: Surroundings) -> Account:
        url = launch.url or ""
        key = resource_of(url), launch.oauth, server.insecure
        if (account := self._accounts.get(key)) is None:
            account = self._accounts[key] = Account(
                url, launch.oauth, insecure=server.insecure, vault=self._vault, post=self._post,
                nursery=self._nursery, clock=self._clock, jitter=around.jitter, log=around.log,
            )  # fmt: skip
        account.forgive()
        return account


def _bearer(headers: Mapping[str, str]) -> str | None:
    """Return the token that a request was sent with."""
    value = next((value for name, value in headers.items() if name.lower() == AUTHORIZATION), "")
    scheme, _, token = value.partition(" ")
    return token if scheme.lower() == "bearer" else None


def _metadata(asked: Challenge | None) -> str | None:
    """Return where the server's metadata is, if it says so."""
    url = asked.params.get("resource_metadata", "") if asked is not None else ""
    return url if len(url) <= MAX_URL_CHARS and _url(url) else None


def _refused(server: Server, what: str, hint: str, challenge: str) -> NoReturn:
    """Raise for credentials that no sign-in replaces."""
    metadata = _metadata(parse_challenge(challenge))
    details: dict[str, Any] = {"resource_metadata": metadata} if metadata else {}
    raise AuthRequired(
        f"server '{server.name}' refuses {what}", server=server.name, hint=hint, may_have_run=False,
        resource=server.target, **details,
    )  # fmt: skip


def _named(server: Server, problem: McpdError) -> McpdError:
    """Say of which server a problem is."""
    problem.message = f"server '{server.name}' cannot be asked: {problem.message}"
    problem.server, problem.may_have_run = server.name, False
    problem.hint = problem.hint or "run that command yourself: what it says is kept nowhere"
    return problem


def _helper_late() -> McpdError:
    return ConnectFailed(f"its headers_helper did not end within {HELPER_SECONDS:g} s")
