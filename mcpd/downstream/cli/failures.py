"""An error as the command line prints it: what, why, and what to type; or one line of JSON.

Everything here goes to stderr, which may be a terminal even where stdout is none: it is always cleaned.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct

from mcpd.downstream.cli.text import Output, brief, clean, listed, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EXIT_UNEXPECTED = 1
EXIT_USAGE = 2
EXIT_SERVER = 4
EXIT_TOOL = 5
SIGN_IN = "auth_required"

# The error classes that do not end in EXIT_SERVER, as an upstream's own error does.
EXIT_CODES = {
    "internal": EXIT_UNEXPECTED,
    "unknown_server": EXIT_USAGE,
    "bad_request": EXIT_USAGE,
    "invalid_page": EXIT_USAGE,
    SIGN_IN: 3,
    "unknown_tool": EXIT_TOOL,
    "timeout": 7,
    "denied": 8,
    "pending_trust": 8,
    "approval_required": 8,
    "misconfigured": 9,
}

# An upstream's error: the user has to visit a page before the call can be done.
URL_REQUIRED = -32042
MAX_PAGES = 3
URL_CHARACTERS = 8000
MESSAGE_CHARACTERS = 1000
# Of an upstream's `data`, whose size nobody but the upstream decides.
DATA_CHARACTERS = 200
STDERR_LINES = 6
STDERR_CHARACTERS = 200

_FAILURE = r"(?i)error|exception|fatal|panic|fail|cannot|can't|not found|no such|denied"


class _Page(Struct):
    url: str


class _Pages(Struct):
    elicitations: list[_Page] = []


def error_output(error: Mapping[str, Any], *, as_json: bool, server: str | None = None) -> Output:
    """Return what an error prints, and the exit code of its class.

    Args:
        error: `{code, message, data}`. The `data` of an error of the daemon is a dict with a `class`; that
            of an upstream's own error is a `Raw`, or absent, and gets no class whatever is in it.
        as_json: whether one line of JSON is wanted.
        server: whom the call was for, where the error does not say it.
    """
    data = error.get("data")
    own: Mapping[str, Any] = data if isinstance(data, dict) else {}
    status = EXIT_CODES.get(str(own.get("class")), EXIT_SERVER)
    wants = {**error, "data": {"server": server, **own}} if own.get("class") == SIGN_IN else None
    if as_json:
        return Output(status, "", _json(error, own, server), wants)
    if not own:
        return Output(status, "", _foreign(error, server))
    hint = own.get("hint")
    known = hint if isinstance(hint, str) else None
    return Output(status, "", for_people(str(error.get("message", "")), _why(own), known), wants)


def for_people(message: str, why: Sequence[str] = (), hint: str | None = None) -> str:
    """Return an error in lines: what is wrong, why, and what to type if that is a command of ours."""
    lines = [f"error: {one_line(brief(message), MESSAGE_CHARACTERS) or 'no message'}"]
    lines += [f"  {one_line(brief(line), MESSAGE_CHARACTERS)}" for line in why]
    if hint:
        shown = one_line(hint, MESSAGE_CHARACTERS)
        lines.append(f"  try: {shown}" if shown.startswith("mcpd ") else f"  {shown}")
    return "".join(f"{line}\n" for line in lines)


def indented(text: str, limit: int) -> list[str]:
    """Return the first lines of a text that are not blank."""
    lines = [line.rstrip() for line in clean(text).splitlines() if line.strip()]
    return lines if len(lines) <= limit else [*lines[: limit - 1], "…"]


def stderr_tail(text: str) -> list[str]:
    """Return the lines of a server's stderr that say why: from the first failure on, else the last ones."""
    lines = [line for line in clean(text).splitlines() if line.strip()]
    begin = next((number for number, line in enumerate(lines) if re.search(_FAILURE, line)), -STDERR_LINES)
    return [one_line(line, STDERR_CHARACTERS) for line in lines[begin:][:STDERR_LINES]]


def _why(own: Mapping[str, Any]) -> list[str]:
    lines = stderr_tail(own["stderr"]) if isinstance(own.get("stderr"), str) else []
    parts = [own["reason"]] if isinstance(own.get("reason"), str) else []
    if (ran := own.get("may_have_run")) is not None:
        parts.append("the call may have run" if ran else "nothing was run")
    if isinstance(seconds := own.get("retry_after_seconds"), int | float):
        parts.append(f"try again in {seconds:.{int(seconds < 10)}f} s")
    if (guesses := _guesses(own)) and "did you mean" not in str(own.get("hint")):
        parts.append(f"did you mean {listed(guesses, 'or')}?")
    return [*lines, "; ".join(parts)] if parts else lines


def _guesses(own: Mapping[str, Any]) -> list[str]:
    near = own.get("near")
    return [one_line(str(name), 60) for name in near[:3]] if isinstance(near, list | tuple) else []


def _foreign(error: Mapping[str, Any], server: str | None) -> str:
    """Return the error of an upstream, in its own words."""
    who = f"server '{server}'" if server else "the server"
    message = one_line(str(error.get("message", "")), MESSAGE_CHARACTERS) or "no message"
    data = error.get("data")
    if error.get("code") == URL_REQUIRED and isinstance(data, Raw) and (pages := _pages(data)):
        shown = "".join(f"  {url}\n  host: {host}\n" for url, host in pages)
        return f"{for_people(f'{who} wants you to open a page: {message}')}{shown}  open it, then call again\n"
    why = _data_line(data) if isinstance(data, Raw) and data else ()
    return for_people(f"{who} answered: {message} (code {error.get('code')})", why)


def _pages(data: Raw) -> list[tuple[str, str]]:
    """Return the URLs that have to be visited first, each with its host; empty if they are not for a browser."""
    from urllib.parse import urlsplit

    try:
        seen = msgspec.json.decode(data, type=_Pages).elicitations[:MAX_PAGES]
        pages = [(page.url, urlsplit(page.url)) for page in seen]
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return []
    plain = all(
        parts.scheme in ("http", "https") and parts.hostname and len(url) <= URL_CHARACTERS and one_line(url) == url and " " not in url
        for url, parts in pages
    )
    # None of them is cut or changed: it could lead elsewhere.
    return [(url, str(parts.hostname)) for url, parts in pages] if plain else []


def _data_line(data: Raw) -> list[str]:
    """Return an upstream's `data` in one line: many put there what is wrong."""
    try:
        text = msgspec.json.decode(data, type=str)
    except (msgspec.MsgspecError, ValueError):
        text = bytes(memoryview(data)[: 4 * DATA_CHARACTERS]).decode("utf-8", "replace")
    line = one_line(text, DATA_CHARACTERS)
    return [line] if line not in ("", "null", "{}", "[]") else []


def _json(error: Mapping[str, Any], own: Mapping[str, Any], server: str | None) -> str:
    members: dict[str, Any] = {"code": error.get("code", 0)}
    if "class" in own:
        members["class"] = own["class"]
    members["message"] = str(error.get("message", ""))
    if name := own.get("server") or server:
        members["server"] = name
    if own.get("hint"):
        members["hint"] = own["hint"]
    data = error.get("data")
    if data is not None and not (isinstance(data, Raw) and not data):
        members["data"] = data
    line = msgspec.json.encode({"error": members})
    # An upstream's own data may have line ends between its parts.
    return line.decode("utf-8", "replace").replace("\n", " ").replace("\r", " ") + "\n"
