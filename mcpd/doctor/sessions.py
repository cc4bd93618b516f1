"""Sign-ins: whose token is over, or soon will be with nothing to renew it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mcpd.doctor.check import Check

SOON_SECONDS = 600


def examine(rows: Sequence[Mapping[str, Any]]) -> Iterator[Check]:
    """Look at the rows of `mcpd auth`."""
    for row in rows:
        name = row.get("server")
        if name is None or row["state"] == "not_signed_in":
            continue
        if row["state"] == "expired":
            yield Check("sign-in", "fail", "the token has expired", f"mcpd login {name}", name)
        elif not row["refreshable"] and row.get("expires_in_seconds", SOON_SECONDS) < SOON_SECONDS:
            left = row["expires_in_seconds"] // 60
            yield Check("sign-in", "warn", f"the token expires in {left} min and cannot be renewed", f"mcpd login {name}", name)
        else:
            yield Check("sign-in", "ok", f"signed in at {row['issuer']}", None, name)
