"""Sign in to a server, and keep what comes of it: the whole of `mcpd login` but for its command line."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import httpx2
import trio
from mcp.shared.auth import AuthorizationCodeResult
from msgspec import Struct

from mcpd.config.redact import Redactor
from mcpd.errors import McpdError, first_leaf
from mcpd.upstream.credential import Credential, Refused
from mcpd.upstream.vault import Busy, Vault

from . import scopes
from .callback import Callback, PortTaken, listen
from .conversation import Challenge, Conversation, Flow, answered, challenge_of
from .entry import Entry
from .problems import SignInFailed
from .provider import CodeFlow, client_alone, with_user
from .quiet import hush
from .record import Storage, credential_of, given, is_reusable, port_of, registered
from .user import Say, User
from .wire import EXCHANGE_SECONDS, Wire

# How long to wait for what is only tidied up.
TIDY_SECONDS = 3.0


class Wishes(Struct, frozen=True, kw_only=True):
    """How the user wants it.

    Attributes:
        command: what opens the browser; None where nothing does.
        pasted_from: a descriptor that an address can be pasted into; None where there is none.
        scopes: what to ask for, instead of what the server wants.
        patience_seconds: how long the user may take in the browser.
        asked: the details of the daemon's `auth_required`, if there was one.
        verbose: whether the libraries may be heard.
    """

    command: tuple[str, ...] | None
    pasted_from: int | None
    scopes: str | None = None
    patience_seconds: float = 300.0
    asked: Mapping[str, Any] | None = None
    verbose: bool = False


def sign_in(entry: Entry, wishes: Wishes, vault: Vault, say: Say) -> Credential:
    """Sign in; return the credential, which is in the vault then.

    Raises:
        McpdError: It did not come to that.
        KeyboardInterrupt: The user has stopped it.
    """
    hush(say if wishes.verbose else None, entry.secrets)
    try:
        found = trio.run(_sign_in, entry, wishes, vault, say, restrict_keyboard_interrupt_to_checkpoints=True)
        return keep(found, vault)
    except BaseExceptionGroup as group:
        problem = first_leaf(group)
    except McpdError as error:
        problem = error
    if isinstance(problem, McpdError):
        problem.message = Redactor(entry.secrets).text(problem.message)
    raise problem


async def _sign_in(entry: Entry, wishes: Wishes, vault: Vault, say: Say) -> Credential:
    earlier = _earlier(entry, vault)
    # Proxies and certificates come from the environment.
    async with httpx2.AsyncClient(timeout=EXCHANGE_SECONDS, follow_redirects=False) as client:
        wire = Wire(entry, client)
        asked = None if wishes.asked is None else challenge_of(wishes.asked)
        if entry.is_interactive:
            callback = await _listen(entry, earlier)
            try:
                flow: Flow = _with_user(entry, wishes, callback, earlier, say)
                await _converse(entry, wishes, wire, flow, asked, earlier)
            finally:
                await callback.aclose()
        else:
            flow = client_alone(entry, Storage())
            await _converse(entry, wishes, wire, flow, asked, earlier)
    return credential_of(entry, flow)


def _with_user(entry: Entry, wishes: Wishes, callback: Callback, earlier: Credential | None, say: Say) -> CodeFlow:
    user = User(
        entry.name, callback, command=wishes.command, pasted_from=wishes.pasted_from,
        patience_seconds=wishes.patience_seconds, insecure=entry.insecure, say=say,
    )  # fmt: skip

    async def answer() -> AuthorizationCodeResult:
        return await answered(flow, user)

    uri = callback.redirect_uri
    client = given(entry, uri) or registered(earlier, uri)
    flow = with_user(entry, Storage(client), uri, user.show, answer)
    return flow


async def _converse(
    entry: Entry, wishes: Wishes, wire: Wire, flow: Flow, asked: Challenge | None, earlier: Credential | None
) -> None:
    if earlier is not None and earlier.client.registration == "static" and earlier.client.client_id == entry.client_id:
        flow.bound_to = earlier.issuer
    conversation = Conversation(entry, wire, flow, wishes.scopes or entry.scopes)
    requested = None if earlier is None else earlier.requested_scope
    granted = None if earlier is None or earlier.tokens is None else earlier.tokens.scope
    await conversation.run(asked, scopes.union(requested, granted))


async def _listen(entry: Entry, earlier: Credential | None) -> Callback:
    """Listen where the configuration says, or where we were registered to, or anywhere."""
    if entry.redirect_port:
        try:
            return await listen(entry.redirect_port)
        except PortTaken as problem:
            why = f"{problem}, and oauth.redirect_port of server {entry.name} names it"
            raise SignInFailed(why, server=entry.name) from None
    if entry.client_id is None and earlier is not None and is_reusable(earlier.client):
        try:
            return await listen(port_of(earlier.client) or 0)
        except PortTaken:
            pass  # then it takes another registration
    return await listen()


def _earlier(entry: Entry, vault: Vault) -> Credential | None:
    """Return what the last sign-in has left; what cannot be used is as good as nothing, and is replaced.

    Raises:
        SignInFailed: What this one brings could not be kept.
    """
    try:
        return vault.of(entry.url)
    except Refused as problem:
        if problem.path == vault.path:  # nothing could be kept there
            raise SignInFailed(str(problem), server=entry.name, hint=problem.hint) from None
        return None


def keep(credential: Credential, vault: Vault) -> Credential:
    """Write a credential, and then remove those of the same server that it replaces.

    Raises:
        SignInFailed: It cannot be written.
    """
    try:
        with vault.locked(credential.issuer, credential.resource):
            kept = vault.write(credential)
    except (Refused, Busy) as problem:
        raise SignInFailed(f"the credential is not kept: {problem}", hint=getattr(problem, "hint", None)) from None
    except OSError as error:
        raise SignInFailed(f"the credential is not kept: {error.strerror}: {vault.path}") from None
    # The newest is the one that is used: one that cannot be removed now is no reason to call this sign-in failed.
    with suppress(Refused, Busy, OSError):
        for other in vault.all()[0]:
            if other.resource == kept.resource and other.issuer != kept.issuer:
                with vault.locked(other.issuer, other.resource, TIDY_SECONDS):
                    vault.remove(other.issuer, other.resource)
    return kept
