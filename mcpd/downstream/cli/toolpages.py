"""`mcpd tools` for people: the list of tools, and the page of one.

Names and descriptions come from servers. They are shown in lines of our own making, so they are cleaned
even where the output is no terminal; an example is quoted, so that pasting it runs nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct

from mcpd.downstream.cli import schema as schemas
from mcpd.downstream.cli.text import Output, brief, escaped, one_line, table, width, with_newline, wrap
from mcpd.downstream.cli.usage import MAX_ROWS, argument_rows, example, signature
from mcpd.protocol import rawjson
from mcpd.protocol.jsonrpc import ABSENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcpd.downstream.cli.commandline import ToolsCommand
    from mcpd.downstream.cli.usage import Row

HEADER = ("SERVER", "TOOL", "DESCRIPTION")
# A name that fills the line would leave nothing for the others.
NAME_COLUMNS = 64
# Lines that are longer are hard to read, on however wide a terminal.
PAGE_COLUMNS = 100
# A page of a list has descriptions of any length; a table on a terminal shows one line.
DESCRIPTION_CHARACTERS = 1000
MAX_NOTES = 10


class _Listing(Struct, gc=False):
    items: Raw = ABSENT
    total: int = 0
    shown: int = 0
    nextOffset: int | None = None
    stale: bool = False
    stale_servers: Raw = ABSENT
    problems: Raw = ABSENT
    incomplete: Raw = ABSENT
    set_aside: Raw = ABSENT


class _Tool(Struct, gc=False):
    server: Raw = ABSENT
    name: Raw = ABSENT
    title: Raw = ABSENT
    description: Raw = ABSENT
    inputSchema: Raw = ABSENT
    outputSchema: Raw = ABSENT
    message: Raw = ABSENT


_LISTING = msgspec.json.Decoder(_Listing)
_TOOL = msgspec.json.Decoder(_Tool)


# -- the list ----------------------------------------------------------------------------------------


def tools_output(listing: bytes | Raw, command: ToolsCommand, columns: int | None) -> Output:
    """Return the table of a page of tools; on stderr what is missing in it.

    Args:
        listing: the JSON of a result of `mcpd/tools`.
        command: what was asked for.
        columns: the width of the terminal that stdout is; None if it is none.

    Raises:
        ServerProtocol: It is no such result.
    """
    seen = rawjson.decode(_LISTING, listing, "the list", "an object with items")
    rows = [_row(item, columns) for item in rawjson.elements(seen.items or b"[]", "the list of tools")]
    notes = "" if command.quiet else "".join(f"{note}\n" for note in _notes(seen, command))
    return Output(0, table(HEADER, rows, columns) if rows else "", notes)


def _row(item: Raw, columns: int | None) -> Sequence[str]:
    tool = rawjson.decode(_TOOL, item, "a tool", "an object")
    names, description = (None, None) if columns is None else (NAME_COLUMNS, DESCRIPTION_CHARACTERS)
    said = _text(tool.description) or _text(tool.title)
    return one_line(_text(tool.server), names), one_line(_text(tool.name), names), one_line(said, description)


def _notes(seen: _Listing, command: ToolsCommand) -> list[str]:
    notes = []
    for problem in rawjson.elements(seen.problems or b"[]", "the list of problems"):
        message = _text(rawjson.decode(_TOOL, problem, "a problem", "an object").message)
        notes.append(f"error: {one_line(brief(message), DESCRIPTION_CHARACTERS)}")
    for raw, what in ((seen.incomplete, "the list is not complete"), (seen.set_aside, "left out")):
        said = [_text(item) for item in rawjson.elements(raw or b"[]", "the list of notes")[:MAX_NOTES]]
        notes += [f"{what}: {one_line(text, DESCRIPTION_CHARACTERS)}" for text in said]
    stale = [one_line(_text(name), NAME_COLUMNS) for name in rawjson.elements(seen.stale_servers or b"[]", "the servers")]
    for name in stale[:MAX_NOTES]:
        notes.append(f"the list of '{name}' is an earlier one; for a newer one: mcpd start {name}")
    if seen.nextOffset is not None:
        words = ["mcpd tools", *([one_line(command.server)] if command.server else []), "--all"]
        notes.append(f"shown {seen.shown} of {seen.total} tools; all of them: {' '.join(words)}")
    if not seen.total and not notes:
        notes.append("no tools")
    return notes


def _text(value: Raw) -> str:
    return rawjson.string(value) or ""


# -- one tool ----------------------------------------------------------------------------------------


def tool_page(server: str, descriptor: bytes | Raw, columns: int | None) -> Output:
    """Return all about one tool: what it does, what it takes, and a command line to begin with.

    Args:
        server: the name of its server.
        descriptor: the JSON of the tool.
        columns: the width of the terminal that stdout is; None keeps lines whole.

    Raises:
        ServerProtocol: The descriptor is no object.
    """
    tool = rawjson.decode(_TOOL, descriptor, "the descriptor", "an object")
    name = _text(tool.name)
    shape = schemas.read(bytes(tool.inputSchema) or None)
    room = None if columns is None else min(columns, PAGE_COLUMNS)
    blocks = [_head(server, name, tool, room)]
    if said := _text(tool.description).strip():
        blocks.append(wrap(said, room, "  "))
    blocks.append(signature(one_line(name, NAME_COLUMNS), shape, schemas.read(bytes(tool.outputSchema) or None), room))
    if rows := argument_rows(shape):
        blocks.append(["arguments:", *_arguments(rows, room)])
    if line := example(server, name, shape):
        blocks.append(["example:", f"  {line}"])
    return Output(0, "\n\n".join("\n".join(block) for block in blocks) + "\n")


def schema_page(descriptor: bytes | Raw) -> Output:
    """Return the `inputSchema` of a tool, laid out; its numbers stay what they were.

    It is the same JSON everywhere: what a terminal would obey is spelled as an escape.

    Raises:
        ServerProtocol: The descriptor is no object, or has no schema.
    """
    tool = rawjson.decode(_TOOL, descriptor, "the descriptor", "an object")
    try:
        text = msgspec.json.format(bytes(tool.inputSchema), indent=2).decode("utf-8", "replace")
    except (msgspec.DecodeError, RecursionError):
        text = bytes(tool.inputSchema).decode("utf-8", "replace")
    return Output(0, with_newline(escaped(text)))


def _head(server: str, name: str, tool: _Tool, room: int | None) -> list[str]:
    lines = [one_line(f"{server}.{name}")]
    title = one_line(_text(tool.title))
    return lines + wrap(title, room) if title and title != name else lines


def _arguments(rows: Sequence[Row], room: int | None) -> list[str]:
    """Return a line per argument with its type and mark, and its description below."""
    shown = rows[:MAX_ROWS]
    size = min(max(width(row.name) for row in shown), NAME_COLUMNS // 2)
    margin = " " * (size + 4)
    lines = []
    for row in shown:
        facts = wrap(", ".join([row.type, *row.marks]), room, margin)
        first = f"  {row.name}{' ' * (size - width(row.name))}  {facts[0].lstrip()}"
        lines += [first, *facts[1:], *(wrap(row.description, room, margin) if row.description else [])]
    return [*lines, "  … and more; the schema has them all: --schema"] if len(rows) > MAX_ROWS else lines
