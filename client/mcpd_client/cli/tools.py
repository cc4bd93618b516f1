"""`tools` and `call`: parsed and rendered by the daemon; what is done here is what only a client can do.

That is reading the files that arguments name, showing progress, answering what a server asks, and
writing what a tool returned to files.
"""

from __future__ import annotations

import os
import socket as sockets
from contextlib import contextmanager

from mcpd_client.cli.options import GLOBAL_FLAGS, GLOBAL_VALUES, Command, Namespace, pick
from mcpd_client.cli.progress import Notices, ProgressLine
from mcpd_client.cli.render import print_note, render_error, terminal_columns
from mcpd_client.cli.session import open_client
from mcpd_client.errors import RemoteProtocolError, RequestFailed, UsageError
from mcpd_client.fast import (
    INTERRUPTED,
    INTERRUPTED_JSON,
    can_ask,
    print_answer,
    wants_progress,
    working_directory,
)
from mcpd_client.sync import Client
from mcpd_client.waiting import woken_by_signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from argparse import ArgumentParser
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from mcpd_client.waiting import OnRequest

# The daemon parses these itself.
PASSED = ("--json", "--timeout", "-q", "--quiet")
# What a request can carry besides the tool's own arguments; the daemon refuses a longer line.
MAX_FILE_BYTES = 32 * 1024 * 1024
STDIN = "-"
# A call is sent so often at most, whatever sign-ins a server asks for: one that is never content would go on for ever.
MAX_TRIES = 3


def resume(argv: Sequence[str], sock: socket, received: bytes) -> int:
    """Go on with a command line that has been sent as request 1; print what comes of it.

    Args:
        argv: what was sent.
        sock: the connection; taken over.
        received: what has come back so far.
    """
    with Client.adopt(sockets.socket(fileno=sock.detach()), 1, received) as client:
        progress = ProgressLine() if wants_progress(list(argv)) else None
        _, on_request = who_answers(None, progress) if argv[0] == "call" else ({}, None)
        try:
            with watched(progress, as_json="--json" in argv):
                result = client.wait_reply(1, _notices(progress, argv), on_request).result
        except RequestFailed as error:
            if not is_turned_away(error):
                raise
            result = None
    options = Namespace(name=argv[0], argv=argv[1:])
    if result is None:
        return _run(options)
    answer = checked_answer(result)
    if "error" in result:
        _pick(options)
        if _signs_in(options, result, argv):
            return _run(options, MAX_TRIES - 1)
    return print_answer(*answer)


def is_turned_away(error: RequestFailed) -> bool:
    """Tell whether a daemon that is leaving says that it has run nothing: its successor can be asked."""
    return error.kind == "shutting_down" and isinstance(error.data, dict) and error.data.get("may_have_run") is False


def ask_daemon(
    options: Namespace, argv: Sequence[str], files: Mapping[str, str], tries: int = MAX_TRIES
) -> tuple[int, str, str]:
    """Let the daemon run a command line; return exit code, stdout and stderr.

    Args:
        options: those that concern the client.
        argv: the command line.
        files: what it names.
        tries: how often it is sent at most: again only where it has not run for want of a sign-in.
    """
    params: dict[str, Any] = {"argv": list(argv), "cwd": working_directory()}
    if (columns := terminal_columns(1)) is not None:
        params["columns"] = columns
    if files:
        params["files"] = dict(files)
    progress = None
    if wants_progress(list(argv)):
        progress = ProgressLine()
        params["_meta"] = {"progressToken": 1}
    capabilities, on_request = who_answers(options.elicit, progress) if argv[0] == "call" else ({}, None)
    if capabilities:
        params["capabilities"] = capabilities
    as_json = "--json" in argv
    for left in range(tries - 1, -1, -1):
        with watched(progress, as_json=as_json):
            result = _request(options, params, _notices(progress, argv), on_request)
        status, out, err = checked_answer(result)
        if not left or "error" not in result or not _signs_in(options, result, argv):
            break
    if (problem := unanswered(on_request)) is None:
        return status, out, err
    # With --json one line says it all.
    return problem.exit_code, out, ("" if as_json else err) + render_error(problem, as_json=as_json)


