"""`fetch`: a result that did not fit into its first view, part by part."""

from __future__ import annotations

from mcpd_client.cli.content import blocks_of, describe, reading_of
from mcpd_client.cli.options import Command
from mcpd_client.cli.render import clean, clean_line, print_note, print_out, terminal_columns
from mcpd_client.cli.session import open_client
from mcpd_client.errors import UsageError
from mcpd_client.sync import view_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping
    from typing import Any


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("handle", metavar="HANDLE", help="the handle that the cut result names")
    parser.add_argument("--offset", metavar="N", help="where to begin; default: where the last part ended, with --all the beginning")
    parser.add_argument("--max-bytes", metavar="N", help="how much to print at most")
    parser.add_argument("--all", action="store_true", help="print everything from there to the end")


def _fetch(options: Namespace) -> int:
    params: dict[str, Any] = {"handle": options.handle}
    for key in ("offset", "max_bytes"):
        if (text := getattr(options, key)) is not None:
            params[key] = byte_count(key, text)
    if options.all:
        params.setdefault("offset", 0)
    with open_client(options) as client:
        while True:
            reply = client.request_reply("mcpd/fetch", params)
            offset = view_of(reply.result).get("nextOffset")
            print_out(reply.result_text() + "\n" if options.json else _part(reply.result))
            if offset is None or not options.all:
                break
            params["offset"] = offset
    if not options.quiet and not options.json:
        _print_rest(options.handle, view_of(reply.result), options)
    return 0


def byte_count(key: str, text: str) -> int:
    """Return the value of an option that takes a number of bytes.

    Raises:
        UsageError: it is none.
    """
    if not text.isdecimal():
        raise UsageError(f"--{key.replace('_', '-')} takes a number of bytes, not {text!r}")
    return int(text)


def _part(result: Mapping[str, Any]) -> str:
    """Return the text of one part; what is not text is named on stderr instead."""
    for item in blocks_of(result):
        if (note := describe(item)) is not None:
            print_note(clean_line(note))
    text = reading_of(result)
    if terminal_columns(1) is None:
        return text
    text = clean(text)
    return text if text.endswith("\n") or not text else f"{text}\n"


def cut_note(view: Mapping[str, Any]) -> str | None:
    """Return what to say about a first view that does not show all; None if it does.

    Args:
        view: what the result says about itself, as `view_of` returns it.
    """
    if not view.get("truncated"):
        return None
    size, handle, offset = view.get("bytes"), view.get("handle"), view.get("nextOffset")
    shown = f"shown {view.get('shown')} of {size} bytes"
    if not handle:
        return f"{shown}; the rest is not kept: try again with --max-bytes {size}"
    # Without a next part only items are missing that were too large to be shown at all.
    where = f"--max-bytes {size}" if offset is None else f"--offset {offset}"
    kept = view.get("kept")
    warning = f"\nwarning: only the first {kept} bytes are kept (limits.result_bytes)" if kept else ""
    return f"{shown}; the next part: mcpd fetch {clean_line(str(handle))} {where}{warning}"


def _print_rest(handle: str, view: Mapping[str, Any], options: Namespace) -> None:
    offset = view.get("nextOffset")
    kept = view.get("kept")
    if kept is not None:
        print_note(f"warning: only the first {kept} bytes of the result were kept (limits.result_bytes)")
    if offset is None and not options.all:
        again = "" if options.offset is not None else f"; from the beginning: mcpd fetch {handle} --offset 0"
        print_note(f"that was the end{again}" if view.get("shown") else f"that was all of it{again}")
    elif offset is not None:
        of = f" of {view['bytes']}" if view.get("bytes") is not None else ""
        print_note(f"cut at byte {offset}{of}; the next part: mcpd fetch {handle} --offset {offset}")


COMMANDS = {
    "fetch": Command(
        _fetch,
        examples=("fetch r1a2b3", "fetch r1a2b3 --offset 65536 --max-bytes 1000", "fetch r1a2b3 --all > whole.txt"),
        configure=_configure,
    )
}
