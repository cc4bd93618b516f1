"""What `read`, `prompt` and `complete` share: the request to a server, and why it may have been refused."""

from __future__ import annotations

import os
import re

from mcpd_client.cli.fetch import cut_note
from mcpd_client.cli.lists import KINDS, all_items, arguments_of
from mcpd_client.cli.progress import ProgressLine
from mcpd_client.cli.render import print_note, render_error
from mcpd_client.cli.tools import read_files, unanswered, watched, who_answers
from mcpd_client.errors import EXIT_TOOL, ClientError, RequestFailed, UsageError
from mcpd_client.sync import GRACE_SECONDS, view_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from mcpd_client.connection import Reply
    from mcpd_client.sync import Client
    from mcpd_client.waiting import OnRequest

# What a server answers for what it does not have: "resource not found" of the older revisions, invalid params.
NOT_FOUND = (-32002, -32602)
UNKNOWN_METHOD = -32601
# Of RFC 6570 the two forms that say how one variable is written: {path}, {+path}.
VARIABLE = re.compile(r"\{(\+?)([A-Za-z0-9_.%]+)\}")


class Inquiry:
    """A request to a server: its progress is shown on a terminal, and there the server may ask, too.

    Args:
        options: the global ones, and `elicit` where the command has it.

    Raises:
        UsageError: `--elicit` makes no sense.
    """

    def __init__(self, options: Namespace) -> None:
        self._options = options
        is_watched = os.isatty(2) and not options.quiet and not options.json
        self._progress = ProgressLine() if is_watched else None
        self.capabilities, self._on_request = who_answers(getattr(options, "elicit", None), self._progress)

    def ask(self, client: Client, method: str, params: Mapping[str, Any]) -> Reply:
        """Send the request over a client that has declared the `capabilities`.

        Raises:
            ClientError: it failed.
        """
        try:
            return ask(client, method, params, self._options, self._progress, self._on_request)
        except RequestFailed as error:
            if (problem := unanswered(self._on_request)) is not None:
                raise problem from error
            raise

    def end(self) -> int:
        """Return the exit code of what was answered; say so if `--elicit` was no answer to what the server asked."""
        if (problem := unanswered(self._on_request)) is None:
            return 0
        print_note(render_error(problem, as_json=self._options.json).rstrip("\n"))
        return problem.exit_code


def ask(
    client: Client,
    method: str,
    params: Mapping[str, Any],
    options: Namespace,
    progress: ProgressLine | None,
    on_request: OnRequest | None = None,
) -> Reply:
    """Send a request that a server answers.

    Raises:
        ClientError: it failed.
    """
    wait_seconds = None
    if options.timeout is not None:
        params = {**params, "timeout": options.timeout}
        # The daemon keeps the deadline; this limit is for a daemon that does not.
        wait_seconds = options.timeout + GRACE_SECONDS
    if progress is not None:
        params = {**params, "_meta": {"progressToken": 1}}
    with watched(progress, as_json=options.json):
        return client.request_reply(
            method, params, timeout=wait_seconds, on_notification=progress, on_request=on_request
        )


def explain(
    client: Client, error: RequestFailed, kind: str, server: str, name: str, given: Collection[str] = ()
) -> None:
    """Add to a server's own refusal what its list says about it: near names, or that there is none.

    Args:
        client: to ask for the list with.
        error: changed in place; one of the daemon's says all that there is to say.
        kind: `resources` or `prompts`.
        server: who refused.
        name: what was asked for.
        given: the names of the arguments that were sent along.
    """
    if error.kind or error.code not in (*NOT_FOUND, UNKNOWN_METHOD):
        return
    error.server = server
    if variables := [match[2] for match in VARIABLE.finditer(name)] if kind == "resources" else []:
        error.exit_code, error.reason = EXIT_TOOL, f"it needs {', '.join(variables)}"
        error.hint = f"add {' '.join(f'{variable}=…' for variable in variables)}"
        return
    try:
        items = all_items(client, kind, server)
    except ClientError:
        items = None
    if error.code == UNKNOWN_METHOD:
        if not items:
            lacks(error, server, kind)
    elif items is not None:
        _compare(error, kind, server, name, items, given)


def lacks(error: RequestFailed, server: str, what: str) -> None:
    """Let a refusal of a method say that the server has nothing of the kind."""
    error.server, error.exit_code = server, EXIT_TOOL
    error.message = f"server {server!r} has no {what}"


def _compare(
    error: RequestFailed,
    kind: str,
    server: str,
    name: str,
    items: Sequence[Mapping[str, Any]],
    given: Collection[str],
) -> None:
    from difflib import get_close_matches

    key = KINDS[kind].key
    named = [item for item in items if item.get(key) == name]
    if named:
        error.reason = error.reason or _mismatch(named[0], given)
        return
    error.exit_code = EXIT_TOOL
    near = get_close_matches(name, [str(item.get(key)) for item in items], 3, 0.5)
    error.hint = f"did you mean {', '.join(near)}?" if near else f"mcpd {kind} {server}"


def _mismatch(prompt: Mapping[str, Any], given: Collection[str]) -> str | None:
    """Return what a prompt needs, and which of the given arguments it does not have."""
    declared = arguments_of(prompt)
    names = [str(each.get("name")) for each in declared]
    needed = [str(each.get("name")) for each in declared if each.get("required") is True]
    unknown = [name for name in given if name not in names]
    parts = [f"it has no argument {', '.join(map(repr, unknown))}"] if unknown else []
    if needed:
        parts.append(f"it needs {', '.join(needed)}")
    elif unknown and names:
        parts.append(f"it takes {', '.join(names)}")
    return "; ".join(parts) or None


def pairs(arguments: Sequence[str]) -> dict[str, str]:
    """Return the values of `k=v` and `k=@FILE`, all of them text.

    Raises:
        UsageError: one is neither, or is there twice, or a file cannot be read.
    """
    files = read_files(arguments)
    found: dict[str, str] = {}
    for argument in arguments:
        key, sign, value = argument.partition("=")
        if not sign or not key or key.endswith(":"):
            raise UsageError(f"an argument is k=v or k=@FILE, and its value a text, not {argument!r}")
        if key in found:
            raise UsageError(f"the argument {key!r} is there twice")
        if value.startswith("@@"):
            value = value[1:]
        elif value.startswith("@"):
            value = files[value[1:]]
        found[key] = value
    return found


def note_cut(result: Mapping[str, Any], options: Namespace) -> None:
    """Say on stderr how to get what a result does not show."""
    note = cut_note(view_of(result))
    if note is not None and not options.quiet:
        print_note(note)
