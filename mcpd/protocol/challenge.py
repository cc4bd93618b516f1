"""What a server asks for in its WWW-Authenticate header.

A header may hold several challenges, and commas part challenges as well as the parameters of one. What cannot be
read is passed over: a server that says nothing useful still wants to be asked with credentials.

Spec: RFC 9110, 11.6.1; RFC 6750, 3; 2026-07-28 basic/authorization, "Protected resource metadata discovery".
"""

from __future__ import annotations

import re
from typing import NamedTuple

# Longer ones are cut: what matters of a header is short.
MAX_CHARS = 16 * 1024

_GAP = re.compile(r"[\s,]*").match
_BLANKS = re.compile(r"[ \t]*").match
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+").match
_TOKEN68 = re.compile(r"[ \t]+[A-Za-z0-9._~+/-]+=*[ \t]*(?=,|\Z)").match
_EQUALS = re.compile(r"[ \t]*=[ \t]*").match
# The closing quote is missing where the header was cut.
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)(?:"|\\?\Z)', re.DOTALL).match
# Servers forget the quotes around URLs.
_BARE = re.compile(r'[^\s,"]*').match
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class Challenge(NamedTuple):
    """One scheme and its parameters; names are in lower case, and of two of the same name the first counts."""

    scheme: str
    params: dict[str, str]


def parse_challenge(header: str) -> Challenge:
    """Return the Bearer challenge of a header, else its first one, else one without a scheme."""
    challenges = parse_challenges(header)
    bearer = (challenge for challenge in challenges if challenge.scheme == "bearer")
    return next(bearer, challenges[0] if challenges else Challenge("", {}))


def parse_challenges(header: str) -> list[Challenge]:
    """Return all challenges of a header, in their order; credentials in place of parameters are left out."""
    header = header[:MAX_CHARS]
    challenges: list[Challenge] = []
    at = 0
    while (at := _end(_GAP(header, at), at)) < len(header):
        word = _TOKEN(header, at)
        if word is None:
            at = _past_garbage(header, at)
            continue
        at = word.end()
        equals = _EQUALS(header, at)
        if equals is not None and challenges:
            value, at = _value(header, equals.end())
            challenges[-1].params.setdefault(word[0].lower(), value)
        elif equals is not None:  # a parameter of nothing
            _, at = _value(header, equals.end())
        else:
            challenges.append(Challenge(word[0].lower(), {}))
            at = _end(_TOKEN68(header, at), at)
    return challenges


def _value(header: str, at: int) -> tuple[str, int]:
    """Return the value that begins at `at`, and where it ends."""
    if (quoted := _QUOTED(header, at)) is not None:
        return _ESCAPED.sub(r"\1", quoted[1]), quoted.end()
    bare = _BARE(header, at)
    return (bare[0], bare.end()) if bare is not None else ("", at)


def _past_garbage(header: str, at: int) -> int:
    """Return where something may begin that can be read; always further on."""
    if (quoted := _QUOTED(header, at)) is not None:
        return quoted.end()
    return at + 1


def _end(found: re.Match[str] | None, at: int) -> int:
    return at if found is None else found.end()
