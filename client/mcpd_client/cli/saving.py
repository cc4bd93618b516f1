"""`call -o FILE` and `call --save DIR`: what a tool returned, as files."""

from __future__ import annotations

import json
import os
import time

from mcpd_client.cli.content import Attachment, attachments, reading_of, text_of, write_new
from mcpd_client.cli.render import clean, print_note, print_out, terminal_columns
from mcpd_client.cli.tools import ask_daemon
from mcpd_client.errors import ClientError, RemoteProtocolError, UsageError
from mcpd_client.fast import print_answer, write_bytes
from mcpd_client.sync import view_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence
    from typing import Any

# All that the daemon keeps of one result.
MAX_BYTES = 16 * 1024 * 1024


def call_and_save(options: Namespace, argv: Sequence[str], files: Mapping[str, str]) -> int:
    """Call, and write the content of the result to where `-o` or `--save` says."""
    if options.save is not None:
        _make_folder(options.save)
    as_json = "--json" in argv
    if options.output not in (None, "-"):
        check_writable(options.output)
    status, out, err = ask_daemon(options, [argv[0], *_own_options(argv), *argv[1:]], files)
    if status != 0:
        return print_answer(status, out, err)
    result = _decode(out)
    if options.output is not None:
        _write_output(options.output, result, quiet="-q" in argv or as_json)
    if options.save is not None:
        _write_all(options.save, result, quiet="-q" in argv)
    if options.output is None or (options.output != "-" and list(attachments(result))):
        print_out(out if as_json else _for_reading(result))
    if view_of(result).get("truncated"):
        print_note(f"warning: the result is larger than {MAX_BYTES} bytes and was cut")
    return print_answer(0, "", err)


def _make_folder(path: str) -> None:
    """Have a folder before the call, not after it."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--save needs a directory, and {path} cannot be one: {error.strerror}") from None


def check_writable(path: str) -> None:
    """Refuse a file that cannot be written before the call, not after it."""
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path) or not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise UsageError(f"cannot write {path}")


def _own_options(argv: Sequence[str]) -> list[str]:
    own = [] if "--json" in argv else ["--json"]
    return own if any(each.startswith("--max-bytes") for each in argv) else [*own, "--max-bytes", str(MAX_BYTES)]


def _decode(text: str) -> Mapping[str, Any]:
    try:
        result = json.loads(text)
    except ValueError:
        result = None
    if not isinstance(result, dict):
        raise RemoteProtocolError("the daemon did not answer with a result in JSON")
    return result


def _for_reading(result: Mapping[str, Any]) -> str:
    text = reading_of(result)
    if terminal_columns(1) is None or not text:
        return text
    return clean(text).rstrip("\n") + "\n"


def _write_output(path: str, result: Mapping[str, Any], *, quiet: bool) -> None:
    found = list(attachments(result))
    if len(found) > 1:
        raise UsageError(f"the result has {len(found)} files, and -o names one", hint="use --save DIR instead")
    content = found[0].content if found else _ended(text_of(result)).encode("utf-8", "replace")
    write_output(path, content)
    note_written(path, content, quiet=quiet)


def _ended(text: str) -> str:
    """Return a text as it would be printed: with a newline at its end."""
    return text if not text or text.endswith("\n") else f"{text}\n"


def note_written(path: str, content: bytes, *, quiet: bool) -> None:
    """Say on stderr what is in a file now."""
    if path != "-" and not quiet:
        print_note(f"{len(content)} byte{'' if len(content) == 1 else 's'} written to {path}")


def write_output(path: str, content: bytes) -> None:
    """Write to a file, or for `-` to stdout.

    Raises:
        ClientError: the file cannot be written.
    """
    if path == "-":
        write_bytes(1, content)
        return
    try:
        with open(path, "wb") as file:
            file.write(content)
    except OSError as error:
        raise ClientError(f"cannot write {path}: {error.strerror}") from None


def _write_all(directory: str, result: Mapping[str, Any], *, quiet: bool) -> None:
    stem = f"mcpd-{time.strftime('%Y%m%d-%H%M%S')}"
    for attachment in attachments(result):
        path = _write_one(directory, stem, attachment)
        if not quiet:
            print_note(f"[{attachment.mime_type}, {len(attachment.content)} bytes] saved to {path}")


def _write_one(directory: str, stem: str, attachment: Attachment) -> str:
    try:
        return write_new(directory, stem, attachment)
    except OSError as error:
        raise ClientError(f"cannot write into {directory}: {error.strerror}") from None
