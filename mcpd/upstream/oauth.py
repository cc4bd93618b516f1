"""The token of one sign-in: shown to its server, and renewed before it is of no use any more.

One account for each resource, issuer and client of a daemon, however many sessions use it. A renewal is made once for
all who wait for it, in a task that no caller can cancel, under the lock of the credential's file: the file is read
again first, and a token that somebody else has put there is taken instead of asking for another. What is granted is on
the disk before it is shown to anybody. A refusal changes nothing on the disk, where the client's registration and the
old tokens stay until a new sign-in replaces them.

Spec: 2026-07-28 basic/authorization; RFC 6749, 6; OAuth 2.1, 4.3 (rotation).
"""

from __future__ import annotations

import contextlib
import functools
from collections import deque
from collections.abc import Callable
from typing import Protocol

import msgspec
import trio

from mcpd.config.model import OAuth
from mcpd.errors import AuthRequired, ConnectFailed, HttpFailed, McpdError, final

from .assertion import assertion
from .credential import Credential, Refused
from .grant import Denied, Granted, client_form, method_of, read_reply, refresh_form, renewed, signed
from .saving import Saving
from .shared import Shared
from .token_endpoint import Post
from .vault import Lock, Vault

RENEW_SECONDS = 45.0
# A token is renewed so long before its end, and up to so much earlier, lest all daemons come at once.
AHEAD_SECONDS = 60.0
JITTER_SECONDS = 10.0
# One that lives for a minute is not renewed all the time.
AHEAD_SHARE = 0.2
# While the old token is still good, nobody waits longer than that for a new one.
PATIENCE_SECONDS = 5.0
# One that is refused so soon after it was given is not refused for its age.
NEW_SECONDS = 10.0
ATTEMPTS = 3
RETRY_SECONDS = 0.5
MAX_RETRY_SECONDS = 10.0
# After a renewal has failed for a reason that passes; doubled each time.
REST_SECONDS = 1.0
MAX_REST_SECONDS = 60.0
LOOK_SECONDS = 0.05
# Late answers may still show what was replaced.
KEPT_SECRETS = 16


class Log(Protocol):
    """Where events go."""

    def warning(self, event: str, **facts: object) -> None:
        """Note what an administrator may want to look at."""


