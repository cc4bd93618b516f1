"""A call that was not sent because the server wants a sign-in: sign in, so that it can be sent."""

from __future__ import annotations

import os
from contextlib import suppress

from mcpd_client.cli.render import clean_line, print_note
from mcpd_client.errors import RequestFailed
from mcpd_client.fast import can_ask, write_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping
    from typing import Any

READ_BYTES = 4096


def signs_in(options: Namespace, result: Mapping[str, Any], *, as_json: bool) -> bool:
    """Sign in if that is what an answer of `mcpd/cli` asks for, and the user wants it; say whether to call again.

    Raises:
        ClientError: it did not work.
    """
    data = wanted(result)
    if data is None:
        return False
    name, last = str(data["server"]), getattr(options, "signed_in", None)
    from mcpd_client.cli.auth import sign_in, signed_in_line, tell, wants_more

    if last is not None and data.get("error") == "insufficient_scope" and not wants_more(data, last):
        return False
    if not options.login and not (can_ask() and not as_json and _is_agreed(name, data)):
        return False
    timeout, options.timeout = options.timeout, None
    try:
        options.signed_in = sign_in(options, name, asked=data)
        if not options.quiet:
            print_note(signed_in_line(options.signed_in).rstrip("\n"))
        with suppress(RequestFailed):  # then the call says why
            tell(options, "mcpd/start", name, autostart=True)
    finally:
        options.timeout = timeout
    return True


def wanted(result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return what the daemon says of the sign-in that is missing, if the call certainly has not run."""
    match result.get("error"):
        case {"data": {"class": "auth_required", "server": str(), "may_have_run": False} as data}:
            found: Mapping[str, Any] = data
            return found
    return None


def _is_agreed(name: str, data: Mapping[str, Any]) -> bool:
    """Ask whoever is at the terminal."""
    scopes = data.get("scopes")
    listed = f" ({' '.join(str(scope) for scope in scopes)})" if isinstance(scopes, list) and scopes else ""
    more = "more than you are signed in for" if data.get("error") == "insufficient_scope" else "a sign-in"
    write_text(2, clean_line(f"server {name} wants {more}{listed}; sign in now? [Y/n]") + " ")
    try:
        answer = os.read(0, READ_BYTES)
    except OSError:
        return False
    if not answer:  # Ctrl-D
        write_text(2, "\n")
    return answer.strip().lower() in (b"", b"y", b"yes") and bool(answer)
