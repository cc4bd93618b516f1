"""What a change of a host's file looks like, with the secrets in it covered.

A host's file has tokens of other servers in it, and a diff shows what stands beside a change.
"""

from __future__ import annotations

import re
from difflib import unified_diff

from mcpd_client.hosts import jsonc, toml

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

MASK = "*****"
# Some hosts' files are one line of megabytes.
MAX_CELLS = 200
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
    lines = unified_diff(old, new, path, path, lineterm="")
    return "".join(f"{_shortened(line)}\n" for line in lines)


def covered(text: str, *, is_toml: bool) -> str:
    """Return a text with asterisks for the values that look like secrets."""
    spans = _toml_secrets(text) if is_toml else _json_secrets(text)
    for start, end in sorted(spans, reverse=True):
        text = f'{text[:start]}"{MASK}"{text[end:]}'
    return text


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
