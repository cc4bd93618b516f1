"""`read`: a resource, as it is."""

from __future__ import annotations

from mcpd_client.cli.asking import VARIABLE, Inquiry, explain, note_cut, pairs
from mcpd_client.cli.content import attachments, blocks_of, text_in
from mcpd_client.cli.fetch import byte_count
from mcpd_client.cli.options import Command
from mcpd_client.cli.render import clean, clean_line, format_bytes, print_note, print_out, terminal_columns
from mcpd_client.cli.saving import MAX_BYTES, check_writable, note_written, write_output
from mcpd_client.cli.session import open_client
from mcpd_client.cli.tools import add_elicit
from mcpd_client.errors import RequestFailed, UsageError
from mcpd_client.fast import write_bytes
from mcpd_client.sync import view_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator, Mapping
    from typing import Any

# What a URI may have as it is: the unreserved characters, and with "+" the reserved ones.
UNRESERVED, RESERVED = "-._~", ":/?#[]@!$&'()*+,;="


def expand(template: str, values: Mapping[str, str]) -> str:
    """Return the URI that a template and its variables make; without any, it is the URI already.

    Raises:
        UsageError: a value has no variable, or a variable no value.
    """
    from urllib.parse import quote

    if not values:
        return template
    names = [match[2] for match in VARIABLE.finditer(template)]
    if odd := [name for name in values if name not in names]:
        known = f"it has {', '.join(names)}" if names else "it has none of the form {name}"
        raise UsageError(f"the template has no variable {odd[0]!r}", reason=known)
    if missing := [name for name in names if name not in values]:
        raise UsageError(f"the variable {missing[0]!r} has no value", hint=f"add {missing[0]}=…")
    return VARIABLE.sub(lambda match: quote(values[match[2]], UNRESERVED + (RESERVED if match[1] else "")), template)


def _read(options: Namespace) -> int:
    params: dict[str, Any] = {"server": options.server, "uri": expand(options.uri, pairs(options.variables))}
    if options.output is not None:
        params["max_bytes"] = MAX_BYTES
        if options.output != "-":
            check_writable(options.output)
    if options.max_bytes is not None:
        params["max_bytes"] = byte_count("max_bytes", options.max_bytes)
    inquiry = Inquiry(options)
    with open_client(options, inquiry.capabilities) as client:
        try:
            reply = inquiry.ask(client, "mcpd/read", params)
        except RequestFailed as error:
            explain(client, error, "resources", options.server, params["uri"])
            raise
    if options.output is not None:
        _write(options.output, reply.result, quiet=options.quiet or options.json)
    if options.json and options.output != "-":
        print_out(reply.result_text() + "\n")
    elif options.output is None:
        _print(reply.result, options)
    if not options.json:
        note_cut(reply.result, options)
    return inquiry.end()


def _write(path: str, result: Mapping[str, Any], *, quiet: bool) -> None:
    """Write all that was read into one file, if it is of a kind that one file can hold."""
    blocks = [block for block in blocks_of(result) if not _is_omitted(block)]
    if len(blocks) < len(blocks_of(result)):
        view = view_of(result)
        if "kept" in view:
            kept = f"of this server's results {view['kept']} bytes are kept"
            raise UsageError("the resource is too large", reason=kept, hint="raise limits.result_bytes of the server")
        raise UsageError("the resource is larger than what was asked for", hint=f"add --max-bytes {view.get('bytes')}")
    found = list(attachments(result))
    if found and len(blocks) > 1:
        raise UsageError(f"the resource has {len(blocks)} parts, and -o names one file", hint="use --json instead")
    content = found[0].content if found else "".join(_texts(blocks)).encode("utf-8", "replace")
    write_output(path, content)
    note_written(path, content, quiet=quiet)


def _print(result: Mapping[str, Any], options: Namespace) -> None:
    blocks, on_terminal = blocks_of(result), terminal_columns(1) is not None
    if len(blocks) == 1 and not on_terminal and (found := list(attachments(result))):
        write_bytes(1, found[0].content)
        return
    texts = _texts([block for block in blocks if not _is_omitted(block)])
    if on_terminal:
        print_out("".join(clean(text).rstrip("\n") + "\n" for text in texts))
    else:
        print_out("".join(texts))
    if not options.quiet:
        for note in _not_text(blocks):
            print_note(note)


def _texts(blocks: list[Mapping[str, Any]]) -> list[str]:
    """Return the texts of what was read; of several, each ends with a newline."""
    texts = [text for block in blocks if (text := text_in(block)) is not None]
    return [text if text.endswith("\n") else f"{text}\n" for text in texts] if len(texts) > 1 else texts


def _not_text(blocks: list[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line about each part that is not printed."""
    for block in blocks:
        item = block["resource"]
        if _is_omitted(block):
            yield clean_line(f"[{_omitted(block).get('mimeType') or 'blob'} {_size(_omitted(block))}: use -o FILE]")
        elif text_in(block) is None:
            sizes = [format_bytes(len(found.content)) for found in attachments({"content": [block]})]
            yield clean_line(f"[{' '.join([str(item.get('mimeType') or 'blob'), *sizes])}: use -o FILE]")


def _omitted(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what the daemon says about a part that it did not show; empty if it is one that it showed."""
    meta = block["resource"].get("_meta")
    omitted = meta.get("mcpd/omitted") if isinstance(meta, dict) else None
    return omitted if isinstance(omitted, dict) else {}


def _is_omitted(block: Mapping[str, Any]) -> bool:
    return bool(_omitted(block))


def _size(omitted: Mapping[str, Any]) -> str:
    size = omitted.get("bytes")
    # It counts the JSON, of which three of four characters are base64.
    return format_bytes(size * 3 / 4) if isinstance(size, int) else ""


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("server", metavar="SERVER")
    parser.add_argument("uri", metavar="URI", help="of a resource, or a template with its variables behind it")
    parser.add_argument("variables", nargs="*", default=[], metavar="k=v", help="what to put for {k} of a template")
    parser.add_argument("-o", "--output", metavar="FILE", help="write it to FILE, - for stdout")
    parser.add_argument("--max-bytes", metavar="N", help="how much to print at most; default 32768, with -o 16 MiB")
    add_elicit(parser)


COMMANDS = {
    "read": Command(
        _read,
        examples=(
            "read files file:///notes/todo.md",
            "read files file:///notes/plan.pdf -o plan.pdf",
            "read files 'file:///{+path}' path=notes/todo.md",
        ),
        exits=(0, 2, 3, 4, 5, 6, 7, 8, 130),
        configure=_configure,
    )
}
