"""Puts what was granted on the disk, again and again if it has to be."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import msgspec

from .credential import Credential, Refused
from .vault import Vault

AGAIN_SECONDS = 5.0


class Saving:
    """What could not be written, because a disk is full: it is in use, and written as soon as that can be.

    Args:
        vault: where to write it.
        clock: tells the seconds of the epoch.
    """

    def __init__(self, vault: Vault, clock: Callable[[], float]) -> None:
        self._vault, self._clock = vault, clock
        self._unsaved: tuple[Credential, Credential] | None = None
        self._next = 0.0

    def save(self, fresh: Credential, instead_of: Credential) -> tuple[Credential, str | None]:
        """Write a credential, whose lock is held; return it as it is kept, and what went wrong if something did."""
        if self._unsaved is not None and instead_of == self._unsaved[0]:
            instead_of = self._unsaved[1]  # what the disk holds
        self._unsaved = None
        try:
            return self._vault.write(fresh), None
        except (OSError, Refused) as problem:
            fresh = msgspec.structs.replace(fresh, saved_at=self._clock())
            self._unsaved, self._next = (fresh, instead_of), self._clock() + AGAIN_SECONDS
            return fresh, str(problem)

    def newest(self, found: Credential) -> Credential:
        """Return what is not written yet in place of what was found on the disk, unless that has been changed since.

        What it replaces holds a refresh token that has been used: a second use would end the whole sign-in.
        """
        if self._unsaved is None or found.tokens != self._unsaved[1].tokens:
            return found
        return self._unsaved[0]

    def again(self) -> Credential | None:
        """Return what is not written yet, and try to write it now and then; None if there is nothing."""
        if self._unsaved is None:
            return None
        fresh, instead_of = self._unsaved
        if self._clock() >= self._next:
            self._next = self._clock() + AGAIN_SECONDS
            with contextlib.suppress(OSError, Refused):
                self._try(fresh, instead_of)
        return fresh if self._unsaved is not None else None

    def _try(self, fresh: Credential, instead_of: Credential) -> None:
        with contextlib.closing(self._vault.lock(fresh.issuer, fresh.resource)) as lock:
            if lock.try_acquire():
                found = self._vault.read(fresh.issuer, fresh.resource)
                # Somebody has signed in, or out, meanwhile: that counts.
                if found is not None and found.tokens == instead_of.tokens:
                    self._vault.write(fresh)
                self._unsaved = None
