"""What a change of a host's file looks like, with the secrets in it covered.

A host's file has tokens of other servers in it, and a diff shows what stands beside a change.
"""

from __future__ import annotations

import re
from difflib import unified_diff

from mcpd_client.hosts import jsonc, toml

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

MASK = "*****"
# Some hosts' files are one line of megabytes.
MAX_CELLS = 200
# What `unified_diff` shows around a change, and how it says where that is.
CONTEXT_LINES = 3
PLACE = re.compile(r"(?<=[-+])[0-9]+")
SECRET_TABLES = {"env", "environment", "headers", "http_headers", "requestoptions", "oauth", "auth", "inputs"}
SECRET_NAME = re.compile(r"token|secret|passw|api[-_]?key|authori[sz]ation|bearer|credential|cookie", re.IGNORECASE)
SECRET_VALUE = re.compile(
    r"://[^/\s]*@|[?&][^=]*(?:key|token|sig|secret)[^=]*=|\bBearer\s|"
    r"\b(?:sk-|gh[opsu]_|github_pat_|glpat-|xox[abps]-|AIza|AKIA|ey[A-Za-z0-9_-]{20,}\.)"
)
# `TOKEN=x`, `X-Api-Key: x`
SECRET_ASSIGNED = re.compile(rf"(?:{SECRET_NAME.pattern})[^=:]*[=:]", re.IGNORECASE)
SECRET_OPTION = re.compile(rf"-.*(?:{SECRET_NAME.pattern})", re.IGNORECASE)


def diff(path: str, before: str, after: str, *, is_toml: bool) -> str:
    """Return a unified diff of two states of a file that can both be read."""
    old, new = (covered(text, is_toml=is_toml).splitlines() for text in (before, after))
    # To compare all of a file of megabytes would take half a minute.
    head, tail = _same_ends(old, new)
    lines = unified_diff(old[head : len(old) - tail], new[head : len(new) - tail], path, path, lineterm="")
    return "".join(f"{_shortened(_moved(line, head))}\n" for line in lines)


def covered(text: str, *, is_toml: bool) -> str:
    """Return a text with asterisks for the values that look like secrets."""
    spans = _toml_secrets(text) if is_toml else _json_secrets(text)
    parts, at = [], 0
    for start, end in sorted(spans):
        # A comment may stand in a value that is covered itself.
        if start >= at:
            parts += [text[at:start], f'"{MASK}"']
            at = end
    return "".join((*parts, text[at:]))


def _same_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return how many lines at the beginning and at the end are the same in both, but for those that a diff shows."""
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    tail = next((at for at in range(shorter - head) if old[-1 - at] != new[-1 - at]), shorter - head)
    return max(head - CONTEXT_LINES, 0), max(tail - CONTEXT_LINES, 0)


def _moved(line: str, head: int) -> str:
    """Return a line of a diff; if it says where lines stand, so many more are before them."""
    return PLACE.sub(lambda found: str(int(found[0]) + head), line) if line.startswith("@@ ") else line


def _json_secrets(text: str) -> Iterator[tuple[int, int]]:
    before = ""
    for start, end, path, value in jsonc.strings(text):
        if _is_secret(path, value) or SECRET_OPTION.fullmatch(before):
            yield start, end
        before = value
    yield from _secret_comments(text, jsonc.comments(text))


def _toml_secrets(text: str) -> Iterator[tuple[int, int]]:
    for start, end, path, value in toml.values(text):
        if any(_is_secret((*path, *keys), each) for keys, each in _leaves(value)) or _has_secret_option(value):
            yield start, end
    yield from _secret_comments(text, toml.comments(text))


def _secret_comments(text: str, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield where comments stand that look as if a secret was in them, as of an entry that is switched off."""
    for start, end in spans:
        if _is_secret((), text[start:end]):
            yield start, end


def _leaves(value: Any) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(value, str):
        yield (), value
    for key, item in value.items() if isinstance(value, dict) else ():
        yield from (((key, *keys), each) for keys, each in _leaves(item))
    for item in value if isinstance(value, list) else ():
        yield from _leaves(item)


def _has_secret_option(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, str) and SECRET_OPTION.match(item) for item in value)


def _is_secret(path: tuple[str, ...], value: str) -> bool:
    if any(key.lower() in SECRET_TABLES for key in path) or (path and SECRET_NAME.search(path[-1])):
        return True
    return bool(SECRET_VALUE.search(value) or SECRET_ASSIGNED.search(value))


def _shortened(line: str) -> str:
    return line if len(line) <= MAX_CELLS else f"{line[: MAX_CELLS - 1]}…"