class Account:
    """What is known of one sign-in.

    Args:
        url: of the server.
        oauth: what its entry says of the client, expanded.
        insecure: its entry allows to go over the network in the clear.
        vault: where the credentials are.
        post: asks the token endpoint.
        nursery: where renewals run.
        clock: tells the seconds of the epoch.
        jitter: gives a random number between 0 and 1.

    Attributes:
        refused: the file that must not be used, if that is why there is no credential.
    """

    def __init__(
        self,
        url: str,
        oauth: OAuth,
        *,
        insecure: bool,
        vault: Vault,
        post: Post,
        nursery: trio.Nursery,
        clock: Callable[[], float],
        jitter: Callable[[], float],
        log: Log,
    ) -> None:
        self._url, self._oauth, self._insecure = url, oauth, insecure
        self._vault, self._post, self._clock, self._jitter, self._log = vault, post, clock, jitter, log
        self._saving = Saving(vault, clock)
        self._sharing = Shared[None](nursery, RENEW_SECONDS, _too_late)
        self._held: Credential | None = None
        self._stamp: object = self
        self.refused: Refused | None = None
        self._seen: deque[str] = deque(maxlen=KEPT_SECRETS)
        self._ahead_seconds = AHEAD_SECONDS + JITTER_SECONDS * jitter()
        # A refresh token that was refused, and when which access token was granted.
        self._spent: str | None = None
        self._granted: tuple[str, float] = ("", 0.0)
        self._wanted_scope: str | None = None
        self._failures, self._rests_until = 0, 0.0
        self._why: McpdError | None = None

    # -- what there is ---------------------------------------------------------------------------

    @property
    def secrets(self) -> frozenset[str]:
        """What must not be seen anywhere: also what was valid a while ago."""
        held = self._held.secrets if self._held is not None else frozenset[str]()
        return (
            held | frozenset(self._seen) | frozenset(filter(None, (self._oauth.client_secret, self._oauth.private_key)))
        )

    @property
    def is_alone(self) -> bool:
        """Whether the client asks for tokens of its own, and needs nobody to sign in for them."""
        return self._oauth.grant == "client_credentials"

    def current(self) -> Credential | None:
        """Return the credential as it is now; whoever has signed in or out has changed it."""
        if (unsaved := self._saving.again()) is not None:
            return unsaved
        if (stamp := self._vault.stamp()) != self._stamp:
            self._stamp = stamp
            try:
                found, self.refused = self._vault.of(self._url, self._oauth.issuer), None
            except Refused as problem:
                found, self.refused = None, problem
            self._hold(found)
        return self._held

    @property
    def token(self) -> str | None:
        """The access token, if there is one."""
        held = self.current()
        return held.tokens.access_token if held is not None and held.tokens is not None else None

    def _hold(self, credential: Credential | None) -> None:
        if self._held is not None and self._held != credential:
            self._seen += self._held.secrets - set(self._seen)
        if credential is None or self._held is None or credential.tokens != self._held.tokens:
            self.forgive()
        self._held = credential

    # -- when to renew ---------------------------------------------------------------------------

    async def fresh_token(self) -> str | None:
        """Return the token to show, renewed if it is about to expire; None if nobody has signed in.

        Raises:
            AuthRequired: It has expired, and cannot be renewed without somebody.
            ConnectFailed, HttpFailed: It has expired, and the authorization server cannot be asked now.
        """
        held = self.current()
        if held is None:
            return None
        if self._is_over(held, 0):
            if self.can_renew:
                await self.renew(self.token)
            elif self._spent is not None:
                raise AuthRequired("its token has expired, and is not renewed any more")
        elif self.can_renew and self._is_over(held, self._ahead_of(held)) and self._clock() >= self._rests_until:
            with trio.move_on_after(PATIENCE_SECONDS), contextlib.suppress(McpdError):  # the one at hand is still good
                await self.renew(self.token)
        return self.token

    @property
    def can_renew(self) -> bool:
        """Whether there is any hope to get another token without somebody."""
        held = self.current()
        if held is None or self.is_alone:
            return held is not None
        token = held.tokens.refresh_token if held.tokens is not None else None
        return token is not None and token != self._spent

    def is_new(self, token: str) -> bool:
        """Whether a token was given only a moment ago, so that it is not refused for its age."""
        held = self._held.tokens if self._held is not None else None
        granted, when = self._granted
        if token != granted or held is None:
            return False
        life = NEW_SECONDS * 2 if held.expires_at is None else held.expires_at - when
        return self._clock() - when < min(NEW_SECONDS, life / 2)

    def _is_over(self, held: Credential, ahead_seconds: float) -> bool:
        if held.tokens is None:
            return True
        return held.tokens.expires_at is not None and self._clock() >= held.tokens.expires_at - ahead_seconds

    def _ahead_of(self, held: Credential) -> float:
        end = held.tokens.expires_at if held.tokens is not None else None
        return self._ahead_seconds if end is None else min(self._ahead_seconds, (end - held.saved_at) * AHEAD_SHARE)

    # -- renewing --------------------------------------------------------------------------------

    async def renew(self, stale: str | None, scope: str | None = None) -> None:
        """Get another token than the stale one; whoever asks meanwhile shares the outcome.

        Args:
            stale: an access token, or None if there is none.
            scope: what the new one must be good for, of a client that asks for its own.

        Raises:
            AuthRequired: Somebody has to sign in.
            ConnectFailed, HttpFailed: It cannot be had now.
        """
        self._wanted_scope = scope or self._wanted_scope
        left = self._rests_until - self._clock()
        if left > 0 and self._why is not None:
            again = type(self._why)(self._why.message, hint=self._why.hint, may_have_run=False)
            again.retry_after_seconds = round(left, 2)
            raise again
        await self._sharing.of(functools.partial(self._renew, stale))

    def forgive(self) -> None:
        """Let the next renewal be tried at once, however the latest have failed."""
        self._failures, self._rests_until = 0, 0.0

    def close(self, seconds: float) -> None:
        """Let a renewal that runs come to its end, but not later than that."""
        self._sharing.hurry(seconds)

    async def _renew(self, stale: str | None) -> None:
        try:
            await self._transact(stale)
        except (McpdError, OSError) as failure:
            problem = failure if isinstance(failure, McpdError) else _unwritable(failure)
            problem.may_have_run = False
            self._why = problem
            self._rests_until = self._clock() + min(REST_SECONDS * 2**self._failures, MAX_REST_SECONDS)
            self._failures += 1
            self._log.warning("credentials.not_renewed", reason=problem.message)
            raise problem from None

    async def _transact(self, stale: str | None) -> None:
        """Do one renewal: lock, look again, ask, write, and only then use."""
        held = self.current()
        if held is None:
            raise AuthRequired("there is no credential any more")
        try:
            lock = self._vault.lock(held.issuer, held.resource)
        except (OSError, Refused) as problem:
            raise _unwritable(problem) from None
        with contextlib.closing(lock):
            await _acquire(lock)
            found = self._read_again(held)
            self._hold(found)
            if found.tokens is not None and found.tokens.access_token != stale and not self._is_over(found, 0):
                return
            granted = await self._ask(found)
            # No checkpoint from here on: what was granted may be the only token that is valid.
            self._keep(found, granted)

    def _keep(self, found: Credential, granted: Granted) -> None:
        now = self._clock()
        fresh = renewed(found, granted, now)
        if self._wanted_scope and self.is_alone:
            fresh = msgspec.structs.replace(fresh, requested_scope=self._wanted_scope)
        self._granted = (granted.access_token, now)
        fresh, failure = self._saving.save(fresh, found)
        if failure is not None:
            self._log.warning("credentials.unsaved", reason=failure)
        self._hold(fresh)

    def _read_again(self, held: Credential) -> Credential:
        try:
            found = self._vault.read(held.issuer, held.resource)
        except Refused as problem:
            raise AuthRequired(str(problem), hint=problem.hint) from None
        if found is None:
            raise AuthRequired("there is no credential any more")
        return self._saving.newest(found)

    async def _ask(self, held: Credential) -> Granted:
        """Ask for a token, again if there was no answer or one that says nothing."""
        for attempt in range(ATTEMPTS - 1):
            try:
                return await self._ask_once(held)
            except (ConnectFailed, HttpFailed) as problem:
                if problem.final:
                    raise
                wait = RETRY_SECONDS * 2**attempt * (0.5 + self._jitter() / 2)
                wait = min(problem.retry_after_seconds or wait, MAX_RETRY_SECONDS)
            await trio.sleep(wait)
        return await self._ask_once(held)

    async def _ask_once(self, held: Credential) -> Granted:
        reply = await self._post(held.endpoints.token, *self._request(held), insecure=self._insecure)
        said = read_reply(reply)
        if isinstance(said, Granted):
            return said
        if isinstance(said, Denied):
            self._spent = held.tokens.refresh_token if held.tokens is not None else None
            raise AuthRequired(f"the authorization server gives it no other token ({said.error})")
        failed = HttpFailed(
            f"the authorization server answered with {said.why}", retry_after_seconds=said.after_seconds
        )
        raise failed if said.passing else final(failed)

    def _request(self, held: Credential) -> tuple[dict[str, str], dict[str, str]]:
        """Return the form and the headers of the request."""
        scope = self._wanted_scope or held.requested_scope or " ".join(self._oauth.scopes)
        form = client_form(held, scope) if self.is_alone else refresh_form(held)
        proof = None
        if method_of(held.client, self._oauth) == "private_key_jwt":
            key = self._oauth.private_key or ""
            proof = assertion(held.client.client_id, held.issuer, key, self._clock())
        return signed(form, held.client, self._oauth, proof)


async def _acquire(lock: Lock) -> None:
    try:
        while not lock.try_acquire():  # noqa: ASYNC110  # another process tells nobody
            await trio.sleep(LOOK_SECONDS)
    except OSError as problem:
        raise _unwritable(problem) from None


def _unwritable(problem: Exception) -> ConnectFailed:
    """Nothing is asked for that could not be kept."""
    return ConnectFailed(f"its token is not renewed, for the new one could not be kept: {problem}")


def _too_late() -> McpdError:
    return ConnectFailed(f"the authorization server did not answer within {RENEW_SECONDS:g} s", may_have_run=False)