def _signs_in(options: Namespace, result: Mapping[str, Any], argv: Sequence[str]) -> bool:
    """Sign in if a call was not sent for want of that, and the user wants it; say whether to call again."""
    from mcpd_client.cli.signing import signs_in

    return argv[0] == "call" and signs_in(options, result, as_json="--json" in argv)


def unanswered(on_request: OnRequest | None) -> UsageError | None:
    """Return what is wrong with `--elicit`, if it was no answer to what a server has asked."""
    problem = getattr(on_request, "problem", None)
    return problem if isinstance(problem, UsageError) else None


@contextmanager
def watched(progress: ProgressLine | None, *, as_json: bool = False) -> Iterator[None]:
    """Leave nothing of the progress behind, and say what an interruption means."""
    try:
        with woken_by_signals():
            yield
    except KeyboardInterrupt:
        if progress is not None:
            progress.clear()
        print_note(INTERRUPTED_JSON if as_json else INTERRUPTED)
        raise
    finally:
        if progress is not None:
            progress.clear()


def who_answers(elicit: str | None, progress: ProgressLine | None) -> tuple[Mapping[str, Any], OnRequest | None]:
    """Return what is declared to be able to answer questions, and what answers them.

    Args:
        elicit: the value of `--elicit`.
        progress: what has to leave the terminal for a question.

    Raises:
        UsageError: `--elicit` makes no sense.
    """
    if elicit is not None:
        from mcpd_client.cli.prepared import prepare

        (text,) = read_files(["--args", elicit]).values() if elicit.startswith("@") else (elicit,)
        answer = prepare(text)
        return answer.capabilities, answer
    if can_ask():
        from mcpd_client.cli.questions import CAPABILITIES, Asker

        return CAPABILITIES, Asker(progress)
    return {}, None


def _request(
    options: Namespace, params: Mapping[str, Any], notices: Notices, on_request: OnRequest | None
) -> Any:
    with open_client(options) as client:
        try:
            return client.request("mcpd/cli", params, on_notification=notices, on_request=on_request)
        except RequestFailed as error:
            if not is_turned_away(error):
                raise
    with open_client(options) as client:
        return client.request("mcpd/cli", params, on_notification=notices, on_request=on_request)


def _notices(progress: ProgressLine | None, argv: Sequence[str]) -> Notices:
    return Notices(progress, is_quiet="-q" in argv or "--json" in argv)


