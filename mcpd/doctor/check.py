"""One thing that was looked at, and how it was."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Status = Literal["ok", "warn", "fail"]


class Check(Struct, frozen=True, omit_defaults=True):
    """One thing that was looked at.

    Attributes:
        label: what, in a word or two.
        status: `fail` means that something does not work, `warn` that it may not, or not well.
        detail: how it is; never a value of `env`, of `headers` or of a secret.
        hint: what to do, on one line.
        server: which server it is about, if it is about one.
    """

    label: str
    status: Status
    detail: str
    hint: str | None = None
    server: str | None = None
