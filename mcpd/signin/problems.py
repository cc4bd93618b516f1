"""What can go wrong, as the errors of the socket: the command line shows them as it shows the daemon's."""

from __future__ import annotations

import re

from mcpd.errors import AuthRequired, McpdError

MAX_SHOWN = 300
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]+")


class SignInFailed(AuthRequired):
    """The user is not signed in; why is in the message."""


class Unreachable(McpdError):
    """Nobody answers where the server, or its authorization server, should be."""

    code, kind = 17, "connect"


def said(text: str) -> str:
    """Return a text of somebody else, fit to be one line of a terminal."""
    line = " ".join(_CONTROL.sub(" ", text).split())
    return line if len(line) <= MAX_SHOWN else f"{line[:MAX_SHOWN]}…"