def checked_answer(result: Any) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr from a result of `mcpd/cli`.

    Raises:
        RemoteProtocolError: it has another shape.
    """
    match result:
        case {"exit": int(status), "stdout": str(out), "stderr": str(err)}:
            return status, out, err
    raise RemoteProtocolError(
        "the daemon answered something else than exit, stdout and stderr", hint="is it of another version? mcpd version"
    )


def read_files(arguments: Sequence[str]) -> dict[str, str]:
    """Read the files that arguments name; the daemon opens none of a client's files.

    Returns:
        Name as written after the `@` (`-` for stdin) to the text.

    Raises:
        UsageError: one cannot be read, is not UTF-8, or all together are too large.
    """
    files: dict[str, str] = {}
    room = MAX_FILE_BYTES
    for name in file_names(arguments):
        if name not in files:
            content = _read(name, room)
            room -= len(content)
            files[name] = _decode(name, content)
    return files


def file_names(arguments: Sequence[str]) -> list[str]:
    """Return the names of the files in `k=@F`, `k:=@F`, `--args @F`, `--args=@F`, and `-` for stdin."""
    names = []
    previous = ""
    for argument in arguments:
        if previous == "--args" or argument.startswith("--args="):
            value = argument.removeprefix("--args=")
            if value == STDIN or value.startswith("@"):
                names.append(value.removeprefix("@"))
        elif not argument.startswith(("-", "{", "[")):
            value = argument.partition("=")[2]
            # "@@" is a literal "@".
            if value.startswith("@") and not value.startswith("@@"):
                names.append(value[1:])
        previous = argument
    return names


def _read(name: str, room: int) -> bytes:
    try:
        if name == STDIN:
            with open(0, "rb", closefd=False) as file:
                content = file.read(room + 1)
        else:
            with open(os.path.expanduser(name), "rb") as file:
                content = file.read(room + 1)
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from None
    if len(content) > room:
        raise UsageError(f"the files of a call may have {MAX_FILE_BYTES} bytes together; {name} is too large")
    return content


def _decode(name: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8 text (byte {error.start})") from None


def _run(options: Namespace, tries: int = MAX_TRIES) -> int:
    rest = _pick(options)
    argv = [options.name, *("-q" if each == "--quiet" else each for each in rest)]
    files = read_files(rest)
    if options.output is not None or options.save is not None:
        from mcpd_client.cli.saving import call_and_save

        return call_and_save(options, argv, files)
    return print_answer(*ask_daemon(options, argv, files, tries))


def _pick(options: Namespace) -> list[str]:
    """Set the options that concern the client, from the arguments; return the others."""
    values = {key: value for key, value in GLOBAL_VALUES.items() if key not in PASSED}
    flags = {key: value for key, value in GLOBAL_FLAGS.items() if key not in PASSED}
    if options.name == "call":
        values |= {"-o": "output", "--output": "output", "--save": "save", "--elicit": "elicit"}
        flags |= {"--login": "login"}
    picked, rest = pick(options.argv, values, flags)
    for key in (*GLOBAL_VALUES.values(), *GLOBAL_FLAGS.values(), "output", "save", "elicit", "login"):
        setattr(options, key, picked.get(key))
    return rest


def _configure_tools(parser: ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="SERVER[.TOOL]", help="a server's tools, or one tool in full")
    parser.add_argument("--schema", action="store_true", help="print the JSON Schemas")
    parser.add_argument("--all", action="store_true", help="all of them instead of one page")


def add_elicit(parser: ArgumentParser) -> None:
    """Add the option of the commands during which a server may ask."""
    parser.add_argument(
        "--elicit",
        metavar="ANSWER",
        help="what to answer if the server asks: accept-defaults, decline, or the form's content as JSON or @FILE; "
        "without it you are asked on a terminal, and else nobody answers",
    )


def _configure_call(parser: ArgumentParser) -> None:
    parser.add_argument("tool", metavar="SERVER TOOL", help="or SERVER.TOOL")
    parser.add_argument(
        "arguments", nargs="*", metavar="k=v", help="k=v by the schema, k:=JSON, k=@FILE, k[]=v, a.b=v, or one '{…}'"
    )
    parser.add_argument("--args", metavar="JSON", help="all arguments as one object; @FILE or - for stdin")
    parser.add_argument("--field", metavar="PATH", help="print one part of it, as structuredContent.id")
    parser.add_argument("--max-bytes", metavar="N", help="how much text to print at most; default 32768")
    parser.add_argument("--no-check", action="store_true", help="do not compare the arguments with the schema")
    add_elicit(parser)
    parser.add_argument("--login", action="store_true", help="sign in if the server wants it, unasked")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the content to FILE, - for stdout")
    parser.add_argument("--save", metavar="DIR", help="write pictures and other files into DIR")


COMMANDS = {
    "tools": Command(
        _run,
        examples=("tools", "tools demo", "tools demo.echo", "tools demo --json"),
        configure=_configure_tools,
        takes_all=True,
    ),
    "call": Command(
        _run,
        examples=(
            "call demo echo text=hi",
            "call demo.add a=1 b=2 --json",
            "call demo echo text=@notes.txt",
            "call demo image -o picture.png",
            """call demo ask --elicit '{"answer": "42"}'""",
        ),
        exits=(0, 2, 3, 4, 5, 6, 7, 8, 9, 130),
        configure=_configure_call,
        takes_all=True,
    ),
}
